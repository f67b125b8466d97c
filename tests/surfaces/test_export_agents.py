"""``treering export`` to Apeira and Clawser, and ``treering import`` of what it wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE, exchange
from formats.clawser_logs import T0
from formats.logs.terminals import LOGS, RECORDS, content
from surfaces.talks import IN, LAUNCH, TOKEN, record_talk
from treering.formats.apeira import Episodic, load_state
from treering.formats.clawser import read_jsonl

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine

ENDINGS: Final = {"apeira": "jsonl", "apeira-state": "json", "clawser": "jsonl"}


def record(database: Path) -> None:
    """Record a session with calls, a failed turn, an undone one and words in other scripts."""
    with treering.open(database) as ledger:
        session = ledger.session("tides", scope=HERE, agent="lyria")
        with session.turn() as turn:
            turn.user("潮はいつ? \u2028 and \x1b[1m when")
            with turn.tool("tide", {"port": "Bergen", "days": [1, 2]}, call_id="c1") as call:
                call.finish("14:10")
            with turn.tool("wind", {}, call_id="c2") as call:
                call.fail("no anemometer")
            turn.assistant("At 14:10.")
        exchange(session, "Take this back.", "Gladly.")
        session.undo()
        exchange(session, "Thanks.", "You are welcome.")


def told(database: Path, session: str) -> list[tuple[str, Any]]:
    """Return what was said in a session, and what its tools took and gave."""
    with treering.open(database) as ledger:
        history = ledger.session(session, scope=HERE, agent="x").history()
    return [
        (one["role"], [one.get("content"), one.get("tool_calls"), one.get("tool_call_id")])
        for one in history
    ]


@pytest.mark.parametrize("form", ENDINGS)
def test_what_is_exported_from_the_shell_is_imported_into_a_fresh_ledger_with_the_same_messages(
    cli: CommandLine, tmp_path: Path, form: str
) -> None:
    record(cli.database)
    out = tmp_path / f"tides.{ENDINGS[form]}"
    fresh = tmp_path / "fresh.db"

    done = cli("export", "tides", *IN, "--format", form, "--out", str(out))
    assert (done.status, done.err) == (0, "")
    for _ in range(2):
        taken = cli("import", str(out), *IN, "--db", str(fresh), "--again", "--json")
        assert taken.status == 0, taken.err
    assert taken.receipt["events"] == 0

    said = told(cli.database, "tides")
    assert len(said) == 8
    assert told(fresh, "tides") == said


@pytest.mark.parametrize("form", ENDINGS)
def test_an_export_of_an_import_is_the_same_file(
    cli: CommandLine, tmp_path: Path, form: str
) -> None:
    record(cli.database)
    first, second = (tmp_path / part / f"tides.{ENDINGS[form]}" for part in "ab")
    first.parent.mkdir()
    second.parent.mkdir()
    fresh = ("--db", str(tmp_path / "fresh.db"))

    assert cli("export", "tides", *IN, "--format", form, "--out", str(first)).status == 0
    assert cli("import", str(first), *IN, *fresh).status == 0
    assert cli("export", "tides", *IN, *fresh, "--format", form, "--out", str(second)).status == 0

    assert second.read_bytes() == first.read_bytes()


@pytest.mark.parametrize("form", ENDINGS)
def test_secrets_are_masked_and_what_was_erased_or_undone_is_not_in_it(
    cli: CommandLine, form: str
) -> None:
    record_talk(cli.database)

    out = cli("export", "deploy-17", *IN, "--format", form).out

    assert TOKEN not in out
    assert LAUNCH not in out
    assert "hunter2-hunter2" not in out
    assert "Take this back" not in out
    assert "It went out." in out


def test_each_format_is_read_by_its_own_reader(cli: CommandLine) -> None:
    record(cli.database)

    log = Episodic(cli("export", "tides", *IN, "--format", "apeira").out)
    state = load_state(cli("export", "tides", *IN, "--format", "apeira-state").out)
    events = read_jsonl(cli("export", "tides", *IN, "--format", "clawser").out.encode())

    assert state.episodic == log
    assert not log.read(type="meta")
    assert events.bad == 0
    assert [one["name"] for one in events.log.derive_tool_call_log()] == ["wind", "tide"]
    said = [one["content"] for one in events.log.derive_session_history()]
    assert said[-3:] == ["At 14:10.", "Thanks.", "You are welcome."]


def test_the_context_of_a_state_goes_out_again(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "tides.json"
    item = {"content": "Tide?", "role": "user", "type": "message"}
    log = Episodic()
    log.append_items([item], source="user")
    path.write_text(json.dumps({"context": {"user": "u1"}, "episodic": log.to_jsonl()}))

    assert cli("import", str(path), *IN).status == 0
    out = cli("export", "tides", *IN, "--format", "apeira-state").out

    assert load_state(out).context == {"user": "u1"}
    assert load_state(out).episodic == log


def test_files_that_are_not_read_are_named(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "clawser_conversations"
    folder.mkdir(parents=True)
    (folder / "broken.bin").write_bytes(bytes(range(256)))
    (tmp_path / "logs" / "weights.bin").write_bytes(b"\x00")
    checkpoint = {"history": [{"role": "user", "content": "Tide?"}], "goals": [], "timestamp": T0}
    (folder / "conv_1.bin").write_text(json.dumps(checkpoint))

    done = cli("import", str(tmp_path / "logs"), *IN)

    assert f"{folder / 'broken.bin'} was left out: " in done.err
    assert "files skipped, not logs by their names: .bin (1)" in done.out
    assert str(tmp_path / "logs" / "weights.bin") in done.out
    assert "imported 1 event of 1 session" in done.out


def spent(database: Path) -> tuple[int, int, int, int]:
    """Return the tokens of all sessions: given, made and cached; and how many calls failed."""
    with treering.open(database) as ledger:
        names = [one.session_id for one in ledger.sessions(HERE, subagents=True).items]
        sessions = [ledger.session(name, scope=HERE, agent="x") for name in names]
        totals = [session.usage().total for session in sessions]
        results = [one for session in sessions for one in session.events(kinds=["tool.result"])]
    return (
        sum(total.input_tokens for total in totals),
        sum(total.output_tokens for total in totals),
        sum(total.cached_tokens for total in totals),
        sum(one.refs["status"] == "failed" for one in results),
    )


@pytest.mark.parametrize("sample", sorted(LOGS))
def test_an_export_for_claude_code_has_the_tokens_and_failures_of_any_agent(
    cli: CommandLine, tmp_path: Path, sample: str
) -> None:
    """Agents report their usage in fields of their own."""
    _, log, beside = LOGS[sample]
    for name, held in {**beside, log: content(RECORDS[sample])}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(held)
    cli("import", str(tmp_path / log), *IN)
    with treering.open(cli.database) as ledger:
        (session,) = (one.session_id for one in ledger.sessions(HERE).items)
    out, fresh = tmp_path / "it.claude-code.jsonl", tmp_path / "fresh.db"

    assert cli("export", session, *IN, "--out", str(out)).status == 0
    assert cli("import", str(out), *IN, "--db", str(fresh)).status == 0

    assert spent(fresh) == spent(cli.database)
