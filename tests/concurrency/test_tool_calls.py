"""Tool records that several processes follow while others write, and are killed at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE, said
from concurrency.processes import colleagues
from expected_calls import tool_calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from treering import Ledger, NewEvent

ROUNDS = 15
PAIRS = 40


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a ledger is that other processes can open."""
    if request.param == "postgres":
        fresh: Callable[[], str] = request.getfixturevalue("postgres").fresh
        return fresh()
    return str(tmp_path / "ledger.db")


def pairs(number: int) -> list[NewEvent]:
    """Return calls and results of one round; ids come again, each time in another run."""
    events: list[NewEvent] = []
    for at in range(PAIRS):
        refs: dict[str, Any] = {"call_id": f"c{at % 7}", "tool": f"t{at % 3}"}
        run = {"session_id": f"s{number % 2}", "run_id": f"r{number}-{at}"}
        events.append(said("x", kind="tool.call", refs=refs, **run))
        events.append(said("x", kind="tool.result", refs=refs | {"status": "ok"}, **run))
    return events


def ask(pipe: Connection, place: str, _: int) -> None:
    """Ask again and again, until told to stop; say what the last answer was."""
    with treering.open(place, guard="off") as ledger:
        pipe.send("ready")
        while not pipe.poll():
            ledger.tool_statistics(HERE)
        pipe.send(sum(one.calls for one in ledger.tool_statistics(HERE)))


def check(ledger: Ledger) -> None:
    """Check that the table says what the events say."""
    found = sum(one.calls for one in ledger.tool_statistics(HERE))
    assert found == len(tool_calls(ledger.follow(HERE, idle_s=0))) == ROUNDS * PAIRS
    assert ledger.admin.verify().intact


def test_processes_that_follow_at_once_double_and_lose_nothing(place: str) -> None:
    with treering.open(place, guard="off") as ledger:
        with colleagues(3, ask, place) as askers:
            for asker in askers:
                assert asker.hear() == "ready"
            for number in range(ROUNDS):
                ledger.append(pairs(number))
            for asker in askers:
                asker.tell("stop")
            heard = [asker.hear() for asker in askers]

        assert heard == [ROUNDS * PAIRS] * 3
        check(ledger)


def test_a_follower_that_is_killed_leaves_the_table_whole(place: str) -> None:
    with treering.open(place, guard="off") as ledger:
        with colleagues(3, ask, place) as askers:
            for asker in askers:
                assert asker.hear() == "ready"
            for number in range(ROUNDS):
                ledger.append(pairs(number))
                if number % 5 == 4:
                    askers[number // 5].kill()

        check(ledger)
