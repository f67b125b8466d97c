"""Summaries and episodes go with what they tell: promise 5, 'redact and forget also cascade'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treering import Ledger, Session

HERE: Final = "here"
SECRET: Final = "the blue heron nests at dawn"


def told(ledger: Ledger, name: str = "s1") -> Session:
    session = ledger.session(name, scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user(f"Please remember: {SECRET}")
        turn.assistant("I will.")
    for number in range(3):
        with session.turn() as turn:
            turn.user(f"Question {number}?")
            turn.assistant(f"Answer {number}.")
    return session


def secret_id(session: Session) -> str:
    return next(event.event_id for event in session.events() if SECRET in str(event.payload))


def everything(session: Session) -> str:
    return "\n".join(f"{event.summary} {event.refs} {event.payload}" for event in session.events())


def test_a_redaction_reaches_the_summary_and_the_episode_that_tell_it(ledger: Ledger) -> None:
    session = told(ledger)
    session.compact(keep=2)
    session.write_episode()
    assert everything(session).count(SECRET) > 2

    receipt = ledger.redact(HERE, event_id=secret_id(session))

    assert (receipt.redacted_count, receipt.retellings_redacted) == (1, 2)
    assert SECRET not in everything(session)
    assert SECRET not in str(session.context(10_000).messages)
    assert ledger.verify().intact


def test_it_reaches_them_in_forks_and_forks_of_forks(ledger: Ledger) -> None:
    session = told(ledger)
    child = session.fork("child")
    child.compact(keep=2)
    grandchild = child.fork("grandchild")
    grandchild.write_episode()

    receipt = ledger.redact(HERE, event_id=secret_id(session))

    assert receipt.retellings_redacted == 2
    assert all(SECRET not in everything(one) for one in (session, child, grandchild))


def test_a_session_takes_the_summaries_of_its_forks_along(ledger: Ledger) -> None:
    session = told(ledger)
    child = session.fork("child")
    child.compact(keep=2)

    receipt = ledger.redact(HERE, session_id="s1")

    assert receipt.retellings_redacted == 1
    assert SECRET not in everything(child)


def test_the_summary_of_another_session_stays(ledger: Ledger) -> None:
    session, other = told(ledger), told(ledger, "s2")
    other.compact(keep=2)

    receipt = ledger.redact(HERE, event_id=secret_id(session))

    assert receipt.retellings_redacted == 0
    assert SECRET in everything(other)


def test_the_episode_of_a_later_stretch_stays(ledger: Ledger) -> None:
    session = told(ledger)
    session.write_episode()
    with session.turn() as turn:
        turn.user("Something else?")
    session.write_episode()

    receipt = ledger.redact(HERE, event_id=secret_id(session))

    assert receipt.retellings_redacted == 1
    episodes = [header for header in session.headers() if header.kind == "episode.written"]
    assert [header.redacted for header in episodes] == [True, False]


def test_the_episode_of_a_fork_from_before_it_stays(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("A first word.")
    child = session.fork("child")
    child.write_episode()
    with session.turn() as turn:
        turn.user(f"And {SECRET}")

    receipt = ledger.redact(HERE, event_id=secret_id(session))

    assert receipt.retellings_redacted == 0
    assert not any(header.redacted for header in child.headers())
