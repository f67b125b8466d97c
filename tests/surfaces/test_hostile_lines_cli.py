"""Hostile lines at the command line: commands end well, and ``doctor`` shows what was set aside."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from capture.intake_logs import add, claude_log, write
from effort import PATIENCE_S
from surfaces.processes import patient_hook
from treering.capture.intake import importer
from treering.capture.intake.file_import import FileImport
from treering.capture.intake.record_import import LineCounter
from treering.capture.quarantine import quarantine_folder, quarantined
from treering.formats.parsed import LogRecord
from treering.ledger.admin import LedgerAdmin

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

SECRET: Final = "sk-ant-api03-" + "Zq9Wx7Kp3T" * 9 + "AA"
"""Looks like a key, and is none."""
ASKED: Final = {
    "session_id": "s1",
    "transcript_path": "/nowhere/s1.jsonl",
    "cwd": "/srv/app",
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_use_id": "t1",
    "tool_input": {"command": f"curl -H 'x-api-key: {SECRET}'"},
}


def deep(levels: int) -> Any:
    value: Any = SECRET
    for _ in range(levels):
        value = {"k": value}
    return value


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TREERING_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "spool"


def hook(body: dict[str, Any]) -> None:
    """Call the hook as an agent does."""
    done = subprocess.run(
        [*patient_hook(), "claude-code"],
        input=json.dumps(body).encode(),
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"{}\n", b"")


def found(cli: CommandLine) -> dict[str, Any]:
    return {one["code"]: one for one in cli("doctor", "--quick", "--json").body["findings"]}


def test_no_call_of_a_hook_ends_the_watch_and_no_secret_lies_in_the_spool(
    cli: CommandLine, spool: Path
) -> None:
    odd: tuple[dict[str, Any], ...] = (
        {"tool_input": deep(70)},
        {"tool_input": deep(700)},
        {"tool_name": "T" * 5_000},
        {"tool_use_id": "t" * 9_000},
        {"session_id": "s" * 200_000},
        {"transcript_path": "/" + "n" * 5_000},
        {"tool_input": {"command": SECRET + " x" * 50_000}},
    )
    hook(ASKED)
    for fields in odd:
        hook({**ASKED, **fields})
    hook({**ASKED, "tool_use_id": "t2"})

    lying = "".join(path.read_text() for path in spool.rglob("*") if path.is_file())
    watched = cli("watch", "--once", "--scope", "here", "--json")
    asked = cli("episodes", "query", "--scope", "here", "--json").receipt["items"]

    assert SECRET[:40] not in lying
    assert watched.status == 0
    calls = [(one["refs"] or {}).get("call_id") for one in asked if one["type"] == "ops.decision"]
    assert (calls.count("t1") >= 1, calls.count("t2") >= 1) == (True, True)
    assert [path.name for path in spool.rglob("*") if path.is_file()] == ["drain.lock"]


def test_lines_that_cannot_be_recorded_are_shown_by_doctor(cli: CommandLine, spool: Path) -> None:
    hook(ASKED)
    [part] = spool.glob("*.jsonl")
    with part.open("ab") as stream:
        stream.write(b"[" * 5_000 + b"\n" + json.dumps({"password": SECRET}).encode() + b"\n")
    episodes = spool.parent / "episodes.jsonl"
    line = {"session_id": "a", "agent_id": "x", "summary": "ok", "scope": "s"}
    rows = [{**line, "type": "conversation.user"}, {**line, "type": "nonsense"}]
    episodes.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))

    statuses = [
        cli("watch", "--once", "--scope", "here").status,
        cli("episodes", "ingest", "--file", str(episodes)).status,
    ]
    told = found(cli)

    assert statuses == [0, 0]
    assert told["spool_unread"]["message"].startswith("2 lines of hooks could not be recorded")
    assert told["lines_unread"]["message"].startswith(f"1 line of {episodes} could not be recorded")
    assert SECRET not in (spool / "unread.log").read_text()


def test_a_transcript_behind_links_in_a_circle_does_not_stop_the_recorder(
    cli: CommandLine, spool: Path, tmp_path: Path
) -> None:
    circle = tmp_path / "circle.jsonl"
    circle.symlink_to(circle)
    hook({**ASKED, "transcript_path": str(circle)})
    hook({**ASKED, "tool_use_id": "t2"})

    told = cli("watch", "--once", "--json")

    assert told.status == 0
    assert told.body["decisions"] == 2
    assert not list(spool.glob("*.draining"))


def test_what_is_no_file_in_the_spool_hides_nothing_that_waits(
    cli: CommandLine, spool: Path
) -> None:
    hook(ASKED)
    for name in ("a.jsonl", "a.jsonl.1.draining"):
        (spool / name).symlink_to(spool / name)
    os.mkfifo(spool / "b.jsonl")
    (spool / "c.jsonl.2.draining").mkdir()

    assert found(cli)["spool_waiting"]["level"] == "ok"
    assert cli("watch", "--once", "--json").body["decisions"] == 1
    assert found(cli)["spool"]["level"] == "ok"


def test_a_secret_in_the_name_of_a_session_or_a_folder_is_masked(
    cli: CommandLine, spool: Path, tmp_path: Path
) -> None:
    hook({**ASKED, "session_id": SECRET})
    hook({**ASKED, "cwd": f"/srv/{SECRET}"})

    assert not any(SECRET.encode() in path.read_bytes() for path in spool.iterdir())
    assert cli("watch", "--once", "--json").body["decisions"] == 2
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def line_of(**odd: Any) -> dict[str, Any]:
    stated = {"event_id": "e", "session_id": "s", "agent_id": "a", "scope": "x", "summary": "ok"}
    return {**stated, "type": "conversation.user", **odd}


def test_a_pipe_in_the_place_of_a_spool_is_refused_and_waits_for_nobody(
    cli: CommandLine, tmp_path: Path
) -> None:
    pipe = tmp_path / "spool.jsonl"
    os.mkfifo(pipe)

    told = cli("episodes", "ingest", "--file", str(pipe), "--json")

    assert (told.status, told.body["code"]) == (1, "not_found")


def test_secrets_in_the_names_that_a_line_gives_are_masked(
    cli: CommandLine, tmp_path: Path
) -> None:
    names = ("event_id", "session_id", "agent_id")
    rows = [line_of(**{"event_id": f"e-{name}", name: SECRET}) for name in names]
    episodes = tmp_path / "episodes.jsonl"
    episodes.write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert cli("episodes", "ingest", "--file", str(episodes), "--json").body["inserted"] == 3
    for path in tmp_path.rglob("*"):
        held = path.read_bytes() if path.is_file() and path != episodes else b""
        assert SECRET.encode() not in held


def test_an_index_of_sessions_that_is_nested_deeply_is_passed_over(
    cli: CommandLine, tmp_path: Path
) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    (sessions / "sessions.json").write_text("[" * 5_000)
    said = {"role": "user", "content": "hello"}
    row = {"type": "message", "timestamp": "2026-03-05T14:00:00Z", "message": said}
    (sessions / "one.jsonl").write_text(json.dumps(row) + "\n")
    spooled = tmp_path / "spool.jsonl"

    told = cli(
        *("episodes", "extract-sessions", "--sessions-root", str(sessions)),
        *("--file", str(spooled)),
    )

    assert told.status == 0
    assert b"hello" in spooled.read_bytes()


def test_the_name_of_a_log_may_hold_bytes_that_are_no_text(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / os.fsdecode(b"\xff.jsonl")).write_text("{}\n")

    told = cli("import", str(tmp_path), "--json")

    assert told.status == 0
    assert "\\udcff.jsonl" in json.dumps(told.body).replace("\\\\", "\\")


def test_every_reader_and_doctor_take_names_with_bytes_that_are_no_text(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    log = claude_log("High tide in Bergen?").lines
    path = write(tmp_path / os.fsdecode(b"logs-\xff") / os.fsdecode(b"\xfe.jsonl"), log)
    add(path, b"{damaged\n" + json.dumps(log[0]).encode() + b"\n")
    sessions = tmp_path / os.fsdecode(b"sessions-\xff")
    said = {"role": "user", "content": "hello"}
    row = {"type": "message", "timestamp": "2026-03-05T14:00:00Z", "message": said}
    write(sessions / "one.jsonl", [row])
    spool = tmp_path / os.fsdecode(b"spool-\xff.jsonl")

    imported = cli("import", str(path.parent), "--json")
    extracted = cli(
        *("episodes", "extract-sessions", "--sessions-root", str(sessions)),
        *("--file", str(spool), "--json"),
    )
    add(spool, b"{damaged\n")
    ingested = [cli("episodes", "ingest", "--file", str(spool), "--json") for _ in range(2)]
    checked = cli("doctor", "--json")

    assert (imported.body["imported"], imported.body["errors"]) == (2, 1)
    assert extracted.status == 0
    assert [one.body["inserted"] for one in ingested] == [1, 0]
    assert ingested[1].body["lines"]["total"] == 0
    unread = [one for one in checked.body["findings"] if one["code"] == "lines_unread"]
    assert len(unread) == 2
    assert all("\\udcff" in one["message"] for one in unread)


def test_a_torn_end_is_not_set_aside_though_an_earlier_line_is_refused_after_it() -> None:
    """Lines are refused when they are recorded, which is after the whole file was read."""
    counter = LineCounter("one.jsonl", "claude-code")
    counter.see(refused := LogRecord({}, 1, 0, 1))
    counter.see(torn := LogRecord(None, 2, 70, 1))
    counter.fail(torn, "torn")
    counter.torn_at = torn.offset
    counter.fail(refused, "cannot be recorded")

    kept = counter.lasting(counter.receipt("read"))

    assert (kept.lines, kept.errors) == (1, 1)
    assert [(fault.offset, fault.reason) for fault in kept.faults] == [(0, "cannot be recorded")]


@pytest.mark.parametrize("stopped", ["in the second file", "while indexing"])
def test_an_import_that_is_interrupted_has_set_aside_the_lines_that_it_is_done_with(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str
) -> None:
    """The next one does not read them again."""
    for number in (1, 2):
        log = claude_log("Tide?", session=f"5e551011-0000-4000-8000-00000000000{number}").lines
        path = write(tmp_path / "logs" / f"{log[0]['sessionId']}.jsonl", log)
        add(path, b"{torn\n" + json.dumps(log[0]).encode() + b"\n")
    paths: list[Path] = []

    def interrupted(file: FileImport) -> bool:
        paths.append(file._probe.source.path)
        if len(paths) > 1:
            file._buffer.commit()
            file._buffer.commit()
            raise KeyboardInterrupt
        return read(file)

    def not_indexed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    read = FileImport.read
    with monkeypatch.context() as patch:
        patch.setattr(importer, "COLLECTED_BYTES", 1)
        if stopped == "while indexing":
            patch.setattr(LedgerAdmin, "index", not_indexed)
        else:
            patch.setattr(FileImport, "read", interrupted)
        assert cli("import", str(tmp_path / "logs"), "--scope", "s").status == 130
    again = cli("import", str(tmp_path / "logs"), "--scope", "s", "--json").body

    assert again["files_unchanged"] == (2 if stopped == "while indexing" else 1)
    aside = [entry for _, entries in quarantined(quarantine_folder()) for entry in entries]
    assert sorted(Path(entry.source or "").name for entry in aside) == sorted(
        path.name for path in (tmp_path / "logs").iterdir()
    )
