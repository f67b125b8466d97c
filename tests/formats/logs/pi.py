"""Logs as pi and OpenClaw write them."""

from __future__ import annotations

from typing import Any, Final

from treering.model.fields import instant

T0: Final = 1_790_000_000_000
SESSION: Final = "0190a000-0000-7000-8000-00000000000a"
PARENT: Final = "0190a000-0000-7000-8000-00000000000b"
MODEL: Final = {"provider": "anthropic", "model": "claude-test-1"}


def header(**fields: Any) -> dict[str, Any]:
    """Return the first line of a log of the third version."""
    stated = {"type": "session", "version": 3, "id": SESSION, "timestamp": instant(T0)}
    return {**stated, "cwd": "/home/ada/harbour", **fields}


def entry(n: int, sort: str, parent: int | None = -1, **fields: Any) -> dict[str, Any]:
    """Return the ``n``th entry, by default a child of the one before."""
    above = (n - 1 or None) if parent == -1 else parent
    return {
        "type": sort,
        "id": ident(n),
        "parentId": None if above is None else ident(above),
        "timestamp": instant(T0 + n * 1_000),
        **fields,
    }


def ident(n: int) -> str:
    """Return the id of the ``n``th entry."""
    return f"{n:08x}"


def said(n: int, text: Any, parent: int | None = -1) -> dict[str, Any]:
    """Return a message of the user's."""
    content = [{"type": "text", "text": text}] if isinstance(text, str) else text
    return entry(n, "message", parent, message={"role": "user", "content": content})


def answered(n: int, *blocks: Any, parent: int | None = -1, **fields: Any) -> dict[str, Any]:
    """Return an answer of the model's; a text is a block of text."""
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    message = {"role": "assistant", "content": content, "stopReason": "stop", **MODEL, **fields}
    return entry(n, "message", parent, message=message)


def call(call_id: str, name: str = "read", **given: Any) -> dict[str, Any]:
    """Return a block that calls a tool."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": given}


def returned(n: int, call_id: str, text: str, name: str = "read", **fields: Any) -> dict[str, Any]:
    """Return the result of a tool."""
    content = [{"type": "text", "text": text}]
    message = {"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": content}
    return entry(n, "message", message={**message, "isError": False, **fields})


def voyage() -> list[dict[str, Any]]:
    """Return a session with a tool that works, one that fails, and a compaction."""
    return [
        header(),
        entry(1, "model_change", provider="anthropic", modelId="claude-test-1"),
        said(2, "When is high tide in Bergen?"),
        answered(3, {"type": "thinking", "thinking": "Ask.", "thinkingSignature": "x1"},
                 "Let me look.", call("c1", path="tides.txt"), stopReason="toolUse",
                 usage={"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 20,
                        "totalTokens": 135, "cost": {"total": 0.25}}),
        returned(4, "c1", "14:10", details={"durationMs": 40, "exitCode": 0}),
        answered(5, "At 14:10."),
        entry(6, "compaction", summary="They asked for the tide.", firstKeptEntryId=ident(5),
              tokensBefore=900),
        said(7, "And the wind?"),
        answered(8, call("c2", "bash", command="wind --now"), stopReason="toolUse"),
        returned(9, "c2", "no such command", "bash", isError=True),
        answered(10, "I cannot tell."),
    ]  # fmt: skip


def oldest(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a log of version 1, without ids."""
    model = {"provider": "anthropic", "modelId": "claude-test-1", "thinkingLevel": "off"}
    first = {at: value for at, value in header(**model).items() if at != "version"}
    return [first] + [
        {at: value for at, value in one.items() if at not in {"id", "parentId"}} for one in entries
    ]
