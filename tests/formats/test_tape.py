"""Tapes: messages, calls answered in order, anchors, and entries hidden from models."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest

from formats.logs.tellings import kinds, outcomes, told, told_in_parts
from treering.formats import openclaw_mem, pi, tape
from treering.formats.apeira import lines as apeira_lines
from treering.formats.clawser import lines as clawser_lines
from treering.formats.tape import TapeReader
from treering.model.fields import instant

NOON = 1_790_000_000_000


def entry(n: int, kind: str, payload: dict[str, Any], **beside: Any) -> dict[str, Any]:
    """Return the ``n``th entry of a tape, made one second after the one before."""
    date = instant(NOON + n * 1_000)
    return {"id": n, "kind": kind, "payload": payload, "meta": beside, "date": date}


def call(call_id: str, name: str, arguments: Any = "{}") -> dict[str, Any]:
    """Return a call in OpenAI's format."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def voyage() -> list[dict[str, Any]]:
    """Return a tape with two calls at once, an error and a handoff."""
    return [
        entry(1, "anchor", {"name": "session/start", "state": {"owner": "ada"}}),
        entry(2, "system", {"content": "You are a pilot."}),
        entry(3, "message", {"role": "user", "content": "Tide and wind?"}, run_id="r1"),
        entry(4, "tool_call", {"calls": [call("c1", "tide", '{"port":"Bergen"}'),
                                         {"id": "c2", "name": "wind", "arguments": {}}],
                               "reasoning_content": "Ask both."}, run_id="r1"),
        entry(5, "tool_result", {"results": ["14:10", {"kind": "tool", "message": "no wind"}]}),
        entry(6, "message", {"role": "assistant", "content": "At 14:10."}),
        entry(7, "event", {"name": "run", "data": {"status": "ok", "model": "m1", "provider": "p",
              "usage": {"prompt_tokens": 20, "completion_tokens": 5}}}),
        entry(8, "error", {"kind": "provider", "message": "rate limited", "details": {"n": 1}}),
        entry(9, "message", {"role": "user", "content": "internal"}, context=False),
        entry(10, "event", {"name": "handoff", "data": {"to": "tier2"}}),
    ]  # fmt: skip


def test_a_tape_is_told_in_its_order() -> None:
    reader = TapeReader(PurePosixPath("/tapes/harbour__ada.jsonl"))

    events = told(reader, voyage())

    assert kinds(events) == [
        "boundary.checkpoint", "ops.observation", "conversation.user", "ops.observation",
        "tool.call", "tool.call", "tool.result", "tool.result", "conversation.assistant",
        "ops.observation", "usage.reported", "ops.error", "ops.observation", "ops.observation",
    ]  # fmt: skip
    assert {event.session for event in events} == set(reader.sessions) == {"harbour__ada"}
    assert events[0].ts_ms == NOON + 1_000
    assert events[2].refs == {"characters": 14, "tape_run": "r1"}


def test_results_belong_to_the_calls_before_them_in_order() -> None:
    events = told(TapeReader(), voyage())
    calls = [event for event in events if event.kind == "tool.call"]
    good, bad = (event for event in events if event.kind == "tool.result")

    assert [event.payload["input"] for event in calls] == [{"port": "Bergen"}, {}]
    assert good.payload == {"call_id": "c1", "name": "tide", "status": "ok", "output": "14:10"}
    assert (bad.payload["call_id"], bad.payload["status"]) == ("c2", "failed")
    assert bad.payload["error"]["message"] == "no wind"


def test_results_that_name_their_calls_go_to_these() -> None:
    log = [
        entry(1, "tool_call", {"calls": [call("c1", "tide"), call("c2", "wind")]}),
        entry(2, "tool_result", {"results": [{"tool_call_id": "c2", "content": "calm"}]}),
    ]

    result = told(TapeReader(), log)[-1]

    assert (result.payload["name"], result.payload["output"]) == ("wind", "calm")


def test_calls_that_a_message_has_told_are_not_told_again() -> None:
    asked = {"role": "assistant", "content": "", "tool_calls": [call("c1", "tide")]}
    log = [
        entry(1, "message", asked),
        entry(2, "tool_call", {"calls": [call("c1", "tide")]}),
        entry(3, "message", {"role": "tool", "tool_call_id": "c1", "content": "14:10"}),
    ]

    result = outcomes(TapeReader(), log)

    assert [one.skipped for one in result] == [None, "empty", None]
    assert result[2].events[0].payload["name"] == "tide"


def test_a_result_of_no_call_is_kept() -> None:
    (event,) = told(TapeReader(), [entry(1, "tool_result", {"results": [{"n": 1}]})])

    assert (event.kind, event.payload["output"]) == ("tool.result", '{"n":1}')


def test_an_anchor_hands_its_state_over() -> None:
    anchor = told(TapeReader(), voyage())[0]

    assert anchor.payload == {
        "title": "session/start",
        "content": 'session/start: {"owner":"ada"}',
        "state": {"owner": "ada"},
    }


def test_what_a_run_used_is_reported() -> None:
    (usage,) = (event for event in told(TapeReader(), voyage()) if event.kind == "usage.reported")

    assert usage.refs is not None
    assert (usage.refs["input_tokens"], usage.refs["total_tokens"]) == (20, 25)
    assert (usage.refs["model"], usage.refs["provider"]) == ("m1", "p")


@pytest.mark.parametrize(
    "strange",
    [
        entry(1, "message", {"role": "user", "content": "aside"}, context=False),
        entry(1, "message", {"role": "developer", "content": "x"}),
        entry(1, "tool_call", {"calls": "none"}),
        entry(1, "dream", {"of": "sheep"}),
    ],
)
def test_what_models_are_not_shown_is_kept_whole(strange: dict[str, Any]) -> None:
    (event,) = told(TapeReader(), [strange])

    assert event.kind == "ops.observation"
    assert event.payload["payload"] == strange["payload"]


def test_a_tape_that_was_reset_counts_anew_and_is_told_apart() -> None:
    before = told(TapeReader(), [entry(1, "message", {"role": "user", "content": "a"})])
    after = told(TapeReader(), [entry(1, "message", {"role": "user", "content": "b"})])

    assert before[0].key != after[0].key
    archived = TapeReader(PurePosixPath("/tapes/x.jsonl.20260301T090000Z.bak"))
    assert list(archived.sessions) == ["x"]


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"timestamp": NOON / 1_000}, NOON),
        ({"timestamp": NOON // 1_000}, NOON),
        ({"timestamp": NOON}, NOON),
        ({"date": instant(NOON)}, NOON),
        ({}, 1),
    ],
)
def test_older_tapes_have_other_times(stated: dict[str, Any], expected: int) -> None:
    said = {"kind": "message", "payload": {"role": "user", "content": "a"}, "meta": {}}

    (event,) = told(TapeReader(), [{**said, **stated}])

    assert event.ts_ms == expected


@pytest.mark.parametrize("cut", range(11))
def test_a_reader_goes_on_where_another_stopped(cut: int) -> None:
    assert told_in_parts(TapeReader, voyage(), cut) == told(TapeReader(), voyage())


def test_only_tapes_are_recognised() -> None:
    assert tape.score(voyage())
    others = (apeira_lines, clawser_lines, openclaw_mem, pi)
    assert not any(other.score(voyage()) for other in others)
    assert not tape.score([{"kind": "message"}])
