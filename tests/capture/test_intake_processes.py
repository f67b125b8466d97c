"""Processes that import the same logs at once, and one that is killed in the middle of it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

import treering
from capture.intake_logs import (
    EVERYWHERE,
    VOYAGES,
    check_sums,
    claude_log,
    said_in,
    session_in,
    told_by,
    write,
)
from effort import PATIENCE_S
from formats.logs import codex
from formats.logs.claude_code import OTHER_SESSION, SESSION, Log
from treering.app import import_logs

if TYPE_CHECKING:
    from pathlib import Path


_TAKE: Final = """
import msgspec, sys
import treering
from treering.app import import_logs

with treering.open(sys.argv[1]) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    told = import_logs(ledger, sys.argv[2:], scope="voyages")
print(msgspec.json.encode(told).decode())
"""

_WRITE: Final = """
import sys, time

content = sys.stdin.buffer.read()
with open(sys.argv[1], "ab", buffering=0) as file:
    for at in range(0, len(content), 997):
        file.write(content[at:at + 997])
        time.sleep(0.005)
"""


def start(ledger: Path | str, *paths: Path) -> subprocess.Popen[str]:
    """Start a process that imports logs as soon as it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE, str(ledger), *map(str, paths)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def send(process: subprocess.Popen[str]) -> None:
    """Tell a process to begin that is ready to."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def fill(folder: Path) -> Path:
    """Write a folder with logs of every format, a fork and a session of many lines."""
    for form, (name, records) in VOYAGES.items():
        write(folder / form / name, records)
    log = claude_log(*(f"question {n}" for n in range(120)), session=OTHER_SESSION, first=100)
    write(folder / "many" / f"{OTHER_SESSION}.jsonl", log.lines)
    child = Log("5e551011-0000-4000-8000-000000000003", first=9_000)
    child.lines = [
        {**line, "sessionId": "5e551011-0000-4000-8000-000000000003"} for line in log.lines
    ]
    child.user("and now?", parentUuid=log.lines[-1]["uuid"])
    write(folder / "fork" / "fork.jsonl", child.lines)
    past = [codex.opened("0199aaaa-0000-7000-8000-00000000aaaa"), *codex.turn("one", "about one")]
    own = codex.opened("0199aaaa-0000-7000-8000-00000000bbbb",
                       forked_from_id="0199aaaa-0000-7000-8000-00000000aaaa")  # fmt: skip
    write(folder / "codex-p" / "p.jsonl", past)
    write(folder / "codex-c" / "c.jsonl", [own, *past, *codex.turn("two", "about two")])
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("logs"))


def conversations(ledger: treering.Ledger) -> dict[str, list[str]]:
    found = [one.session_id for one in ledger.sessions(EVERYWHERE, limit=500).items]
    return {one: said_in(session_in(ledger, one)) for one in found}


@pytest.fixture(params=["file", "postgres"])
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where several processes find one ledger."""
    if request.param == "file":
        place = str(tmp_path / "shared.db")
    else:
        place = request.getfixturevalue("postgres").fresh()
    treering.open(place).close()
    return place


def test_processes_that_take_in_the_same_folder_at_once_take_it_in_once(
    tmp_path: Path, folder: Path, shared_place: str
) -> None:
    with treering.open(tmp_path / "alone.db") as alone:
        import_logs(alone, [folder], scope=EVERYWHERE)
        started = [start(shared_place, folder) for _ in range(2)]
        for one in started:
            send(one)
        answers = [one.communicate(timeout=PATIENCE_S)[0] for one in started]

        assert [one.returncode for one in started] == [0, 0]
        for answer in answers:
            told = json.loads(answer)
            skipped = sum(told["skipped"].values())
            assert told["imported"] + told["duplicates"] + skipped == told["lines"]
            assert told["errors"] == 0
        receipts = [json.loads(answer) for answer in answers]
        with treering.open(shared_place) as shared:
            assert sum(one["events"] for one in receipts) == len(told_by(shared))
            assert told_by(shared) == told_by(alone)
            assert conversations(shared) == conversations(alone)
            assert shared.admin.verify().intact


def test_a_process_that_is_killed_leaves_no_more_than_work_to_be_done_again(
    tmp_path: Path, folder: Path
) -> None:
    with treering.open(tmp_path / "alone.db") as alone:
        import_logs(alone, [folder], scope=EVERYWHERE)
        path = tmp_path / "killed.db"
        treering.open(path).close()
        for _ in range(4):
            killed = start(path, folder)
            send(killed)
            time.sleep(random.uniform(0.02, 0.3))  # Any moment will do.
            os.kill(killed.pid, signal.SIGKILL)
            killed.communicate()

        with treering.open(path) as ledger:
            receipt = import_logs(ledger, [folder], scope=EVERYWHERE)

            check_sums(receipt)
            assert told_by(ledger) == told_by(alone)
            assert conversations(ledger) == conversations(alone)
            assert ledger.admin.verify().intact
            assert import_logs(ledger, [folder], scope=EVERYWHERE, again=True).events == 0


def test_a_log_that_is_written_while_it_is_taken_in_is_taken_in_whole(tmp_path: Path) -> None:
    path = tmp_path / "growing.jsonl"
    log = claude_log(*(f"question {n}" for n in range(60)))
    content = b"".join(json.dumps(line).encode() + b"\n" for line in log.lines)
    writer = subprocess.Popen([sys.executable, "-c", _WRITE, str(path)], stdin=subprocess.PIPE)
    assert writer.stdin is not None
    path.touch()
    writer.stdin.write(content)
    writer.stdin.close()

    with treering.open(tmp_path / "l.db") as ledger:
        while writer.poll() is None:
            check_sums(import_logs(ledger, [path], scope=EVERYWHERE, live=True))
        last = import_logs(ledger, [path], scope=EVERYWHERE, live=True)

        check_sums(last)
        assert last.errors == 0
        assert len(said_in(session_in(ledger, SESSION))) == 120
        assert ledger.admin.verify().intact
