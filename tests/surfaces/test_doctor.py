"""``treering doctor``: what is wrong on this machine, and what to do about it."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import apsw
import msgspec
import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, said
from capture.intake_logs import add, lines
from children import run_python
from formats.logs import codex, gemini
from surfaces.agent_homes import FOLDERS, move_in, work_in, write_log
from surfaces.talks import IN, TOKEN
from treering.adapters.backlog import Spool
from treering.storage.sqlite.write_lock import Holder

if TYPE_CHECKING:
    from pathlib import Path

    from postgres_server import Places
    from surfaces.command_line import CommandLine, Outcome

HOUR_MS = 3_600_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home with nothing in it."""
    return move_in(tmp_path / "home", monkeypatch)


def found(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Return findings by code; the last of each."""
    return {one["code"]: one for one in outcome.receipt["findings"]}


def levels(outcome: Outcome, code: str) -> list[str]:
    """Return the levels of all findings of one code."""
    return [one["level"] for one in outcome.receipt["findings"] if one["code"] == code]


def age(path: Path, days: float) -> None:
    """Let a file be as old as that."""
    then = time.time() - days * DAY / 1_000
    os.utime(path, (then, then))


# The ledger.


def test_on_a_first_run_it_says_what_there_is_and_makes_nothing(
    cli: CommandLine, home: Path
) -> None:
    empty = cli("doctor", "--json")
    write_log(home, "codex")
    outcome = cli("doctor")

    assert (empty.status, empty.receipt["ok"]) == (0, True)
    assert set(found(empty)) == {"no_ledger", "no_logs", "spool"}
    assert outcome.status == 0
    assert f"no ledger at {cli.database} yet\n         → treering import\n" in outcome.out
    assert "codex: 1 log not imported yet" in outcome.out
    assert not cli.database.exists()


def test_a_sound_ledger_is_proved_unless_it_has_to_be_quick(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(home / "project")
    with treering.open(cli.database) as ledger:
        ledger.append([said(), said(scope=ELSEWHERE)])

    whole, part, quick = (
        cli("doctor", "--json", *arguments) for arguments in ((), IN, (*IN, "--quick"))
    )

    assert [one.status for one in (whole, part, quick)] == [0, 0, 0]
    assert found(whole)["intact"]["message"] == "the proof holds: 2 events"
    assert found(part)["intact"]["message"] == "the proof holds: 1 event"
    assert "intact" not in found(quick)
    assert found(part)["ledger"]["message"].startswith(f"{cli.database} opens, schema version ")
    assert {one["level"] for one in part.receipt["findings"]} == {"ok"}
    assert found(whole)["scope_empty"]["level"] == "warning"


def test_derived_data_is_sampled_where_the_proof_was_made(cli: CommandLine, home: Path) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said(scope=ELSEWHERE)])
        nothing = cli("doctor", "--json")
        ledger.memory(ELSEWHERE).learn("Lives in Porto", user="u1")

    elsewhere = cli("doctor", "--json")

    assert "derived" not in found(nothing)
    assert "rows sampled" in found(elsewhere)["derived"]["message"]


def test_a_changed_ledger_is_an_error_with_exit_status_1(cli: CommandLine, home: Path) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said("one"), said("two")])
    with closing(sqlite3.connect(cli.database)) as connection, connection:
        connection.execute("UPDATE events SET summary = 'three' WHERE seq = 2")

    outcome = cli("doctor", "--json", *IN)

    assert (outcome.status, outcome.receipt["ok"]) == (1, False)
    assert found(outcome)["broken"]["level"] == "error"
    assert "session s1, seq 2: content" in found(outcome)["broken"]["message"]
    assert cli("doctor", "--quick", *IN).status == 0
    assert cli("doctor", *IN).out.startswith("error    the ledger is not as it was recorded")


def test_a_file_that_is_no_ledger_is_an_error_and_the_rest_is_told_all_the_same(
    cli: CommandLine, home: Path
) -> None:
    cli.database.write_bytes(b"no ledger at all, but more than a hundred bytes of text" * 20)
    write_log(home, "codex")

    outcome = cli("doctor", "--json")

    assert outcome.status == 1
    assert found(outcome)["not_a_ledger"]["level"] == "error"
    assert found(outcome)["not_imported"]["level"] == "warning"


@pytest.mark.parametrize(
    ("free", "code", "level", "status"),
    [(10**6, "disk_full", "error", 1), (500 * 10**6, "disk_low", "warning", 0)],
)
def test_a_disk_that_is_nearly_full_is_told(
    cli: CommandLine,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    code: str,
    level: str,
    status: int,
) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said()])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    outcome = cli("doctor", "--json", *IN)

    assert (outcome.status, found(outcome)[code]["level"]) == (status, level)


def test_an_erasure_that_waits_for_a_reader_is_told(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.storage.sqlite.eraser.CHECKPOINT_PATIENCE_MS", 20)
    with treering.open(cli.database) as ledger:
        ledger.append([said("quokka", event_id="e1")])
        with closing(apsw.Connection(str(cli.database))) as reader:
            reader.execute("BEGIN").execute("SELECT count(*) FROM events").fetchall()
            assert ledger.redact(HERE, event_id="e1").physical == "pending"
            waiting = cli("doctor", "--quick", "--json", *IN)
    after = cli("doctor", "--quick", "--json", *IN)

    assert found(waiting)["erasure_pending"]["level"] == "warning"
    assert found(after)["erasure"]["level"] == "ok"


def test_a_ledger_on_a_server_is_looked_at_and_searched_alike(
    cli: CommandLine, home: Path, postgres: Places
) -> None:
    place = postgres.fresh()
    with treering.open(place) as ledger:
        ledger.append([said("a low tide")])

    outcome = cli("doctor", *IN, "--db", place, "--json")
    hits = cli("search", "tide", *IN, "--db", place, "--json")

    assert outcome.status == 0, outcome.out
    assert {one["level"] for one in outcome.receipt["findings"]} == {"ok"}
    assert {"ledger", "intact", "erasure", "calls"} <= set(found(outcome))
    assert [one["session_id"] for one in hits.receipt["sessions"]] == ["s1"]
    assert cli("file-history", "a.py", *IN, "--db", place).status == 0


# What a scope holds.


def test_calls_without_a_result_are_told_by_session_with_commands_that_work(
    cli: CommandLine, home: Path
) -> None:
    with treering.open(cli.database) as ledger:
        for session, calls in (("busy one", 2), ("s2", 1)):
            handle = ledger.session(session, scope=HERE, agent="lyria")
            handle.record("conversation.user", "go", payload={"text": "go"}, ts_ms=1_000)
            for number in range(calls):
                refs = {"call_id": f"c{number}", "tool": "bash"}
                handle.record("tool.call", "bash", refs=refs, payload={"input": {}}, ts_ms=2_000)
        other = ledger.session("other", scope=ELSEWHERE, agent="lyria")
        other.record("tool.call", "x", refs={"call_id": "c", "tool": "bash"}, ts_ms=2_000)
        handle.record("tool.call", "now", refs={"call_id": "c9", "tool": "bash"})

    finding = found(cli("doctor", "--json", *IN))["open_calls"]

    assert finding["level"] == "warning"
    assert finding["message"].startswith("3 tool calls of 2 sessions never got a result")
    assert finding["items"] == ["busy one: 2 open calls", "s2: 1 open call"]
    explain, _, export = finding["fix"].partition("; a log with results for all: ")
    assert "missing_result" in cli(*shlex.split(explain)[1:]).out
    repaired = cli(*shlex.split(export)[1:], "--out", str(home / "mended.jsonl"))
    assert repaired.status == 0, repaired.err


def test_a_run_of_a_process_that_is_gone_is_closed_and_told(cli: CommandLine, home: Path) -> None:
    program = (
        "import os, sys, treering\n"
        "ledger = treering.open(sys.argv[1])\n"
        "turn = ledger.session('s1', scope='acme/app', agent='lyria').turn()\n"
        "turn.__enter__().user('hello')\n"
        "os._exit(0)\n"
    )
    run_python(program, cli.database)

    first, second = (found(cli("doctor", "--json", *IN)) for _ in range(2))

    assert first["runs_closed"]["items"] == ["s1"]
    assert second["runs"]["level"] == "ok"


def test_a_run_that_does_not_end_is_told_once_it_was_silent_for_long(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(cli.database) as ledger:
        # Nobody knows whose it is, so nobody closes it.
        ledger.append([said("run", kind="run.started", run_id="r1")])

    at_once = found(cli("doctor", "--json", *IN))
    later = time.time_ns() // 1_000_000 + 2 * HOUR_MS
    monkeypatch.setattr("treering.surfaces.cli.doctor.now_ms", lambda: later)
    silent = found(cli("doctor", "--json", *IN))

    assert at_once["runs"]["level"] == "ok"
    assert silent["open_runs"]["level"] == "warning"
    assert silent["open_runs"]["items"] == ["s1: 2 h ago"]


def test_what_is_not_indexed_and_what_expires_soon_is_told(cli: CommandLine, home: Path) -> None:
    now = time.time_ns() // 1_000_000
    with treering.open(cli.database) as ledger:
        ledger.append([said("old", ts_ms=now - 56 * DAY), said("new", ts_ms=now - DAY)])

    before = found(cli("doctor", "--json", *IN))
    cli("search", "old", *IN)
    after = found(cli("doctor", "--json", *IN))

    assert before["index_behind"]["message"].startswith(
        "not yet in the search index of scope acme/app: 2 events;"
    )
    assert after["index"]["level"] == "ok"
    assert before["retention_soon"]["level"] == "warning"
    assert before["retention_soon"]["items"] == ["conversation.user: 1 event older than 60 days"]
    assert cli("episodes", "gc", "--dry-run", *IN).status == 0


def test_users_who_may_be_several_people_are_told_until_they_are_linked(
    cli: CommandLine, home: Path
) -> None:
    with treering.open(cli.database) as ledger:
        for channel in ("slack", "telegram"):
            ledger.session(f"main:{channel}:@jo", scope=HERE, agent="lyria", user="@jo").open()

    before = found(cli("doctor", "--json", *IN))["users_joined"]
    assert cli("users", "link", "telegram-jo", "telegram", "@jo", *IN).status == 0
    after = found(cli("doctor", "--json", *IN))

    assert (before["level"], before["items"]) == ("warning", ["@jo: @jo on slack, @jo on telegram"])
    assert before["fix"].startswith("one person: treering users link @jo telegram @jo --scope")
    assert "users_joined" not in after
    assert after["users_relinked"]["items"] == ["@jo on telegram: @jo, now telegram-jo"]
    assert "treering users merge telegram-jo @jo" in after["users_relinked"]["fix"]


# Logs, hooks and the spool.


def test_logs_wait_are_imported_and_grow(cli: CommandLine, home: Path) -> None:
    logs = {agent: write_log(home, agent) for agent in FOLDERS}

    first = cli("doctor", "--json")
    assert cli("import").status == 0
    second = cli("doctor", "--json")
    add(logs["codex"], lines([codex.user_item("And then?", n=9)]))
    third = cli("doctor", "--json")
    assert cli("import", "--scope", "all-of-it").status == 0
    fourth = cli("doctor", "--json", "--scope", "all-of-it")

    assert levels(first, "not_imported") == ["warning"] * 5
    assert levels(second, "imported") == ["ok"] * 5
    assert levels(second, "not_imported") == []
    assert levels(third, "imported") == ["ok"] * 4
    assert found(third)["not_imported"]["message"] == "codex: 1 log grown since the import"
    assert found(third)["not_imported"]["items"] == [str(logs["codex"])]
    assert levels(fourth, "not_imported") == []


def test_what_an_agent_deletes_soon_comes_with_the_setting_that_prevents_it(
    cli: CommandLine, home: Path
) -> None:
    age(write_log(home, "claude-code"), days=28.5)

    waiting = found(cli("doctor", "--json"))["log_retention_soon"]
    cli("import")
    safe = found(cli("doctor", "--json"))["log_retention_soon"]
    settings = home / ".claude" / "settings.json"
    settings.write_text('{"cleanupPeriodDays": 36500}')
    kept = found(cli("doctor", "--json"))

    assert waiting["level"] == "warning"
    assert "deletes the oldest in 1 day" in waiting["message"]
    assert waiting["fix"] == f'treering import; or set "cleanupPeriodDays": 36500 in {settings}'
    assert safe["level"] == "ok"
    assert "log_retention_soon" not in kept
    assert kept["log_retention"]["message"] == (
        "claude-code keeps its logs for 36500 days (cleanupPeriodDays in settings.json)"
    )


@pytest.mark.parametrize(
    ("end", "damage"),
    [
        (b'{"type": "user", "mess', "its last line is torn"),
        (b"\x00" * 4_096, "it ends in NUL bytes"),
        (b"", None),
        (b"\n\n", None),
        (json.dumps({"type": "future", "x": "y" * 200_000}).encode(), None),
    ],
)
def test_a_log_with_a_damaged_end_is_told_once_nobody_writes_to_it(
    cli: CommandLine, home: Path, end: bytes, damage: str | None
) -> None:
    log = write_log(home, "claude-code")
    add(log, end)

    being_written = found(cli("doctor", "--json"))
    age(log, days=1)
    settled = found(cli("doctor", "--json"))

    assert "damaged_logs" not in being_written
    assert damage is None or "--format claude-code" in settled["damaged_logs"]["fix"]
    assert settled.get("damaged_logs", {}).get("items") == (damage and [f"{log}: {damage}"])


def test_hooks_are_told_of_and_those_that_lead_nowhere_are_an_error(
    cli: CommandLine, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()

    without = cli("doctor", "--json")
    assert cli.bare("install", "claude-code").status == 0
    installed = cli("doctor", "--json")
    hooked = settings.read_text()
    settings.write_text(hooked.replace("bin/treering-hook", "gone/treering-hook"))
    broken = cli("doctor", "--json")
    settings.write_text(hooked + "// a comment")
    unclear = cli("doctor", "--json")

    assert found(without)["no_hooks"]["fix"] == "treering install claude-code"
    assert (installed.status, found(installed)["hooks"]["level"]) == (0, "ok")
    assert (broken.status, found(broken)["hooks_broken"]["level"]) == (1, "error")
    assert (unclear.status, found(unclear)["settings_unclear"]["level"]) == (0, "warning")


def test_what_adapters_could_not_record_is_told(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREERING_SPOOL", str(home / "spool"))
    assert "writes_waiting" not in found(cli("doctor", "--json"))
    spool = Spool("a ledger")
    spool.add(["add", {}])

    finding = found(cli("doctor", "--json"))["writes_waiting"]

    assert finding["level"] == "warning"
    spool.clear()
    assert "writes_waiting" not in found(cli("doctor", "--json"))


def test_a_spool_that_nobody_drains_is_told(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = home / "spool"
    spool.mkdir()
    monkeypatch.setenv("TREERING_SPOOL", str(spool))
    wake = {"schema": "treering.spool.v1", "agent": "codex", "event": "Stop"}
    part = spool / "codex.jsonl"
    part.write_text(json.dumps(wake) + "\n")

    fresh = found(cli("doctor", "--json"))["spool_waiting"]
    age(part, days=0.5)
    old = found(cli("doctor", "--json"))["spool_waiting"]
    (spool / "unread.log").write_text("noise\n")
    assert cli(*shlex.split(old["fix"])[1:]).status == 0
    drained = found(cli("doctor", "--json"))

    assert (fresh["level"], old["level"]) == ("ok", "warning")
    assert drained["spool"]["level"] == "ok"
    assert drained["spool_unread"]["level"] == "warning"


def test_a_log_that_was_only_touched_has_not_grown(cli: CommandLine, home: Path) -> None:
    log = write_log(home, "codex")
    assert cli("import", *IN).status == 0

    age(log, 3)
    touched = cli("doctor", "--quick", *IN, "--json")
    body = log.read_text()
    log.write_text(body.replace("2026", "2027"))
    changed = cli("doctor", "--quick", *IN, "--json")
    log.write_text(body)
    add(log, lines([codex.user_item("And then?", n=12)]))
    grown = cli("doctor", "--quick", *IN, "--json")

    assert "not_imported" not in found(touched)
    assert found(touched)["imported"]["message"] == "codex: 1 log imported, none waits"
    for outcome in (changed, grown):
        assert found(outcome)["not_imported"]["message"] == "codex: 1 log grown since the import"


# One session.


def test_one_session_tells_its_repairs_its_open_calls_and_its_log(
    cli: CommandLine, home: Path
) -> None:
    log = write_log(home, "codex")
    work_in(home / "works", log)
    add(log, lines([codex.call("c7", n=9, command=f"ls {TOKEN}")]))
    assert cli("import", *IN).status == 0

    there = cli("doctor", codex.SESSION[:8], *IN, "--json")
    add(log, lines([codex.user_item("And then?", n=12)]))
    grown = cli("doctor", codex.SESSION, *IN, "--json")
    log.unlink()
    gone = cli("doctor", codex.SESSION, *IN)

    assert there.status == 0
    assert found(there)["missing_result"]["level"] == "warning"
    assert len(found(there)["missing_result"]["items"]) == 1
    assert len(found(there)["open_calls"]["items"]) == 1
    assert found(there)["open_calls"]["items"][0].startswith("shell c7: ")
    assert found(there)["log"]["fix"] == f"cd {home / 'works'} && codex resume {codex.SESSION}"
    assert found(grown)["log_grown"]["fix"] == f"treering import {log}"
    assert f"its log no longer exists: {log}" in gone.out
    assert TOKEN not in there.out + gone.out


def test_a_session_that_was_recorded_here_is_well(cli: CommandLine, home: Path) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said(ts_ms=NOON)])

    outcome = cli("doctor", "s1", *IN)

    assert outcome.status == 0
    assert outcome.out.endswith("4 checks passed\n")


def test_a_session_that_is_not_there_is_not_found(cli: CommandLine, home: Path) -> None:
    missing = cli("doctor", "s1", *IN, "--json")
    with treering.open(cli.database) as ledger:
        ledger.append([said(scope=ELSEWHERE)])
    elsewhere = cli("doctor", "s1", *IN, "--json")

    assert (missing.status, missing.receipt["code"]) == (1, "not_found")
    assert (elsewhere.status, elsewhere.receipt["code"]) == (1, "not_found")


def test_a_stopped_process_that_holds_the_write_lock_is_named(cli: CommandLine, home: Path) -> None:
    from concurrency.processes import Colleague, stop_while_writing

    with treering.open(cli.database) as ledger:
        ledger.append([said("a low tide")])
    writer = Colleague(stop_while_writing, cli.database, 0)
    process = writer.hear()

    outcome = cli("doctor", "--quick", "--json", *IN)
    writer.kill()
    after = cli("doctor", "--quick", "--json", *IN)

    stopped = found(outcome)["writer_stopped"]
    assert (outcome.status, stopped["level"]) == (1, "error")
    assert f"process {process} " in stopped["message"]
    assert f"kill -CONT {process}" in stopped["fix"]
    assert "writer_stopped" not in found(after)


def test_a_writer_that_stops_while_doctor_looks_still_holds_the_lock() -> None:
    holder = Holder(process=7, command="agent", is_stopped=False, idle_since="09:00")
    change = msgspec.structs.replace

    assert holder.holds_on(change(holder, is_stopped=True))
    assert holder.holds_on(holder)
    assert not holder.holds_on(change(holder, idle_since="09:01"))
    assert not holder.holds_on(change(holder, process=8, is_stopped=True))
    assert not holder.holds_on(None)


def test_a_damaged_log_of_another_agent_is_not_to_be_replaced_by_one_of_claude_code(
    cli: CommandLine, home: Path
) -> None:
    log = write_log(home, "codex")
    add(log, b'{"timestamp": "20')
    age(log, days=1)

    fix = found(cli("doctor", "--json"))["damaged_logs"]["fix"]

    assert fix == f"treering import {log} names line and byte"


def test_a_log_that_was_cut_off_as_a_whole_is_told(cli: CommandLine, home: Path) -> None:
    chats = home / ".gemini" / "tmp" / "abc" / "chats"
    chats.mkdir(parents=True)
    whole = json.dumps(gemini.whole(gemini.user("u1", "hello"), gemini.answer("a1", "Ahoy.")))
    log = chats / "session-2026-10-01T10-00-abcdef01.json"
    log.write_text(whole[: len(whole) * 6 // 10])
    age(log, days=1)

    done = cli("import", "--json", str(log))

    assert done.status == 1
    assert done.receipt["unreadable"] == [str(log)]
    assert (done.receipt["lines"], done.receipt["errors"]) == (1, 1)
    assert found(cli("doctor", "--json"))["torn_logs"]["items"] == [str(log)]


def test_a_folder_that_may_not_be_read_is_told(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(home, "claude-code")
    closed = log.parent / "closed"
    closed.mkdir()
    scandir = os.scandir

    def forbidding(path: Any = ".") -> Any:
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(closed))
        return scandir(path)

    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr(os, "scandir", forbidding)

    done = cli("import", str(log.parent))

    assert done.status == 1
    assert f"nothing of {closed} can be read" in done.err
    assert found(cli("doctor", "--json"))["unreadable_logs"]["items"] == [str(closed)]
