"""Messages of unknown shapes: their content is kept, wherever it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from formats.logs.tellings import outcomes
from treering.formats.claude_code import ClaudeCodeReader
from treering.formats.codex import CodexReader
from treering.formats.gemini import GeminiReader
from treering.formats.pi import PiReader

WORDS = "the lamp is dark"
SESSION = "5b0c7f1e-0000-4000-8000-000000000001"
TIME = "2026-03-05T09:00:00.000Z"


def line(**message: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": SESSION, "sessionId": SESSION, "message": message}


def record(sort: str, payload: Any) -> dict[str, Any]:
    return {"timestamp": TIME, "type": sort, "payload": payload}


def entry(**message: Any) -> dict[str, Any]:
    return {"type": "message", "timestamp": TIME, "message": message}


def session(message: Any) -> dict[str, Any]:
    return {"sessionId": SESSION, "projectHash": "ab", "startTime": TIME, "messages": [message]}


def answer(**told: Any) -> dict[str, Any]:
    return session({"id": "1", "timestamp": TIME, "type": "gemini", **told})


SHAPES = [
    (ClaudeCodeReader, line(role="user", content="", reasoning=WORDS)),
    (ClaudeCodeReader, line(role="user", content=[], text=WORDS)),
    (ClaudeCodeReader, line(role="user", content=[{"type": "tool_result", "output": WORDS}])),
    (ClaudeCodeReader, {**line(role="user", content=""), "toolUseResult": {"stdout": WORDS}}),
    (CodexReader, record("response_item", WORDS)),
    (CodexReader, record("event_msg", WORDS)),
    (CodexReader, {"timestamp": TIME, "type": "response_item", "item": WORDS}),
    (CodexReader, record("event_msg", {"type": "agent_message", "text": WORDS})),
    (CodexReader, record("event_msg", {"type": "agent_reasoning", "content": [WORDS]})),
    (CodexReader, record("event_msg", {"type": "user_message", "message": {"is": WORDS}})),
    (CodexReader, record("response_item", {"type": "reasoning", "summary": WORDS})),
    (
        CodexReader,
        record("response_item", {"type": "function_call_output", "call_id": "c", "result": WORDS}),
    ),
    (
        CodexReader,
        record(
            "event_msg",
            {"type": "item_completed", "item": {"type": "UserMessage", "content": {"is": WORDS}}},
        ),
    ),
    (GeminiReader, session(WORDS)),
    (GeminiReader, answer(body=WORDS)),
    (GeminiReader, answer(content="", note={"is": [WORDS]})),
    (GeminiReader, answer(content="", thoughts=WORDS)),
    (GeminiReader, answer(content="Yes.", thoughts=[WORDS])),
    (GeminiReader, answer(content="Yes.", toolCalls={"name": WORDS})),
    (GeminiReader, answer(content="Yes.", toolCalls=[WORDS])),
    (PiReader, entry(role="user", content="", text=WORDS)),
    (PiReader, entry(role="assistant", content=[], body=WORDS)),
    (PiReader, entry(role="toolResult", toolCallId="c", output=WORDS)),
    (PiReader, entry(role="toolResult", toolCallId="c", content={"is": WORDS})),
]


@pytest.mark.parametrize(("reader", "value"), SHAPES)
def test_words_in_an_unknown_place_are_kept(reader: Any, value: dict[str, Any]) -> None:
    told = [event for outcome in outcomes(reader(None), [value]) for event in outcome.events]

    assert WORDS in msgspec.json.encode([event.payload for event in told]).decode()


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (ClaudeCodeReader, line(role="assistant", content="", id="msg_1", model="m", usage={})),
        (CodexReader, record("event_msg", {"type": "agent_message", "message": "", "phase": "x"})),
        (CodexReader, record("response_item", {"type": "reasoning", "summary": [], "id": "rs_1"})),
        (PiReader, entry(role="assistant", content=[], model="m", stopReason="stop")),
    ],
)
def test_a_message_that_says_nothing_is_skipped(reader: Any, value: dict[str, Any]) -> None:
    [outcome] = outcomes(reader(None), [value])

    assert not outcome.events
    assert outcome.skipped


def test_what_stands_in_the_place_of_a_call_is_none() -> None:
    told = outcomes(GeminiReader(None), [answer(content="Yes.", toolCalls=[WORDS])])

    assert "tool.call" not in [event.kind for outcome in told for event in outcome.events]
