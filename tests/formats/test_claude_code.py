from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.logs.claude_code import (
    BEGUN,
    OTHER_SESSION,
    SESSION,
    Log,
    call,
    of_kind,
    outcomes_of,
    parts_of,
    records_of,
    text,
    texts_in,
    told_by,
    used,
    uuid_of,
)
from treering.formats.claude_code import FORMAT, NAME, ClaudeCodeReader, score
from treering.formats.claude_code.state import STATE_BYTES_MAX
from treering.formats.parsed import LogRecord
from treering.model.codec import canonical
from treering.model.fields import check_name, check_summary, check_time
from treering.model.kinds import KINDS

FIELDS: Final = (
    *("type", "subtype", "uuid", "parentUuid", "sessionId", "timestamp", "message", "cwd"),
    *("toolUseResult", "forkedFrom", "agentId", "isSidechain", "leafUuid", "summary", "snapshot"),
)


def a_conversation() -> Log:
    log = Log()
    log.user("Why is the lamp dark?")
    log.answer({"type": "thinking", "thinking": "The fuse?", "signature": "c2lnbmVk"})
    log.answer("I'll look at the fuse.", usage=used(5))
    log.answer(call("toolu_1", command="cat fuse.log"), usage=used(40), stop_reason="tool_use")
    log.result("toolu_1", "fuse: blown", toolUseResult={"stdout": "fuse: blown", "durationMs": 12})
    log.answer("The fuse is blown.", id="msg_2", stop_reason="end_turn", usage=used(7))
    return log


ODD: Final = st.one_of(
    st.sampled_from(["", "user", "tool_use", "[Request interrupted by user]", "<command-name>"]),
    st.none() | st.booleans() | st.integers(-1, 2**53) | st.text(max_size=5),
    st.lists(st.just({"type": "tool_result"}) | st.text(max_size=3), max_size=2),
    st.dictionaries(st.sampled_from(["type", "text", "agentId"]), st.text(max_size=3), max_size=2),
)


@st.composite
def odd_lines(draw: st.DrawFn) -> Any:
    """Return a line of a conversation in which some things are not what they should be."""
    line: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from(a_conversation().lines))))
    line |= draw(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=3))
    if isinstance(line["message"], dict):
        inside = ("id", "content", "usage", "model")
        line["message"] |= draw(st.dictionaries(st.sampled_from(inside), ODD, max_size=2))
    return line


# What is said.


def test_a_conversation_is_told_in_its_order_with_every_part_of_it() -> None:
    assert parts_of(a_conversation()) == [
        ("conversation.user", "Why is the lamp dark?"),
        ("ops.observation", "thinking"),
        ("conversation.assistant", "I'll look at the fuse."),
        ("usage.reported", "15 tokens used"),
        ("tool.call", "Bash: cat fuse.log"),
        ("usage.reported", "50 tokens used"),
        ("tool.result", "Bash returned: fuse: blown"),
        ("conversation.assistant", "The fuse is blown."),
        ("usage.reported", "17 tokens used"),
    ]


def test_events_are_named_after_the_ids_of_their_lines_and_say_what_they_follow() -> None:
    log = Log()
    log.user("Why is the lamp dark?")
    log.answer("I'll look.", call("toolu_1"), call("toolu_2"))

    events = told_by(log)

    one, two = uuid_of(1), uuid_of(2)
    assert [event.key for event in events] == [one, two, f"{two}.1", f"{two}.2"]
    assert [event.after for event in events] == [None, one, one, one]
    assert [event.ts_ms for event in events] == [BEGUN + 1_000] + [BEGUN + 2_000] * 3


def test_every_kind_that_is_told_is_one_of_the_ledgers() -> None:
    log = a_conversation()
    log.line("system", subtype="compact_boundary")
    log.user("[Request interrupted by user]")
    log.line("progress", content="…")

    assert {event.kind for event in told_by(log)} <= set(KINDS)


def test_a_call_and_its_result_share_their_id_and_their_tool() -> None:
    called, returned = of_kind(told_by(a_conversation()), "tool.call", "tool.result")

    assert called.payload == {
        "call_id": "toolu_1",
        "name": "Bash",
        "input": {"command": "cat fuse.log"},
    }
    assert returned.payload == {
        "call_id": "toolu_1",
        "name": "Bash",
        "status": "ok",
        "output": "fuse: blown",
        "duration_ms": 12,
        "detail": {"durationMs": 12},
    }
    assert returned.refs == {
        "call_id": "toolu_1",
        "tool": "Bash",
        "status": "ok",
        "duration_ms": 12,
    }


def test_the_patch_of_an_edit_is_kept_and_a_mere_repetition_of_the_output_is_not() -> None:
    patch = {"filePath": "/srv/lamp.py", "structuredPatch": [{"oldStart": 1, "lines": ["+on"]}]}
    log = Log()
    log.answer(call("toolu_1", "Edit", file_path="/srv/lamp.py"), call("toolu_2"))
    log.result("toolu_1", "edited", toolUseResult=patch)
    log.result("toolu_2", "no such file", is_error=True, toolUseResult="Error: no such file")

    edited, failed = of_kind(told_by(log), "tool.result")

    assert edited.payload["detail"] == patch
    assert "detail" not in failed.payload
    assert failed.payload["error"] == {"class": "ToolError", "message": "no such file"}
    assert (failed.payload["status"], failed.refs and failed.refs["status"]) == ("failed", "failed")


def test_the_blocks_of_an_output_stay_as_they_are() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "aGVsbG8="}}
    log = Log()
    log.answer(call("toolu_1", "Read"))
    log.result("toolu_1", [text("a lamp"), picture])

    assert of_kind(told_by(log), "tool.result")[0].payload["output"] == [text("a lamp"), picture]


def test_a_result_is_no_prompt_and_a_text_beside_it_is() -> None:
    log = Log()
    log.answer(call("toolu_1"))
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
    log.user([result, text("and now the other one")])

    events = told_by(log)[1:]

    assert [event.kind for event in events] == ["tool.result", "conversation.user"]
    assert texts_in(events) == ["and now the other one"]


def test_a_prompt_of_several_blocks_is_one_prompt_with_its_pictures() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "aGVsbG8="}}
    log = Log()
    log.user([text("look at"), text("this"), picture])
    log.user([picture])

    first, second = told_by(log)

    assert first.payload == {"text": "look at\nthis", "attachments": [picture]}
    assert second.payload == {"text": "(image)", "attachments": [picture]}


def test_thoughts_keep_their_signature_and_are_not_said() -> None:
    log = Log()
    log.answer({"type": "thinking", "thinking": "", "signature": "c2lnbmVk"})
    log.answer({"type": "redacted_thinking", "data": "Y2xvc2Vk"})
    log.answer({"type": "thinking", "thinking": ""})

    events = told_by(log)

    assert [event.payload for event in events] == [
        {"thinking": "", "signature": "c2lnbmVk"},
        {"thinking": "", "data": "Y2xvc2Vk"},
    ]
    assert events[0].refs == {
        "observed": "thinking",
        "message_id": "msg_1",
        "model": "claude-opus-4-1",
    }


# What is in the user's place and not the user's.


@pytest.mark.parametrize(
    ("content", "told", "what"),
    [
        ("<command-name>/model</command-name>", {}, "command"),
        ("<command-message>init is running…</command-message>", {}, "command"),
        ("<local-command-stdout>Set model</local-command-stdout>", {}, "command output"),
        ("<bash-input>ls</bash-input>", {}, "command output"),
        ("<task-notification><status>done</status></task-notification>", {}, "task-notification"),
        ("<system-reminder>Mind the gap.</system-reminder>", {}, "injected"),
        ("Caveat: what follows was a command.", {"isMeta": True}, "injected"),
    ],
)
def test_what_nobody_typed_is_seen_and_not_said(
    content: str, told: dict[str, Any], what: str
) -> None:
    log = Log()
    log.user(content, **told)

    [event] = told_by(log)

    assert (event.kind, event.refs) == ("ops.observation", {"observed": what})
    assert event.payload["message"]["content"] == content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<command-name>/tend</command-name>", "/tend"),
        (
            "<command-name>/tend</command-name>\n<command-args>the lamp\nthe horn </command-args>",
            "/tend the lamp\nthe horn",
        ),
        ("<command-message>…</command-message>\n<command-name>/tend</command-name>", "/tend"),
        ("<command-name>tend</command-name>\n<command-args></command-args>", "/tend"),
    ],
)
def test_a_slash_command_is_what_the_user_typed(content: str, said: str) -> None:
    log = Log()
    log.user(content)

    [event] = told_by(log)

    assert (event.kind, event.payload) == ("conversation.user", {"text": said, "raw": content})


@pytest.mark.parametrize(
    "content",
    [
        "<command-name>/clear</command-name>\n<command-args></command-args>",
        "<command-name>/tend</command-name><local-command-stdout>Tended.</local-command-stdout>",
        [
            text("<command-name>/tend</command-name>"),
            text("<local-command-stdout>Tended.</local-command-stdout>"),
        ],
    ],
)
def test_a_command_for_the_program_itself_is_seen_and_not_said(content: Any) -> None:
    log = Log()
    log.user(content)

    assert {event.kind for event in told_by(log)} == {"ops.observation"}


def test_a_reminder_in_front_of_a_prompt_does_not_hide_it() -> None:
    log = Log()
    log.user("<system-reminder>Mind the gap.</system-reminder>\nLight the lamp.")
    log.user([text("<ide_opened_file>lamp.py</ide_opened_file>"), text("Put it out.")])

    assert len(texts_in(told_by(log))) == 2
    assert of_kind(told_by(log), "ops.observation")[0].payload == {
        "record": "user",
        "text": "<ide_opened_file>lamp.py</ide_opened_file>",
    }


def test_results_are_told_whatever_else_is_said_of_their_line() -> None:
    log = Log()
    log.answer(call("toolu_1", "Skill"))
    log.result("toolu_1", isMeta=True)

    assert [event.kind for event in told_by(log)] == ["tool.call", "tool.result"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("The user doesn't want to proceed with this tool use.", {}),
        ("Not now.", {"toolDenialKind": "user-rejected"}),
    ],
)
def test_a_refused_call_fails_and_leaves_an_interrupt_beside_it(
    words: str, told: dict[str, Any]
) -> None:
    log = Log()
    log.answer(call("toolu_1"))
    line = log.result("toolu_1", words, is_error=True, **told)

    _, failed, interrupt = told_by(log)

    assert failed.payload["error"]["class"] == "Denied"
    assert (interrupt.kind, interrupt.key) == ("boundary.interrupt", f"{line}.1")
    assert interrupt.payload["content"] == words


def test_a_result_that_quotes_a_refusal_is_none() -> None:
    log = Log()
    log.answer(call("toolu_1", "Grep"))
    log.result("toolu_1", "lamp.txt: The user doesn't want to proceed with this tool use.")

    assert [event.kind for event in told_by(log)] == ["tool.call", "tool.result"]


def test_an_interrupted_request_is_a_boundary() -> None:
    log = Log()
    log.user([text("[Request interrupted by user for tool use]")])

    [event] = told_by(log)

    assert event.kind == "boundary.interrupt"
    assert event.payload["content"] == "[Request interrupted by user for tool use]"


def test_a_prompt_that_quotes_an_interrupt_is_none() -> None:
    log = Log()
    log.user("Why does it say [Request interrupted by user]?")

    assert [event.kind for event in told_by(log)] == ["conversation.user"]


def test_what_is_said_beside_several_results_is_of_the_first() -> None:
    log = Log()
    log.answer(call("toolu_1"), call("toolu_2"))
    blocks = [
        {"type": "tool_result", "tool_use_id": call_id, "content": "done"}
        for call_id in ("toolu_1", "toolu_2")
    ]
    log.user(blocks, toolUseResult={"exitCode": 3})

    first, second = of_kind(told_by(log), "tool.result")

    assert first.payload["detail"] == {"exitCode": 3}
    assert "detail" not in second.payload


def test_an_error_of_the_provider_is_an_error_and_no_answer() -> None:
    log = Log()
    log.answer(
        "You've hit your limit", model="<synthetic>", isApiErrorMessage=True, error="rate_limit"
    )
    log.answer("No response requested.", model="<synthetic>")
    log.line("system", subtype="api_error", error={"status": 529})

    events = told_by(log)

    assert [(event.kind, event.refs) for event in events] == [
        ("ops.error", {"code": "rate_limit"}),
        ("ops.observation", {"observed": "synthetic answer"}),
        ("ops.error", {"code": "529"}),
    ]


# What is noted beside it.


@pytest.mark.parametrize(
    ("sort", "told", "what"),
    [
        ("attachment", {"attachment": {"type": "queued_command"}}, "attachment.queued_command"),
        ("system", {"subtype": "turn_duration", "durationMs": 5}, "system.turn_duration"),
        ("progress", {"data": {"type": "hook_progress"}}, "progress.hook_progress"),
        ("queue-operation", {"operation": "enqueue", "content": "wait"}, "queue-operation"),
        ("pr-link", {"prNumber": 7}, "pr-link"),
        ("something-new", {"answer": [42]}, "something-new"),
    ],
)
def test_what_is_not_understood_is_kept_as_it_is(
    sort: str, told: dict[str, Any], what: str
) -> None:
    log = Log()
    log.line(sort, **told)

    [event] = told_by(log)

    assert (event.kind, event.refs) == ("ops.observation", {"observed": what})
    assert event.payload == {**log.lines[0], "record": sort}


def test_values_that_are_no_lines_are_kept_too() -> None:
    content = a_conversation().content() + b'{"odd": true}\n'

    last = outcomes_of(content)[-1].events

    assert [event.payload for event in last] == [{"odd": True, "record": "unknown"}]


def test_a_compaction_is_told_with_what_it_began_from_and_what_it_keeps() -> None:
    log = Log()
    kept = log.user("Remember the lamp.")
    log.line(
        "system",
        subtype="compact_boundary",
        parentUuid=None,
        logicalParentUuid=kept,
        compactMetadata={"preTokens": 90_000, "preservedSegment": {"headUuid": kept}},
    )
    log.user("They spoke of a lamp.", isCompactSummary=True, isVisibleInTranscriptOnly=True)

    _, ended, compacted = told_by(log)

    assert (ended.kind, ended.refs) == ("compaction.ended", {"tokens_before": 90_000})
    assert (compacted.kind, compacted.first) == ("context.compacted", kept)
    assert compacted.payload == {
        "summary": "They spoke of a lamp.",
        "by": NAME,
        "from_tokens": 90_000,
    }


def test_titles_are_told_once_and_a_chosen_one_is_not_overruled() -> None:
    log = a_conversation()
    log.note("ai-title", aiTitle="A lamp", sessionId=SESSION)
    log.note("ai-title", aiTitle="A lamp", sessionId=SESSION)
    log.note("custom-title", customTitle="The dark lamp", sessionId=SESSION)
    log.note("ai-title", aiTitle="Fuses", sessionId=SESSION)

    titles = of_kind(told_by(log), "session.titled")

    assert [event.payload["title"] for event in titles] == ["A lamp", "The dark lamp"]
    assert outcomes_of(log.content())[7].skipped == "the title is the same"


def test_a_summary_names_the_session_of_its_leaf_wherever_it_stands() -> None:
    before, behind, stranger = Log(), Log(), Log()
    before.note("summary", summary="The dark lamp", leafUuid=uuid_of(1))
    before.user("Why is the lamp dark?")
    behind.user("Why is the lamp dark?")
    behind.note("summary", summary="The dark lamp", leafUuid=uuid_of(1))
    stranger.note("summary", summary="Another lamp", leafUuid=uuid_of(99))
    stranger.user("Why is the lamp dark?")

    for log in (before, behind):
        [title] = of_kind(told_by(log), "session.titled")
        assert (title.session, title.payload) == (SESSION, {"title": "The dark lamp"})
    assert [event.kind for event in told_by(stranger)] == ["ops.observation", "conversation.user"]


# Lines without an id, a time, a session.


def test_lines_without_an_id_have_a_name_that_stays_and_is_theirs_alone() -> None:
    log = a_conversation()
    for _ in range(3):
        log.note("mode", mode="plan", sessionId=SESSION)
    more = Log()
    more.lines = [*log.lines, {"type": "mode", "mode": "plan", "sessionId": SESSION}]

    keys, again = ([event.key for event in told_by(one)] for one in (log, more))

    assert len(set(again)) == len(again)
    assert again[: len(keys)] == keys


def test_a_copy_of_a_line_without_an_id_has_the_same_name_in_another_session() -> None:
    one, other = a_conversation(), Log(OTHER_SESSION)
    one.note("mode", mode="plan", sessionId=SESSION)
    other.lines = [{**line, "sessionId": OTHER_SESSION} for line in one.lines]

    assert told_by(one)[-1].key == told_by(other)[-1].key


def test_the_first_lines_wait_for_one_that_says_where_they_belong() -> None:
    log = Log()
    log.note("summary", summary="Another lamp", leafUuid=uuid_of(99))
    log.note("mode", mode="plan", sessionId=SESSION)
    log.user("Why is the lamp dark?")
    lines = ClaudeCodeReader(PurePath("copy.jsonl"))
    first, second, third = records_of(log.content())

    waiting = lines.read(first) + lines.read(second)
    outcomes = lines.read(third)

    assert waiting == []
    assert [outcome.record for outcome in outcomes] == [first, second, third]
    assert {event.session for one in outcomes for event in one.events} == {SESSION}
    assert {event.ts_ms for one in outcomes for event in one.events} == {BEGUN + 1_000}
    assert lines.sessions[SESSION].cwd == "/srv/lighthouse"


def test_lines_that_wait_in_vain_are_told_in_the_end() -> None:
    log = Log()
    log.note("summary", summary="Another lamp", leafUuid=uuid_of(99))

    [outcome] = outcomes_of(log.content(), "lamp.jsonl")

    assert [(event.session, event.ts_ms) for event in outcome.events] == [("lamp", 1)]


def test_times_are_told_as_they_are_and_the_order_is_the_files() -> None:
    log = Log()
    log.user("later", timestamp="2026-10-02T00:00:00.000Z")
    log.user("earlier", timestamp="2026-10-01T00:00:00+02:00")
    log.user("whenever", timestamp="soon")

    events = told_by(log)

    assert texts_in(events) == ["later", "earlier", "whenever"]
    assert events[0].ts_ms - events[1].ts_ms == 26 * 3_600_000
    assert events[2].ts_ms == events[1].ts_ms


def test_a_snapshot_has_its_time_inside() -> None:
    log = a_conversation()
    log.note("file-history-snapshot", snapshot={"timestamp": "2026-10-02T00:00:00.500Z"})

    assert told_by(log)[-1].ts_ms % 1_000 == 500


# Files that are not lines.


def test_an_export_in_one_piece_is_read_line_by_line() -> None:
    log = a_conversation()
    whole = json.dumps({"loglines": log.lines}, indent=2).encode()

    [outcome] = outcomes_of(whole)

    assert outcome.events == told_by(log)
    assert score([{"loglines": log.lines}])


def test_pretty_printed_lines_are_read_like_others() -> None:
    log = a_conversation()
    pretty = b"\n".join(json.dumps(line, indent=2).encode() for line in log.lines)

    events = [event for outcome in outcomes_of(pretty) for event in outcome.events]

    assert events == told_by(log)


def test_its_own_logs_are_recognised_and_others_are_not() -> None:
    codex = {"timestamp": "2026-10-01", "type": "response_item", "payload": {"type": "message"}}
    pi = {"type": "message", "id": "1", "message": {"role": "user", "content": "hello"}}
    gemini = {"id": "1", "type": "user", "content": "hello"}

    assert score(a_conversation().lines)
    assert score([{"type": "summary", "summary": "A lamp", "leafUuid": uuid_of(1)}])
    others: list[Any] = [[codex], [pi], [gemini], [[1, 2]], ["text"], [{}], []]
    assert not any(score(values) for values in others)


def test_its_format_makes_readers() -> None:
    assert ("claude-code", ClaudeCodeReader.keys_are_global) == (FORMAT.name, True)
    assert isinstance(FORMAT.reader(None), ClaudeCodeReader)


# Reading on.


def test_a_log_is_read_on_wherever_it_was_left() -> None:
    log = a_conversation()
    log.user("Then mend it.")
    log.answer(call("toolu_9", "Task", prompt="mend the fuse", subagent_type="electrician"))
    log.user("mend the fuse", isSidechain=True, parentUuid=None)
    log.answer("Mended.", isSidechain=True, id="msg_8", usage=used(3))
    log.result("toolu_9", "Mended.", parentUuid=uuid_of(8))
    log.user("No: leave it.", parentUuid=uuid_of(6))
    log.answer("Left.", id="msg_9", usage=used(2))
    whole = outcomes_of(log.content())
    lines = ClaudeCodeReader(PurePath(f"{SESSION}.jsonl"))

    found = []
    for record in records_of(log.content()):
        found += lines.read(record)
        state = json.loads(json.dumps(lines.state()))
        lines = ClaudeCodeReader(PurePath(f"{SESSION}.jsonl"))
        lines.resume(state)

    assert found == whole
    assert len(lines.sessions) == 2


def test_what_is_remembered_stays_small() -> None:
    log = Log()
    for number in range(700):
        log.user("again", promptId=f"{number}")
        log.answer(call(f"toolu_{number:030}"), id=f"msg_{number:024}", usage=used(number + 1))
        log.result(f"toolu_{number:030}")
    lines = ClaudeCodeReader(None)
    for record in records_of(log.content()):
        lines.read(record)

    state = lines.state()

    assert 10_000 < len(json.dumps(state)) <= STATE_BYTES_MAX


@given(st.lists(odd_lines(), min_size=1, max_size=8))
def test_whatever_lines_hold_each_is_answered_and_what_is_told_can_be_kept(
    lines: list[Any],
) -> None:
    reading = ClaudeCodeReader(None)
    records = [LogRecord(line, number, number, number + 1) for number, line in enumerate(lines)]

    outcomes = [outcome for record in records for outcome in reading.read(record)]
    outcomes += reading.finish()

    answered = [outcome.record for outcome in outcomes]
    assert sorted(answered, key=lambda record: record.line) == records
    for outcome in outcomes:
        assert bool(outcome.events) != bool(outcome.skipped)
        for event in outcome.events:
            canonical([event.payload, event.refs], "what is told")
            check_summary(event.summary)
            check_time(event.ts_ms)
            assert {check_name(event.session, "session")} <= set(reading.sessions)
            assert check_name(event.key, "key")


@pytest.mark.parametrize("state", [None, [], {"nodes": 3}, {"sessions": {"s": {}}}])
def test_a_state_that_is_none_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="not a state"):
        ClaudeCodeReader(None).resume(state)


def test_what_messages_used_can_be_added_up() -> None:
    log = Log()
    log.answer("Lit.", usage=used(5, sent=10, cached=200, written=30), requestId="req_1")

    [report] = of_kind(told_by(log), "usage.reported")

    assert report.key == "usage:msg_1:req_1:5"
    assert report.refs == {
        "model": "claude-opus-4-1",
        "provider": "anthropic",
        "message_id": "msg_1",
        "request_id": "req_1",
        "input_tokens": 240,
        "output_tokens": 5,
        "cached_tokens": 200,
        "cache_creation_tokens": 30,
        "total_tokens": 245,
    }


@pytest.mark.parametrize(
    "message",
    [
        "error",
        ["error"],
        {"role": "user", "parts": [{"text": "hello"}]},
        {"role": "user", "content": {"text": "hello"}},
        {"role": "user", "content": [7]},
    ],
)
@pytest.mark.parametrize("sort", ["user", "assistant"])
def test_a_message_of_an_unknown_shape_is_kept_whole(sort: str, message: Any) -> None:
    log = Log()
    log.line(sort, message=message)

    (event,) = told_by(log)

    assert str(message) in str(event.payload) or "7" in str(event.payload)
    assert event.key == log.lines[0]["uuid"]


@pytest.mark.parametrize("content", ["", " ", [], [{"type": "text", "text": ""}], "(no content)"])
def test_a_message_without_words_tells_nothing(content: Any) -> None:
    log = Log()
    log.line("assistant", message={"role": "assistant", "content": content})

    (outcome,) = outcomes_of(log.content())

    assert (outcome.events, outcome.skipped) == ([], "nothing is said in it")


def test_what_a_message_cost_is_kept() -> None:
    log = Log()
    log.answer("Ahoy.", usage=used(5), costUSD=0.0125)

    (report,) = of_kind(told_by(log), "usage.reported")

    assert report.payload["cost_usd"] == 0.0125


def test_a_call_that_two_messages_tell_is_one_call() -> None:
    log = Log()
    log.answer(call("toolu_1", command="ls"), id="msg_1")
    log.answer("Looking.", call("toolu_1", command="ls"), id="msg_2")
    log.answer(call("toolu_1", command="ls -la"), id="msg_3")

    calls = of_kind(told_by(log), "tool.call")

    assert [one.payload["input"] for one in calls] == [{"command": "ls"}, {"command": "ls -la"}]
