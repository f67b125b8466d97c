"""How far it is from a run to the store and back: calls and frames inside treering.

A number here may fall. Where it has to rise, say in the commit what the new call does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import treering
from capture.intake_logs import claude_log, write
from children import run_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

HOME = str(Path(treering.__file__).parent) + os.sep


class Corridor:
    """Counts the calls of functions of treering, and how deep they are nested."""

    def __init__(self) -> None:
        self.calls = self.deepest = self._depth = 0

    def walk(self, call: Callable[[], object]) -> Corridor:
        """Count while ``call`` runs."""
        sys.setprofile(self._note)
        try:
            call()
        finally:
            sys.setprofile(None)
        return self

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if not frame.f_code.co_filename.startswith(HOME):
            return
        if event == "call":
            self.calls += 1
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)
        elif event == "return":
            self._depth -= 1


def test_the_way_from_a_run_to_the_store_and_back_is_short(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db") as ledger:
        session = ledger.session("s", scope="x", agent="a")
        for _ in range(3):  # Names and statements are cached from here on.
            with session.turn() as turn:
                turn.user("hi")
                turn.user("hi again")
            list(session.headers())
        with session.turn() as turn:
            turn.user("hi")
            said = Corridor().walk(lambda: turn.user("hi"))
        begun = Corridor().walk(session.turn().start)
        read = Corridor().walk(lambda: list(session.headers()))

    # One frame and ten calls of these are for a file whose folder has just changed.
    assert said.deepest <= 12
    assert said.calls <= 58
    assert begun.calls <= 250
    assert read.deepest <= 13
    assert read.calls <= 244


def test_runs_and_the_memory_load_without_the_ledger() -> None:
    program = (
        "import sys, treering.spine.dispatcher, treering.spine.runs, treering.memory.memory;"
        "print([name for name in sys.modules if name.startswith('treering.ledger')])"
    )

    loaded = run_python(program)

    assert loaded.stdout.strip() == "[]"


def test_opening_a_ledger_loads_only_what_records_and_reads() -> None:
    program = (
        "import sys, treering; treering.open(':memory:').close();"
        "print(*(name for name in sys.modules if name.startswith('treering.')));"
        "print(*sys.modules.keys() & {'asyncio', 'http', 'starlette', 'uvicorn'}, file=sys.stderr)"
    )

    done = run_python(program)

    loaded = set(done.stdout.split())
    assert done.stderr.strip() == ""
    assert "treering.ledger.engine" in loaded
    assert not {name.split(".")[1] for name in loaded} & {
        "adapters",
        "capture",
        "context",
        "embedders",
        "formats",
        "sinks",
        "surfaces",
    }
    assert not loaded & {
        "treering.ledger.erasure",
        "treering.ledger.search",
        "treering.ledger.sessions",
        "treering.memory.scope_memory",
        "treering.model.envelopes",
        "treering.model.receipts",
        "treering.spine.conversion",
        "treering.spine.run_state",
        "treering.storage.sqlite.copies",
        "treering.storage.sqlite.eraser",
        "treering.storage.sqlite.integrity",
        "treering.storage.sqlite.memory",
        "treering.storage.sqlite.search_index",
        "treering.storage.sqlite.tool_records",
    }


def test_importing_a_log_loads_neither_the_handles_of_sessions_nor_contexts(
    tmp_path: Path,
) -> None:
    log = claude_log("hello")
    write(tmp_path / "a.jsonl", log.lines)
    program = (
        "import sys, treering; ledger = treering.open(':memory:');"
        "print(treering.import_logs(ledger, sys.argv[1:]).events);"
        "print(*sys.modules)"
    )

    events, loaded = run_python(program, tmp_path / "a.jsonl").stdout.splitlines()

    assert int(events) > 1
    assert "treering.capture.intake.importer" in loaded.split()
    assert not [name for name in loaded.split() if name.startswith("treering.context")]
    assert not {"treering.ledger.sessions", "zoneinfo"} & set(loaded.split())
    # Slow to load, and of no use while no package names a reader, and no file is large.
    assert not {"importlib.metadata", "subprocess"} & set(loaded.split())


def test_the_way_of_a_small_log_into_the_ledger_is_short(tmp_path: Path) -> None:
    def fill(folder: str, first: int) -> Path:
        for number in range(first, first + 20):
            session = f"5e551011-0000-4000-8000-{number:012}"
            log = claude_log(*("hello", "and now?") * 3, session=session, first=100 * number)
            write(tmp_path / folder / f"{session}.jsonl", log.lines)
        return tmp_path / folder

    with treering.open(tmp_path / "ledger.db") as ledger:
        treering.import_logs(ledger, [fill("before", 1)])  # All is loaded from here on.
        logs = fill("logs", 21)
        walked = Corridor().walk(lambda: treering.import_logs(ledger, [logs]))
        opened = ledger.headers("lighthouse", kinds=["session.imported"]).items

    # Twelve lines and twenty events in each of twenty files.
    assert len(opened) == 40
    assert walked.calls <= 31_700
