"""``treering import``: what is found, planned and imported, and how it is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import treering
from capture.intake_logs import VOYAGES, add, claude_log, said_in, session_in, write
from effort import PATIENCE_S
from formats.logs import codex
from formats.logs.claude_code import SESSION
from formats.logs.terminals import GROK_SESSION, GROK_SUMMARY, RECORDS, content, document
from surfaces.processes import PROGRAM
from treering.model.intakes import ImportReceipt
from treering.surfaces.cli.imports import report

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine
    from surfaces.processes import Run

DAY_S = 86_400


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home in which nobody has worked yet."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCLAW_STATE_DIR",
                 "PI_CODING_AGENT_DIR"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    return folder


def fill(home: Path, *, days: float = 1) -> Path:
    """Let Claude Code and Codex have worked there, so many days ago."""
    claude = home / ".claude" / "projects" / "-srv-lighthouse" / f"{SESSION}.jsonl"
    write(claude, claude_log("Mend the lamp.").lines)
    write(home / ".codex" / "sessions" / "2026" / codex.PATH, VOYAGES["codex"][1])
    then = time.time() - days * DAY_S
    os.utime(claude, (then, then))
    return claude


def test_without_a_path_all_agents_are_looked_through(cli: CommandLine, home: Path) -> None:
    fill(home)

    done = cli("import")

    assert (done.status, done.err) == (0, "")
    table, told = done.out.split("imported ", 1)
    assert [line.split()[:2] for line in table.splitlines()] == [
        ["agent", "logs"],
        ["claude-code", "1"],
        ["codex", "1"],
    ]
    assert "30 days" in table
    assert "ever" in table
    assert str(home / ".claude" / "projects") in table
    assert "2 sessions, 2 of them new" in told
    assert "lines: 18 = 15 imported + 0 known already + 3 skipped + 0 in error" in told
    assert "scope lighthouse: 3 events" in told
    assert "list them: treering sessions list --scope harbour" in told
    assert "search them: treering search WORDS --scope harbour" in told


def test_the_commands_that_it_names_work(cli: CommandLine, home: Path) -> None:
    fill(home)
    out = cli("import").out

    listing = next(line for line in out.splitlines() if line.startswith("list them"))
    finding = next(line for line in out.splitlines() if line.startswith("search them"))

    assert codex.SESSION in cli(*listing.split("treering ")[1].split(), "--json").out
    words = finding.split("treering ")[1].replace("WORDS", "calm").split()
    assert codex.SESSION in cli(*words, "--json").out


def test_logs_that_are_deleted_soon_are_warned_of_with_the_way_out(
    cli: CommandLine, home: Path
) -> None:
    fill(home, days=26)

    done = cli("import", "--dry-run")

    assert "claude-code keeps its logs for 30 days" in done.err
    assert "deletes the oldest in 3 days" in done.err or "in 4 days" in done.err
    assert f'set "cleanupPeriodDays": 36500 in {home / ".claude" / "settings.json"}' in done.err


@pytest.mark.parametrize(
    ("days", "settings", "warned"),
    [(29.9, {}, "at any moment"), (300, {}, "at any moment"), (20, {}, None),
     (300, {"cleanupPeriodDays": 36_500}, None)],
)  # fmt: skip
def test_a_warning_is_given_when_there_is_something_to_fear(
    cli: CommandLine, home: Path, days: float, settings: dict[str, Any], warned: str | None
) -> None:
    fill(home, days=days)
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))

    err = cli("import", "--dry-run").err

    assert (warned in err) if warned else (err == "")


def test_without_any_agent_it_says_what_to_do(cli: CommandLine, home: Path) -> None:
    assert home.is_dir()
    done = cli("import")

    assert done.status == 0
    assert done.out.startswith("no logs of agents were found; name a file or a folder: ")
    for folder in (".claude/projects", ".codex/sessions", ".openclaw/agents", ".gemini/tmp"):
        assert str(home / folder) in done.out


def test_a_folder_without_logs_is_named(cli: CommandLine, home: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    done = cli("import", str(empty))

    assert (done.status, done.out) == (0, f"found nothing to import in {empty}\n")


def test_a_dry_run_foretells_and_makes_no_ledger(cli: CommandLine, home: Path) -> None:
    fill(home)

    done = cli("import", "--dry-run")

    assert done.status == 0
    assert "would import" in done.out
    assert "look at them" not in done.out
    assert not cli.database.exists()
    assert list(cli.database.parent.glob("ledger*")) == []


def test_a_dry_run_on_a_ledger_changes_nothing_in_it(cli: CommandLine, home: Path) -> None:
    claude = fill(home)
    cli("import")
    before = cli("verify", "--json").body
    add(claude, json.dumps(claude_log("two", first=40).lines[0]).encode() + b"\n")

    foretold = cli("import", "--dry-run", "--json").receipt

    assert (foretold["dry_run"], foretold["events"], foretold["imported"]) == (True, 1, 1)
    assert cli("verify", "--json").body == before
    assert cli("import", "--json").receipt["imported"] == 1


def test_a_receipt_holds_every_number(cli: CommandLine, home: Path) -> None:
    fill(home)

    done = cli("import", "--json")

    receipt = done.receipt
    assert (done.status, done.err, receipt["ok"]) == (0, "", True)
    assert receipt["kind"] == "treering.import.v1"
    skipped = sum(receipt["skipped"].values())
    assert (
        receipt["imported"] + receipt["duplicates"] + skipped + receipt["errors"]
        == receipt["lines"]
        == 18
    )
    assert receipt["by_format"] == {"claude-code": 1, "codex": 1}
    assert set(receipt["by_scope"]) == {"harbour", "lighthouse"}
    assert {one["state"] for one in receipt["sources"]} == {"read"}


def test_a_second_time_nothing_is_read(cli: CommandLine, home: Path) -> None:
    fill(home)
    cli("import")

    done = cli("import")
    again = cli("import", "--again")

    assert "imported 0 events of 0 sessions\n" in done.out
    assert "unchanged files, not read again: 2" in done.out
    assert "0 imported + 15 known already + 3 skipped" in again.out


def test_a_path_and_a_scope_are_taken_as_named(cli: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("one").lines)

    done = cli("import", str(path), "--scope", "Acme/App")

    assert (done.status, "scope acme/app: 3 events" in done.out) == (0, True)
    assert cli("import", str(path), "--global", "--json").receipt["by_scope"] == {"global": 3}
    with treering.open(cli.database) as ledger:
        assert said_in(session_in(ledger, SESSION, "acme/app")) == ["one", "about one"]


def test_only_what_was_written_since_is_read(cli: CommandLine, home: Path) -> None:
    fill(home, days=20)

    receipt = cli("import", "--since", "7d", "--json").receipt

    assert receipt["by_format"] == {"codex": 1}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["nowhere.jsonl"], 2, "nowhere.jsonl does not exist"),
        (["--since", "yesteryear"], 2, "--since"),
        (["--scope", "../"], 2, "scope"),
        (["--scope", "a", "--global"], 2, "--global"),
        (["--no-such-option"], 2, "--no-such-option"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    cli: CommandLine, home: Path, arguments: list[str], status: int, message: str
) -> None:
    assert home.is_dir()
    done = cli("import", *arguments)

    assert (done.status, done.out) == (status, "")
    assert message in done.err


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_that_is_not_a_log_is_an_error_if_it_was_named(
    cli: CommandLine, tmp_path: Path, count: int
) -> None:
    files = [write(tmp_path / f"{number}.txt", [{"milk": 2}]) for number in range(count)]

    done = cli("import", *map(str, files))
    receipt = cli("import", *map(str, files), "--json").receipt

    assert (done.status, done.out) == (1, "")
    assert "error: nothing was imported: " in done.err
    assert "hint: name a log of an agent that Treering reads" in done.err
    assert f"{files[0]} was left out: not a log Treering can read; its first line" in done.err
    assert (receipt["ok"], receipt["code"], receipt["files_refused"]) == (False, "not_a_log", count)


def test_a_file_that_is_not_a_log_beside_one_that_is_stays_a_note(
    cli: CommandLine, tmp_path: Path
) -> None:
    log = write(tmp_path / "a.jsonl", claude_log("one").lines)
    other = write(tmp_path / "b.txt", [{"milk": 2}])

    done = cli("import", str(log), str(other), "--scope", "acme/app")

    assert done.status == 0
    assert f"{other} was left out" in done.err


def test_faults_and_files_left_out_are_told_beside_the_output(
    cli: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    path = write(folder / "a.jsonl", claude_log("one").lines)
    size = path.stat().st_size
    add(path, b"no json\n" * 12)
    write(folder / "b.json", [{"milk": 2}])

    done = cli("import", str(folder), "--scope", "acme/app")

    assert done.status == 0
    assert f"{path}, line 3, byte {size}: not JSON, and 11 more such lines\n" in done.err
    assert (
        f"{folder / 'b.json'} was left out: not a log Treering can read; its first line" in done.err
    )
    assert "not JSON" not in done.out
    assert "12 in error" in done.out


def test_every_fault_is_listed_on_request(cli: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("one").lines)
    add(path, b"no json\n" * 12)

    done = cli("import", str(path), "--scope", "acme/app", "-v")

    assert done.err.count(": not JSON\n") == 12


def test_few_reasons_are_listed_and_all_on_request() -> None:
    skipped = {f"reason {number}": number for number in range(1, 6)}
    receipt = ImportReceipt(
        dry_run=False, files=1, files_unchanged=0, files_refused=0, bytes=0, lines=15, imported=0,
        duplicates=0, skipped=skipped, errors=0, mended={}, events=0, sessions=0, sessions_new=0,
        subagents=0, by_scope={}, by_format={}, faults=[], sources=[],
    )  # fmt: skip

    few, everything = (
        [line for line in report(receipt, [], verbose=verbose) if line.startswith("  skipped")]
        for verbose in (False, True)
    )

    assert few[0] == "  skipped 5: reason 5"
    assert few[3:] == ["  skipped 3 for 2 other reasons: -v lists them"]
    assert len(everything) == 5


def test_files_that_only_repeat_others_are_told_in_one_line(
    cli: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    write(folder / "a.jsonl", claude_log("one").lines)
    for name in ("a.jsonl.bak", "a.jsonl.bak-2", "sessions.json"):
        write(folder / name, claude_log("one").lines)

    done = cli("import", str(folder), "--scope", "acme/app")

    assert done.err == ""
    assert (
        "files left out, because they repeat others: a backup copy (2), an index of sessions (1)\n"
    ) in done.out


def test_what_was_taken_in_can_be_searched_at_once(cli: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("Where is the whale?").lines)
    cli("import", str(path), "--scope", "acme/app")

    with treering.open(cli.database) as ledger:
        assert ledger.admin.search_lag("acme/app") == 0
    assert SESSION in cli("search", "whale", "--scope", "acme/app", "--json").out


def test_the_index_can_be_left_for_later(cli: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("Where is the whale?").lines)
    cli("import", str(path), "--scope", "acme/app", "--no-index")

    with treering.open(cli.database) as ledger:
        assert ledger.admin.search_lag("acme/app") > 0
    assert SESSION in cli("search", "whale", "--scope", "acme/app", "--json").out


# The real program.


def test_an_interrupted_import_says_what_holds_and_can_be_run_again(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    write(folder / "first.jsonl", claude_log("one", "two").lines)
    endless = write(folder / "second.jsonl", claude_log("three", first=50).lines)
    size = endless.stat().st_size
    os.truncate(endless, 50_000_000_000)  # Nobody wrote that, and it takes a while to read.
    process = subprocess.Popen(
        [PROGRAM, "import", str(folder), "--scope", "acme/app"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    ledger = Path(environment["TREERING_DB"])
    end = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < end and not sessions_in(ledger):
        time.sleep(0.05)
    assert sessions_in(ledger) == 1  # The short log does not wait for the long one.
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out) == (130, "")
    assert err == (
        "error: interrupted\n"
        "hint: what was imported is kept; run it again for the rest: nothing is duplicated\n"
    )
    os.truncate(endless, size)
    assert run("import", str(folder), "--scope", "acme/app").returncode == 0
    with treering.open(ledger) as opened:
        said = said_in(session_in(opened, SESSION, "acme/app"))
        assert said == ["one", "about one", "two", "about two", "three", "about three"]
        assert opened.admin.verify().intact


def sessions_in(ledger: Path) -> int:
    """Return how many sessions are there already."""
    if not ledger.exists():
        return 0
    try:
        with treering.open(ledger) as opened:
            return len(opened.sessions("acme/app").items)
    except treering.TreeringError:
        return 0  # It is being made.


def test_the_program_reads_a_home_of_its_own(run: Run, environment: dict[str, str]) -> None:
    home = Path(environment["HOME"])
    write(home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl", claude_log("one").lines)

    done = run("import", "--json")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["imported"] == 2


def test_the_agents_of_another_home_are_looked_through(
    cli: CommandLine, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "mnt" / "c" / "Users" / "jo"
    fill(other)

    nothing = cli("import", "--json").receipt
    found = cli("import", "--home", str(other), "--json").receipt
    both = cli("import", "--home", str(other), str(home))

    assert (nothing["files"], found["by_format"]) == (0, {"claude-code": 1, "codex": 1})
    assert (both.status, "--home and PATH exclude each other" in both.err) == (2, True)


def test_a_time_that_a_log_does_not_tell_is_shown_as_approximate(
    cli: CommandLine, tmp_path: Path
) -> None:
    log = tmp_path / "chat_history.jsonl"
    log.write_bytes(content(RECORDS["grok"]))
    (tmp_path / "summary.json").write_bytes(document(GROK_SUMMARY))
    cli("import", str(log), "--scope", "acme/app")

    listed = cli("episodes", "query", "--types", "conversation.user", "--scope", "acme/app")
    tail = cli("tail", "--scope", "acme/app")
    page = cli("export", GROK_SESSION, "--format", "html", "--scope", "acme/app")

    assert all(line.startswith("~2026-10-01 ") for line in listed.out.splitlines()[:2])
    assert "\n~2026-10-01 " in tail.out
    assert ">~10:00:00</time>" in page.out
