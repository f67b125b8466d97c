"""What holds of a session whose own marks are erased."""

from __future__ import annotations

from typing import Final

import pytest

from treering import InvalidInput, Ledger, NewEvent, Session
from treering.views import Isolation

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
    assert (again.settings.mode, again.isolation) == ("group", Isolation())
    assert not again.is_addressed("nothing for you")
    assert not again.permits("file_system")


def test_another_session_whose_opening_is_erased_is_taken_for_the_strictest(ledger: Ledger) -> None:
    talked(ledger, "hello?")

    ledger.redact(HERE, session_id="s1")

    again = ledger.session("s1", scope=HERE, agent="lyria")
    assert (again.settings.mode, again.isolation) == ("main", Isolation())


@pytest.mark.parametrize("erasure", ["redacted", "expired"])
def test_a_session_that_nothing_opened_keeps_its_tools_when_its_first_event_is_erased(
    ledger: Ledger, erasure: str
) -> None:
    """As sessions of appended and ingested messages: no settings went with their first event."""
    said = NewEvent(
        scope=HERE, session_id="s1", kind="conversation.user", agent_id="lyria", summary="hello?"
    )
    (header,) = ledger.append([said])

    if erasure == "redacted":
        ledger.redact(HERE, event_id=header.event_id)
    else:
        ledger.expire(HERE, now_ms=header.recorded_ms + 61 * DAY_MS)

    again = ledger.session("s1", scope=HERE, agent="lyria")
    assert (again.isolation, again.permits("file_system")) == (None, True)
    with again.turn() as turn, turn.tool("file_system") as call:
        call.finish("done")


def test_a_pruned_session_shows_nothing_of_what_was_redacted_before(ledger: Ledger) -> None:
    session = talked(ledger, "first?", "second?")
    first = next(header for header in session.headers() if header.kind == "conversation.user")
    ledger.redact(HERE, event_id=first.event_id)

    later = first.recorded_ms + 200 * DAY_MS
    receipt = ledger.prune(HERE, older_than_days=100, now_ms=later)

    assert receipt.count == 1
    assert session.history() == []
    assert ledger.admin.verify().intact


def test_a_reason_is_only_a_word(ledger: Ledger) -> None:
    session = talked(ledger, "precious?")
    session.close("pruned")

    receipt = ledger.sweep(HERE)

    assert (receipt.pruned, session.outline().state) == ([], "closed")
    assert [message["content"] for message in session.history()] == ["precious?"]


def test_a_summary_that_does_not_say_what_it_tells_goes_with_all_before_it(ledger: Ledger) -> None:
    session = talked(ledger, "the secret word?")
    [asked] = [header for header in session.headers() if header.kind == "conversation.user"]
    session.record("context.compacted", "compacted", payload={"summary": "the secret word"})

    receipt = ledger.redact(HERE, event_id=asked.event_id)

    assert receipt.retellings_redacted == 1
    assert "secret" not in "".join(str(event.payload) for event in session.events())


def test_a_fork_tells_its_own_part_and_not_what_it_shares(ledger: Ledger) -> None:
    session = talked(ledger, "first?", "second?")
    untouched, gone_on = session.fork("untouched"), session.fork("gone-on")
    with gone_on.turn() as turn:
        turn.user("third?")

    assert untouched.write_episode() is None
    written = gone_on.write_episode()

    assert written is not None
    assert ledger.event(HERE, written.event_id).payload["message_count"] == 1


def test_forks_of_forks_are_named_after_the_first(ledger: Ledger) -> None:
    session = talked(ledger, "first?")
    for _ in range(20):
        session = session.fork()

    assert session.session_id.startswith("s1-fork-")
    assert len(session.session_id) == len("s1-fork-00000000")


@pytest.mark.parametrize("told", ["half a \ud800 character", "fine"])
def test_no_summariser_stops_a_compaction(ledger: Ledger, told: str) -> None:
    session = talked(ledger, *(f"question {number}?" for number in range(5)))

    class Odd:
        name = "n" * 5_000

        def __call__(self, *_: object) -> str:
            return told

    header = session.compact(keep=1, summariser=Odd())

    assert header is not None
    assert header.refs["by"] == ("structure" if "half" in told else "n" * 199 + "…")
