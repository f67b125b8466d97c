"""What a model was shown in a turn, found from whichever end of the session is nearer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from builders import HERE, run_of, said
from ledger.counted import Counted
from ports import store_of
from treering import InvalidInput, Ledger, NotFound, Session

TURNS = 6


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a session of some turns: the first has no run, the others were assembled for."""
    session = ledger.session("s1", scope=HERE, agent="lyria")
    ledger.append([said("0?"), said("0!", kind="conversation.assistant")])
    for number in range(1, TURNS):
        with session.turn() as turn:
            turn.user(f"{number}?")
            turn.context()
            turn.assistant(f"{number}!")
    return session


def last_words(session: Session, turn: int) -> list[str]:
    return [one.context.messages[-1]["content"] for one in session.shown(turn=turn)]


@pytest.mark.parametrize("number", range(2, TURNS + 1))
def test_every_turn_has_what_its_model_was_shown(session: Session, number: int) -> None:
    assert last_words(session, number) == [f"{number - 1}?"]


@pytest.mark.parametrize("number", [-1, 0, 1, TURNS + 1, 10_000])
def test_a_turn_that_is_not_there_or_has_no_run_is_not_found(session: Session, number: int) -> None:
    with pytest.raises(NotFound, match=rf"turn {number}"):
        session.shown(turn=number)


@pytest.mark.parametrize("number", [True, "1", 1.5])
def test_a_turn_is_a_number(session: Session, number: Any) -> None:
    with pytest.raises(InvalidInput):
        session.shown(turn=number)


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_the_last_times_are_given_in_order(session: Session, count: int) -> None:
    told = [one.context.messages[-1]["content"] for one in session.shown(last=count)]

    assert told == [f"{number}?" for number in range(1, TURNS)][max(TURNS - 1 - count, 0) :]


@pytest.mark.parametrize("count", [-1, True, "1", None])
def test_less_than_none_of_the_last_times_is_refused(session: Session, count: Any) -> None:
    with pytest.raises(InvalidInput):
        session.shown(last=count)


def test_a_late_turn_of_a_long_session_is_found_from_the_end(ledger: Ledger) -> None:
    for first in range(0, 1_000, 200):
        ledger.append(
            [one for number in range(first, first + 200) for one in run_of(f"r{number}", "?")]
        )
    session = ledger.session("s1", scope=HERE, agent="lyria")
    assert session.summary().turns == 1_000
    store = Counted(store_of(ledger))
    session._store = session._lineage.store = cast("Any", store)

    assert session.shown(turn=998) == []

    assert store.read < 1_000
