"""``treering copy``."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import sqlite3
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE, said
from effort import PATIENCE_S
from surfaces.command_line import CommandLine
from surfaces.processes import PROGRAM, start
from treering.surfaces.cli.ledgers import shown

if TYPE_CHECKING:
    from pathlib import Path

    from postgres_server import Places
    from surfaces.processes import Run


@pytest.fixture
def copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """Another ledger, to copy into."""
    return CommandLine(tmp_path / "copy.db", capsys, monkeypatch)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Return a ledger of several pages."""
    path = tmp_path / "long.db"
    with treering.open(path) as ledger:
        ledger.append([said(str(n), session_id=f"s{n % 3}") for n in range(2_000)])
    return path


def names(*ledgers: CommandLine) -> list[str]:
    return [str(ledger.database) for ledger in ledgers]


def test_a_copy_is_made_and_proved(told: CommandLine, copy: CommandLine) -> None:
    outcome = told.bare("copy", *names(told, copy), "--json")

    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.receipt["kind"] == "treering.copy.v1"
    assert outcome.body == {
        "scopes": 2,
        "sessions": 3,
        "copied": 6,
        "present": 0,
        "refused": 0,
        "complete": True,
        "intact": True,
        "refused_sample": [],
    }
    assert copy("verify").out == told("verify").out
    query = ["episodes", "query", "--scope", "s", "--include-payload"]
    assert copy(*query).out == told(*query).out


def test_a_copy_can_be_repeated(told: CommandLine, copy: CommandLine) -> None:
    first = told.bare("copy", *names(told, copy))
    again = told.bare("copy", *names(told, copy))

    assert first.out == f"copied 6 events of 3 sessions to {copy.database}\n"
    assert again.out == (
        f"copied 0 events of 3 sessions to {copy.database} (6 were there already)\n"
    )


@pytest.mark.parametrize("flags", [["--scope", "global"], ["--global"]])
def test_one_scope_is_copied_alone(told: CommandLine, copy: CommandLine, flags: list[str]) -> None:
    told.append(scope="global")

    outcome = told.bare("copy", *names(told, copy), *flags)

    assert outcome.out == f"copied 1 event of 1 session to {copy.database}\n"
    assert copy.ids("episodes", "query", "--scope", "s") == []


def test_copying_nothing_says_so(told: CommandLine, copy: CommandLine) -> None:
    outcome = told.bare("copy", *names(told, copy), "--scope", "t")

    assert (outcome.status, outcome.err) == (0, "note: nothing is recorded in scope t\n")


def test_a_source_that_is_not_there_makes_nothing(copy: CommandLine, tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"

    outcome = copy.bare("copy", str(missing), *names(copy), "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")
    assert outcome.receipt["error"] == f"no ledger at {missing}"
    assert list(tmp_path.glob("*.db*")) == []


def test_a_source_that_is_no_ledger_makes_no_target(copy: CommandLine, tmp_path: Path) -> None:
    source = tmp_path / "notes.txt"
    source.write_text("not a ledger")

    outcome = copy.bare("copy", str(source), *names(copy), "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_a_ledger")
    assert not copy.database.exists()


def test_a_target_in_a_folder_that_is_not_there_is_most_likely_a_typo(
    told: CommandLine, tmp_path: Path
) -> None:
    outcome = told.bare("copy", *names(told), str(tmp_path / "no" / "copy.db"))

    assert outcome.status == 1
    assert outcome.err.startswith(f"error: the folder {tmp_path}/no does not exist\n")


def test_a_ledger_is_not_copied_into_itself_by_any_name(
    told: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linked.db").symlink_to(told.database)
    (tmp_path / "hard.db").hardlink_to(told.database)
    monkeypatch.chdir(tmp_path)

    outcomes = [
        told.bare("copy", *names(told), other)
        for other in (str(told.database), "ledger.db", "./ledger.db", "linked.db", "hard.db")
    ]

    assert {outcome.status for outcome in outcomes} == {2}
    assert {outcome.err.splitlines()[0] for outcome in outcomes} == {
        "error: source and target are the same ledger"
    }


def test_a_copy_names_both_of_its_ledgers(told: CommandLine, copy: CommandLine) -> None:
    outcome = told("copy", *names(told, copy))

    assert (outcome.status, outcome.err.splitlines()[-1]) == (2, "hint: leave --db out")
    assert not copy.database.exists()


def test_a_broken_session_is_named_and_the_rest_is_copied(
    told: CommandLine, copy: CommandLine
) -> None:
    connection = sqlite3.connect(told.database)
    connection.execute("UPDATE events SET summary = 'lie' WHERE position = 2")
    connection.commit()
    connection.close()

    said_so = told.bare("copy", *names(told, copy))
    receipt = told.bare("copy", *names(told, copy), "--json")

    assert said_so.status == 1
    assert said_so.err == (
        "note: scope s, session a, seq 2: seq 2 of session a does not hold what its digest says\n"
        "error: 1 session could not be copied; 4 events copied\n"
        "hint: run treering verify on both ledgers; what was copied is kept\n"
    )
    assert (receipt.status, receipt.err) == (1, "")
    assert (receipt.receipt["ok"], receipt.receipt["code"]) == (False, "incomplete")
    assert (receipt.receipt["refused"], receipt.receipt["present"]) == (1, 4)
    (fault,) = receipt.receipt["refused_sample"]
    assert (fault["scope"], fault["session_id"], fault["seq"]) == ("s", "a", 2)


def test_what_was_redacted_since_is_in_no_byte_of_the_next_copy(
    told: CommandLine, copy: CommandLine
) -> None:
    told.append(event_id="e1", payload_json='"hunter2 hunter2 hunter2"')
    told.bare("copy", *names(told, copy))
    before = copy.database.read_bytes()
    told("episodes", "redact", "--event-id", "e1", "--scope", "s")

    told.bare("copy", *names(told, copy))

    files = copy.database.parent.glob("copy.db*")
    assert b"hunter2" in before
    assert not any(b"hunter2" in file.read_bytes() for file in files)


def test_a_password_is_never_shown(told: CommandLine) -> None:
    urls = ("postgresql://u:hunter2@h/db", "postgresql://v:hunter2@h/db?password=hunter2")

    outcome = told.bare("copy", *urls)

    assert outcome.status == 2
    assert "hunter2" not in outcome.out + outcome.err
    assert [shown(url) for url in urls] == [
        "postgresql://u:***@h/db",
        "postgresql://v:***@h/db?password=***",
    ]


def test_an_encrypted_scope_is_encrypted_in_the_target_first(
    told: CommandLine, copy: CommandLine
) -> None:
    told("keys", "create", "--scope", "s")

    refused = told.bare("copy", *names(told, copy))
    copy("keys", "create", "--scope", "s")
    copied = told.bare("copy", *names(told, copy))

    assert refused.status == 2
    assert refused.err == (
        "error: scope s is encrypted, and its copy would not be\n"
        "hint: encrypt it in the target first: treering keys create --scope s --db TARGET\n"
    )
    assert copied.status == 0


def test_a_person_who_looks_on_sees_how_much_is_done(
    long: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    terminal, stderr = pty.openpty()
    process = start(environment, "copy", str(long), str(tmp_path / "copy.db"), stderr=stderr)
    os.close(stderr)

    drawn = all_drawn(terminal)
    process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0
    assert b"copying" in drawn
    assert b"500/2,000" in drawn
    assert b"2,000/2,000" in drawn
    assert drawn.rindex(b"proving") > drawn.index(b"2,000/2,000")


def all_drawn(terminal: int) -> bytes:
    """Return what was written to a terminal until its last writer left."""
    drawn = b""
    # Linux says that the writers have left with an error.
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 4_096):
            drawn += part
    os.close(terminal)
    return drawn


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_copy_that_is_stopped_says_what_holds_and_goes_on(
    long: Path, environment: dict[str, str], run: Run, tmp_path: Path, number: int, status: int
) -> None:
    # Its terminal holds back what it writes, so it waits in the middle of its work.
    terminal, stderr = pty.openpty()
    termios.tcflow(stderr, termios.TCOOFF)
    target = tmp_path / "copy.db"
    process = start(environment, "copy", str(long), str(target), stderr=stderr)
    wait_for_events(process, target)

    process.send_signal(number)
    termios.tcflow(stderr, termios.TCOON)
    process.communicate(timeout=PATIENCE_S)
    os.close(stderr)
    drawn = all_drawn(terminal)
    again = run("copy", str(long), str(target))

    assert process.returncode == status
    if number != signal.SIGKILL:
        assert b"what was copied is kept; run it again for the rest: nothing is duplicated" in drawn
    assert again.stdout == (
        f"copied 1,500 events of 3 sessions to {target} (500 were there already)\n"
    )
    verified = run("--db", str(target), "verify").stdout
    assert verified.startswith("intact: 2,000 events of 3 sessions\n")


def wait_for_events(process: subprocess.Popen[str], target: Path) -> None:
    """Wait until the first page is in ``target``."""
    end = time.monotonic() + PATIENCE_S
    while not target.exists() or not events_in(target):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


def events_in(path: Path) -> int:
    query = ["episodes", "query", "--scope", HERE, "--limit", "1", "--json"]
    asked = subprocess.run([PROGRAM, "--db", str(path), *query], capture_output=True, check=False)
    # A file that is just being made cannot be asked yet.
    count: int = json.loads(asked.stdout)["count"] if asked.returncode == 0 else 0
    return count


def test_a_source_that_may_only_be_read_is_copied(long: Path, run: Run, tmp_path: Path) -> None:
    long.chmod(0o400)

    outcome = run("copy", str(long), str(tmp_path / "copy.db"))

    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("copied 2,000 events of 3 sessions")


def test_a_copy_goes_to_a_server_and_back(
    told: CommandLine, copy: CommandLine, postgres: Places
) -> None:
    url = postgres.fresh()

    there = told.bare("copy", *names(told), url)
    back = told.bare("copy", url, *names(copy), "--json")

    assert (there.status, there.err) == (0, "")
    assert there.out == f"copied 6 events of 3 sessions to {url}\n"
    assert (back.status, back.receipt["copied"], back.receipt["intact"]) == (0, 6, True)
    assert copy("verify").out == told("verify").out


def test_a_source_that_is_not_on_its_server_makes_nothing(
    copy: CommandLine, postgres: Places
) -> None:
    missing = postgres.fresh() + "_missing"

    outcomes = [copy.bare("copy", missing, *names(copy), "--json") for _ in range(2)]

    assert [outcome.status for outcome in outcomes] == [1, 1]
    assert outcomes[0].receipt == outcomes[1].receipt
    assert not copy.database.exists()
