"""The example in JavaScript runs as it is, if there is a node to run it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import treering
from builders import HERE
from effort import PATIENCE_S

if TYPE_CHECKING:
    from served import ServerProcess

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "record_and_follow.mjs"
NODE: Final = shutil.which("node")


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 65


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_javascript_records_and_follows_with_fetch_alone(
    process: ServerProcess, database: Path
) -> None:
    assert NODE is not None
    assert process.token is not None
    settings = {"TREERING_URL": process.url, "TREERING_TOKEN": process.token}

    done = subprocess.run(
        [NODE, str(EXAMPLE)],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "1 run.started run started",
        "2 conversation.user How many tests are there?",
        "3 conversation.assistant Two.",
        "4 run.ended run ended",
    ]
    with treering.open(database) as ledger:
        assert ledger.runs(HERE).items[0].state == "ended"
        assert ledger.event(HERE, ledger.headers(HERE).items[2].event_id).payload == {
            "text": "Two."
        }
