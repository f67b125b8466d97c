"""The hook: how long an agent waits for it, and how fast the spool is drained."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from report import Row, Section, at_most
from treering.capture.hooks.spool import drain
from treering.capture.secrets import SecretGuard
from workload import Effort

WAIT_MS_MAX: Final = 50
LINES: Final = 20_000
CALL: Final = {
    "session_id": "5b0c5a53-0000-4000-8000-00000000000a",
    "transcript_path": "/logs/5b0c5a53.jsonl",
    "cwd": "/srv/app",
    "hook_event_name": "Stop",
    "permission_mode": "default",
    "last_assistant_message": "Done: all tests pass. " * 40,
}


def run(effort: Effort, folder: Path) -> Section:
    """Measure the hook as a process, then the drain of what many have written."""
    spool = folder / "spool"
    waits = _waits_ms(effort.repeats * 5, spool)
    bare = _bare_ms(effort.repeats * 5)
    median = statistics.median(waits)
    slow = sorted(waits)[int(len(waits) * 0.95)]
    body = json.dumps({**CALL, "tool_response": "x" * 100_000_000}).encode()
    huge = statistics.median(_wait_ms(spool, body) for _ in range(effort.repeats))
    return Section(
        title="The hook in other agents",
        rows=[
            at_most(
                "one call, from start to exit",
                median,
                WAIT_MS_MAX,
                f"{median:.1f} ms (95 %: {slow:.1f} ms)",
                unit="ms",
            ),
            Row(what="an empty Python, the same", measured=f"{statistics.median(bare):.1f} ms"),
            Row(what="a call with 100 MB of input", measured=f"{huge:.0f} ms"),
            Row(what="draining, lines a second", measured=f"{_drained(spool):,.0f}"),
        ],
        notes=["A process for each call, as agents start it, with its input through a pipe."],
    )


def _waits_ms(rounds: int, spool: Path) -> list[float]:
    body = json.dumps(CALL).encode()
    return [_wait_ms(spool, body) for _ in range(rounds)]


def _wait_ms(spool: Path, body: bytes) -> float:
    environment = {"PATH": os.environ["PATH"], "TREERING_SPOOL": str(spool)}
    program = [sys.executable, "-c", "from treering.hook import main; main()", "claude-code"]
    began = time.perf_counter()
    done = subprocess.run(program, env=environment, input=body, stdout=subprocess.PIPE, check=True)
    took = (time.perf_counter() - began) * 1e3
    assert done.stdout == b"{}\n"
    return took


def _bare_ms(rounds: int) -> list[float]:
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        took.append((time.perf_counter() - began) * 1e3)
    return took


def _drained(spool: Path) -> float:
    """Return how many lines of a spool are drained in a second."""
    line = next(text for text in _file(spool).read_text().splitlines() if text)
    _file(spool).write_text(f"{line}\n" * LINES)
    began = time.perf_counter()
    receipt = drain(spool, take=list, note=lambda _: None, guard=SecretGuard(key=b"k" * 32))
    took = time.perf_counter() - began
    assert receipt.lines == LINES
    return LINES / took


def _file(spool: Path) -> Path:
    return next(spool.glob("*.jsonl"))
