"""A copy that is killed at any moment continues where it ended, and doubles nothing."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Final

from broken.ledgers import SCOPE, open_ledger, said
from concurrency.processes import Colleague, check_order, colleagues
from effort import rounds
from ports import store_of

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from treering.ledger.ledger import Ledger

EVENTS: Final = rounds(12_000)
BATCH: Final = 600
SESSIONS: Final = 7
KILLS: Final = rounds(3)


def copy(pipe: Connection, source: Path, target: Path, _: int) -> None:
    """Copy, waiting for a word after each step; at the end, tell what came of it."""

    def step(done: int, total: int) -> None:
        pipe.send(("step", (done, total)))
        pipe.recv()

    with open_ledger(source) as here, open_ledger(target) as there:
        receipt = here.admin.copy_to(there, progress=step)
    pipe.send(("done", (receipt.copied, receipt.present, receipt.complete, receipt.intact)))


def made(path: Path) -> Path:
    """Make a ledger whose sessions are mixed, with something erased in each."""
    dice = Random(7)
    with open_ledger(path) as ledger:
        for start in range(0, EVENTS, BATCH):
            ledger.append(
                [
                    said(f"event {n}", session_id=f"s{dice.randrange(SESSIONS)}", event_id=f"e{n}")
                    for n in range(start, start + BATCH)
                ]
            )
            ledger.redact(SCOPE, event_id=f"e{start}")
    return path


def outcome_of(copier: Colleague) -> tuple[int, int, bool, bool]:
    """Wait for the end of a copy; return what was copied, what was there, and how it stands."""
    while (heard := copier.hear())[0] == "step":
        copier.tell("go on")
    outcome: tuple[int, int, bool, bool] = heard[1]
    return outcome


def events_of(ledger: Ledger) -> int:
    """Return how many events a ledger has, by where its sessions end."""
    return sum(session.head_seq for session in store_of(ledger).sessions.records())


def test_a_copy_that_is_killed_again_and_again_brings_all_once(tmp_path: Path) -> None:
    source, target = made(tmp_path / "source.db"), tmp_path / "target.db"
    dice, there, total = Random(3), 0, EVENTS + EVENTS // BATCH
    for _ in range(KILLS):
        copier = Colleague(copy, source, target, 0)
        for _ in range(dice.randint(1, 3)):
            word, step = copier.hear()
            assert (word, step[1]) == ("step", total - there)
            copier.tell("go on")
        time.sleep(dice.random() * 0.02)
        copier.kill()
        with open_ledger(target) as ledger:
            before, there = there, events_of(ledger)
        assert before < there < total

    with colleagues(1, copy, source, target) as (last,):
        outcome = outcome_of(last)

    assert outcome == (total - there, there, True, True)
    with open_ledger(source) as here, open_ledger(target) as copied:
        assert copied.admin.verify() == here.admin.verify()
        assert check_order(copied) == total


def test_two_copies_at_the_same_time_bring_all_once(tmp_path: Path) -> None:
    source, target = made(tmp_path / "source.db"), tmp_path / "target.db"

    with colleagues(2, copy, source, target) as copiers:
        outcomes = [outcome_of(copier) for copier in copiers]

    assert sum(copied for copied, *_ in outcomes) == EVENTS + EVENTS // BATCH
    assert [outcome[2:] for outcome in outcomes] == [(True, True), (True, True)]
    with open_ledger(source) as here, open_ledger(target) as copied:
        assert copied.admin.verify() == here.admin.verify()
