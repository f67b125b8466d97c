"""A ledger that an agent asks about, the tools on it, and the real program as a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import treering
from builders import ELSEWHERE, HERE
from treering.model.scopes import parse_scope
from treering.surfaces.mcp.toolbox import LateLedger, Toolbox

if TYPE_CHECKING:
    from treering import Ledger

PROGRAM: Final = str(Path(sys.executable).with_name("treering"))
TOKEN: Final = "ghp_" + "k7Qz3mXw9RtB2vLn8JdY5sHc1FgP6aEu4WiO"
INITIALIZE: Final = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "old", "version": "1"},
}


def record(ledger: Ledger) -> None:
    """Record a session here, and one elsewhere."""
    session = ledger.session("monday", scope=HERE, agent="lyria", user="jo")
    with session.turn() as turn:
        turn.user("How many tests are there in the harbour project?")
        with turn.tool("count_tests", {"folder": "tests"}) as call:
            call.finish(["test_one", "test_two"])
        turn.assistant("There are two tests.")
    with ledger.session("private", scope=ELSEWHERE, agent="lyria").turn() as turn:
        turn.user("tests that nobody here may see")


def toolbox(ledger: Ledger, *, writes: bool = False) -> Toolbox:
    """Return the tools of an agent on an open ledger."""
    late = LateLedger(read=lambda: ledger, write=lambda: ledger)
    return Toolbox(late, parse_scope(HERE), writes=writes)


def ask(tools: Toolbox, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer to a call that succeeds."""
    answer = tools.call(name, arguments)
    assert not answer.is_error, answer.text
    assert len(answer.text) <= 16_000
    fields: dict[str, Any] = json.loads(answer.text)
    assert fields["ok"] is True
    return fields


def refused(tools: Toolbox, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the error of a call that fails."""
    answer = tools.call(name, arguments)
    assert answer.is_error
    error: dict[str, Any] = json.loads(answer.text)["error"]
    assert error["code"]
    assert error["hint"]
    return error


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a server with its ledger in ``folder``."""
    return {**os.environ, "TREERING_DB": str(folder / "ledger.db"), "HOME": str(folder)}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the real server."""
    return subprocess.Popen(
        [PROGRAM, "mcp", "--scope", HERE, *arguments],
        env=environment(folder),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def request(number: int, method: str, **params: Any) -> str:
    """Return a request as a client writes it."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"


def make(folder: Path) -> None:
    """Make the ledger of ``environment``."""
    with treering.open(folder / "ledger.db") as ledger:
        record(ledger)
