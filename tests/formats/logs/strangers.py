"""Logs of unsupported agents that resemble supported ones.

Each has an envelope, an id or a block in common with a format that is read.
"""

from __future__ import annotations

from typing import Any, Final


def walrus() -> list[dict[str, Any]]:
    """Return a log with Claude's envelope around content of its own."""
    return [
        {"uuid": f"0190b000-0000-7000-8000-{n:012d}", "sessionId": "w1", "type": sort, "body": body,
         "timestamp": f"2026-10-01T10:00:{n:02d}.000Z", "cwd": "/srv/harbour"}
        for n, (sort, body) in enumerate(
            [("question", "When?"), ("call", {"tool": "tide"}), ("answer", "At noon.")], start=1
        )
    ]  # fmt: skip


def pelican() -> list[dict[str, Any]]:
    """Return a log with pi's entries around blocks of its own."""
    blocks: list[dict[str, Any]] = [{"type": "utterance", "words": "Look around."}]
    return [
        {"type": "message", "id": f"m{n}", "parentId": f"m{n - 1}", "timestamp": n,
         "message": {"role": "user", "content": blocks}}
        for n in range(1, 5)
    ]  # fmt: skip


def heron() -> list[dict[str, Any]]:
    """Return a log with Copilot's types, and nothing else of it."""
    return [
        {"type": "user.message", "text": "When is high tide?"},
        {"type": "assistant.message", "text": "At noon."},
        {"type": "session.end"},
    ]


def plover() -> list[dict[str, Any]]:
    """Return messages as any provider takes them."""
    return [
        {"role": "user", "content": "When is high tide?"},
        {"role": "assistant", "content": "At noon.", "tool_calls": []},
        {"role": "tool", "content": "noon", "tool_call_id": "c1"},
    ]


STRANGERS: Final = {"walrus": walrus(), "pelican": pelican(), "heron": heron(), "plover": plover()}
