"""Taking in logs: every line is accounted for, and whatever a format tells is in the ledger."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import treering
from capture.intake_logs import (
    EVERYWHERE,
    T0,
    VOYAGES,
    add,
    check_sums,
    claude_log,
    every_event,
    lines,
    said_in,
    session_in,
    told_by,
    write,
)
from formats.logs import pi
from formats.logs.claude_code import BEGUN, SESSION
from formats.logs.strangers import STRANGERS
from treering.app import import_logs
from treering.errors import InvalidInput, InvalidScope
from treering.model.intakes import FAULTS_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger


def fill(folder: Path) -> Path:
    """Write a log of every format into a folder."""
    for form, (name, records) in VOYAGES.items():
        write(folder / form / name, records)
    return folder


def test_every_line_of_every_format_is_accounted_for(ledger: Ledger, tmp_path: Path) -> None:
    receipt = import_logs(ledger, [fill(tmp_path / "logs")])

    check_sums(receipt)
    assert receipt.by_format == dict.fromkeys(sorted(VOYAGES), 1)
    assert receipt.lines == sum(len(records) for _, records in VOYAGES.values())
    assert (receipt.errors, receipt.files_refused, receipt.mended) == (0, 0, {})
    assert receipt.sessions == receipt.sessions_new == len(VOYAGES)
    assert receipt.subagents == 1
    assert set(receipt.skipped) <= {
        "repeats the assistant's message", "repeats the reasoning", "repeats the user message",
        "mirrors the delivered text", "opens the session",
    }  # fmt: skip
    assert ledger.admin.verify().intact


def test_what_was_said_is_there_with_its_time_and_where_it_came_from(
    ledger: Ledger, tmp_path: Path
) -> None:
    name, records = VOYAGES["claude-code"]
    path = write(tmp_path / name, records)

    import_logs(ledger, [path], scope=EVERYWHERE)

    session = session_in(ledger, SESSION)
    events = {one.kind: one for one in reversed(list(session.events()))}
    asked = events["conversation.user"]
    assert (asked.payload, asked.ts_ms) == ({"text": "Mend the lamp."}, BEGUN + 1_000)
    assert {one.origin for one in session.headers() if one.kind != "session.opened"} == {
        "claude-code"
    }
    imported = events["session.imported"]
    assert (imported.refs, imported.payload["file"]) == ({"format": "claude-code"}, str(path))
    assert session.outline().imported_from == "claude-code"


@pytest.mark.parametrize("form", ["claude-code", "codex", "openclaw"])
def test_a_record_of_a_kind_that_nobody_knows_is_kept_whole(tmp_path: Path, form: str) -> None:
    name, records = VOYAGES[form]
    unknown = next(one for one in records if "future" in one["type"])

    with treering.open(tmp_path / "l.db") as ledger:
        import_logs(ledger, [write(tmp_path / name, records)], scope=EVERYWHERE)

        [kept] = [
            one.payload for one in every_event(ledger)
            if one.kind == "ops.observation" and "future" in json.dumps(one.refs)
        ]  # fmt: skip
        content = unknown.get("payload", unknown)
        assert {name: kept[name] for name in content if name in kept and name != "type"} == {
            name: value for name, value in content.items() if name != "type"
        }


def test_a_fault_names_its_file_its_line_and_its_byte(tmp_path: Path) -> None:
    log = claude_log("one", "two").lines
    path = tmp_path / "broken.jsonl"
    start = lines(log[:2])
    path.write_bytes(start + b'{"type": "user", "uu\n' + lines(log[2:]) + b'{"torn": ')

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = import_logs(ledger, [path], scope=EVERYWHERE)

    check_sums(receipt)
    first, last = receipt.faults
    assert (first.file, first.line, first.offset) == (str(path), 3, len(start))
    assert (last.line, last.offset, last.reason) == (6, path.stat().st_size - 9, "torn")
    assert (receipt.errors, receipt.imported) == (2, 4)


def test_only_the_first_faults_are_named_and_all_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "noise.jsonl", claude_log("one").lines)
    add(path, b"no json at all\n" * (FAULTS_MAX + 50))

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = import_logs(ledger, [path], scope=EVERYWHERE)

    check_sums(receipt)
    assert (receipt.errors, len(receipt.faults)) == (FAULTS_MAX + 50, FAULTS_MAX)


def test_a_file_that_is_no_log_is_refused_and_the_others_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    write(folder / "a.jsonl", claude_log("one").lines)
    write(folder / "shopping.json", [{"milk": 2}])
    (folder / "empty.jsonl").touch()
    (folder / "picture.json").write_bytes(bytes(range(256)) * 10)

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = import_logs(ledger, [folder], scope=EVERYWHERE)

    check_sums(receipt)
    refused = {one.file: one.reason for one in receipt.sources if one.state == "refused"}
    assert refused[str(folder / "shopping.json")] == (
        'not a log Treering can read; its first line: {"milk": 2}'
    )
    assert refused[str(folder / "empty.jsonl")] == "there is nothing to read in it"
    assert (receipt.files, receipt.files_refused, receipt.imported) == (4, 3, 2)


@pytest.mark.parametrize("agent", STRANGERS)
def test_a_log_of_an_unknown_agent_is_refused_with_its_first_line(
    tmp_path: Path, agent: str
) -> None:
    path = write(tmp_path / "log.jsonl", STRANGERS[agent])

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = import_logs(ledger, [path], scope=EVERYWHERE)

    (source,) = receipt.sources
    first = json.dumps(STRANGERS[agent][0])
    assert (source.state, receipt.events, receipt.skipped) == ("refused", 0, {})
    assert str(source.reason).startswith(
        f"not a log Treering can read; its first line: {first[:60]}"
    )


def test_the_first_line_of_what_is_refused_shows_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("\n\nAPI_KEY=sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCD\n")

    with treering.open(tmp_path / "l.db") as ledger:
        (source,) = import_logs(ledger, [path], scope=EVERYWHERE).sources

    assert "its first line: API_KEY=[redacted" in str(source.reason)


def test_what_is_not_there_and_a_scope_that_is_none_are_refused_at_once(tmp_path: Path) -> None:
    with treering.open(tmp_path / "l.db") as ledger:
        with pytest.raises(InvalidInput, match="does not exist"):
            import_logs(ledger, [tmp_path / "gone.jsonl"])
        with pytest.raises(InvalidScope):
            import_logs(ledger, [], scope="../")


def test_a_reader_that_fails_at_one_record_costs_that_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treering.formats.claude_code import ClaudeCodeReader

    sound = ClaudeCodeReader.read

    def read(self: Any, record: Any) -> Any:
        if "two" in json.dumps(record.value) and record.value["type"] == "user":
            raise ZeroDivisionError("odd")
        return sound(self, record)

    monkeypatch.setattr(ClaudeCodeReader, "read", read)
    path = write(tmp_path / "a.jsonl", claude_log("one", "two", "three").lines)
    with treering.open(tmp_path / "l.db") as ledger:
        receipt = import_logs(ledger, [path], scope=EVERYWHERE)

        check_sums(receipt)
        [fault] = receipt.faults
        assert (fault.line, fault.reason) == (3, "not understood: unexpected ZeroDivisionError")
        assert "about three" in said_in(session_in(ledger, SESSION))


def test_a_packed_log_that_is_damaged_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    content = lines(claude_log(*(f"question {n}" for n in range(400))).lines)
    packed = gzip.compress(content, mtime=0)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = import_logs(ledger, [path], scope=EVERYWHERE)

        check_sums(receipt)
        assert 0 < receipt.imported < 800
        assert receipt.errors > 0
        assert len(every_event(ledger)) >= receipt.events > receipt.imported


def test_an_export_of_our_own_is_restored_as_it_was(tmp_path: Path) -> None:
    name, records = VOYAGES["pi"]
    log, export = write(tmp_path / name, records), tmp_path / "export.jsonl"
    with treering.open(tmp_path / "a.db") as first, treering.open(tmp_path / "b.db") as second:
        import_logs(first, [log], scope=EVERYWHERE)
        with export.open("wb") as stream:
            first.admin.export(EVERYWHERE, stream, payloads="included")

        foreseen = import_logs(second, [export], dry_run=True)
        receipt = import_logs(second, [export])
        again = import_logs(second, [export], again=True)
        other = import_logs(second, [export], scope="elsewhere", again=True)

        for one in (foreseen, receipt, again):
            check_sums(one)
        assert told_by(first) == told_by(second)
        assert (receipt.by_format, again.imported) == ({"treering": 1}, 0)
        counted = [(one.sessions, one.sessions_new) for one in (foreseen, receipt, again)]
        assert counted == [(1, 1), (1, 1), (1, 0)]
        assert receipt.sources[0].sessions == [pi.SESSION]
        assert other.files_refused == 1
        assert "an export of scope" in str(other.sources[0].reason)
        assert second.admin.verify().intact


def mem_database(path: Path, *rows: tuple[int, str]) -> Path:
    """Write a database of openclaw-mem: each row has a time and says something."""
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE episodic_events (id INTEGER PRIMARY KEY, event_id TEXT, ts_ms INTEGER,"
            " scope TEXT, session_id TEXT, agent_id TEXT, type TEXT, summary TEXT,"
            " payload_json TEXT, refs_json TEXT, redacted INTEGER, schema_version TEXT,"
            " created_at TEXT)"
        )
        for ts_ms, text in rows:
            database.execute(
                "INSERT INTO episodic_events VALUES (NULL, ?, ?, 'acme/app', 's1', 'lyria',"
                " 'conversation.user', ?, ?, NULL, 0, 'openclaw-mem.episodes.v0', '')",
                (f"ep-{text}", ts_ms, text, json.dumps({"text": text})),
            )
    database.close()
    return path


def test_a_database_of_openclaw_mem_is_read_row_by_row(tmp_path: Path) -> None:
    path = mem_database(tmp_path / "memory.sqlite", (T0, "Tide?"))
    with treering.open(tmp_path / "l.db") as ledger:
        receipt = import_logs(ledger, [path])

        check_sums(receipt)
        assert (receipt.by_scope, receipt.by_format) == ({"acme/app": 1}, {"openclaw-mem": 1})
        assert import_logs(ledger, [path], again=True).events == 0


def test_rows_come_by_their_times_and_before_what_waits_in_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / ".openclaw"))
    folder = tmp_path / ".openclaw" / "memory"
    spooled = [
        {"schema": "openclaw-mem.episodes.spool.v0", "event_id": f"ep-{text}", "ts_ms": T0 + n,
         "scope": "acme/app", "session_id": "s1", "agent_id": "lyria", "type": "conversation.user",
         "summary": "from the spool", "payload": {"text": text}}
        for n, text in ((1, "one"), (4, "four"))
    ]  # fmt: skip
    write(folder / "a-spool.jsonl", spooled)
    mem_database(folder / "memory.sqlite", (T0 + 3, "three"), (T0 + 1, "one"), (T0 + 2, "two"))
    with treering.open(tmp_path / "l.db") as ledger:
        check_sums(import_logs(ledger, [folder]))

        session = session_in(ledger, "s1", "acme/app")
        assert said_in(session) == ["one", "two", "three", "four"]
        summaries = {one.event_id: one.summary for one in session.headers()}
        assert (summaries["ep-one"], summaries["ep-four"]) == ("one", "from the spool")


def test_a_file_that_was_refused_is_no_log_of_a_format(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "cookies.sqlite") as database:
        database.execute("CREATE TABLE jars (id INTEGER PRIMARY KEY)")
    database.close()
    with treering.open(":memory:") as ledger:
        receipt = import_logs(ledger, [tmp_path])

    assert (receipt.files_refused, receipt.by_format) == (1, {})


def test_progress_is_told_in_bytes_and_ends_at_the_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("x" * 400_000, "y" * 900_000, "z" * 9).lines)
    told: list[tuple[int, int]] = []

    with treering.open(tmp_path / "l.db") as ledger:
        import_logs(
            ledger, [path], scope=EVERYWHERE, progress=lambda done, of: told.append((done, of))
        )

    size = path.stat().st_size
    assert told[-1] == (size, size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) > 1


def test_a_dry_run_foretells_what_a_real_one_does_and_writes_nothing(tmp_path: Path) -> None:
    folder = fill(tmp_path / "logs")
    write(folder / "copy" / "copy.jsonl", VOYAGES["claude-code"][1])
    with treering.open(tmp_path / "l.db") as ledger:
        foretold = import_logs(ledger, [folder], dry_run=True)

        assert [ledger.sessions(scope).items for scope in foretold.by_scope] == [
            [] for _ in foretold.by_scope
        ]
        done = import_logs(ledger, [folder])

    check_sums(foretold)
    assert foretold.dry_run
    for name in ("lines", "imported", "duplicates", "skipped", "errors", "events", "sessions",
                 "sessions_new", "subagents", "by_scope", "by_format", "bytes"):  # fmt: skip
        assert getattr(foretold, name) == getattr(done, name), name


def test_only_files_that_were_written_since_are_read(tmp_path: Path) -> None:
    old = write(tmp_path / "logs" / "old.jsonl", claude_log("one").lines)
    write(tmp_path / "logs" / "new.jsonl", claude_log("two", first=50).lines)
    os.utime(old, (1_000, 1_000))

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = import_logs(
            ledger, [tmp_path / "logs"], scope=EVERYWHERE, since_ms=1_700_000_000_000
        )

        assert (receipt.files, receipt.imported) == (1, 2)
        assert said_in(session_in(ledger, SESSION)) == ["two", "about two"]


def test_a_database_of_something_else_is_nobody_s_log(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE shopping (milk INTEGER)")

    with treering.open(tmp_path / "l.db") as ledger:
        (source,) = import_logs(ledger, [path], scope=EVERYWHERE).sources

    assert (source.state, source.format) == ("refused", None)
    assert source.reason == (
        "not a log Treering can read: a database of something else; its tables: shopping"
    )


def test_what_says_what_a_subagent_is_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "subagents" / "agent-a1.meta.json"
    path.parent.mkdir()
    path.write_text('{"agentType": "Explore"}')

    with treering.open(tmp_path / "l.db") as ledger:
        (source,) = import_logs(ledger, [tmp_path / "subagents"], scope=EVERYWHERE).sources

    assert source.reason == "what a subagent is, which is read with its log"
