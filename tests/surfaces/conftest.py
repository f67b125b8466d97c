from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from effort import PATIENCE_S
from surfaces.command_line import CommandLine
from surfaces.processes import PROGRAM, UNPRIVILEGED
from surfaces.remembered import record_facts

if TYPE_CHECKING:
    from surfaces.processes import Run


@pytest.fixture
def cli(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    return CommandLine(tmp_path / "ledger.db", capsys, monkeypatch)


@pytest.fixture
def told(cli: CommandLine) -> CommandLine:
    """Six events: two sessions, out of order in time, one of them in another scope."""
    for number, (ts_ms, scope, session, kind) in enumerate(
        [
            (3000, "s", "a", "conversation.user"),
            (1000, "s", "a", "tool.call"),
            (1000, "s", "a", "tool.result"),
            (2000, "s", "b", "ops.alert"),
            (1500, "other", "a", "ops.decision"),
            (500, "s", "b", "conversation.assistant"),
        ]
    ):
        cli.append(
            event_id=f"q{number}",
            ts_ms=str(ts_ms),
            scope=scope,
            session_id=session,
            type=kind,
            summary=f"n{number}",
            payload_json=f'{{"i":{number}}}',
            refs_json=f'{{"r":{number}}}',
        )
    return cli


@pytest.fixture
def facts(cli: CommandLine) -> CommandLine:
    """Seven facts: of jo in two states, of the scope, of kim, and some that are not believed."""
    record_facts(cli.database)
    return cli


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Give a process a ledger of its own, and a folder of its own for copies."""
    (tmp_path / "tmp").mkdir()
    return {
        "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path / "tmp"),
        "TREERING_DB": str(tmp_path / "ledger.db"),
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Run the real program to its end."""

    def run_program(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*UNPRIVILEGED, PROGRAM, *arguments],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    return run_program
