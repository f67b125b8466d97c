"""The MCP server as an agent meets it: a process, asked over its pipes."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from report import Row, Section, at_most
from workload import SCOPE

START_S_MAX: Final = 1.2
SEARCH_MS_MAX: Final = 60.0
GREETING: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


def agent_section(path: Path, queries: Sequence[str], *, starts: int) -> Section:
    """Measure the start of the server and searches of a ledger through it."""
    waits = [_start_s(path) for _ in range(starts)]
    with Agent(path) as agent:
        began = time.perf_counter()
        agent.search(queries[0])
        first = (time.perf_counter() - began) * 1e3
        times = []
        for query in queries:
            began = time.perf_counter()
            agent.search(query)
            times.append((time.perf_counter() - began) * 1e3)
    start, p50 = statistics.median(waits), statistics.median(times)
    p99 = sorted(times)[int(len(times) * 0.99)]
    return Section(
        title="An agent that asks (MCP)",
        rows=[
            at_most("start to tools/list", start, START_S_MAX, f"{start:.2f} s", "s"),
            at_most("a search, p50", p50, SEARCH_MS_MAX, f"{p50:.1f} ms", "ms"),
            Row(what="a search, p99", measured=f"{p99:.1f} ms"),
            Row(what="the first search, which opens the ledger", measured=f"{first:.0f} ms"),
        ],
        notes=["The same ledger and queries as above, through a process and its pipes."],
    )


class Agent:
    """A client that speaks the old handshake over pipes."""

    def __init__(self, path: Path) -> None:
        program = [sys.executable, "-m", "treering", "mcp", "--scope", SCOPE]
        self._process = subprocess.Popen(
            program,
            env={**os.environ, "TREERING_DB": str(path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._number = 0
        self.ask("initialize", **GREETING)
        self._send({"method": "notifications/initialized"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def search(self, query: str) -> None:
        """Search the ledger."""
        result = self.ask("tools/call", name="search", arguments={"query": query})
        assert not result["isError"], result

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        result: dict[str, Any] = json.loads(self._process.stdout.readline())["result"]
        return result

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


def _start_s(path: Path) -> float:
    began = time.perf_counter()
    with Agent(path) as agent:
        assert agent.ask("tools/list")["tools"]
        return time.perf_counter() - began
