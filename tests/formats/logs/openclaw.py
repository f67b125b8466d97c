"""Logs as OpenClaw writes them: pi's, with marks of its own."""

from __future__ import annotations

from typing import Any

from formats.logs.pi import T0, answered, entry, header

MISSING = (
    "[openclaw] missing tool result in session history; inserted synthetic error result for "
    "transcript repair."
)


def opening(**fields: Any) -> list[dict[str, Any]]:
    """Return the beginning of a session, up to its first entry."""
    snapshot = {"timestamp": T0, "provider": "anthropic", "modelId": "claude-test-1"}
    first = header(cwd="/home/ada/.openclaw/workspace", **fields)
    return [first, entry(1, "custom", customType="model-snapshot", data=snapshot)]


def mirrored(n: int, text: str, parent: int | None = -1) -> dict[str, Any]:
    """Return OpenClaw's entry for a delivered text."""
    return answered(n, text, parent=parent, provider="openclaw", model="delivery-mirror")
