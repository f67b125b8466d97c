"""Reads that keep to one turn, or to some kinds."""

from __future__ import annotations

import pytest

from builders import HERE, exchange, said
from treering import InvalidInput, Ledger, Session
from treering.errors import InvalidKind


@pytest.fixture
def session(ledger: Ledger) -> Session:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    for number in range(4):
        exchange(session, f"question {number}", f"answer {number}")
    ledger.append([said("elsewhere", session_id="s2", turn_id="t9")])
    return session


def test_a_session_is_read_by_kind_and_by_turn(session: Session) -> None:
    turn = list(session.turns())[2]
    asked = ["conversation.user"]

    assert [h.summary for h in session.headers(kinds=asked)] == [f"question {n}" for n in range(4)]
    assert [h.summary for h in session.headers(kinds=asked, last=2)] == ["question 2", "question 3"]
    assert [h.summary for h in session.headers(kinds=asked, first=1)] == ["question 0"]
    of_turn = list(session.events(turn_id=turn.turn_id))
    assert {event.turn_id for event in of_turn} == {turn.turn_id}
    assert [e.payload["text"] for e in session.events(kinds="conversation.user", last=1)] == [
        "question 3"
    ]
    assert len(of_turn) == 4
    assert [e.kind for e in session.events(turn_id=turn.turn_id, last=1)] == ["run.ended"]
    assert list(session.headers(turn_id="none")) == []


def test_a_scope_is_asked_by_turn(ledger: Ledger, session: Session) -> None:
    turn = list(session.turns())[1].turn_id

    for place in (None, "s1"):
        found = ledger.headers(HERE, session_id=place, turn_id=turn)
        assert [header.turn_id for header in found.items] == [turn] * 4
    assert ledger.headers(HERE, session_id="s2", turn_id=turn).items == []
    assert ledger.headers(HERE, turn_id="none").items == []
    said_then = ledger.events(HERE, turn_id=turn, kinds=["conversation.user"])
    assert [event.payload["text"] for event in said_then.items] == ["question 1"]


def test_pages_of_a_turn_go_on_where_the_one_before_ended(ledger: Ledger, session: Session) -> None:
    turn = list(session.turns())[1].turn_id
    found, cursor = [], None
    while True:
        page = ledger.headers(HERE, turn_id=turn, first=3, after=cursor)
        found += [header.seq for header in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert len(found) == len(set(found)) == 4


def test_a_filter_that_makes_no_sense_is_refused(session: Session) -> None:
    with pytest.raises(InvalidKind):
        session.headers(kinds=["no such kind"])
    with pytest.raises(InvalidInput):
        session.events(turn_id="")
