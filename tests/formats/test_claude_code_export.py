from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import treering
from formats.logs.claude_code import (
    SESSION,
    Log,
    call,
    of_kind,
    outcomes_of,
    text,
    texts_in,
    told_by,
    used,
    uuid_of,
)
from treering.formats.claude_code.export import write_session

if TYPE_CHECKING:
    from pathlib import Path

    from treering.formats.telling import Told
    from treering.ledger.sessions import Session

PICTURE = {"type": "image", "source": {"type": "base64", "data": "aGVsbG8="}}


def recorded(tmp_path: Path, told: list[Told]) -> Session:
    """Return a session that holds what a log tells."""
    ledger = treering.open(tmp_path / "ledger.db")
    session = ledger.session("copy", scope="acme/app", agent="claude-code")
    seqs: dict[str, int] = {}
    for one in told:
        refs = dict(one.refs or {})
        if one.kind == "session.undone":
            refs["from_seq"] = seqs[one.first or ""]
        seqs[one.key] = session.record(
            one.kind, one.summary, payload=one.payload, refs=refs or None, ts_ms=one.ts_ms
        ).seq
    return session


def exported(session: Session) -> list[dict[str, Any]]:
    written = write_session(session.events(), session_id=SESSION, cwd="/srv/lighthouse")
    return [json.loads(line) for line in written]


def read_again(lines: list[dict[str, Any]]) -> list[Told]:
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return [event for outcome in outcomes_of(content) for event in outcome.events]


def calls_in(events: list[Told]) -> list[Any]:
    called = of_kind(events, "tool.call", "tool.result")
    fields = ("call_id", "name", "input", "output", "status", "detail")
    return [(one.kind, *(one.payload.get(field) for field in fields)) for one in called]


def test_a_log_that_was_taken_in_and_written_again_tells_the_same(tmp_path: Path) -> None:
    log = Log()
    log.user([text("Why is the lamp dark?"), PICTURE])
    log.answer("I'll look.")
    log.answer(call("toolu_1", command="cat fuse.log"))
    log.answer(call("toolu_2", "Read", file_path="/srv/lamp.png"))
    log.result("toolu_1", "fuse: blown", toolUseResult={"exitCode": 3})
    log.result("toolu_2", [text("a lamp"), PICTURE])
    log.answer("The fuse is blown.", id="msg_2")
    log.user("Mend it.")
    log.answer(call("toolu_3", command="mend"), id="msg_3")
    log.answer(call("toolu_4", command="true"), id="msg_3")
    log.result("toolu_3", "no wire", is_error=True)
    log.result("toolu_4", "")
    log.user("[Request interrupted by user]")
    log.user("Leave it.")
    log.note("custom-title", customTitle="The dark lamp", sessionId=SESSION)
    told = told_by(log)

    again = read_again(exported(recorded(tmp_path, told)))

    assert texts_in(again) == texts_in(told)
    assert calls_in(again) == calls_in(told)
    kinds = ("boundary.interrupt", "session.titled")
    assert [one.payload for one in of_kind(again, *kinds)] == [
        one.payload for one in of_kind(told, *kinds)
    ]
    assert [one.ts_ms for one in of_kind(again, "conversation.user")] == [
        one.ts_ms for one in of_kind(told, "conversation.user")
    ]


def test_pain_1_what_was_broken_is_whole_in_what_is_written(tmp_path: Path) -> None:
    log = Log()
    log.result("toolu_0", "of nobody")
    log.user("Light both lamps.")
    log.answer(call("toolu_1"), call("toolu_2"))
    log.user("Quickly!")
    log.result("toolu_2", "lit")

    lines = exported(recorded(tmp_path, told_by(log)))

    blocks = [
        (block["type"], block.get("id") or block.get("tool_use_id"), block.get("is_error"))
        for line in lines
        if isinstance(line["message"]["content"], list)
        for block in line["message"]["content"]
    ]
    assert blocks == [
        ("tool_use", "toolu_1", None),
        ("tool_use", "toolu_2", None),
        ("tool_result", "toolu_1", True),
        ("tool_result", "toolu_2", None),
    ]
    assert [line["message"]["content"] for line in (lines[0], lines[-1])] == [
        "Light both lamps.",
        "Quickly!",
    ]


def test_lines_follow_each_other_and_all_ids_are_their_own(tmp_path: Path) -> None:
    log = Log()
    log.user("Light the lamp.")
    log.answer("I'll try.", call("toolu_1"))
    log.result("toolu_1")
    session = recorded(tmp_path, told_by(log))

    lines = exported(session)

    uuids = [line["uuid"] for line in lines]
    assert [line["parentUuid"] for line in lines] == [None, *uuids[:-1]]
    assert len(set(uuids)) == len(uuids) == 4
    assert {line["sessionId"] for line in lines} == {SESSION}
    assert {line["message"]["id"] for line in lines[1:3]} == {lines[1]["message"]["id"]}
    assert lines[3]["sourceToolAssistantUUID"] == uuids[2]
    assert exported(session) == lines


def test_a_call_of_a_model_is_counted_once_however_often_it_is_reported(tmp_path: Path) -> None:
    log = Log()
    log.answer("I'll try.", usage=used(1), requestId="req_1")
    log.answer(call("toolu_1"), usage=used(9), requestId="req_1")
    log.answer(call("toolu_2"), usage=used(9), requestId="req_1")
    log.answer("Lit.", id="msg_2", usage=used(4), requestId="req_2")

    spent = recorded(tmp_path, told_by(log)).usage().total

    assert (spent.calls, spent.input_tokens, spent.output_tokens) == (2, 20, 13)


def test_what_was_undone_is_not_written(tmp_path: Path) -> None:
    log = Log()
    log.user("one")
    log.answer("first")
    log.user("two")
    log.answer("second", id="msg_2")
    log.user("two, but better", parentUuid=uuid_of(2))

    again = read_again(exported(recorded(tmp_path, told_by(log))))

    assert texts_in(again) == ["one", "first", "two, but better"]


def test_a_compaction_stands_where_it_was(tmp_path: Path) -> None:
    log = Log()
    log.user("one")
    log.line("system", subtype="compact_boundary", compactMetadata={"preTokens": 900})
    log.user("They counted to one.", isCompactSummary=True)
    log.user("two")

    again = read_again(exported(recorded(tmp_path, told_by(log))))

    assert [event.kind for event in again] == [
        "conversation.user",
        "compaction.ended",
        "context.compacted",
        "conversation.user",
    ]
    assert again[2].payload == {
        "summary": "They counted to one.",
        "by": "claude-code",
        "from_tokens": 900,
    }


def test_a_session_of_another_origin_is_written_as_well(tmp_path: Path) -> None:
    ledger = treering.open(tmp_path / "ledger.db")
    session = ledger.session("s1", scope="acme/app", agent="lyria")
    session.record("conversation.assistant", "Good morning.", payload={"text": "Good morning."})
    with session.turn() as turn:
        turn.user("What changed?")
        with turn.tool("git.log", {"since": "friday"}) as tool_call:
            tool_call.finish({"commits": 3})
        turn.assistant("Three commits.")

    lines = exported(session)

    assert [line["type"] for line in lines] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert lines[0]["isMeta"] is True
    assert lines[3]["message"]["content"][0]["input"] == {"since": "friday"}
    assert texts_in(read_again(lines)) == ["Good morning.", "What changed?", "Three commits."]
