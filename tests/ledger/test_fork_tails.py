"""The last of what a fork has behind it, when its parent has continued."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import HERE

if TYPE_CHECKING:
    from treering import Ledger, Session

CALLS = 3


def take_turn(session: Session, name: str) -> None:
    """Record a turn with calls of a model and of tools."""
    with session.turn() as turn:
        turn.user(f"{name}?")
        turn.context(1_000)
        for number in range(CALLS):
            with turn.tool("read", {"at": number}, call_id=f"{name}-{number}") as call:
                call.finish("seen")
        turn.assistant(f"{name}!")


@pytest.fixture
def fork(ledger: Ledger) -> Session:
    """Return a fork of one turn, whose parent has taken several more."""
    parent = ledger.session("parent", scope=HERE, agent="lyria")
    take_turn(parent, "shared")
    child = parent.fork("child")
    for name in ("later", "latest"):
        take_turn(parent, name)
    return child


@pytest.mark.parametrize("last", [1, 2, 3, 9])
def test_its_last_tool_calls_are_those_before_the_fork(fork: Session, last: int) -> None:
    names = [call.call_id for call in fork.tool_calls(last=last)]

    assert names == [f"shared-{number}" for number in range(CALLS)][-last:]


def test_its_own_tool_calls_come_behind_those_it_shares(fork: Session) -> None:
    take_turn(fork, "own")

    names = [call.call_id for call in fork.tool_calls(last=4)]

    assert names == ["shared-2", "own-0", "own-1", "own-2"]


def test_what_its_model_saw_last_was_before_the_fork(fork: Session) -> None:
    [shown] = fork.shown(last=1)

    assert shown.exact
    assert [message["content"] for message in shown.context.messages] == ["shared?"]


def test_no_more_is_told_of_what_its_models_saw_than_there_is(fork: Session) -> None:
    take_turn(fork, "own")

    asked = [shown.context.messages[-1]["content"] for shown in fork.shown(last=9)]

    assert asked == ["shared?", "own?"]
