"""How the real program ends when it is stopped, or when its output goes nowhere."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Final

import pytest

from children import run_python
from effort import PATIENCE_S
from surfaces.processes import QUOTED, in_shell, recorded, start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from surfaces.command_line import CommandLine
    from surfaces.processes import Run

STUCK: Final = """
import sys, threading, time
from treering.surfaces.cli.output import Stopped, heed_signals

lock = threading.Lock()
heed_signals()
try:
    with lock:
        print("ready", flush=True)
        try:
            time.sleep(60)
        finally:
            lock.acquire()
except Stopped as stopped:
    sys.exit(stopped.status)
"""
# More than a pipe holds: who writes it waits for a reader.
LARGE: Final = json.dumps("private " * 50_000)


def until(holds: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait until something holds that ``process`` is about to bring about."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


def importing(environment: dict[str, str], exported: str, copy: Path) -> subprocess.Popen[str]:
    """Start an import that waits for the rest of its input; its ledger is there already."""
    environment["TREERING_DB"] = str(copy)
    process = start(environment, "episodes", "import", "-", "--scope", "s")
    assert process.stdin is not None
    process.stdin.write(exported)
    process.stdin.flush()
    until(copy.exists, process)
    return process


def test_an_interrupted_import_says_what_holds_and_can_be_repeated(
    cli: CommandLine, run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    cli(*recorded())
    exported = run("episodes", "export", "--scope", "s", "--include-payload").stdout
    process = importing(environment, exported, tmp_path / "copy.db")

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out) == (130, "")
    assert err == (
        "error: interrupted\n"
        "hint: what was imported is kept; run it again for the rest: nothing is duplicated\n"
    )
    assert run("episodes", "import", "-", "--scope", "s", stdin=exported).returncode == 0
    assert run("verify").returncode == 0


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["term", "hup"]
)
def test_a_stopped_export_leaves_no_part_of_itself(
    cli: CommandLine, environment: dict[str, str], tmp_path: Path, number: int, status: int
) -> None:
    cli(*recorded("a", "--payload-json", '"private"'))
    # Its terminal holds back what it writes, so it waits in the middle of its work.
    terminal, stderr = pty.openpty()
    termios.tcflow(stderr, termios.TCOOFF)
    out = tmp_path / "out" / "s.jsonl"
    out.parent.mkdir()
    process = start(
        environment, "episodes", "export", "--scope", "s", "--include-payload", "--out", str(out),
        stderr=stderr,
    )  # fmt: skip
    until(lambda: any(out.parent.iterdir()), process)

    process.send_signal(number)
    termios.tcflow(stderr, termios.TCOON)
    process.communicate(timeout=PATIENCE_S)

    os.close(stderr)
    os.close(terminal)
    assert process.returncode == status
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["term", "hup"]
)
def test_a_stopped_reader_leaves_no_private_copy(
    cli: CommandLine, environment: dict[str, str], tmp_path: Path, number: int, status: int
) -> None:
    cli(*recorded("a", "--payload-file", "-", "--spill"), stdin=LARGE)
    (tmp_path / "ledger.db").chmod(0o400)
    # Nobody reads on after its first words, so it waits with its copy open.
    process = start(environment, "episodes", "export", "--scope", "s", "--include-payload")
    assert process.stdout is not None
    assert process.stdout.read(1) == "{"
    assert list((tmp_path / "tmp").iterdir()) == []  # What it reads from has no name.

    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == status
    assert err == (
        f"error: stopped by {signal.Signals(number).name}\n"
        "hint: a file appears when it is complete; run it again\n"
    )
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_lock_that_is_never_let_go_does_not_keep_a_stopped_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()

    process.terminate()
    process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 143


def test_a_hangup_that_is_ignored_stays_ignored(
    cli: CommandLine, run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    cli(*recorded())
    exported = run("episodes", "export", "--scope", "s", "--include-payload").stdout
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # What nohup does; a child inherits it.
    process = importing(environment, exported, tmp_path / "copy.db")
    signal.signal(signal.SIGHUP, before)

    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out) == (0, "imported 1 event of 1 session\n")


def test_a_reader_that_leaves_early_is_no_commotion(
    cli: CommandLine, environment: dict[str, str]
) -> None:
    cli(*recorded("a", "--payload-file", "-", "--spill"), stdin=LARGE)
    query = f"{QUOTED} episodes query --scope s --include-payload --json"

    finished = in_shell(environment, f"{query} | head -c 1; echo ${{PIPESTATUS[0]}}")

    assert (finished.stdout, finished.stderr) == ("{141\n", "")


@pytest.mark.parametrize(
    ("nowhere", "reason"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")]
)
@pytest.mark.parametrize(
    "command",
    ["episodes query --scope s", "episodes export --scope s", "verify", "--help", "--version"],
)
def test_output_that_goes_nowhere_is_an_error(
    cli: CommandLine, environment: dict[str, str], command: str, nowhere: str, reason: str
) -> None:
    cli(*recorded())

    finished = in_shell(environment, f"{QUOTED} {command} {nowhere}")

    assert finished.returncode == 1
    assert finished.stderr == (
        f"error: standard output cannot be written: {reason}\nhint: check where the output goes\n"
    )


@pytest.mark.parametrize("nowhere", [">/dev/full", ">&-"])
def test_json_that_goes_nowhere_is_an_error_on_standard_error(
    cli: CommandLine, environment: dict[str, str], nowhere: str
) -> None:
    cli(*recorded())

    finished = in_shell(environment, f"{QUOTED} episodes query --scope s --json {nowhere}")

    assert finished.returncode == 1
    assert json.loads(finished.stderr)["error"].startswith("standard output cannot be written: ")


@pytest.mark.parametrize("json_flag", ["", "--json"])
@pytest.mark.parametrize("nowhere", [">/dev/full", ">&-"])
def test_what_was_recorded_is_told_when_its_receipt_goes_nowhere(
    run: Run, environment: dict[str, str], nowhere: str, json_flag: str
) -> None:
    finished = in_shell(environment, f"{QUOTED} {' '.join(recorded())} {json_flag} {nowhere}")

    assert finished.returncode == 1
    assert "the event was recorded; only its receipt could not be written" in finished.stderr
    assert json.loads(run("episodes", "query", "--scope", "s", "--json").stdout)["count"] == 1


@pytest.mark.parametrize("nowhere", [">&- 2>&-", ">/dev/full 2>/dev/full", "<&- >&- 2>&-"])
def test_when_nothing_can_be_said_the_status_still_tells(
    environment: dict[str, str], nowhere: str
) -> None:
    statuses = [
        in_shell(environment, f"{QUOTED} {command} {nowhere}").returncode
        for command in (" ".join(recorded()), "episodes query", "episodes import - --scope s")
    ]

    assert statuses == [1, 2, 2]


def test_a_remark_that_goes_nowhere_costs_nothing(
    cli: CommandLine, environment: dict[str, str]
) -> None:
    cli(*recorded())

    for nowhere in ("2>/dev/full", "2>&-"):
        finished = in_shell(environment, f"{QUOTED} episodes export --scope s {nowhere}")

        assert (finished.returncode, finished.stdout.count("\n")) == (0, 4)


def test_no_alarm_is_set_any_more_when_the_interpreter_ends() -> None:
    program = (
        "import atexit, os, signal;"
        "atexit.register(lambda: print(signal.getitimer(signal.ITIMER_REAL)));"
        "from treering.surfaces.cli.output import heed_signals;"
        "heed_signals();"
        "os.kill(os.getpid(), signal.SIGTERM)"
    )

    ended = run_python(program, status=None)

    assert "stopped by SIGTERM" in ended.stderr
    assert ended.stdout == "(0.0, 0.0)\n"
