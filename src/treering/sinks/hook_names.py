"""The names of hooks, and how each is run."""

from __future__ import annotations

import difflib
from typing import Final

from treering.errors import InvalidInput

VOID_HOOKS: Final = (
    "llm_input",
    "llm_output",
    "agent_end",
    "before_compaction",
    "after_compaction",
    "before_reset",
    "message_received",
    "message_sent",
    "after_tool_call",
    "session_start",
    "session_end",
    "gateway_start",
    "gateway_stop",
)
"""Run in parallel; their results are ignored."""

MODIFYING_HOOKS: Final[dict[str, dict[str, type]]] = {
    "before_agent_start": {"systemPrompt": str, "prependContext": str},
    "message_sending": {"content": str, "cancel": bool},
    "before_tool_call": {"params": dict, "block": bool, "blockReason": str},
}
"""Run one after the other; with the fields they may return, and their types."""

PERSIST_HOOK: Final = "tool_result_persist"
"""Run one after the other, without awaiting anything; each gets the result of the one before."""

PLUGIN_HOOKS: Final = (*VOID_HOOKS, *MODIFYING_HOOKS, PERSIST_HOOK)
"""Every name that ``Hooks.on`` accepts."""

REQUIRED_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "llm_input": (
        *("runId", "sessionId", "provider", "model", "prompt", "historyMessages"),
        "imagesCount",
    ),
    "llm_output": ("runId", "sessionId", "provider", "model", "assistantTexts"),
    "agent_end": ("messages", "success"),
    "before_compaction": ("messageCount",),
    "after_compaction": ("messageCount", "compactedCount"),
    "message_received": ("from", "content"),
    "message_sent": ("to", "content", "success"),
    "after_tool_call": ("toolName", "params"),
    "session_start": ("sessionId",),
    "session_end": ("sessionId", "messageCount"),
    "gateway_start": ("port",),
}
"""Fields that plugins rely on: always present, and None if unknown or withheld."""

ORIGIN: Final = "hook-adapter"
"""The origin of events that are recorded because an internal hook was triggered."""


def check_plugin_hook(name: str) -> str:
    """Return ``name`` if it is a plugin hook. Raises InvalidInput with the nearest names."""
    if name in PLUGIN_HOOKS:
        return name
    near = difflib.get_close_matches(str(name), PLUGIN_HOOKS, n=3)
    if not near and ":" in str(name):
        hint = f"register for internal hooks with hooks.on_internal({name!r})"
    elif near:
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"use one of {', '.join(PLUGIN_HOOKS)}"
    raise InvalidInput(f"no such hook: {name}", hint=hint)


def check_internal_key(key: str) -> str:
    """Return ``key`` if it is a ``type`` or ``type:action``. Raises InvalidInput otherwise."""
    parts = key.split(":", 1)
    if not all(part and part == part.strip() for part in parts):
        raise InvalidInput(
            f"invalid internal hook: {key!r}",
            hint="write type or type:action, as in 'command' or 'command:new'",
        )
    return key
