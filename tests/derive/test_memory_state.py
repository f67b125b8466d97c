"""What is remembered, folded from events: races, orders, and rows that give it back."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import DAY, HERE, NOON
from derive.saved_rows import saved
from effort import rounds
from sinks.carried_events import recorded
from treering.derive.fact_rows import GAP, SavedRows, hashed
from treering.derive.memory_state import (
    FACT,
    FactPayload,
    MemoryState,
    assertion_at,
    state_at,
    was_valid_at,
)
from treering.errors import Corrupt
from treering.memory.events import fact_change_event, fact_event, recall_event, user_event
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from treering import Event, NewEvent

OURS = Scope(HERE)
ANN = (hashed("ann"), None)
TOWN = hashed("town")


def at(position: int, new: NewEvent) -> Event:
    """Return an event as it is read: one day later than the one before it."""
    time_ms = NOON + position * DAY
    return recorded(
        new.kind, position, session_id=new.session_id, user_id=new.user_id, refs=new.refs,
        payload=new.payload, ts_ms=time_ms, recorded_ms=time_ms, run_id=None,
    )  # fmt: skip


def tell(
    position: int,
    fact_id: str,
    text: str,
    *,
    kind: str = "memory.stored",
    user: str | None = "ann",
    since: int = NOON,
    session: str = "s1",
    **fields: Any,
) -> Event:
    """Return the event that tells a fact, of ann unless told otherwise."""
    content = FactPayload(
        id=fact_id,
        text=text,
        category="personal",
        importance=5,
        confidence=0.8,
        statement=hashed(text),
        valid_from_ms=since,
        **fields,
    )
    return at(position, fact_event(OURS, kind, content, session=session, user=user, summary="told"))


def change(position: int, kind: str, fact_id: str, **payload: Any) -> Event:
    return at(position, fact_change_event(OURS, kind, fact_id, session="s1", user="ann", **payload))


def folded(*events: Event) -> MemoryState:
    state = MemoryState()
    for event in events:
        state.follow(event)
    return state


def states(state: MemoryState) -> dict[str, str]:
    return {key: row.state for key, row in state.facts.items()}


# Races.


def test_of_one_statement_learnt_twice_at_once_the_first_stands_for_both() -> None:
    state = folded(
        tell(1, "f1", "Likes tea", evidence=("e1",)), tell(2, "f2", "Likes tea", evidence=("e2",))
    )

    assert states(state) == {"f1": "current", "f2": "superseded"}
    assert state.facts["f2"].superseded_by == "f1"
    assert state.facts["f1"].cites == [hashed("e1"), hashed("e2")]
    twin = state.competing("statement", ANN, hashed("Likes tea"))
    assert twin is not None
    assert twin.id == "f1"


def test_of_two_answers_learnt_at_once_the_later_one_holds() -> None:
    ghent = tell(1, "f1", "Lives in Ghent", slot=TOWN)
    porto = tell(2, "f2", "Lives in Porto", slot=TOWN, since=NOON + 5)

    state = folded(ghent, porto)

    assert states(state) == {"f1": "superseded", "f2": "current"}
    row = state.facts["f1"]
    assert (row.superseded_by, row.valid_to_ms) == ("f2", NOON + 5)
    assert row.superseded_ms == porto.recorded_ms


def test_what_was_so_earlier_and_is_learnt_later_is_past_at_once() -> None:
    state = folded(
        tell(1, "f1", "Lives in Porto", slot=TOWN, since=NOON),
        tell(2, "f2", "Lives in Ghent", slot=TOWN, since=NOON - DAY),
    )

    assert states(state) == {"f1": "current", "f2": "superseded"}
    assert (state.facts["f2"].valid_to_ms, state.facts["f2"].superseded_by) == (NOON, "f1")
    rival = state.competing("slot", ANN, TOWN)
    assert rival is not None
    assert rival.id == "f1"


def test_a_fact_whose_first_telling_was_erased_is_as_it_was_told_again() -> None:
    again = tell(2, "f1", "Lives in Ghent", kind="memory.revised", slot=TOWN, evidence=("e2",))

    state = folded(again, tell(3, "f2", "Lives in Porto", slot=TOWN, since=NOON + DAY))

    row = state.facts["f1"]
    assert (row.state, row.recorded_ms, row.cites) == (
        "superseded", again.recorded_ms, [hashed("e2")],
    )  # fmt: skip
    assert len(row.assertions) == 1


def test_the_same_event_of_another_owner_touches_nothing() -> None:
    state = folded(
        tell(1, "f1", "Lives in Ghent", slot=TOWN),
        tell(2, "f2", "Lives in Ghent", slot=TOWN, user="bob"),
        tell(3, "f3", "Lives in Porto", slot=TOWN, user=None),
        tell(4, "f4", "Lives in Porto", slot=TOWN, session="g1", walled=True),
        tell(5, "f5", "Lives in Porto", slot=TOWN, session="g2", walled=True),
    )

    assert set(states(state).values()) == {"current"}


def test_what_is_over_stays_over() -> None:
    state = folded(
        tell(1, "f1", "Likes tea"),
        tell(2, "f2", "Likes rye bread"),
        change(3, "memory.forgotten", "f1", reason="never did"),
        change(4, "memory.superseded", "f2", by="f9", valid_to_ms=NOON + 1),
        *(change(5, "memory.restored", one, reason="used") for one in ("f1", "f2")),
        *(change(6, "memory.archived", one) for one in ("f1", "f2")),
        *(tell(7, one, "Likes tea", kind="memory.revised") for one in ("f1", "f2")),
        tell(8, "f1", "Likes tea"),
    )

    assert states(state) == {"f1": "forgotten", "f2": "superseded"}
    assert state.facts["f1"].reason == "never did"
    assert len(state.facts["f1"].assertions) == 1


def test_what_was_forgotten_may_be_learnt_anew() -> None:
    state = folded(
        tell(1, "f1", "Lives in Ghent", slot=TOWN),
        change(2, "memory.forgotten", "f1"),
        tell(3, "f2", "Lives in Ghent", slot=TOWN),
    )

    assert states(state) == {"f1": "forgotten", "f2": "current"}


@pytest.mark.parametrize(
    ("first", "state_of_both"),
    [
        ("Likes tea", {"f1": "current", "f2": "superseded"}),
        ("Lives in Ghent", {"f1": "superseded", "f2": "current"}),
    ],
)
def test_what_is_accepted_from_quarantine_meets_what_was_learnt_meanwhile(
    first: str, state_of_both: dict[str, str]
) -> None:
    second = "Likes tea" if first == "Likes tea" else "Lives in Porto"
    slot = None if first == "Likes tea" else TOWN
    quarantined = tell(
        2, "f2", second, kind="memory.refused", slot=slot, quarantined=True, reason="external"
    )
    before = folded(tell(1, "f1", first, slot=slot), quarantined)
    assert states(before) == {"f1": "current", "f2": "quarantined"}

    before.follow(change(3, "memory.restored", "f2", reason="accepted"))

    assert states(before) == state_of_both


# Times.


def test_what_was_believed_and_how_it_read_is_known_for_every_time() -> None:
    state = folded(
        tell(1, "f1", "Works at Acme"),
        tell(3, "f1", "Works at Acme in Ghent", kind="memory.revised", valid_to_ms=NOON + 4 * DAY),
        change(5, "memory.archived", "f1", reason="unused"),
    )
    row = state.facts["f1"]

    days = [NOON + day * DAY for day in (0, 1, 3, 5)]
    assert [state_at(row, one) for one in days] == [None, "current", "current", "archived"]
    assert [assertion_at(row, one).position for one in days] == [1, 1, 3, 3]
    assert was_valid_at(row, NOON + 3 * DAY)
    assert not was_valid_at(row, NOON + 4 * DAY)
    assert was_valid_at(row, NOON + 4 * DAY, as_of_ms=NOON + 2 * DAY)
    assert not was_valid_at(row, NOON - 1)


def test_recalling_counts_as_use_and_changes_no_state() -> None:
    state = folded(
        tell(1, "f1", "Likes tea"),
        change(2, "memory.archived", "f1"),
        at(4, recall_event(OURS, ["f1", "unknown"], session="s1", user="ann")),
    )

    row = state.facts["f1"]
    assert (row.uses, row.accessed_ms, row.state) == (1, NOON + 4 * DAY, "archived")


@pytest.mark.parametrize(
    "event",
    [
        recorded("memory.stored", payload={"text": "no more than this"}),
        recorded("memory.stored", payload={**tell(1, "f1", "x").payload, "category": "odd"}),
        recorded("memory.superseded", payload={"id": "f9", "by": "f8"}),
        recorded("memory.restored", payload={"id": 7}),
        recorded("memory.recalled", refs={"memory_ids": "f1"}),
        recorded("memory.recalled", refs=None),
        recorded("episode.written", payload={"summary": 7}),
        recorded("user.linked", payload={"channel": "telegram"}),
        recorded("user.merged", payload={"user": "ann", "merged": "ann"}),
        recorded("conversation.user", payload={"text": "hello"}),
    ],
)
def test_what_cannot_be_understood_changes_nothing(event: Event) -> None:
    assert folded(event).all_keys() == []


# Keeping.

IDS = st.sampled_from(["f1", "f2", "f3", "f4"])
USERS = st.sampled_from(["ann", "bob", "cy"])
STATEMENTS = st.sampled_from(["Lives in Ghent", "Lives in Porto", "Likes tea"])


@st.composite
def happenings(draw: st.DrawFn) -> list[Event]:
    """Return any events of a memory, in an order that no gate would have made."""
    events = []
    for position in range(1, draw(st.integers(1, 14)) + 1):
        sort = draw(st.integers(0, 9))
        if sort < 4:
            text = draw(STATEMENTS)
            events.append(
                tell(
                    position,
                    draw(IDS),
                    text,
                    kind=draw(st.sampled_from(["memory.stored", "memory.revised"]))
                    if sort
                    else "memory.refused",
                    user=draw(USERS),
                    since=NOON + draw(st.integers(-3, 3)) * DAY,
                    slot=None if text == "Likes tea" else TOWN,
                    evidence=(f"e{position}",),
                )
            )
        elif sort < 8:
            kind = draw(st.sampled_from(["archived", "restored", "forgotten", "superseded"]))
            events.append(change(position, f"memory.{kind}", draw(IDS), by=draw(IDS)))
        elif sort == 8:
            events.append(at(position, recall_event(OURS, [draw(IDS)], session=None, user=None)))
        else:
            one, other = draw(USERS), draw(USERS)
            payload = {"user": one, "merged": other, "undone": draw(st.booleans())}
            events.append(at(position, user_event(OURS, "user.merged", "merged", payload)))
    return events


@settings(max_examples=rounds(20, times=30))
@given(happenings(), st.integers(0, 14))
def test_rows_give_back_what_they_were_made_of_and_it_goes_on_the_same(
    events: list[Event], stop: int
) -> None:
    whole = folded(*events)
    early = folded(*events[:stop])

    taken_up = MemoryState()
    rows = early.rows(early.all_keys())
    taken_up.load(saved(rows))
    for event in events[stop:]:
        taken_up.follow(event)

    assert taken_up.rows(taken_up.all_keys()) == whole.rows(whole.all_keys())


@settings(max_examples=rounds(20, times=30))
@given(happenings())
def test_one_owner_never_has_two_current_answers_to_one_question(events: list[Event]) -> None:
    state = folded(*events)

    current = [row for row in state.facts.values() if row.state == "current"]
    statements = [(row.owner, row.statement) for row in current]
    assert len(statements) == len(set(statements))
    # One that is to come may wait behind the one that holds until then.
    for one, other in itertools.combinations(sorted(current, key=lambda row: row.valid_from_ms), 2):
        if one.slot is not None and (one.owner, one.slot) == (other.owner, other.slot):
            assert one.valid_to_ms is not None
            assert one.valid_to_ms <= other.valid_from_ms


@settings(max_examples=rounds(20, times=30))
@given(happenings(), st.integers(0, 14))
def test_only_what_changed_is_kept_again(events: list[Event], stop: int) -> None:
    state = folded(*events[:stop])
    kept = {(sort, key): body for sort, key, body in state.rows(state.all_keys())}
    state.changed.clear()

    for event in events[stop:]:
        state.follow(event)
    for sort, key, body in state.rows(state.changed):
        kept[sort, key] = body

    assert {key: body for key, body in kept.items() if body is not None} == {
        (sort, key): body for sort, key, body in state.rows(state.all_keys())
    }


def test_rows_that_hold_no_text_and_no_name() -> None:
    state = folded(
        tell(1, "f1", "Lives in Ghent", slot=TOWN, evidence=("cited-event",)),
        at(
            2,
            user_event(
                OURS,
                "user.linked",
                "linked",
                {"user": "ann", "channel": "telegram", "handle": "@ann77"},
            ),
        ),
        at(3, user_event(OURS, "user.merged", "merged", {"user": "ann", "merged": "bobby"})),
    )

    kept = b"".join(body or b"" for _, _, body in state.rows(state.all_keys()))

    for word in (b"Ghent", b'"ann"', b"ann77", b"bobby", b"telegram", b"cited-event"):
        assert word not in kept


def test_rows_of_another_version_are_refused() -> None:
    for row in [
        ("sort-of-tomorrow", "k", b"1"),
        ("fact", "f1", b'{"id":"f1"}'),
        ("fact", "f1", b""),
        (FACT, "f1", b""),
    ]:
        with pytest.raises(ValueError):
            MemoryState().load(saved([row]))


def test_one_wrong_bit_in_a_row_has_it_refused() -> None:
    state = folded(
        tell(1, "f1", "Lives in Ghent", slot=TOWN),
        tell(2, "f2", "Likes tea"),
        tell(3, "f3", "Drives a van"),
    )
    rows = state.rows(state.all_keys())
    MemoryState().load(saved(rows))

    for which, (sort, key, body) in enumerate(rows):
        for at in range(0, len(body or b""), 9):
            damaged = bytearray(body or b"")
            damaged[at] ^= 1
            others = [*rows[:which], *rows[which + 1 :]]
            with pytest.raises(ValueError):
                MemoryState().load(saved([*others, (sort, key, bytes(damaged))]))


def test_rows_that_are_cut_or_missing_from_their_page_are_refused() -> None:
    state = folded(tell(1, "f1", "Lives in Ghent"), tell(2, "f2", "Likes tea"))
    [first, second] = [body or b"" for _, _, body in state.rows(state.all_keys())]
    sizes, whole = [len(first), len(second)], GAP.join([first, second])
    SavedRows([(["f1", "f2"], sizes, whole)])

    for keys, said, joined in [
        (["f1", "f2"], sizes, whole[:-1]),
        (["f1", "f2"], sizes, first),
        (["f1"], sizes, whole),
        (["f1", "f2"], sizes[:1], whole),
    ]:
        with pytest.raises(ValueError):
            SavedRows([(keys, said, joined)])


def test_a_saved_fact_is_read_when_it_is_needed_and_found_before() -> None:
    whole = folded(
        tell(1, "f1", "Lives in Ghent", slot=TOWN),
        tell(2, "f2", "Likes tea"),
        tell(3, "f3", "Lives in Porto", slot=TOWN),
    )
    loaded = MemoryState()

    loaded.load(saved(whole.rows(whole.all_keys())))

    assert list(loaded.facts) == ["f1", "f2", "f3"]
    assert not loaded.facts.read
    owner = whole.facts["f3"].owner
    assert loaded.competing("slot", owner, whole.facts["f3"].slot or "") == whole.facts["f3"]
    assert list(loaded.facts.read) == ["f3"]
    assert loaded.competing("statement", owner, whole.facts["f2"].statement) == whole.facts["f2"]
    assert loaded.competing("statement", owner, whole.facts["f1"].statement) is None
    assert dict(loaded.facts) == dict(whole.facts)


def test_a_saved_row_under_another_id_is_not_believed() -> None:
    state = folded(tell(1, "f1", "Lives in Ghent"))
    [(_, _, body)] = state.rows([(FACT, "f1")])
    loaded = MemoryState()
    loaded.load(saved([(FACT, "f2", body)]))

    with pytest.raises(Corrupt, match="rebuild"):
        loaded.facts["f2"]


# Who is who.


def test_mergers_are_followed_to_their_end_and_never_in_a_circle() -> None:
    def merged(position: int, user: str, other: str, *, undone: bool = False) -> Event:
        payload = {"user": user, "merged": other, "undone": undone}
        return at(position, user_event(OURS, "user.merged", "merged", payload))

    state = folded(merged(1, "ann", "bob"), merged(2, "bob", "cy"), merged(3, "cy", "ann"))

    family = {hashed(one) for one in ("ann", "bob", "cy")}
    assert {state.root(one) for one in family} == {hashed("ann")}
    assert state.family(hashed("cy")) == family
    assert state.merged_into(hashed("bob")) == {hashed("bob"), hashed("cy")}
    state.follow(merged(4, "ann", "bob", undone=True))
    assert state.family(hashed("ann")) == {hashed("ann")}
    assert state.family(hashed("cy")) == {hashed("bob"), hashed("cy")}
