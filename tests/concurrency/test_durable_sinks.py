"""Durable sinks of real processes that are killed: nothing is missed, and one serves at a time."""

from __future__ import annotations

import itertools
import os
from multiprocessing.connection import Connection, wait
from random import Random
from typing import TYPE_CHECKING

import pytest

import treering
from concurrency.processes import Colleague, colleagues, ended_well, in_child
from effort import rounds, seeds
from listeners import SCOPE, SOON, Listener, note
from treering.spine.ports import Delivery

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger
    from treering.model.carried import SafeEvent

KILLS = rounds(3)
DURABLE = Delivery(durable=True, on_error="retry")


class Scribe:
    """Writes a line for each event, and tells of it."""

    name = "scribe"
    delivery = DURABLE

    def __init__(self, path: Path, pipe: Connection) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._pipe = pipe

    def accepts(self, event: SafeEvent, /) -> bool:
        return event.kind == "ops.decision"

    def handle(self, event: SafeEvent, /) -> None:
        os.write(self._file, f"{os.getpid()} {event.summary}\n".encode())
        self._pipe.send(event.summary)


def scribble(pipe: Connection, location: str, path: Path, _: int) -> None:
    """Serve a scribe until told to stop."""
    with treering.open(location) as ledger:
        ledger.spine([Scribe(path, pipe)]).follow(SCOPE)
        pipe.send("ready")
        pipe.recv()


def lines(path: Path) -> list[tuple[int, int]]:
    """Return what scribes wrote: who, and the number that was noted."""
    written = path.read_text(encoding="utf-8").splitlines()
    return [(int(who), int(number)) for who, number in (line.split() for line in written)]


def hear_until(colleague: Colleague, word: str) -> None:
    while colleague.hear() != word:
        pass


def check_whole(numbers: list[int], count: int) -> None:
    """Check that all came in order, and that what came again was followed by all that came then."""
    assert list(dict.fromkeys(numbers)) == list(range(count))
    assert all(after <= before + 1 for before, after in itertools.pairwise(numbers))


@pytest.mark.parametrize("seed", seeds(1)[:3])
def test_nothing_is_missed_however_often_the_process_is_killed(
    location: str, tmp_path: Path, seed: int
) -> None:
    """Sinks see events in order, after they are durable, at least once, with a cursor."""
    dice, path, count = Random(seed), tmp_path / "lines", 0
    with treering.open(location) as ledger:
        for _ in range(KILLS):
            count = _note_more(ledger, count, 100)
            with colleagues(1, scribble, location, path) as (scribe,):
                # Killed while it writes a line, tells of one, keeps its cursor or opens the ledger.
                for _ in range(dice.randrange(250)):
                    if scribe.hear() == str(count - 1):
                        break
                scribe.kill()
        count = _note_more(ledger, count, 10)
        with colleagues(1, scribble, location, path) as (scribe,):
            hear_until(scribe, str(count - 1))
            scribe.tell("stop")
            scribe.join()

    check_whole([number for _, number in lines(path)], count)


def _note_more(ledger: Ledger, count: int, more: int) -> int:
    note(ledger, *(str(number) for number in range(count, count + more)))
    return count + more


def test_one_process_serves_and_another_takes_over_when_it_is_killed(
    location: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    with treering.open(location) as ledger, colleagues(2, scribble, location, path) as scribes:
        for scribe in scribes:
            assert scribe.hear() == "ready"
        _note_more(ledger, 0, 50)
        [speaking] = wait([scribe._pipe for scribe in scribes], SOON)
        first, second = sorted(scribes, key=lambda scribe: scribe._pipe is not speaking)
        hear_until(first, "49")
        served = {who for who, _ in lines(path)}

        first.kill()
        _note_more(ledger, 50, 50)
        hear_until(second, "99")

    assert served == {first._process.pid}
    written = lines(path)
    check_whole([number for _, number in written], 100)
    handed_over = next(at for at, (who, _) in enumerate(written) if who not in served)
    assert {who for who, _ in written[handed_over:]} == {second._process.pid}


def test_a_process_that_closes_its_ledger_hands_over_at_the_very_event(
    location: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    with treering.open(location) as ledger:
        for number in range(3):
            with colleagues(1, scribble, location, path) as (scribe,):
                assert scribe.hear() == "ready"
                _note_more(ledger, number * 20, 20)
                hear_until(scribe, str(number * 20 + 19))
                scribe.tell("stop")
                scribe.join()

    assert [number for _, number in lines(path)] == list(range(60))


def test_what_a_forked_child_records_is_served_once_by_its_parent(location: str) -> None:
    sink = Listener(delivery=DURABLE)
    with treering.open(location) as ledger:
        spine = ledger.spine([sink])
        spine.follow(SCOPE)
        note(ledger, "parent")

        assert ended_well(in_child(lambda: note(ledger, "child")))
        sink.await_event("child")
        assert spine.flush(SOON)

    assert sink.summaries == ["session opened by lyria", "parent", "child"]
