"""What holds of a session whose own marks are erased."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from treering import InvalidInput, Isolation

if TYPE_CHECKING:
    from treering import Ledger, Session

HERE: Final = "here"
DAY_MS: Final = 86_400_000


def talked(ledger: Ledger, *questions: str) -> Session:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    for question in questions:
        with session.turn() as turn:
            turn.user(question)
    return session


def test_redacting_an_undo_does_not_bring_back_what_is_undone(ledger: Ledger) -> None:
    session = talked(ledger, "right?", "wrong?")
    undone = session.undo()

    receipt = ledger.redact(HERE, event_id=undone.event_id)

    assert receipt.redacted_count == 0
    assert [message["content"] for message in session.history()] == ["right?"]


def test_redacting_a_session_leaves_undone_what_is_undone(ledger: Ledger) -> None:
    session = talked(ledger, "right?", "wrong?")
    session.undo()

    ledger.redact(HERE, session_id="s1")

    assert [message["content"] for message in session.history()] == ["[REDACTED]"]


@pytest.mark.parametrize(
    "kind", ["session.undone", "session.redone", "session.opened", "session.forked"]
)
def test_what_says_how_a_session_is_read_never_expires(ledger: Ledger, kind: str) -> None:
    with pytest.raises(InvalidInput, match="kept forever"):
        ledger.expire(HERE, policy={kind: 1})


def test_a_group_whose_opening_is_erased_stays_behind_its_walls(ledger: Ledger) -> None:
    group = ledger.group_session("slack", "c1", scope=HERE, agent="lyria")
    group.open()

    ledger.redact(HERE, session_id=group.session_id)

    again = ledger.session(group.session_id, scope=HERE, agent="lyria")
    assert (again.charter.mode, again.isolation) == ("group", Isolation())
    assert not again.is_addressed("nothing for you")
    assert not again.permits("file_system")


def test_another_session_whose_opening_is_erased_is_taken_for_the_strictest(
    ledger: Ledger,
) -> None:
    talked(ledger, "hello?")

    ledger.redact(HERE, session_id="s1")

    again = ledger.session("s1", scope=HERE, agent="lyria")
    assert (again.charter.mode, again.isolation) == ("main", Isolation())


def test_a_pruned_session_shows_nothing_of_what_was_redacted_before(ledger: Ledger) -> None:
    session = talked(ledger, "first?", "second?")
    first = next(header for header in session.headers() if header.kind == "conversation.user")
    ledger.redact(HERE, event_id=first.event_id)

    later = first.recorded_ms + 200 * DAY_MS
    receipt = ledger.prune(HERE, older_than_days=100, now_ms=later)

    assert receipt.count == 1
    assert session.history() == []
    assert ledger.verify().intact
