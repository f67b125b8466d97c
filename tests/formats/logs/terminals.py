"""Logs of agents in the terminal, each with what its grammar has: written for these tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    Records = Sequence[dict[str, Any]]

COPILOT_SESSION: Final = "0190c000-0000-4000-8000-00000000c0b1"
GROK_SESSION: Final = "0190c000-0000-7000-8000-0000000009b0"
KIMI_SESSION: Final = "0190c000-0000-4000-8000-0000000000c1"
QWEN_SESSION: Final = "0190c000-0000-7000-8000-00000000000a"


OMP_SESSION: Final = "0190a000-0000-7000-8000-0000000000d1"
PRIME_SESSION: Final = "0190a000-0000-7000-8000-0000000000d2"
TRAE_SESSION: Final = "0190a000-0000-7000-8000-0000000000d3"


def _clock(n: int) -> str:
    return f"2026-10-01T10:{n // 60:02d}:{n % 60:02d}.000Z"


def copilot() -> Records:
    """Return a session of Copilot: a subagent, a failure, a rewind, a compaction, sums."""
    told: list[tuple[str, dict[str, Any]]] = [
        (
            "session.start",
            {
                "sessionId": COPILOT_SESSION,
                "version": 1,
                "copilotVersion": "1.2.0",
                "selectedModel": "gull-1",
                "context": {"cwd": "/srv/harbour", "branch": "tides", "repository": "acme/harbour"},
            },
        ),
        (
            "user.message",
            {
                "content": "When is high tide?",
                "transformedContent": "When is high tide? <now/>",
                "attachments": [{"type": "file", "path": "/srv/harbour/map.png"}],
            },
        ),
        ("assistant.turn_start", {"turnId": "0"}),
        ("assistant.reasoning", {"reasoningId": "r1", "content": "The table should know."}),
        (
            "assistant.message",
            {
                "messageId": "m1",
                "content": "I will look.",
                "model": "gull-1",
                "outputTokens": 11,
                "reasoningText": "The table should know.",
                "toolRequests": [
                    {"toolCallId": "c1", "name": "bash", "arguments": '{"command": "cat tide"}'},
                    {
                        "toolCallId": "c2",
                        "name": "task",
                        "arguments": {"prompt": "Ask the keeper."},
                    },
                ],
            },
        ),
        (
            "tool.execution_start",
            {"toolCallId": "c1", "toolName": "bash", "arguments": {"command": "cat tide"}},
        ),
        (
            "tool.execution_complete",
            {
                "toolCallId": "c1",
                "success": False,
                "result": {"content": "no such file"},
                "toolTelemetry": {"metrics": {"durationMs": 7}},
            },
        ),
        (
            "subagent.started",
            {"toolCallId": "c2", "agentName": "keeper", "agentDescription": "Knows the lamp"},
        ),
        (
            "assistant.message",
            {
                "parentToolCallId": "c2",
                "messageId": "m2",
                "content": "At noon, says the keeper.",
                "toolRequests": [],
                "outputTokens": 5,
            },
        ),
        (
            "tool.execution_complete",
            {"toolCallId": "c2", "success": True, "result": {"content": "noon"}},
        ),
        (
            "session.compaction_complete",
            {
                "success": True,
                "summaryContent": "They ask for the tide.",
                "preCompactionTokens": 900,
            },
        ),
        (
            "assistant.message",
            {"messageId": "m3", "content": "At midnight.", "toolRequests": [], "outputTokens": 3},
        ),
        ("session.snapshot_rewind", {"upToEventId": "e11", "eventsRemoved": 1}),
        (
            "assistant.message",
            {"messageId": "m4", "content": "At noon.", "toolRequests": [], "outputTokens": 4},
        ),
        (
            "session.error",
            {"errorType": "query", "message": "the model is asleep", "statusCode": 503},
        ),
        ("session.truncation", {"tokenLimit": 9, "preTruncationTokensInMessages": 8}),
        ("abort", {"reason": "user initiated"}),
        ("session.mood_of_tomorrow", {"mood": "calm"}),
        (
            "session.shutdown",
            {
                "shutdownType": "routine",
                "currentModel": "gull-1",
                "modelMetrics": {
                    "gull-1": {
                        "requests": {"count": 4, "cost": 2},
                        "usage": {"inputTokens": 700, "outputTokens": 23, "cacheReadTokens": 300},
                    }
                },
            },
        ),
    ]
    return [
        {
            "type": sort,
            "data": content,
            "id": f"e{n}",
            "timestamp": _clock(n),
            "parentId": f"e{n - 1}" if n > 1 else None,
        }
        for n, (sort, content) in enumerate(told, start=1)
    ]


def qwen() -> Records:
    """Return a chat of Qwen Code: a failed call, a rewind, a compression, a title, telemetry."""

    def parts(role: str, *some: dict[str, Any]) -> dict[str, Any]:
        return {"message": {"role": role, "parts": list(some)}}

    ask = {"functionCall": {"id": "q1", "name": "read_file", "args": {"path": "tide.py"}}}
    gone = {
        "functionResponse": {"id": "q1", "name": "read_file", "response": {"error": "not found"}}
    }
    told: list[tuple[str, dict[str, Any]]] = [
        (
            "user",
            {
                **parts(
                    "user",
                    {"text": "When is high tide?"},
                    {"text": "<qwen:context>\nIt rains.\n</qwen:context>"},
                ),
                "systemPayload": {"displayText": "When is high tide?"},
            },
        ),
        (
            "assistant",
            {
                **parts("model", {"text": "The file should know.", "thought": True}, ask),
                "model": "gull-2",
                "usageMetadata": {
                    "promptTokenCount": 90,
                    "candidatesTokenCount": 7,
                    "thoughtsTokenCount": 3,
                    "cachedContentTokenCount": 40,
                    "totalTokenCount": 100,
                },
            },
        ),
        (
            "tool_result",
            {
                **parts("user", gone),
                "toolCallResult": {
                    "callId": "q1",
                    "status": "error",
                    "durationMs": 12,
                    "error": {"message": "not found"},
                },
            },
        ),
        ("assistant", {**parts("model", {"text": "Nobody knows."}), "model": "gull-2"}),
        ("system", {"subtype": "rewind", "systemPayload": {"targetUuid": None}}),
        ("user", {**parts("user", {"text": "Look again."}), "subtype": "mid_turn_user_message"}),
        ("user", {**parts("user", {"text": "A job ended."}), "subtype": "notification"}),
        (
            "system",
            {
                "subtype": "chat_compression",
                "systemPayload": {
                    "info": {"originalTokenCount": 500, "newTokenCount": 50},
                    "compressedHistory": [
                        {"role": "user", "parts": [{"text": "They ask for the tide."}]}
                    ],
                },
            },
        ),
        (
            "assistant",
            {
                **parts("model", {"text": "At noon."}),
                "model": "gull-2",
                "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 2},
            },
        ),
        (
            "system",
            {
                "subtype": "custom_title",
                "systemPayload": {"customTitle": "Tides", "titleSource": "auto"},
            },
        ),
        (
            "system",
            {
                "subtype": "ui_telemetry",
                "systemPayload": {
                    "uiEvent": {
                        "event.name": "qwen-code.api_error",
                        "error_message": "too busy",
                        "error_type": "429",
                    }
                },
            },
        ),
        ("system", {"subtype": "of_tomorrow", "systemPayload": {"mood": "calm"}}),
    ]
    lines: list[dict[str, Any]] = []
    for n, (sort, fields) in enumerate(told, start=1):
        uuid = f"0190c000-0000-7000-8000-{n:012d}"
        before = f"0190c000-0000-7000-8000-{n - 1:012d}" if n > 1 else None
        if fields.get("subtype") == "rewind":
            before = "0190c000-0000-7000-8000-000000000003"
            fields["systemPayload"]["targetUuid"] = before
        envelope = {
            "uuid": uuid,
            "parentUuid": before,
            "sessionId": QWEN_SESSION,
            "type": sort,
            "timestamp": _clock(n),
            "cwd": "/srv/harbour",
            "version": "0.30",
            "gitBranch": "tides",
        }
        lines.append({**envelope, **fields})
    return lines


def droid_store() -> Records:
    """Return a stored session of Droid."""
    use = {"type": "tool_use", "id": "t1", "name": "Execute", "input": {"command": "cat tide"}}
    bad = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": "Error: Command failed (exit code: 1)",
    }
    seen = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    talk: list[tuple[str, list[dict[str, Any]]]] = [
        (
            "user",
            [
                {
                    "type": "text",
                    "text": "<system-reminder>\nBrief!\n</system-reminder>\n\nWhen is high tide?",
                },
                seen,
            ],
        ),
        (
            "assistant",
            [
                {"type": "thinking", "thinking": "A file.", "signature": "c2ln"},
                {"type": "text", "text": "I will look."},
                use,
            ],
        ),
        ("user", [bad]),
        (
            "assistant",
            [{"type": "text", "text": "At noon."}, {"type": "of_tomorrow", "mood": "calm"}],
        ),
    ]
    lines: list[dict[str, Any]] = [
        {
            "type": "session_start",
            "id": "droid-1",
            "title": "Tides",
            "cwd": "/srv/harbour",
            "version": "0.9",
        }
    ]
    lines += [
        {
            "type": "message",
            "id": f"m{n}",
            "parentId": f"m{n - 1}" if n > 1 else "droid-1",
            "timestamp": _clock(n),
            "message": {"role": role, "content": content},
        }
        for n, (role, content) in enumerate(talk, start=1)
    ]
    lines.append(
        {
            "type": "compaction_state",
            "id": "k1",
            "timestamp": _clock(8),
            "summaryText": "They ask for the tide.",
        }
    )
    lines.append({"type": "todo_state", "id": "k2", "timestamp": _clock(9), "todos": ["look"]})
    return lines


DROID_SETTINGS: Final = {
    "model": "gull-3",
    "tokenUsage": {
        "inputTokens": 50,
        "outputTokens": 9,
        "cacheReadTokens": 20,
        "thinkingTokens": 1,
    },
}


def droid_stream() -> Records:
    """Return a stream of ``droid exec``."""
    shared = {"session_id": "droid-2"}
    return [
        {
            "type": "system",
            "subtype": "init",
            "cwd": "/srv",
            "model": "gull-3",
            "id": "s1",
            "timestamp": 1_790_000_001_000,
            **shared,
        },
        {
            "type": "message",
            "role": "user",
            "text": "When is high tide?",
            "id": "m1",
            "timestamp": 1_790_000_002_000,
            **shared,
        },
        {
            "type": "tool_call",
            "id": "c1",
            "toolName": "Execute",
            "parameters": {"command": "cat tide"},
            "timestamp": 1_790_000_003_000,
            **shared,
        },
        {
            "type": "tool_result",
            "id": "c1",
            "isError": True,
            "value": "no such file",
            "timestamp": 1_790_000_004_000,
            **shared,
        },
        {
            "type": "message",
            "role": "assistant",
            "text": "At noon.",
            "id": "m2",
            "timestamp": 1_790_000_005_000,
            **shared,
        },
        {
            "type": "completion",
            "finalText": "At noon.",
            "id": "end",
            "timestamp": 1_790_000_006_000,
            "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 4},
            **shared,
        },
        {
            "type": "error",
            "source": "cli",
            "message": "the line is cut",
            "timestamp": 1_790_000_007_000,
            **shared,
        },
    ]


def grok() -> Records:
    """Return a history of Grok's."""
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "A file?"}],
    }
    call = {"id": "g1", "name": "read_file", "arguments": '{"path": "tide.py"}'}
    search = {
        "tool_type": "web_search",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "tide", "sources": [{"url": "https://example.com"}]},
    }
    return [
        {"type": "system", "content": "You are a helper."},
        {
            "type": "user",
            "content": [{"type": "text", "text": "<user_info>Linux</user_info>"}],
            "synthetic_reason": "environment_context",
        },
        {
            "type": "user",
            "content": [{"type": "text", "text": "When is high tide?"}],
            "prompt_index": 0,
        },
        thought,
        {
            "type": "assistant",
            "content": "I will look.",
            "tool_calls": [call],
            "model_id": "gull-4",
        },
        {"type": "tool_result", "tool_call_id": "g1", "content": "Error: no such file"},
        {"type": "backend_tool_call", "kind": search},
        {"type": "assistant", "content": "At noon.", "tool_calls": [], "model_id": "gull-4"},
        {
            "type": "user",
            "content": [{"type": "image", "url": "data:,"}, {"type": "text", "text": "And now?"}],
            "prompt_index": 1,
            "prior_turn_interrupt": "mid_turn_abort",
        },
        {"type": "assistant", "content": "At noon.", "tool_calls": [], "model_id": "gull-4"},
    ]


GROK_SUMMARY: Final = {
    "info": {"id": GROK_SESSION, "cwd": "/srv/harbour"},
    "created_at": "2026-10-01T10:00:00Z",
    "updated_at": "2026-10-01T10:05:00Z",
    "generated_title": "Tides",
    "current_model_id": "gull-4",
    "head_branch": "tides",
    "git_remotes": ["git@example.com:acme/harbour.git"],
}
GROK_SIGNALS: Final = {"totalInputTokens": 640, "totalOutputTokens": 32}


def kimi() -> Records:
    """Return a file of Kimi's newer protocol."""
    t0 = 1_790_000_000_000

    def loop(n: int, sort: str, **fields: Any) -> dict[str, Any]:
        event = {"type": sort, **fields}
        return {"type": "context.append_loop_event", "event": event, "time": t0 + n}

    text = [{"type": "text", "text": "When is high tide?"}]
    spent = {"inputOther": 30, "output": 8, "inputCacheRead": 100, "inputCacheCreation": 2}
    packed = {"inputOther": 60, "output": 20, "inputCacheRead": 0, "inputCacheCreation": 0}
    origin = {"origin": {"kind": "user"}}
    return [
        {"type": "metadata", "protocol_version": "1.4", "created_at": t0},
        {"type": "config.update", "modelAlias": "gull-5", "time": t0 + 1},
        {"type": "turn.prompt", "input": text, **origin, "time": t0 + 2},
        {
            "type": "context.append_message",
            "message": {"role": "user", "content": text, **origin},
            "time": t0 + 3,
        },
        loop(4, "step.begin", uuid="u1", step=1),
        loop(5, "content.part", uuid="u2", part={"type": "think", "think": "A file?"}),
        loop(6, "content.part", uuid="u3", part={"type": "text", "text": "I will look."}),
        loop(
            7,
            "tool.call",
            uuid="Bash_0",
            toolCallId="Bash_0",
            name="Bash",
            args={"command": "cat tide"},
        ),
        loop(
            8,
            "tool.result",
            parentUuid="Bash_0",
            toolCallId="Bash_0",
            result={"output": "no such file", "isError": True},
        ),
        loop(9, "step.end", uuid="u1", step=1, usage=spent, finishReason="tool_use"),
        {
            "type": "usage.record",
            "model": "gull-5",
            "usage": spent,
            "usageScope": "turn",
            "time": t0 + 9,
        },
        {"type": "full_compaction.begin", "source": "manual", "time": t0 + 10},
        {
            "type": "usage.record",
            "model": "gull-5",
            "usage": packed,
            "usageScope": "turn",
            "time": t0 + 11,
        },
        {
            "type": "context.apply_compaction",
            "summary": "They ask for the tide.",
            "tokensBefore": 900,
            "time": t0 + 12,
        },
        {
            "type": "turn.steer",
            "input": [{"type": "text", "text": "Stop."}],
            **origin,
            "time": t0 + 13,
        },
        {"type": "turn.cancel", "time": t0 + 14},
        {
            "type": "context.append_message",
            "time": t0 + 15,
            "message": {
                "role": "user",
                "content": [{"type": "text", "text": "A job ended."}],
                "origin": {"kind": "system_trigger"},
            },
        },
        loop(16, "content.part", uuid="u4", part={"type": "text", "text": "At noon."}),
        {"type": "goal.of_tomorrow", "mood": "calm", "time": t0 + 17},
    ]


def kimi_older() -> Records:
    """Return a file of Kimi's older protocol, with a subagent in it."""
    told: list[tuple[str, dict[str, Any]]] = [
        ("TurnBegin", {"user_input": [{"type": "text", "text": "When is high tide?"}]}),
        ("StepBegin", {"n": 1}),
        ("ContentPart", {"type": "think", "think": "A file?"}),
        (
            "ToolCall",
            {
                "type": "function",
                "id": "k1",
                "function": {"name": "Task", "arguments": '{"prompt": "Ask the keeper."}'},
            },
        ),
        (
            "SubagentEvent",
            {
                "task_tool_call_id": "k1",
                "event": {
                    "type": "ContentPart",
                    "payload": {"type": "text", "text": "Noon, he says."},
                },
            },
        ),
        (
            "ToolResult",
            {
                "tool_call_id": "k1",
                "return_value": {"is_error": False, "output": "noon", "message": "ok"},
            },
        ),
        (
            "StatusUpdate",
            {
                "token_usage": {
                    "input_other": 40,
                    "output": 6,
                    "input_cache_read": 10,
                    "input_cache_creation": 0,
                },
                "message_id": "msg-1",
            },
        ),
        ("ContentPart", {"type": "text", "text": "At noon."}),
        ("StepInterrupted", {}),
        ("TurnEnd", {}),
    ]
    return [
        {"type": "metadata", "protocol_version": "1.1"},
        *(
            {"timestamp": 1_790_000_000.5 + n, "message": {"type": sort, "payload": payload}}
            for n, (sort, payload) in enumerate(told)
        ),
    ]


def antigravity() -> Records:
    """Return a transcript of Antigravity's."""
    told: list[tuple[str, str, dict[str, Any]]] = [
        (
            "USER_EXPLICIT",
            "USER_INPUT",
            {"content": "<USER_REQUEST>\nWhen is high tide?\n</USER_REQUEST>\n<CURSOR/>"},
        ),
        ("SYSTEM", "CONVERSATION_HISTORY", {}),
        (
            "MODEL",
            "PLANNER_RESPONSE",
            {
                "thinking": "A file?",
                "tool_calls": [
                    {"name": "view_file", "args": {"path": "tide.py"}},
                    {"name": "run_command", "args": {"cmd": "date"}},
                ],
            },
        ),
        ("MODEL", "VIEW_FILE", {"content": "nothing", "status": "ERROR"}),
        ("MODEL", "RUN_COMMAND", {"content": "October"}),
        ("MODEL", "GREP_SEARCH", {"content": "noon", "truncated_fields": ["content"]}),
        ("SYSTEM", "CHECKPOINT", {"content": "They ask for the tide."}),
        ("MODEL", "PLANNER_RESPONSE", {"content": "At noon."}),
        ("SYSTEM", "STEP_OF_TOMORROW", {"content": "calm"}),
    ]
    return [
        {
            "step_index": n,
            "source": source,
            "type": sort,
            "status": "DONE",
            "created_at": _clock(n),
            **fields,
        }
        for n, (source, sort, fields) in enumerate(told)
    ]


def codex_exec() -> Records:
    """Return a stream of ``codex exec --json``."""

    def item(state: str, **fields: Any) -> dict[str, Any]:
        return {"type": f"item.{state}", "item": fields}

    run = {"id": "item_1", "type": "command_execution", "command": "cat tide"}
    return [
        {"type": "thread.started", "thread_id": "0190c000-0000-7000-8000-0000000000ec"},
        {"type": "turn.started"},
        item("completed", id="item_0", type="reasoning", text="A file?"),
        item("started", **run, aggregated_output="", exit_code=None, status="in_progress"),
        item("completed", **run, aggregated_output="no such file", exit_code=1, status="failed"),
        item(
            "completed",
            id="item_2",
            type="mcp_tool_call",
            server="sea",
            tool="tide",
            arguments={"at": "quay"},
            result={"content": [{"type": "text", "text": "noon"}]},
            status="completed",
        ),
        item("updated", id="item_3", type="agent_message", text="At"),
        item("completed", id="item_3", type="agent_message", text="At noon."),
        item(
            "completed", id="item_4", type="todo_list", items=[{"text": "look", "completed": True}]
        ),
        {
            "type": "turn.completed",
            "usage": {"input_tokens": 120, "cached_input_tokens": 20, "output_tokens": 9},
        },
        {"type": "turn.started"},
        item("completed", id="item_0", type="agent_message", text="At noon."),
        {"type": "turn.failed", "error": {"message": "the model is asleep"}},
    ]


def omp() -> Records:
    """Return a session of OMP: a line for its title, entries of its own, a call that fails."""

    def entry(n: int, sort: str, **fields: Any) -> dict[str, Any]:
        parent = None if n == 1 else f"0000{n - 1:04x}"
        return {"type": sort, "id": f"0000{n:04x}", "parentId": parent, "timestamp": _clock(n),
                **fields}  # fmt: skip

    def message(n: int, role: str, **fields: Any) -> dict[str, Any]:
        return entry(n, "message", message={"role": role, "timestamp": 1_790_000_000_000, **fields})

    def answer(n: int, *content: Any, stop: str = "toolUse") -> dict[str, Any]:
        return message(
            n, "assistant", content=list(content), api="anthropic-messages", provider="anthropic",
            model="claude-test-1", stopReason=stop,
            usage={"input": 7, "output": 3, "cacheRead": 50, "cacheWrite": 2, "totalTokens": 62,
                   "cost": {"input": 0.1, "output": 0.2, "total": 0.3}},
        )  # fmt: skip

    def result(n: int, call_id: str, tool: str, text: str, *, failed: bool) -> dict[str, Any]:
        return message(n, "toolResult", toolCallId=call_id, toolName=tool, isError=failed,
                       content=[{"type": "text", "text": text}])  # fmt: skip

    def call(call_id: str, tool: str, **given: Any) -> dict[str, Any]:
        return {"type": "toolCall", "id": call_id, "name": tool, "arguments": given}

    return [
        {"type": "title", "v": 1, "title": "Tides", "source": "auto", "updatedAt": _clock(0),
         "pad": " " * 90},
        {"type": "session", "version": 3, "id": OMP_SESSION, "timestamp": _clock(0),
         "cwd": "/srv/harbour"},
        entry(1, "model_change", model="anthropic/claude-test-1", role="default"),
        entry(2, "session_init", systemPrompt=["You look."], task="Look.", tools=["read"],
              agent="scout"),
        message(3, "user", content=[{"type": "text", "text": "When is high tide?"}]),
        answer(4, {"type": "thinking", "thinking": "A table?", "thinkingSignature": "x1"},
               {"type": "text", "text": "I look."}, call("t1", "read", path="tides.txt"),
               call("t2", "eval", code="tide()")),
        result(5, "t1", "read", "14:10", failed=False),
        result(6, "t2", "eval", "no such name", failed=True),
        message(7, "pythonExecution", code="1 / 0", output="by zero", exitCode=1, cancelled=False),
        message(8, "fileMention", files=[{"path": "a.md", "content": "tide", "lineCount": 1}]),
        entry(9, "model_usage", purpose="title", role="tiny", api="openai", provider="openai",
              model="tiny-1", stopReason="stop",
              usage={"input": 5, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 6,
                     "cost": {"total": 0.01}}),
        entry(10, "title_change", title="Tides of Bergen", previousTitle="Tides", source="user"),
        entry(11, "ttsr_injection", injectedRules=["short"]),
        entry(12, "compaction", summary="They asked for the tide.", shortSummary="tide",
              firstKeptEntryId="00000008", tokensBefore=900, method="summary"),
        answer(13, {"type": "text", "text": "At 14:10."}, stop="stop"),
    ]  # fmt: skip


def prime() -> Records:
    """Return a session of Prime's: pi's entries, a command of the user's, an interruption."""

    def entry(n: int, sort: str, **fields: Any) -> dict[str, Any]:
        parent = None if n == 1 else f"p{n - 1}"
        return {"type": sort, "id": f"p{n}", "parentId": parent, "timestamp": _clock(n), **fields}

    def message(n: int, role: str, **fields: Any) -> dict[str, Any]:
        return entry(n, "message", message={"role": role, **fields})

    usage = {"input": 11, "output": 4, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15,
             "cost": {"total": 0.0}}  # fmt: skip
    maker = {"api": "openai-completions", "provider": "prime", "model": "intellect-test"}
    return [
        {"type": "session", "version": 3, "id": PRIME_SESSION, "timestamp": _clock(0),
         "cwd": "/srv/harbour"},
        entry(1, "model_change", provider="prime", modelId="intellect-test"),
        entry(2, "thinking_level_change", thinkingLevel="high"),
        message(3, "user", content="When is high tide?"),
        message(4, "assistant", content=[
            {"type": "thinking", "thinking": "Run it."},
            {"type": "toolCall", "id": "k1", "name": "ipython", "arguments": {"code": "tide()"}},
        ], stopReason="toolUse", usage=usage, **maker),
        message(5, "toolResult", toolCallId="k1", toolName="ipython", isError=True,
                content=[{"type": "text", "text": "NameError"}]),
        message(6, "bashExecution", command="tide --now", output="14:10", exitCode=0,
                cancelled=False, truncated=False),
        message(7, "assistant", content=[{"type": "text", "text": "At 14:10."}],
                stopReason="aborted", usage=usage, **maker),
        entry(8, "custom", customType="kernel", data={"state": "dill"}),
    ]  # fmt: skip


def trae() -> Records:
    """Return a rollout of Trae's: every text in two lanes, a call that fails, a running total."""

    def line(n: int, sort: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": _clock(n), "type": sort, "payload": payload}

    def counted(n: int, sent: int, received: int) -> dict[str, Any]:
        total = {"input_tokens": sent, "cached_input_tokens": 20, "output_tokens": received,
                 "reasoning_output_tokens": 1, "total_tokens": sent + received}  # fmt: skip
        return line(n, "event_msg", type="token_count",
                    info={"total_token_usage": total, "last_token_usage": total,
                          "model_context_window": 200_000})  # fmt: skip

    def said(n: int, role: str, sort: str, text: str) -> dict[str, Any]:
        return line(n, "response_item", type="message", role=role,
                    content=[{"type": sort, "text": text}])  # fmt: skip

    def called(n: int, call_id: str, tool: str, **given: Any) -> dict[str, Any]:
        return line(n, "response_item", type="function_call", name=tool, call_id=call_id,
                    arguments=json.dumps(given))  # fmt: skip

    def returned(n: int, call_id: str, output: Any) -> dict[str, Any]:
        return line(n, "response_item", type="function_call_output", call_id=call_id, output=output)

    failed = {"output": "no such quay", "metadata": {"exit_code": 2, "duration_seconds": 0.1}}
    return [
        line(0, "session_meta", id=TRAE_SESSION, timestamp=_clock(0), cwd="/srv/harbour",
             originator="traex", cli_version="0.9.1", source="cli",
             git={"branch": "tides", "repository_url": "https://example.com/acme/harbour.git"}),
        line(1, "turn_context", cwd="/srv/harbour", model="doubao-test", approval_policy="never"),
        said(2, "user", "input_text", "When is high tide?"),
        line(2, "event_msg", type="user_message", message="When is high tide?", images=[]),
        line(3, "event_msg", type="agent_reasoning", text="**Looking**"),
        line(3, "response_item", type="reasoning", encrypted_content="sealed",
             summary=[{"type": "summary_text", "text": "**Looking**"}]),
        called(4, "f1", "Skill", skill="tides"),
        returned(5, "f1", "14:10"),
        called(6, "f2", "shell", command=["tide", "--quay", "9"]),
        returned(7, "f2", json.dumps(failed)),
        counted(7, 60, 9),
        line(8, "event_msg", type="agent_message", message="At 14:10."),
        said(8, "assistant", "output_text", "At 14:10."),
    ]  # fmt: skip


def content(records: Records) -> bytes:
    """Return records as a log, one a line."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def document(value: Any) -> bytes:
    """Return a value as a file."""
    return json.dumps(value, indent=1).encode()


LOGS: Final[dict[str, tuple[str, str, dict[str, bytes]]]] = {
    "copilot": ("copilot", f".copilot/session-state/{COPILOT_SESSION}/events.jsonl", {}),
    "qwen": ("qwen", f".qwen/projects/-srv-harbour/chats/{QWEN_SESSION}.jsonl", {}),
    "droid store": (
        "droid",
        ".factory/sessions/-srv-harbour/droid-1.jsonl",
        {".factory/sessions/-srv-harbour/droid-1.settings.json": document(DROID_SETTINGS)},
    ),
    "droid stream": ("droid", "droid-2.jsonl", {}),
    "grok": (
        "grok",
        f".grok/sessions/{GROK_SESSION}/chat_history.jsonl",
        {
            f".grok/sessions/{GROK_SESSION}/summary.json": document(GROK_SUMMARY),
            f".grok/sessions/{GROK_SESSION}/signals.json": document(GROK_SIGNALS),
        },
    ),
    "kimi": (
        "kimi",
        f".kimi-code/sessions/wd_harbour_0123456789ab/{KIMI_SESSION}/agents/main/wire.jsonl",
        {
            f".kimi-code/sessions/wd_harbour_0123456789ab/{KIMI_SESSION}/state.json": document(
                {"title": "Tides", "workDir": "/srv/harbour", "agents": {"main": {"type": "main"}}}
            )
        },
    ),
    "kimi older": ("kimi", f".kimi/sessions/{'0' * 32}/{KIMI_SESSION}/wire.jsonl", {}),
    "antigravity": (
        "antigravity",
        ".gemini/antigravity-cli/brain/conv-1/.system_generated/logs/transcript.jsonl",
        {},
    ),
    "codex exec": ("codex-exec", "run.jsonl", {}),
    "omp": (
        "omp",
        f".omp/agent/sessions/--srv-harbour--/2026-10-01T10-00-00-000Z_{OMP_SESSION}.jsonl",
        {},
    ),
    "prime": (
        "prime",
        f".prime/agent/sessions/--srv-harbour--/2026-10-01T10-00-00-000Z_{PRIME_SESSION}.jsonl",
        {},
    ),
    "trae": (
        "trae",
        f".trae/cli/sessions/2026/10/01/rollout-2026-10-01T10-00-00-{TRAE_SESSION}.jsonl",
        {},
    ),
}
"""Of each sample: its format, where its log lies, and what lies beside it."""
RECORDS: Final[dict[str, Records]] = {
    "copilot": copilot(),
    "qwen": qwen(),
    "droid store": droid_store(),
    "droid stream": droid_stream(),
    "grok": grok(),
    "kimi": kimi(),
    "kimi older": kimi_older(),
    "antigravity": antigravity(),
    "codex exec": codex_exec(),
    "omp": omp(),
    "prime": prime(),
    "trae": trae(),
}
