"""Summaries and episodes go with what they tell: promise 5, 'redact and forget also cascade'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from builders import exchange
from ports import store_of
from treering.errors import Conflict
from treering.ledger.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Session
    from treering.ledger.ports import EventStore

HERE: Final = "here"
SECRET: Final = "the blue heron nests at dawn"


def told(ledger: Ledger, name: str = "s1") -> Session:
    session = ledger.session(name, scope=HERE, agent="lyria")
    exchange(session, f"Please remember: {SECRET}", "I will.")
    for number in range(3):
        exchange(session, f"Question {number}?", f"Answer {number}.")
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
    assert ledger.admin.verify().intact


def test_it_reaches_them_in_forks_and_forks_of_forks(ledger: Ledger) -> None:
    session = told(ledger)
    child = session.fork("child")
    child.compact(keep=2)
    grandchild = child.fork("grandchild")
    for number in range(2):
        with grandchild.turn() as turn:
            turn.user(f"And {number}?")
    grandchild.compact(keep=1)

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


# Erasures that come while something is told.


class Hurried:
    """A store in front of which something happens once, just before a retelling is recorded."""

    def __init__(self, store: EventStore, happens: Callable[[], object]) -> None:
        self._store = store
        self._happens: Callable[[], object] | None = happens

    def append(self, drafts: Any, *, expected_seq: int | None) -> Any:
        kinds = {draft.kind for draft in drafts}
        if self._happens and kinds & {"context.compacted", "episode.written"}:
            happens, self._happens = self._happens, None
            happens()
        return self._store.append(drafts, expected_seq=expected_seq)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def hurried(ledger: Ledger, name: str, happens: Callable[[], object]) -> Session:
    store = cast("EventStore", Hurried(store_of(ledger), happens))
    beside = Ledger(store, drafter=ledger._drafter, clock=ledger._clock)
    return beside.session(name, scope=HERE, agent="lyria")


def redact_secret(ledger: Ledger, session: Session) -> Callable[[], object]:
    event_id = secret_id(session)
    return lambda: ledger.redact(HERE, event_id=event_id)


def test_a_fork_is_not_compacted_if_its_parent_is_redacted_while_the_summary_is_written(
    ledger: Ledger,
) -> None:
    session = told(ledger)
    child = session.fork("child")
    redact = redact_secret(ledger, session)

    def summarise(*_: object) -> str:
        redact()
        return f"They said that {SECRET}."

    assert child.compact(keep=2, summariser=summarise) is None
    assert "context.compacted" not in {header.kind for header in child.headers()}
    assert SECRET not in everything(child)


@pytest.mark.parametrize("name", ["s1", "child", "grandchild"])
def test_a_redaction_just_before_a_summary_is_recorded_reaches_it(
    ledger: Ledger, name: str
) -> None:
    session = told(ledger)
    session.fork("child").fork("grandchild")
    hurrying = hurried(ledger, name, redact_secret(ledger, session))

    assert hurrying.compact(keep=2) is None

    assert SECRET not in everything(hurrying)
    assert SECRET not in str(hurrying.context(10_000).messages)
    assert ledger.admin.verify().intact


def test_a_redaction_just_before_an_episode_is_recorded_has_it_told_again_without(
    ledger: Ledger,
) -> None:
    session = told(ledger)
    hurrying = hurried(ledger, "s1", redact_secret(ledger, session))

    header = hurrying.write_episode()

    assert header is not None
    assert "Question 0?" in str(ledger.event(HERE, header.event_id).payload)
    assert SECRET not in everything(hurrying)
    assert ledger.admin.verify().intact


def test_an_undo_just_before_an_episode_is_recorded_leaves_the_turn_out(ledger: Ledger) -> None:
    session = told(ledger)

    header = hurried(ledger, "s1", session.undo).write_episode()

    assert header is not None
    assert "Question 2?" not in str(ledger.event(HERE, header.event_id).payload)


def test_what_is_said_just_before_an_episode_is_recorded_keeps_nothing_back(ledger: Ledger) -> None:
    session = told(ledger)
    speak = lambda: session.record("ops.observation", "it rains")  # noqa: E731

    header = hurried(ledger, "s1", speak).write_episode()

    assert header is not None
    assert SECRET in str(ledger.event(HERE, header.event_id).payload)


def test_an_episode_is_written_where_the_session_is_expected_to_be_or_not_at_all(
    ledger: Ledger,
) -> None:
    session = told(ledger)
    [last] = session.headers(last=1)

    with pytest.raises(Conflict):
        session.write_episode(expected_seq=last.seq - 1)

    assert "episode.written" not in {header.kind for header in session.headers()}
    header = session.write_episode(expected_seq=last.seq)
    assert header is not None
    assert header.seq == last.seq + 1
