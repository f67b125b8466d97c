"""Derived data is verified against the events, on every database."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pytest

from builders import DAY, ELSEWHERE, HERE, NOON, run_of, said
from ports import store_of
from treering.derive.fact_rows import STATE_NUMBERS
from treering.derive.memory_state import FACT
from treering.derive.snapshots import (
    COUNTS,
    FOLDED,
    CountSnapshot,
    decode_counts,
    decode_snapshot,
    encode_snapshot,
)
from treering.ledger.following import cursor_at
from treering.ledger.views import SNAPSHOT_EVENTS
from treering.memory.records import Row
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger


def derive_everything(ledger: Ledger) -> None:
    """Have a ledger derive everything that it can derive."""
    for scope in (HERE, ELSEWHERE):
        session = ledger.session("talk", scope=scope, agent="lyria", user="ann")
        with session.turn() as turn:
            turn.user("Please look at the config of the parser")
            with turn.tool("git_log", {"n": 1}) as call:
                call.finish("done")
            turn.assistant("I did.")
        refs = {"call_id": "c1", "tool": "grep"}
        ledger.append(
            [
                said("called", kind="tool.call", scope=scope, refs=refs),
                said("late", kind="tool.result", scope=scope, refs=refs | {"status": "ok"}),
                said("later", kind="tool.result", scope=scope, refs=refs | {"status": "failed"}),
                said("gone", scope=scope, event_id="gone"),
                *run_of("r1", "in a run", scope=scope, session_id="s2"),
            ]
        )
        memory = ledger.memory(scope)
        memory.learn("Lives in Porto", user="ann")
        memory.learn("Has two cats", user="ann")
        ledger.redact(scope, event_id="gone")
        ledger.search("parser", scope=scope)
        ledger.search("config", scope=scope, mode="hybrid")
        memory.recall("Where does ann live?", user="ann")
        list(session.tool_calls())
    ledger.append(
        [said(f"n{n}", session_id="long", ts_ms=NOON + n) for n in range(SNAPSHOT_EVENTS + 1)]
    )
    ledger.append(
        [
            said("used", kind="usage.reported", session_id="long", payload={"model": "m"}),
            said("goal", kind="goal.added", session_id="long", payload={"id": "g", "title": "t"}),
        ]
    )
    session = ledger.session("long", scope=HERE, agent="lyria")
    session.usage()
    session.summary()
    ledger._memory_factory.close()  # Rows are kept when a ledger is closed, or has many.


def test_what_is_derived_is_what_the_events_give(open_ledger: Callable[[], Ledger]) -> None:
    ledger = open_ledger()
    derive_everything(ledger)

    proof = ledger.admin.verify(derived=True)

    assert proof.intact, proof.first_broken
    assert "derived" in proof.checked
    assert proof.derived_rows is not None
    assert all(proof.derived_rows[name] for name in ("tool_calls", "search", "memory_rows"))
    assert proof.derived_rows["documents"] >= 4
    assert proof.derived_rows["snapshots"] == 2
    assert ledger.admin.verify(HERE, derived=True).intact
    assert ledger.admin.sample_derived(HERE).intact


def test_it_stays_so_when_things_are_erased_expire_and_are_copied(
    open_ledger: Callable[[], Ledger],
) -> None:
    ledger, other = open_ledger(), open_ledger()
    derive_everything(ledger)
    ledger.redact(HERE, session_id="talk")
    ledger.expire(HERE, policy={"tool.call": 1}, now_ms=NOON + 900 * DAY)
    ledger.forget(ELSEWHERE, user="ann")
    ledger.admin.copy_to(other)
    for one in (ledger, other):
        one.search("parser", scope=HERE)
        one.memory(HERE).recall("cats", user="ann")

        proof = one.admin.verify(derived=True)
        assert proof.intact, proof.first_broken
    ledger.admin.rebuild()
    assert ledger.admin.verify(derived=True).intact


def test_an_erasure_that_was_cut_off_is_finished_and_not_taken_for_a_lie(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive_everything(ledger)
    with monkeypatch.context() as killed:
        killed.setattr(store_of(ledger).erasure, "finish", lambda: "pending")
        ledger.redact(HERE, session_id="talk")
        ledger.redact(HERE, session_id="s2")

    proof = ledger.admin.verify(derived=True)

    assert proof.intact, proof.first_broken


def test_what_is_erased_while_it_is_compared_is_compared_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive_everything(ledger)
    words = store_of(ledger).words
    compare = words.compare
    erased: list[object] = []

    def erase_first(scope: Scope, read: Any) -> tuple[int, str | None]:
        count, flaw = compare(scope, read)
        if not erased:
            erased.append(ledger.redact(HERE, session_id="talk"))
            flaw = "the search index does not hold what its events say"
        return count, flaw

    monkeypatch.setattr(words, "compare", erase_first)

    assert ledger.admin.verify(HERE, derived=True).intact
    assert erased


@pytest.mark.parametrize("view", [FOLDED, COUNTS])
def test_a_snapshot_that_lies_with_a_digest_of_its_own_is_found(
    open_ledger: Callable[[], Ledger], view: int
) -> None:
    ledger = open_ledger()
    derive_everything(ledger)
    store, scope = store_of(ledger), Scope(HERE)
    seq, body = store.snapshots.latest(scope, "long", until_seq=2**40, view=view) or (0, b"")
    snapshot, counter = decode_snapshot(body, seq), decode_counts(body, seq)
    if view == COUNTS:
        assert counter is not None
        counter.kinds["conversation.user"] += 1
        lie = encode_snapshot(CountSnapshot(seq, counter))
    else:
        assert snapshot is not None
        snapshot.spending.started[4711] = seq
        lie = encode_snapshot(snapshot)
    store.snapshots.keep(scope, "long", seq=seq, body=lie, view=view)

    found = ledger.admin.verify(derived=True).first_broken

    assert ledger.admin.verify().intact
    assert found is not None
    assert (found.session_id, found.seq, found.fault) == ("long", seq, "derived")
    ledger.admin.rebuild()
    assert ledger.admin.verify(derived=True).intact


def test_a_rejected_fact_that_was_made_to_hold_again_is_found(
    open_ledger: Callable[[], Ledger],
) -> None:
    ledger = open_ledger()
    memory = ledger.memory(HERE)
    memory.reject(memory.learn("Lives in Porto", user="ann").fact_id)
    ledger._memory_factory.close()
    store, scope = store_of(ledger), Scope(HERE)
    kept = store.memory.memory_rows(scope)
    assert ledger.admin.verify(derived=True).intact
    lies = [
        Row(row.sort, row.key, (row.body or b"").replace(b"forgotten", b"current"))
        for row in kept.items
    ]
    assert store.memory.keep_memory_rows(
        scope, lies, since=kept.mark, until=kept.mark, replace=False
    )

    found = ledger.admin.verify(derived=True).first_broken

    assert found is not None
    assert found.fault == "derived"
    assert "memory rows" in found.detail


def test_numbers_of_a_saved_fact_that_lie_are_found_though_their_sum_is_right(
    open_ledger: Callable[[], Ledger],
) -> None:
    ledger = open_ledger()
    memory = ledger.memory(HERE)
    memory.reject(memory.learn("Lives in Porto", user="ann").fact_id)
    ledger._memory_factory.close()
    store, scope = store_of(ledger), Scope(HERE)
    kept = store.memory.memory_rows(scope)
    [(fact_id, body)] = kept.tables[FACT].items()
    lie = bytes([STATE_NUMBERS["current"]]) + body[1:-4]
    lie += zlib.crc32(lie).to_bytes(4, "little")
    assert store.memory.keep_memory_rows(
        scope, [Row(FACT, fact_id, lie)], since=kept.mark, until=kept.mark, replace=False
    )

    found = ledger.admin.verify(derived=True).first_broken

    assert found is not None
    assert "memory rows" in found.detail


def test_a_follower_that_was_moved_behind_the_last_event_is_found(ledger: Ledger) -> None:
    ledger.append([said("one")])
    end = tuple(number + 5 for number in store_of(ledger).reader.end(Scope(HERE)))
    store_of(ledger).cursors.set(Scope(HERE), "sink", cursor_at(Scope(HERE), end))

    found = ledger.admin.verify(derived=True).first_broken

    assert found is not None
    assert found.detail == "the follower sink was moved past the last event"


def test_without_being_asked_nothing_derived_is_compared(ledger: Ledger) -> None:
    ledger.append([said("x")])

    proof = ledger.admin.verify()

    assert proof.derived_rows is None
    assert proof.unchecked["derived"] == "add --derived"
