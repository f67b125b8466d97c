"""Rounds in the background: they continue after an error, and end when they are told to."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import pytest

from effort import PATIENCE_S
from treering.errors import Busy
from treering.surfaces.cli.watch import MemoryThread

if TYPE_CHECKING:
    from collections.abc import Callable


def test_rounds_are_repeated_and_an_error_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    rounds: list[int] = []
    third = Event()

    def work(step: Callable[[int], None]) -> None:
        step(1)
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise Busy("the ledger is in use")
        if len(rounds) == 3:
            third.set()

    with MemoryThread(work, first_s=0, every_s=0):
        assert third.wait(PATIENCE_S)

    assert "not brought up to date: the ledger is in use" in capsys.readouterr().err


def test_the_end_comes_between_two_steps() -> None:
    begun, ended = Event(), Event()
    steps: list[int] = []

    def work(step: Callable[[int], None]) -> None:
        begun.set()
        assert ended.wait(PATIENCE_S)
        step(1)
        steps.append(1)

    thread = MemoryThread(work, first_s=0)
    thread.__enter__()
    assert begun.wait(PATIENCE_S)
    thread._ended.set()  # As at the end, which waits for the thread.
    ended.set()
    thread.__exit__()

    assert steps == []


def test_a_round_that_is_not_due_is_not_done() -> None:
    with MemoryThread(lambda _: pytest.fail("it is not due"), first_s=PATIENCE_S):
        pass
