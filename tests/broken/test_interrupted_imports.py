"""Imports that are interrupted: the next one completes them, as if nothing had happened."""

from __future__ import annotations

import os
from collections import defaultdict
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from broken.injection import Steps, within
from capture.intake_logs import VOYAGES, claude_log, lines
from effort import rounds
from formats.logs.stores import cursor_database, cursor_rows
from treering.app import import_logs
from treering.capture.intake import ledger_buffer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering import Ledger
    from treering.model.intakes import ImportReceipt

SCOPE: Final = "voyages"
SAMPLES_MAX: Final = 10
"""How many lines of an import the short version interrupts."""
ERRORS: Final = (KeyboardInterrupt, TimeoutError, MemoryError)
WRITTEN_S: Final = 1_790_000_000
FORK: Final = "5e551011-0000-4000-8000-0000000000f0"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of logs of several formats, with a fork, a database and a torn line."""
    folder = tmp_path_factory.mktemp("logs")
    for form in ("claude-code", "codex", "openclaw-mem"):
        name, records = VOYAGES[form]
        _write(folder / form / name, lines(records).replace(b"\n", b"\n{torn\n", 1))
    # No id of theirs is that of another log: it would be another fork.
    log = claude_log("tide", "wind", "rain", session=FORK[:-2] + "e0", first=60).lines
    parted = claude_log("snow", session=FORK, first=90).lines
    parted[0]["parentUuid"] = log[3]["uuid"]
    copied = [{**line, "sessionId": FORK} for line in log[:4]]
    _write(folder / "forks" / f"{FORK[:-2]}e0.jsonl", lines(log))
    _write(folder / "forks" / f"{FORK}.jsonl", lines([*copied, *parted]))
    cursor_database(folder / "cursor" / "state.vscdb", cursor_rows()).close()
    return folder


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (WRITTEN_S, WRITTEN_S))


@pytest.fixture(params=["file", "postgres"])
def locations(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return places for fresh ledgers, on either database."""
    if request.param == "file":
        return (str(tmp_path / f"{number}.db") for number in range(1_000))
    places: Any = request.getfixturevalue("postgres")
    return (places.fresh() for _ in range(1_000))


def take_in(ledger: Ledger, logs: Path) -> ImportReceipt:
    receipt = import_logs(ledger, [logs], scope=SCOPE)
    counted = receipt.imported + receipt.duplicates + sum(receipt.skipped.values()) + receipt.errors
    assert counted == receipt.lines
    return receipt


def told(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    """Return what is told in each session, in order; ids and times of bookkeeping differ."""
    sessions: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for event in ledger.events(SCOPE, first=500).items:
        is_ours = event.kind.startswith("session.")
        what = None if is_ours else (event.ts_ms, event.summary, event.payload)
        sessions[event.session_id].append((event.seq, event.kind, what))
    return {session: sorted(events, key=lambda one: one[0]) for session, events in sessions.items()}


def said(sessions: dict[str, list[tuple[Any, ...]]]) -> list[str]:
    """Return what is told in any session, in some order."""
    return sorted(str(what) for events in sessions.values() for *_, what in events if what)


# Between opening a file and ``with`` an interrupt leaves its closing to the interpreter.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("batch", [3, 1_000])
def test_an_import_that_was_interrupted_is_completed_by_the_next(
    logs: Path, locations: Iterator[str], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_buffer, "BATCH_EVENTS", batch)
    steps = Steps()
    with treering.open(next(locations)) as ledger:
        take_in(ledger, logs)
        expected = told(ledger)
    with treering.open(next(locations)) as ledger, steps.traced():
        take_in(ledger, logs)
    places = range(1 + batch % 7, steps.count, steps.count // rounds(SAMPLES_MAX))
    interruptions = 0
    for error, at in zip(cycle(ERRORS), places, strict=False):
        interrupted = Steps(error, at=at)
        with within(60), treering.open(next(locations)) as ledger:
            is_complete = False
            try:
                with interrupted.traced():
                    take_in(ledger, logs)
                is_complete = True
            except error as raised:
                assert "injected" in str(raised)  # noqa: PT017  (it may do without what failed)
                interruptions += 1
            take_in(ledger, logs)
            found, again = told(ledger), take_in(ledger, logs)
            assert ledger.admin.verify().intact
        assert said(found) == said(expected), interrupted.place
        # Without the file of its parent, a fork is the parent of what that file has.
        assert is_complete or found == expected, interrupted.place
        assert again.events == 0, interrupted.place
    assert interruptions > len(places) // 2
