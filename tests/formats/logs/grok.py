"""A session of Grok's with its updates, its history and its summary: written for these tests."""

from __future__ import annotations

from typing import Any, Final

from formats.logs.terminals import GROK_SESSION, GROK_SUMMARY, RECORDS, content, document

T0: Final = 1_790_000_000
CHILD: Final = "0190c000-0000-7000-8000-0000000009b1"
FOLDER: Final = f".grok/sessions/%2Fsrv%2Fharbour/{GROK_SESSION}"
UPDATES: Final = f"{FOLDER}/updates.jsonl"


def _line(n: int, sort: str, *, own: bool = False, **fields: Any) -> dict[str, Any]:
    method = "_x.ai/session/update" if own else "session/update"
    update = {"sessionUpdate": sort, **fields}
    return {
        "timestamp": T0 + n,
        "method": method,
        "params": {
            "sessionId": GROK_SESSION,
            "update": update,
            "_meta": {"eventId": f"e{n}", "agentTimestampMs": (T0 + n) * 1_000 + 5},
        },
    }


def _chunk(n: int, sort: str, text: str, **fields: Any) -> dict[str, Any]:
    return _line(n, f"{sort}_chunk", content={"type": "text", "text": text}, **fields)


def _wrapped(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


LINES: Final = [
    _line(1, "available_commands_update", availableCommands=[]),
    _chunk(2, "user_message", "When is high tide?", _meta={"promptIndex": 0, "modelId": "gull-4"}),
    _line(
        3,
        "user_message_chunk",
        content={"type": "image", "data": "aGk=", "mimeType": "image/png"},
        _meta={"promptIndex": 0},
    ),
    _chunk(4, "agent_thought", "A "),
    _chunk(5, "agent_thought", "file?"),
    _chunk(6, "agent_message", "I will ", messageId="m1"),
    _line(7, "current_mode_update", currentModeId="default"),
    _chunk(8, "agent_message", "look.", messageId="m1"),
    _line(
        9,
        "tool_call",
        toolCallId="g1",
        title="read_file",
        rawInput={"path": "tide.py"},
        _meta={"x.ai/tool": {"name": "read_file", "kind": "read"}},
    ),
    _line(10, "tool_call_update", toolCallId="g1", status="in_progress", title="Read `tide.py`"),
    _line(11, "tool_call", toolCallId="g2", title="Run the clock", kind="execute"),
    _line(12, "tool_call_update", toolCallId="g2", rawInput={"command": "date"}),
    _line(13, "tool_call_update", toolCallId="g1", status="failed", content=_wrapped("no file")),
    _line(
        14,
        "tool_call_update",
        toolCallId="g2",
        status="completed",
        rawOutput={"type": "Bash", "exit_code": 1, "output": "late"},
    ),
    _line(
        15,
        "tool_call",
        toolCallId="g3",
        title="Edit tide.py",
        kind="edit",
        status="completed",
        content=[{"type": "diff", "path": "tide.py", "oldText": "6", "newText": "12"}],
    ),
    _chunk(16, "agent_message", "At midnight.", messageId="m2"),
    _line(
        17,
        "turn_completed",
        own=True,
        prompt_id="p1",
        stop_reason="end_turn",
        usage={
            "inputTokens": 90,
            "outputTokens": 7,
            "cachedReadTokens": 40,
            "totalTokens": 97,
            "modelUsage": {
                "gull-4": {
                    "inputTokens": 90,
                    "outputTokens": 7,
                    "cachedReadTokens": 40,
                    "costUsdTicks": 5_000_000_000,
                }
            },
        },
    ),
    _chunk(18, "user_message", "And now?", _meta={"promptIndex": 1}),
    _chunk(19, "agent_message", "Later."),
    _line(20, "rewind_marker", own=True, target_prompt_index=1, created_at="2026-10-01"),
    _chunk(21, "user_message", "Look again.", _meta={"promptIndex": 1}),
    _line(22, "subagent_spawned", own=True, child_session_id=CHILD, subagent_type="explore"),
    _line(23, "subagent_progress", own=True, subagent_id=CHILD, turn_count=1),
    _line(24, "auto_compact_completed", own=True, summary="They ask for the tide."),
    _line(
        25,
        "turn_completed",
        own=True,
        prompt_id="p2",
        stop_reason="cancelled",
        agent_result="At noon.",
        usage={"inputTokens": 20, "outputTokens": 2},
    ),
    _line(26, "mood_of_tomorrow", own=True, mood="calm"),
]
FILES: Final = {
    UPDATES: content(LINES),
    f"{FOLDER}/chat_history.jsonl": content(RECORDS["grok"]),
    f"{FOLDER}/summary.json": document(GROK_SUMMARY),
}
