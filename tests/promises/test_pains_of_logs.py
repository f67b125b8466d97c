"""What people suffer from most whose agents write logs, each as the logs that it befell."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from capture.intake_logs import (
    EVERYWHERE,
    VOYAGES,
    check_sums,
    claude_log,
    every_event,
    lines,
    said_in,
    session_in,
    write,
)
from formats.logs import codex, gemini, pi
from formats.logs.claude_code import OTHER_SESSION, SESSION, Log, call, used
from surfaces.command_line import CommandLine
from treering.app import import_logs

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger

YEAR_MS: Final = 365 * 86_400_000


@pytest.fixture
def cli(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    return CommandLine(tmp_path / "ledger.db", capsys, monkeypatch)


# 2: the agent deletes its own logs after some weeks, and nobody was told.


def test_pain_2_sessions_outlive_the_logs_that_their_agent_deletes(
    cli: CommandLine, here: Ledger, tmp_path: Path
) -> None:
    old = claude_log("Where is the fuse?")
    for line in old.lines:
        line["timestamp"] = "2021-01-01T00:00:00.000Z"
    path = write(tmp_path / "logs" / f"{SESSION}.jsonl", old.lines)
    assert cli("import", str(path), "--scope", "acme/app").status == 0
    path.unlink()
    path.parent.rmdir()

    assert cli("episodes", "gc", "--scope", "acme/app").status == 0
    assert cli("sessions", "sweep", "--scope", "acme/app").status in {0, 2}
    here.expire("acme/app", now_ms=int(time.time() * 1_000) + 5 * YEAR_MS)

    assert said_in(session_in(here, SESSION, "acme/app")) == [
        "Where is the fuse?",
        "about Where is the fuse?",
    ]
    assert "Where is the fuse?" in cli("show", SESSION, "--scope", "acme/app").out
    assert here.admin.verify().intact


# 5: secrets that went by in a session are in its log, and then everywhere.

KEY: Final = "sk-ant-api03-" + "Fak3" * 22 + "-FAKEFAKEAA"
TOKEN: Final = "ghp_" + "FaKe0123456789" * 2 + "FaKe5678"
PASSWORD: Final = "fake-Tr0mbone-9931-horn"
SECRETS: Final = (KEY, TOKEN, PASSWORD)
ENVIRONMENT: Final = f"HOME=/root\nANTHROPIC_API_KEY={KEY}\nDB_PASSWORD={PASSWORD}\nLANG=C"


def secretive_logs(folder: Path) -> list[Path]:
    """Write logs of three agents with secrets in every place where there can be one."""
    log = Log()
    log.user(f"Use the key {KEY} and log in with password={PASSWORD}")
    log.answer(
        f"I use {TOKEN}.",
        call("toolu_1", "Bash", command=f"curl -H 'Authorization: Bearer {TOKEN}' example.org"),
        usage=used(3),
    )
    log.result("toolu_1", ENVIRONMENT, toolUseResult={"stdout": ENVIRONMENT, "stderr": ""})
    log.note("summary", summary=f"Trying {KEY}", leafUuid="x")
    log.line("system", content=f"export GITHUB_TOKEN={TOKEN}", level="info")
    rollout = [
        codex.opened(),
        codex.user_item(f"my key is {KEY}"),
        codex.call("c1", command=["bash", "-lc", f"git clone https://x:{TOKEN}@example.org/a"]),
        codex.output("c1", {"output": ENVIRONMENT, "metadata": {"exit_code": 0}}),
        codex.event("exec_command_begin", command=[f"--token={TOKEN}"], cwd="/"),
        codex.line("a_record_of_the_future", {"env": {"DB_PASSWORD": PASSWORD, "key": KEY}}),
    ]
    session = [
        pi.header(),
        pi.said(1, f"token: {TOKEN}"),
        pi.answered(2, pi.call("c1", "bash", command=f"DB_PASSWORD={PASSWORD} ./run")),
        pi.returned(3, "c1", ENVIRONMENT, "bash"),
        pi.entry(4, "compaction", summary=f"They used {KEY}", firstKeptEntryId=pi.ident(3)),
    ]
    chat = [
        dict(gemini.HEADER),
        gemini.user("m1", f"the key is {KEY}"),
        gemini.answer("m2", "ok", toolCalls=[gemini.call("c1", output=ENVIRONMENT)]),
    ]
    logs = {"claude": log.lines, "codex": rollout, "pi": session, "gemini": chat}
    return [write(folder / f"{name}.jsonl", records) for name, records in logs.items()]


def test_pain_5_secrets_in_a_log_are_nowhere_in_the_ledger(
    cli: CommandLine, tmp_path: Path
) -> None:
    paths = secretive_logs(tmp_path / "logs")
    told = cli("import", *map(str, paths), "--scope", "acme/app", "--json")
    again = cli("import", *map(str, paths), "--scope", "acme/app", "--again", "--json")

    assert (told.receipt["errors"], again.receipt["events"]) == (0, 0)
    surfaces = [told.out, again.out]
    for session in (SESSION, codex.SESSION, pi.SESSION, "s1"):
        place = (session, "--scope", "acme/app")
        surfaces += [cli("show", *place).out, cli("show", *place, "--json").out]
        surfaces += [cli("context", *place).out]
        surfaces += [cli("export", *place, "--format", "md").out]
    surfaces += [cli("episodes", "export", "--scope", "acme/app", "--include-payload").out]
    surfaces += [cli("search", word, "--scope", "acme/app").out for word in ("key", "token")]
    with treering.open(cli.database) as ledger:
        assert len(every_event(ledger, "acme/app")) > 20
        assert ledger.admin.verify().intact
    kept = b"".join(one.read_bytes() for one in tmp_path.glob("ledger*") if one.is_file())

    for secret in SECRETS:
        assert secret.encode() not in kept
        for surface in surfaces:
            assert secret not in surface
    assert "Use the key" in "".join(surfaces)


# 6: one knows that it was said, and not in which of a thousand sessions.


def test_pain_6_a_session_is_found_by_what_was_said_and_done_in_it(
    cli: CommandLine, here: Ledger, tmp_path: Path
) -> None:
    for n in range(20):
        session = f"5e551011-0000-4000-8000-00000000{n:04}"
        said = "the kraken sleeps" if n == 13 else f"the tide of day {n}"
        log = claude_log(said, session=session, first=1 + n * 10)
        write(tmp_path / "logs" / f"{session}.jsonl", log.lines)
    rollout = [*VOYAGES["codex"][1], codex.call("c9", command="grep -r narwhal src")]
    write(tmp_path / "logs" / codex.PATH, rollout)
    cli("import", str(tmp_path / "logs"), "--scope", "acme/app")

    found = here.search("kraken", scope="acme/app")

    assert {one.session_id for one in found.sessions} == {"5e551011-0000-4000-8000-000000000013"}
    assert "treering show 00000013" in cli("search", "kraken", "--scope", "acme/app").out
    assert codex.SESSION in cli("search", "narwhal", "--scope", "acme/app", "--json").out


# 10: what belongs to one customer turns up at another's.


def test_pain_10_nothing_of_one_project_is_seen_from_another(
    cli: CommandLine, here: Ledger, tmp_path: Path
) -> None:
    for name, word in (("alpha", "walrus"), ("omega", "narwhal")):
        session = f"5e551011-0000-4000-8000-{'1' if name == 'alpha' else '2':0>12}"
        log = claude_log(f"the {word} is loose", session=session, cwd=f"/gone/{name}",
                         first=1 if name == "alpha" else 500)  # fmt: skip
        log.answer(call(f"toolu_{word}", "Bash", command=f"catch {word}"), id=f"msg_{word}")
        write(tmp_path / "logs" / name / f"{session}.jsonl", log.lines)
        rollout = [codex.opened(f"0199aaaa-0000-7000-8000-{word:0>12}", cwd=f"/gone/{name}"),
                   *codex.turn(f"feed the {word}", f"the {word} is fed")]  # fmt: skip
        write(tmp_path / "logs" / name / "rollout.jsonl", rollout)
    assert set(cli("import", str(tmp_path / "logs"), "--json").receipt["by_scope"]) == {
        "alpha",
        "omega",
    }

    for scope, own, other in (("alpha", "walrus", "narwhal"), ("omega", "narwhal", "walrus")):
        place = ("--scope", scope)
        surfaces = [
            cli("sessions", "list", *place, "--json").out,
            cli("episodes", "query", *place, "--json", "--include-payload").out,
            cli("episodes", "export", *place, "--include-payload").out,
            cli("tools", "list", *place, "--json").out,
            cli("search", own, *place, "--json").out,
            *(
                cli("show", one.session_id, *place, "--json").out
                for one in here.sessions(scope).items
            ),
        ]
        everything = "".join(surfaces)
        assert own in everything
        assert other not in everything
        assert not here.search(other, scope=scope).sessions
        for one in here.sessions("omega" if scope == "alpha" else "alpha").items:
            assert cli("show", one.session_id, *place).status != 0


# 12: two writers at one file, and a power cut: lines welded, torn, filled with nothing.


def test_pain_12_logs_that_several_wrote_to_at_once_lose_no_sound_line(
    here: Ledger, tmp_path: Path
) -> None:
    log = claude_log(*(f"question {n}" for n in range(20)))
    parts = lines(log.lines).splitlines(keepends=True)
    parts[4] = parts[4][:-1]  # Welded to the next one.
    parts[10] = parts[10][:-40]  # Torn, and the next one behind it.
    parts[20] = parts[20][:60] + parts[21] + parts[20][60:]  # Written into each other.
    parts[21] = b""
    parts[30] = b"\0" * 4_096 + b"\n"  # Never reached the disk.
    parts[35] = b"\xef\xbb\xbf" + parts[35]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(parts) + parts[39][:50])

    receipt = import_logs(here, [path], scope=EVERYWHERE)

    check_sums(receipt)
    said = {one.payload["text"] for one in every_event(here) if "conversation" in one.kind}
    whole = [json.loads(line) for n, line in enumerate(lines(log.lines).splitlines())
             if n not in {10, 11, 20, 21, 30}]  # fmt: skip
    for line in whole:
        content = line["message"]["content"]
        assert (content if isinstance(content, str) else content[0]["text"]) in said
    assert receipt.errors >= 3
    assert all(fault.file == str(path) and fault.line >= 1 for fault in receipt.faults)
    assert here.admin.verify().intact


# 15: subagents, resumed copies and streaming make two sessions into twelve, and double the bill.


def test_pain_15_sessions_and_costs_are_counted_once(
    cli: CommandLine, here: Ledger, tmp_path: Path
) -> None:
    log = Log()
    log.user("Mend the lamp.")
    log.answer("I'll ask.", usage=used(1), requestId="req_1")
    log.answer(call("toolu_1", "Task", prompt="find the fuse"), usage=used(9), requestId="req_1")
    log.result("toolu_1", "It is blown.")
    log.answer("Mended.", id="msg_3", usage=used(20), requestId="req_3")
    sub = Log(SESSION, first=60, isSidechain=True, agentId="a1")
    sub.user("find the fuse")
    sub.answer("It is", id="msg_2", usage=used(2), requestId="req_2")
    sub.answer("It is blown.", id="msg_2", usage=used(4), requestId="req_2", parentUuid=None)
    copy = Log(OTHER_SESSION, first=90)
    copy.lines = [{**line, "sessionId": OTHER_SESSION} for line in log.lines]
    copy.user("And the horn?", parentUuid=log.lines[-1]["uuid"])
    copy.answer("Loud.", id="msg_4", usage=used(30), requestId="req_4")
    folder = tmp_path / "logs"
    write(folder / f"{SESSION}.jsonl", log.lines)
    write(folder / SESSION / "subagents" / "agent-a1.jsonl", sub.lines)
    write(folder / f"{OTHER_SESSION}.jsonl", copy.lines)
    write(folder / "copied" / f"{SESSION}.jsonl", log.lines)

    receipt: dict[str, Any] = cli("import", str(folder), "--scope", EVERYWHERE, "--json").receipt

    assert (receipt["sessions"], receipt["sessions_new"], receipt["subagents"]) == (2, 2, 1)
    reports = [one for one in every_event(here) if one.kind == "usage.reported"]
    most: dict[str, int] = {}
    for one in reports:
        message = str(one.refs["message_id"])
        most[message] = max(most.get(message, 0), int(one.refs["output_tokens"]))
    assert sum(most.values()) == 9 + 20 + 4 + 30
    usage = {
        one: session_in(here, one).usage().total.output_tokens
        for one in (SESSION, OTHER_SESSION, f"{SESSION}/agent-a1")
    }
    assert usage == {SESSION: 29, OTHER_SESSION: 59, f"{SESSION}/agent-a1": 4}
    spoken = [one.payload["text"] for one in every_event(here) if "conversation" in one.kind]
    assert len(spoken) == len(set(spoken))
