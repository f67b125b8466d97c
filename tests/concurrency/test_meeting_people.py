"""People who are met by several processes at once, and by one that may only read."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import treering
from builders import HERE
from effort import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

MEETING = """
import sys
import treering

with treering.open(sys.argv[1], mode=sys.argv[2]) as ledger:
    session = ledger.main_session("slack", "@jo", scope=sys.argv[3], agent="lyria")
    if sys.argv[2] == "rw":
        with session.turn(wait_s=120) as turn:
            turn.user("hello")
    print(session.user, "numpy" in sys.modules)
"""


def meet(database: Path, *, mode: str = "rw") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MEETING, str(database), mode, HERE],
        stdout=subprocess.PIPE,
        text=True,
    )


def met(*processes: subprocess.Popen[str]) -> list[str]:
    return [process.communicate(timeout=PATIENCE_S)[0].strip() for process in processes]


def test_processes_that_meet_somebody_at_once_agree_who_it_is(tmp_path: Path) -> None:
    database = tmp_path / "agents.db"
    with treering.open(database) as ledger:
        ledger.main_session("telegram", "@jo", scope=HERE, agent="lyria").open()

    users = met(*(meet(database) for _ in range(4)))

    assert users == ["slack:@jo False"] * 4
    with treering.open(database) as ledger:
        session = ledger.session("main:slack:@jo", scope=HERE, agent="lyria")
        assert {header.user_id for header in session.headers()} == {"slack:@jo"}
        assert ledger.memory(HERE).users.resolve("slack", "@jo") == "slack:@jo"


def test_who_may_only_read_knows_them_too(tmp_path: Path) -> None:
    database = tmp_path / "agents.db"
    with treering.open(database) as ledger:
        ledger.main_session("telegram", "@jo", scope=HERE, agent="lyria").open()

    assert met(meet(database, mode="ro")) == ["slack:@jo False"]

    with treering.open(database) as ledger:
        ledger.memory(HERE).users.link("ann", "slack", "@jo")
    assert met(meet(database, mode="ro"))[0].startswith("ann ")
