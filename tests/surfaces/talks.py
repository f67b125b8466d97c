"""Sessions to look at: what happens in one, and a neighbour that nobody may see."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import treering
from builders import ELSEWHERE, HERE, exchange

TOKEN: Final = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LAUNCH: Final = "PURPLE-TOAD"
"""What is redacted later."""
NEIGHBOUR: Final = "NEIGHBOURLY"
"""Said in another scope, in a session of the same name."""
IN: Final = ("--scope", HERE)


def record_talk(database: Path) -> None:
    """Make a ledger with a session that has all there is to show, and one of another scope."""
    database.write_bytes(_ledger())


@cache
def _ledger() -> bytes:
    """Return the file of the ledger: it is recorded once, for it takes a while."""
    with TemporaryDirectory() as folder:
        _record(Path(folder) / "talk.db")
        return (Path(folder) / "talk.db").read_bytes()


def _record(database: Path) -> None:
    with treering.open(database, guard="off") as ledger:
        session = ledger.session("deploy-17", scope=HERE, agent="lyria", title="Deploy 2.0")
        with session.turn(model="gpt-5") as turn:
            turn.user("Is staging **healthy**?\n\n- logs\n- disk")
            with turn.tool("bash", {"command": "df -h"}, call_id="c1") as call:
                call.finish("\x1b[31m80G\x1b[0m <script>alert(1)</script>")
            with turn.tool("read_file", {"path": "/etc/motd"}, call_id="c2") as call:
                call.fail("no such file")
            turn.assistant("# Yes\n\nSee ![pixel](https://pixel.example/x.png) <b>raw</b>")
            turn.emit(
                "usage.reported",
                {"model": "gpt-5", "provider": "openai", "input_tokens": 60, "output_tokens": 9},
            )
        session.checkpoint("tests are green")
        with session.turn() as turn:
            turn.user(f"Deploy with {TOKEN}")
            turn.tools.started(
                "deploy", {"password": "hunter2-hunter2", "host": "web-01"}, call_id="c3"
            )
            turn.assistant("It went out.")
        _fail(session)
        with session.turn() as turn:
            secret = turn.user(f"The launch word is {LAUNCH}")
            turn.assistant("I will forget it.")
        ledger.redact(HERE, event_id=secret.event_id)
        exchange(session, "Take this back", "Gladly.")
        session.undo()
        session.record("ops.alert", "disk nearly full", refs={"code": "disk"})
        session.record("ops.observation", "a file", refs={"observed": "snapshot"}, payload={})
        session.record(
            "ops.observation",
            "thinking",
            refs={"observed": "thinking"},
            payload={"thinking": "Let me see."},
        )
        session.record(
            "context.compacted",
            "older messages told in a summary",
            refs={"from_tokens": 24_000, "to_tokens": 3_000, "messages": 40},
            payload={"summary": "It was about disks."},
        )
        fork = session.fork("deploy-18")
        exchange(fork, "In the fork", "Yes.")
        _spawn(ledger)
        neighbour = ledger.session("deploy-17", scope=ELSEWHERE, agent=NEIGHBOUR)
        with neighbour.turn(model=NEIGHBOUR) as turn:
            turn.user(NEIGHBOUR)
            with turn.tool(NEIGHBOUR, {"command": NEIGHBOUR}, call_id="c1") as call:
                call.finish(NEIGHBOUR)
            turn.assistant(NEIGHBOUR)
        neighbour.record("ops.alert", NEIGHBOUR, refs={"code": NEIGHBOUR})


class Boom(Exception):
    """What goes wrong."""


def _fail(session: treering.Session) -> None:
    with contextlib.suppress(Boom), session.turn() as turn:
        turn.user("Now break")
        turn.tools.started("explode", {"host": "web-01"}, call_id="c4")
        raise Boom


def _spawn(ledger: treering.Ledger) -> None:
    child = ledger.session(
        "child-1", scope=HERE, agent="lyria:scout", spawned_by="deploy-17", spawned_call="c1"
    )
    child.record("conversation.assistant", "found it", payload={"text": "found it"})
