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

    from treering.formats.parsed import ParsedEvent
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.intakes import ImportReceipt

PICTURE = {"type": "image", "source": {"type": "base64", "data": "aGVsbG8="}}


def recorded(tmp_path: Path, told: list[ParsedEvent]) -> Session:
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
    return [json.loads(line) for line in written.lines]


def imported(tmp_path: Path, log: Log, name: str = "ledger.db") -> Ledger:
    """Return a ledger that a log was taken into."""
    path = tmp_path / "logs" / f"{SESSION}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(log.content())
    ledger = treering.open(tmp_path / name)
    treering.import_logs(ledger, [path], scope="acme/app")
    return ledger


def put_back(tmp_path: Path, ledger: Ledger, *sources: Session) -> ImportReceipt:
    """Import what is exported of ``sources``."""
    for number, source in enumerate(sources):
        written = write_session(source.events(), session_id=SESSION, cwd="/srv/lighthouse")
        (tmp_path / f"{number}.jsonl").write_bytes(b"".join(written.lines))
    files = [tmp_path / f"{number}.jsonl" for number in range(len(sources))]
    return treering.import_logs(ledger, files, scope="acme/app")


def session_in(ledger: Ledger) -> Session:
    return ledger.session(SESSION, scope="acme/app", agent="claude-code")


def full_log() -> Log:
    """Return a log with all that an export writes."""
    thought = {"type": "thinking", "thinking": "A fuse?", "signature": "c2ln"}
    sealed = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    first = {"id": "msg_1", "requestId": "req_1"}
    log = Log()
    log.user([text("Why is the lamp dark?"), PICTURE])
    log.answer(thought, usage=used(1), **first)
    log.answer(
        "I'll look.", call("toolu_1", command="cat fuse.log"), usage=used(7, cached=3), **first
    )
    log.result("toolu_1", "The user doesn't want to proceed", is_error=True)
    log.answer(sealed, call("toolu_2", command="mend"), id="msg_2", usage=used(4))
    log.line("system", subtype="compact_boundary", compactMetadata={"preTokens": 900})
    log.user("They looked for a fuse.", isCompactSummary=True)
    log.user("[Request interrupted by user]")
    log.user("Leave it.")
    log.note("custom-title", customTitle="The dark lamp", sessionId=SESSION)
    return log


def read_again(lines: list[dict[str, Any]]) -> list[ParsedEvent]:
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return [event for outcome in outcomes_of(content) for event in outcome.events]


def calls_in(events: list[ParsedEvent]) -> list[Any]:
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


def test_what_is_exported_and_taken_in_again_is_known(tmp_path: Path) -> None:
    ledger = imported(tmp_path, full_log())
    before = [one.event_id for one in session_in(ledger).events()]

    receipt = put_back(tmp_path, ledger, session_in(ledger))

    assert [one.event_id for one in session_in(ledger).events()] == before
    assert (receipt.imported, receipt.errors) == (0, 0)
    # The result that never came.
    assert receipt.skipped == {"put in by an export": 1}


def test_what_is_exported_is_known_even_to_who_drops_our_field(tmp_path: Path) -> None:
    log = Log()
    log.user("Why is the lamp dark?")
    log.answer("I'll look.", usage=used(7), requestId="req_1")
    log.answer(call("toolu_1"), usage=used(7), requestId="req_1")
    log.result("toolu_1")
    ledger = imported(tmp_path, log)
    lines = exported(session_in(ledger))
    bare = [{name: told for name, told in line.items() if name != "treering"} for line in lines]
    (tmp_path / "bare.jsonl").write_text("".join(json.dumps(line) + "\n" for line in bare))

    receipt = treering.import_logs(ledger, [tmp_path / "bare.jsonl"], scope="acme/app")

    assert (receipt.imported, receipt.duplicates) == (0, 4)


def test_what_is_exported_is_whole_in_another_ledger(tmp_path: Path) -> None:
    source = session_in(imported(tmp_path, full_log()))
    ledger = treering.open(tmp_path / "another.db")

    put_back(tmp_path, ledger, source)

    copy = session_in(ledger)
    left_out = {"session.opened", "session.imported"}
    wanted = [one for one in source.events() if one.kind not in left_out]
    found = {one.event_id: one for one in copy.events()}
    assert [(one.kind, found[one.event_id].kind) for one in wanted] == [
        (one.kind, one.kind) for one in wanted
    ]
    assert copy.usage().total == source.usage().total
    said, again = ([one["content"] for one in each.history()] for each in (source, copy))
    assert again == said
    assert copy.outline().title == "The dark lamp"


def test_a_session_that_goes_on_behind_its_export_goes_on_in_the_ledger(tmp_path: Path) -> None:
    log = Log()
    log.user("Why is the lamp dark?")
    log.answer("The fuse is blown.")
    ledger = imported(tmp_path, log)
    lines = exported(session_in(ledger))
    more = Log(first=50)
    more.user("Mend it.", parentUuid=lines[-1]["uuid"])
    (tmp_path / "on.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in (*lines, *more.lines))
    )

    treering.import_logs(ledger, [tmp_path / "on.jsonl"], scope="acme/app")

    assert [one["content"] for one in session_in(ledger).history()] == [
        "Why is the lamp dark?", "The fuse is blown.", "Mend it.",
    ]  # fmt: skip


def test_an_export_of_another_agents_session_is_known_as_well(tmp_path: Path) -> None:
    ledger = treering.open(tmp_path / "ledger.db")
    session = ledger.session("s1", scope="acme/app", agent="lyria")
    with session.turn() as turn:
        turn.user("What changed?")
        with turn.tool("git.log", {}) as tool_call:
            tool_call.finish({"commits": 3})
        turn.assistant("Three commits.")

    receipt = put_back(tmp_path, ledger, session)

    assert (receipt.imported, receipt.sessions_new) == (0, 0)


def test_a_message_keeps_its_model_its_ids_its_thoughts_and_what_it_used(tmp_path: Path) -> None:
    lines = exported(session_in(imported(tmp_path, full_log())))

    said = [line for line in lines if line["type"] == "assistant"]
    blocks = [line["message"]["content"][0]["type"] for line in said]
    assert blocks == ["thinking", "text", "tool_use", "redacted_thinking", "tool_use"]
    assert said[0]["message"]["content"][0]["signature"] == "c2ln"
    assert {line["message"]["model"] for line in said} == {"claude-opus-4-1"}
    assert [line["message"]["id"] for line in said] == ["msg_1"] * 3 + ["msg_2"] * 2
    assert [line.get("requestId") for line in said] == ["req_1"] * 3 + [None] * 2
    assert [line["message"]["usage"]["output_tokens"] for line in said] == [7, 7, 7, 4, 4]
    assert said[0]["message"]["usage"]["cache_read_input_tokens"] == 3


def test_a_thought_that_does_not_fit_its_signature_is_left_out(tmp_path: Path) -> None:
    log = Log()
    masked = "password = [redacted:password:1f0c8a77]"
    log.answer({"type": "thinking", "thinking": masked, "signature": "c2ln"}, "Lit.")
    log.answer({"type": "thinking", "thinking": "unsigned"}, "Lit.", id="msg_2")

    lines = exported(recorded(tmp_path, told_by(log)))

    said = [line["message"]["content"][0]["type"] for line in lines[1:] if "message" in line]
    assert said == ["text", "text"]
    kept = [line["treering"]["told"] for line in lines if line["type"] == "system"]
    assert [one["payload"]["thinking"] for one in kept] == [masked, "unsigned"]


def test_pain_1_what_was_broken_is_whole_in_what_is_written(tmp_path: Path) -> None:
    log = Log()
    log.result("toolu_0", "of nobody")
    log.user("Light both lamps.")
    log.answer(call("toolu_1"), call("toolu_2"))
    log.user("Quickly!")
    log.result("toolu_2", "lit")

    aside, *lines = exported(recorded(tmp_path, told_by(log)))

    assert aside["treering"]["told"]["payload"]["output"] == "of nobody"
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
