"""``treering show``: a session as people read it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import msgspec
import pytest

import treering
from builders import HERE, NOON, said
from surfaces.talks import IN, LAUNCH, NEIGHBOUR, TOKEN, record_talk
from treering.surfaces.cli.export import FORMATS
from treering.surfaces.pages.entries import AHEAD_EVENTS_MAX, PageEntry
from treering.surfaces.pages.transcripts import pieces, whole
from treering.surfaces.pages.wording import tool_of
from treering.surfaces.shared.texts import Mask

if TYPE_CHECKING:
    from pathlib import Path

    from postgres_server import Places
    from surfaces.command_line import CommandLine


@pytest.fixture
def talk(cli: CommandLine) -> CommandLine:
    record_talk(cli.database)
    return cli


def shown(talk: CommandLine, *arguments: str) -> str:
    """Return what is printed, times and ids made equal."""
    outcome = talk("show", "deploy-17", *IN, *arguments)
    assert outcome.status == 0, outcome.err
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>", outcome.out)


def items(talk: CommandLine, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = talk("show", "deploy-17", *IN, *arguments, "--json").receipt[
        "items"
    ]
    return found


def test_a_session_is_told_by_its_cover_and_its_turns(talk: CommandLine) -> None:
    text = shown(talk)

    assert text.startswith("Deploy 2.0\nsession deploy-17 of scope acme/app, open, agent lyria")
    assert "5 turns, 4 tool calls (3 failing), 69 tokens" in text
    assert "fork → treering show deploy-18 --scope acme/app" in text
    assert re.findall(r"── (turn \d) · <time> · (\w+)", text) == [
        ("turn 1", "ended"),
        ("turn 2", "ended"),
        ("turn 3", "failed"),
        ("turn 4", "ended"),
        ("turn 5", "undone"),
    ]
    assert "treering sessions show deploy-17 --scope acme/app" in text


def test_tools_boundaries_and_failures_are_one_line_each(talk: CommandLine) -> None:
    lines = [re.sub(r" \d+ ms,?", "", line) for line in shown(talk).splitlines()]

    assert any(re.fullmatch(r"  > bash ok \d+ B", line) for line in lines)
    assert "    → treering show child-1 --scope acme/app" in lines
    assert "  > read_file failed (Error)" in lines
    assert any(line.startswith("  > explode synthetic (no result: aborted)") for line in lines)
    rules = [line.strip("─ ") for line in lines if re.match("── (?!turn)", line)]
    assert rules == [
        "checkpoint: tests are green",
        "run failed: Boom",
        "1 event redacted",
        "undone: 1 turn",
        "compacted: 24,000 → 3,000 tokens (-88 %), 40 messages summarised",
    ]
    assert "! alert: disk nearly full" in lines
    assert "  · 1 more: snapshot 1" in lines


def test_what_was_said_is_told_by_its_beginning_unless_payloads_are_asked_for(
    cli: CommandLine,
) -> None:
    text = "word " * 100
    with treering.open(cli.database) as ledger:
        ledger.session("s1", scope=HERE, agent="x").record(
            "conversation.user", text[:300], payload={"text": f"{text}\nthe end"}
        )

    brief, full = (cli("show", "s1", *IN, *more).out for more in ((), ("--payload",)))

    assert "the end" not in brief
    assert max(map(len, brief.splitlines())) <= 202
    assert "  the end" in full.splitlines()
    assert f"  {text.strip()}" in full.splitlines()


def test_no_payload_leaves_without_being_asked_for(talk: CommandLine) -> None:
    for arguments in ((), ("--json",)):
        out = talk("show", "deploy-17", *IN, *arguments).out
        assert "df -h" not in out
        assert "80G" not in out
        assert "It was about disks" not in out


def test_with_payloads_inputs_and_outputs_stand_below_their_tools(talk: CommandLine) -> None:
    lines = shown(talk, "--payload").splitlines()

    assert "    in  | df -h" in lines
    assert "    out | 80G <script>alert(1)</script>" in lines
    assert "    out | Error: no such file" in lines
    assert "  It was about disks." in lines
    assert "  Let me see." in lines


@pytest.mark.parametrize("more", [(), ("--payload",), ("--json",), ("--payload", "--json")])
def test_secrets_are_masked_and_erased_words_are_gone(
    talk: CommandLine, more: tuple[str, ...]
) -> None:
    out = talk("show", "deploy-17", *IN, *more).out

    assert TOKEN not in out
    assert "hunter2" not in out
    assert "[redacted:github:" in out
    assert LAUNCH not in out
    assert "[REDACTED]" in out
    assert NEIGHBOUR not in out
    if "--json" not in more:
        assert re.search(r"^\d+ texts? held secrets, masked here$", out, re.MULTILINE)


def test_long_texts_of_tools_are_cut_unless_all_of_it_is_asked_for(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope=HERE, agent="x")
        with session.turn() as turn:
            turn.user("go")
            with turn.tool("cat", {"path": "x"}) as call:
                call.finish("a" * 3_000)

    cut, whole_text = (cli("show", "s1", *IN, "--payload", *more).out for more in ((), ("--full",)))

    assert "… 1,000 more characters: --full shows them" in cut
    assert "a" * 3_000 in whole_text
    assert cli("show", "s1", *IN, "--full").status == 2


def test_one_turn_or_the_last_ones_can_be_asked_for(talk: CommandLine) -> None:
    heads = re.compile(r"── turn (\d)")

    assert heads.findall(shown(talk, "--turn", "3")) == ["3"]
    assert "Now break" in shown(talk, "--turn", "3")
    assert "healthy" not in shown(talk, "--turn", "3")
    assert heads.findall(shown(talk, "--last", "2")) == ["4", "5"]
    assert heads.findall(shown(talk, "--last", "500")) == ["1", "2", "3", "4", "5"]
    missing = talk("show", "deploy-17", *IN, "--turn", "9")
    assert missing.status == 1
    assert "has no turn 9" in missing.err
    assert talk("show", "deploy-17", *IN, "--turn", "1", "--last", "1").status == 2


def test_the_receipt_has_an_item_for_each_turn_and_entry(talk: CommandLine) -> None:
    receipt = talk("show", "deploy-17", *IN, "--payload", "--json").receipt

    found = receipt["items"]
    assert receipt["kind"] == "treering.show.v1"
    assert receipt["count"] == len(found)
    assert receipt["masked"] > 0
    assert receipt["spawned"] == {"child-1": "c1"}
    assert [one["number"] for one in found if one["sort"] == "turn"] == [1, 2, 3, 4, 5]
    tool = next(one for one in found if one["sort"] == "tool")
    assert (tool["name"], tool["input"], tool["session"]) == ("bash", "command: df -h", "child-1")


def test_a_result_far_behind_its_call_is_found(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        call = said("x", kind="tool.call", refs={"call_id": "far", "tool": "wait"}, ts_ms=NOON)
        words = [said(f"{number}", ts_ms=NOON) for number in range(AHEAD_EVENTS_MAX + 50)]
        result = said(
            "x",
            kind="tool.result",
            payload={"output": "late, but mine"},
            refs={"call_id": "far", "tool": "wait", "status": "failed"},
            ts_ms=NOON + 700,
        )
        ledger.append([call, *words, result])
        session = ledger.session("s1", scope=HERE, agent="x")

        both = [
            list(pieces(ledger, session, whole(), with_payloads=asked)) for asked in (False, True)
        ]

    for told in both:
        tools = [one for one in told if isinstance(one, PageEntry) and one.sort == "tool"]
        assert [(tool_of(one, Mask()).status, tool_of(one, Mask()).took) for one in tools] == [
            ("failed", "700 ms")
        ]
    assert b"late, but mine" not in msgspec.json.encode(both[0])
    assert b"late, but mine" in msgspec.json.encode(both[1])


def test_an_unknown_session_is_answered_with_what_looks_like_it(talk: CommandLine) -> None:
    outcome = talk("show", "deploy-1x", *IN)

    assert outcome.status == 1
    assert "deploy-17" in outcome.err


def test_a_server_is_looked_at_in_the_same_way(cli: CommandLine, postgres: Places) -> None:
    url = postgres.fresh()
    with treering.open(url) as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as turn:
            turn.user("hello")
            with turn.tool("grep", {"pattern": "x"}) as call:
                call.finish("found")
            turn.assistant("there")

    def asked(*arguments: str) -> Any:
        return cli.bare("--db", url, *arguments, *IN)

    assert "  > grep x ok" in asked("show", "s1", "--payload").out
    assert "  grep  1 " in asked("stats").out
    assert "hello" in asked("tail", "--kind", "conversation.user").out
    for form in set(FORMATS) - {"bundle"}:  # That is bytes, which cli cannot read.
        exported = asked("export", "s1", "--format", form, "--payload")
        assert (exported.status, "hello" in exported.out) == (0, True)
    bundle = cli.database.with_suffix(".zip")
    assert asked("export", "s1", "--out", str(bundle)).status == 0
    with ZipFile(bundle) as files:
        assert "events.jsonl" in files.namelist()


def test_a_terminal_gets_folded_lines_and_colours(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope=HERE, agent="x")
        with session.turn() as turn:
            turn.user("many words " * 15)
            with turn.tool("bash", {"command": "a long command " * 10}) as call:
                call.finish("ok")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")

    out = cli("show", "s1", *IN, "--payload").out

    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    body = plain.split("turn 1", 1)[1].split("goals,", 1)[0]
    assert out != plain
    assert max(map(len, body.splitlines()[1:])) <= 60
    assert body.count("many words") == 15


def test_tasks_and_edits_are_drawn_and_receipts_have_them_as_recorded(cli: CommandLine) -> None:
    tasks = [
        {"content": "Look", "status": "completed"},
        {"content": "Mend", "status": "in_progress"},
    ]
    edit = {"file_path": "a.py", "old_string": "x = 1\n", "new_string": "x = 2\ny = 3\n"}
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope="acme/app", agent="lyria")
        with session.turn() as turn:
            turn.user("mend it")
            for name, given in (("TodoWrite", {"todos": tasks}), ("Edit", edit)):
                with turn.tool(name, given) as call:
                    call.finish("ok")

    shown = cli("show", "s1", "--scope", "acme/app", "--payload").out
    receipt = cli("show", "s1", "--scope", "acme/app", "--payload", "--json").receipt

    assert "> TodoWrite 1 of 2 tasks done ok" in shown
    assert "in  | [x] Look\n        | [~] Mend\n" in shown
    assert "in  | a.py +2 -1\n        | - x = 1\n        | + x = 2\n        | + y = 3\n" in shown
    inputs = [json.loads(item["input"]) for item in receipt["items"] if item["sort"] == "tool"]
    assert inputs == [{"todos": tasks}, edit]


def test_times_that_a_log_does_not_tell_are_shown_as_approximate(
    cli: CommandLine, tmp_path: Path
) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Grep", "input": {"pattern": "lamp"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "lamp.py"}
    talk = [("user", "Mend the lamp."), ("assistant", [call]), ("user", [result])]
    lines = [{"role": role, "message": {"content": content}} for role, content in talk]
    path = tmp_path / "lamps.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    cli("import", str(path), *IN)
    text = cli("show", "lamps", *IN).out
    calls = cli("tools", "list", *IN, "--json").receipt["calls"]

    assert re.search(r"^~\d{4}-\S+ \S+ \S+$", text, re.MULTILINE)
    assert "── turn 1 · ~" in text
    assert re.search(r"Grep lamp ok \d+ B", text)
    assert [one["duration_ms"] for one in calls] == [None]
