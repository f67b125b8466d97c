"""Ids that a ledger has seen, and the end of a scope: on every database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treering.ledger.records import EventLocation

if TYPE_CHECKING:
    from treering import Ledger
    from treering.model.events import NewEvent

HERE, THERE = "acme/app", "acme/web"
STARTS = ("0a1b2c3d", "0a1b2c3f", "0a1b2c30", "0a1b2c40", "ffffffff")


def test_known_ids_tell_where_their_events_stand(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    first = session.record("ops.decision", "go", event_id="one")
    second = session.record("ops.decision", "stop")
    other = ledger.session("s1", scope=THERE, agent="lyria").record("ops.decision", "no")

    known = ledger.find_ids(HERE, ["one", second.event_id, other.event_id, "nobody"])

    assert known == {
        "one": EventLocation("s1", first.seq, first.ts_ms),
        second.event_id: EventLocation("s1", second.seq, second.ts_ms),
    }
    assert ledger.find_ids("acme/none", ["one"]) == {}
    assert ledger.find_ids(HERE, []) == {}


def test_many_ids_are_found_at_once(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    named = [f"event-{number}" for number in range(1_203)]
    session.append([session.new_event("ops.decision", "go", event_id=name) for name in named])

    assert set(ledger.find_ids(HERE, [*named, "nobody"])) == set(named)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 31, 32, 33, 500])
def test_as_many_ids_are_found_as_are_asked_for(ledger: Ledger, count: int) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    named = [f"event-{number}" for number in range(1_200)]
    # The first ones are in the index then, and the others in none yet.
    for some in (named[:700], named[700:]):
        session.append([session.new_event("ops.decision", "go", event_id=name) for name in some])

    for some in (named[:count], named[-count:]):
        assert set(ledger.find_ids(HERE, some)) == set(some)


def named_events(ledger: Ledger) -> list[NewEvent]:
    """Return more events than are looked up one by one."""
    session = ledger.session("s1", scope=HERE, agent="lyria")
    names = [f"event-{number}" for number in range(20)]
    return [session.new_event("ops.decision", "go", event_id=name, ts_ms=5) for name in names]


@pytest.mark.parametrize("count", [1, 10, 20])
def test_an_id_that_was_looked_for_in_vain_is_known_once_it_was_recorded(
    ledger: Ledger, count: int
) -> None:
    events = named_events(ledger)
    ledger.session("s1", scope=HERE, agent="lyria").record("ops.decision", "first")
    assert ledger.find_ids(HERE, [event.event_id or "" for event in events]) == {}

    before = ledger.append(events[:count])
    after = ledger.append(events)

    assert [header.position for header in before] == [header.position for header in after[:count]]
    assert len({header.seq for header in after}) == len(events)
    assert ledger.append(events) == after


def test_ids_of_erased_events_stay_known(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    session.record("ops.alert", "smoke", event_id="redacted", ts_ms=1)
    session.record("ops.alert", "fire", event_id="expired", ts_ms=1)
    ledger.redact(HERE, event_id="redacted")
    ledger.expire(HERE)

    assert set(ledger.find_ids(HERE, ["redacted", "expired"])) == {"redacted", "expired"}


def test_ids_are_found_by_how_they_start(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    ids = [f"{start}-0000-7000-8000-{number:012x}" for number, start in enumerate(STARTS)]
    for event_id in ids:
        session.record("ops.decision", "go", event_id=event_id)
    session.record("ops.decision", "named", event_id="0a1b2c3d-by-name")
    ledger.session("s1", scope=THERE, agent="lyria").record("ops.decision", "no", event_id=ids[0])

    assert ledger.event_ids(HERE, "0a1b2c3") == sorted(ids[:3])
    assert ledger.event_ids(HERE, "0a1b2c3d") == ids[:1]
    assert ledger.event_ids(HERE, "0a1b2c3", limit=2) == sorted(ids[:3])[:2]
    assert ledger.event_ids(HERE, ids[4]) == ids[4:]
    assert set(ledger.event_ids(HERE, "")) >= set(ids)
    for other in ("0a1b2c3d-by", "0A1B", "0a1b2c3d0", f"{ids[0]}0", "zzzz", "٣"):
        assert ledger.event_ids(HERE, other) == []
    assert ledger.event_ids("acme/none", "0a") == []


def test_ids_of_erased_events_are_found_by_how_they_start(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    redacted = session.record("ops.alert", "smoke", ts_ms=1).event_id
    expired = session.record("ops.alert", "fire", ts_ms=1).event_id
    ledger.redact(HERE, event_id=redacted)
    ledger.expire(HERE)

    assert ledger.event_ids(HERE, redacted[:-1]) == [redacted]
    assert ledger.event_ids(HERE, expired[:-1]) == [expired]


def test_the_end_of_a_scope_is_behind_all_that_it_holds(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    session.record("ops.decision", "before")
    end = ledger.end_cursor(HERE)
    session.record("ops.decision", "after")

    found = list(ledger.follow(HERE, after=end, idle_s=0.2))

    assert [header.summary for header in found] == ["after"]
    assert list(ledger.follow(THERE, after=ledger.end_cursor(THERE), idle_s=0)) == []


def test_a_fork_may_leave_in_the_midst_of_a_turn(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    session.record("conversation.user", "hello", payload={"text": "hello"}, event_id="u1")
    session.record("conversation.assistant", "hi", payload={"text": "hi"}, event_id="a1")
    session.record("conversation.assistant", "more", payload={"text": "more"}, event_id="a2")

    fork = session.fork("s2", at="a1", whole_turn=False, ts_ms=5)

    assert [message["content"] for message in fork.history()] == ["hello", "hi"]
    assert fork.outline().created_ms == 5
