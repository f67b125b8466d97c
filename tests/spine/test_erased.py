"""Runs, permissions and messages, when what was said of them is erased."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from builders import DAY, HERE

if TYPE_CHECKING:
    from treering import Ledger, Session

LATER = 4_000_000_000_000
"""Long after everything here was recorded, in milliseconds."""


def handle(ledger: Ledger, name: str = "s1", **about: object) -> Session:
    return ledger.session(name, scope=HERE, agent="lyria", **about)  # type: ignore[arg-type]


def test_a_message_that_was_dealt_with_stays_so_when_its_taking_is_redacted(ledger: Ledger) -> None:
    queue = handle(ledger, mode="queue")
    queue.post("one", event_id="m1")
    while turn := queue.take():
        with turn:
            turn.assistant("done")
    [taken] = [header for header in queue.headers() if header.kind == "inbox.taken"]

    ledger.redact(HERE, event_id=taken.event_id)

    assert handle(ledger).take() is None


def test_what_became_of_a_message_does_not_expire(ledger: Ledger) -> None:
    with pytest.raises(treering.InvalidInput, match=r"inbox\.taken"):
        ledger.expire(HERE, policy={"inbox.taken": 1}, now_ms=LATER)


def test_words_in_an_inbox_expire_as_those_of_a_conversation_do(ledger: Ledger) -> None:
    queue = handle(ledger, mode="queue")
    queue.post("PRIVATE words")
    while turn := queue.take():
        with turn:
            turn.deliver("PRIVATE answer", to="mina")

    ledger.expire(HERE, now_ms=LATER)

    left = [event for event in queue.events() if "PRIVATE" in f"{event.summary} {event.payload}"]
    assert left == []


def test_a_run_whose_session_is_redacted_is_still_the_only_one_there(ledger: Ledger) -> None:
    session = handle(ledger)
    turn = session.turn()
    turn.start()
    turn.tools.started("shell", {"cmd": "make"}, call_id="c1")

    ledger.redact(HERE, session_id="s1")

    with pytest.raises(treering.errors.RunActive):
        handle(ledger).turn().start()
    assert session.interrupt("stop") is not None
    assert turn.state == "interrupted"
    assert ledger.expire(HERE, now_ms=LATER + 400 * DAY).sessions_kept_open == 0
