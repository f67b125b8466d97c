"""Attempts to have what is folded depend on when rows of it were kept."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOON
from derive.saved_rows import saved
from effort import rounds
from sinks.carried_events import recorded
from treering.derive.memory_state import MemoryState

if TYPE_CHECKING:
    from treering import Event

FACTS = st.sampled_from(["f1", "f2", "f3", "f4"])
TELLING = st.fixed_dictionaries({
    "id": FACTS,
    "statement": st.sampled_from(["s1", "s2"]),
    "slot": st.sampled_from([None, "home", "work"]),
    "valid_from_ms": st.integers(NOON, NOON + 5),
    "valid_to_ms": st.sampled_from([None, NOON + 9]),
    "evidence": st.lists(st.sampled_from(["e1", "e2", "e3"]), max_size=2),
    "quarantined": st.booleans(),
    "text": st.just("Likes tea"),
    "category": st.just("preference"),
    "importance": st.integers(1, 10),
    "confidence": st.just(0.5),
})  # fmt: skip
HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["memory.stored", "memory.revised", "memory.refused"]), TELLING),
        st.tuples(
            st.sampled_from(["memory.archived", "memory.restored", "memory.forgotten"]),
            st.fixed_dictionaries({"id": FACTS}),
        ),
        st.tuples(
            st.just("memory.superseded"),
            st.fixed_dictionaries({"id": FACTS, "by": FACTS, "valid_to_ms": st.just(NOON + 3)}),
        ),
        st.just(("kept", {})),
    ),
    max_size=25,
)


def event(kind: str, payload: dict[str, Any], position: int) -> Event:
    time_ms = NOON + position
    return recorded(
        kind, position, session_id="s1", user_id="ann", refs={}, payload=payload, ts_ms=time_ms,
        recorded_ms=time_ms, run_id=None,
    )  # fmt: skip


@settings(max_examples=rounds(20, times=30))
@given(HAPPENINGS)
def test_it_is_the_same_whenever_rows_were_kept_and_taken_up_again(
    happenings: list[tuple[str, dict[str, Any]]],
) -> None:
    whole, taken_up = MemoryState(), MemoryState()
    kept: dict[tuple[str, str], bytes] = {}
    for position, (kind, payload) in enumerate(happenings, 1):
        if kind == "kept":
            for sort, key, body in taken_up.rows(taken_up.changed):
                assert body is not None
                kept[sort, key] = body
            taken_up = MemoryState()
            taken_up.load(saved((sort, key, body) for (sort, key), body in kept.items()))
        else:
            whole.follow(event(kind, payload, position))
            taken_up.follow(event(kind, payload, position))

    assert taken_up.rows(taken_up.all_keys()) == whole.rows(whole.all_keys())


@settings(max_examples=rounds(20, times=30))
@given(HAPPENINGS)
def test_of_those_that_stand_no_two_say_the_same_or_answer_the_same_question(
    happenings: list[tuple[str, dict[str, Any]]],
) -> None:
    state = MemoryState()
    for position, (kind, payload) in enumerate(happenings, 1):
        if kind != "kept":
            state.follow(event(kind, payload, position))

    standing = [row for row in state.facts.values() if row.state in {"current", "archived"}]
    statements = [row.statement for row in standing]
    assert len(statements) == len(set(statements))
    # One that is to come may wait behind the one that holds until then.
    in_turn = sorted(standing, key=lambda row: row.valid_from_ms)
    for one, other in itertools.combinations(in_turn, 2):
        if one.slot is not None and one.slot == other.slot:
            assert one.valid_to_ms is not None
            assert one.valid_to_ms <= other.valid_from_ms
