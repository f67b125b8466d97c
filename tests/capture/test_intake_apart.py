"""Large logs, read by a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import treering
from effort import PATIENCE_S
from formats.logs.claude_code import SESSION, Log, call
from treering.capture.intake import reading

if TYPE_CHECKING:
    from pathlib import Path

SCOPE = "acme/app"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a log that counts as large, with damage in its midst, for a machine with two cores."""
    monkeypatch.setattr(reading, "APART_BYTES_MIN", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    told = Log()
    for number in range(40):
        told.user(f"mend lamp {number}")
        told.answer(call(f"toolu_{number}", command=f"mend {number}"), id=f"msg_{number}")
        told.result(f"toolu_{number}", f"lamp {number} is mended")
    path = tmp_path / f"{SESSION}.jsonl"
    lines = told.content().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:50], b'{"torn": \n', *lines[50:]]))
    return path


def contents(path: Path) -> list[tuple[object, ...]]:
    with treering.open(path) as ledger:
        session = ledger.session(SESSION, scope=SCOPE, agent="x")
        return [
            (one.event_id, one.seq, one.kind, one.summary, one.payload, one.ts_ms)
            for one in session.events()
            if one.kind != "session.opened"
        ]


def test_it_comes_to_the_same_whoever_reads(log: Path, tmp_path: Path) -> None:
    receipts = []
    for parallel in (False, True):
        with treering.open(tmp_path / f"{parallel}.db") as ledger:
            receipts.append(treering.import_logs(ledger, [log], scope=SCOPE, parallel=parallel))

    assert receipts[0] == receipts[1]
    assert (receipts[1].errors, receipts[1].imported) == (1, 120)
    assert contents(tmp_path / "False.db") == contents(tmp_path / "True.db")


def test_a_log_that_grows_is_read_on_by_another_process(log: Path, tmp_path: Path) -> None:
    whole = log.read_bytes()
    cut = whole.index(b"\n", len(whole) // 2) + 1
    log.write_bytes(whole[:cut])
    with treering.open(tmp_path / "ledger.db") as ledger:
        treering.import_logs(ledger, [log], scope=SCOPE, parallel=True)
        log.write_bytes(whole)
        receipt = treering.import_logs(ledger, [log], scope=SCOPE, parallel=True)

    assert [source.state for source in receipt.sources] == ["grown"]
    assert receipt.bytes == len(whole) - cut
    assert receipt.duplicates == 0


def test_a_reader_that_is_killed_costs_nothing_that_was_told(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **settings: Any) -> None:
            super().__init__(command, **settings)
            os.kill(self.pid, signal.SIGKILL)
            self.wait(PATIENCE_S)  # So that it never gets its job.

    with treering.open(tmp_path / "ledger.db") as ledger:
        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", Killed)
            receipt = treering.import_logs(ledger, [log], scope=SCOPE, parallel=True)
        (source,) = receipt.sources
        again = treering.import_logs(ledger, [log], scope=SCOPE, parallel=True)

    assert source.state == "refused"
    assert "process" in (source.reason or "") or "pipe" in (source.reason or "").lower()
    assert again.imported == 120
