"""The third chapter, its second half: processes killed in the middle of their work."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import islice
from typing import Final

import treering

from .recording import LEDGER, SCOPE
from .stage import check, line, step, treering_command

ACKNOWLEDGED_MIN: Final = 200

WRITER: Final = """
import sys, treering
ledger = treering.open(sys.argv[1])
for number in range(1_000_000):
    event = treering.NewEvent(scope=sys.argv[2], session_id="load", kind="ops.observation",
                              agent_id="load", summary=f"order {number} placed")
    print(ledger.append([event])[0].event_id, flush=True)
"""

AGENT: Final = """
import sys, time, treering
session = treering.open(sys.argv[1]).session("nightly", scope=sys.argv[2], agent="nox")
with session.turn(entry_point="cron") as turn:
    turn.user("Reindex the shop.")
    with turn.tool("reindex", {"table": "orders"}):
        print("at work", flush=True)
        time.sleep(60)
"""


def show_kills() -> None:
    """Run this half of the chapter."""
    kill_a_writer()
    kill_an_agent()


def kill_a_writer() -> None:
    """Kill a process in the middle of writing, and count."""
    step("Kill", "A writer is killed with SIGKILL. What it was told is recorded, is recorded.")
    with _start(WRITER) as writer:
        assert writer.stdout is not None
        acknowledged = [text.strip() for text in islice(writer.stdout, ACKNOWLEDGED_MIN)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [text.strip() for text in writer.stdout if text.endswith("\n")]
    with treering.open(LEDGER) as ledger:
        kept = {h.event_id for h in ledger.session("load", scope=SCOPE, agent="load").headers()}
        proof = ledger.admin.verify()
    lost = set(acknowledged) - kept
    line(f"acknowledged {len(acknowledged)}, found {len(kept)}, lost {len(lost)}")
    check(len(acknowledged) >= ACKNOWLEDGED_MIN, "it was killed in the middle of its work")
    check(not lost and proof.intact, "nothing acknowledged was lost, and the ledger is intact")


def kill_an_agent() -> None:
    """Kill an agent in the middle of a tool, and open the ledger again."""
    step("Crash", "An agent is killed while its tool runs. The next opening closes what it left.")
    with _start(AGENT) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        with treering.open(LEDGER) as ledger:
            call = next(ledger.session("nightly", scope=SCOPE, agent="nox").tool_calls())
            line(f"while it works: {call.tool} is {call.status}")
            alive = call.status == "open"
        agent.send_signal(signal.SIGKILL)
    with treering.open(LEDGER) as ledger:
        session = ledger.session("nightly", scope=SCOPE, agent="nox")
        call = next(session.tool_calls())
        line(f"after the kill: {call.tool} is {call.status}, reason {call.reason}")
        closed = [header.kind for header in session.headers(last=2)]
    check(alive, "others leave the calls of a living process alone")
    check((call.reason, closed) == ("crashed", ["tool.result", "run.interrupted"]),
          "the call has an outcome with a reason, and the run its one end")  # fmt: skip
    shown = treering_command("trace", "list", "--failing")
    check(shown.returncode == 0, "what did not end well is one command away")


def _start(script: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(LEDGER), SCOPE]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
