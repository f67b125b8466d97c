"""Hiding single events, and the last events that count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import HERE, exchange
from treering.errors import NotFound

if TYPE_CHECKING:
    from treering import Ledger
    from treering.ledger.sessions import Session

SPOKEN = ("conversation.user", "conversation.assistant")


def spoken(session: Session, last: int | None = None) -> list[str]:
    """Return what counts of what was said."""
    return [event.payload["text"] for event in session.live_events(kinds=SPOKEN, last=last)]


def say(session: Session, count: int) -> None:
    """Record some turns."""
    for n in range(count):
        exchange(session, f"q{n}", f"a{n}")


def test_a_hidden_event_is_shown_to_no_model_and_is_still_there(ledger: Ledger) -> None:
    session = ledger.session("s", scope=HERE, agent="lyria")
    say(session, 3)
    session.summary()
    events = list(session.events(kinds=SPOKEN))

    session.hide([events[1].event_id, events[4].event_id])

    left = ["q0", "q1", "a1", "a2"]
    assert spoken(session) == left
    assert [one["content"] for one in session.history()] == left
    shown = str(session.context(max_tokens=1_000).request)
    assert "a0" not in shown
    assert "q2" not in shown
    assert "a1" in shown
    assert len(list(session.events(kinds=SPOKEN))) == 6
    child = session.fork("child")
    assert spoken(child) == left
    assert session.outline().has_content
    assert ledger.admin.verify(derived=True).intact


def test_the_last_events_that_count_are_found_behind_any_number_that_do_not(ledger: Ledger) -> None:
    session = ledger.session("s", scope=HERE, agent="lyria")
    say(session, 30)
    session.undo(turns=5)
    session.hide([event.event_id for event in session.live_events(kinds=SPOKEN, last=40)])
    ledger.redact(HERE, event_id=list(session.live_events(kinds=SPOKEN))[-1].event_id)
    turn = session.turn().__enter__()
    turn.user("not yet")

    assert spoken(session) == ["q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3", "q4"]
    assert spoken(session, 2) == ["a3", "q4"]
    assert spoken(session, 0) == []
    turn.__exit__(None, None, None)
    assert spoken(session, 2) == ["q4", "not yet"]
    assert next(session.live_events(last=1)).kind == "run.ended"


def test_a_session_without_content_says_so(ledger: Ledger) -> None:
    session = ledger.session("s", scope=HERE, agent="lyria")
    session.record("conversation.user", "hi", payload={"text": "hi"})
    assert session.outline().has_content

    ledger.redact(HERE, session_id="s")

    assert not session.outline().has_content
    assert not ledger.sessions(HERE).items[0].has_content


def test_only_events_of_the_session_are_hidden(ledger: Ledger) -> None:
    session = ledger.session("s", scope=HERE, agent="lyria")
    other = ledger.session("other", scope=HERE, agent="lyria")
    header = other.record("conversation.user", "hi", payload={"text": "hi"})
    session.record("conversation.user", "hi", payload={"text": "hi"})

    for wrong in ([header.event_id], ["unknown"], []):
        with pytest.raises(NotFound):
            session.hide(wrong)
