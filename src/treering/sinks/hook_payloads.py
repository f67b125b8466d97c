"""The payloads that hooks receive for events, under the hooks' own names: safe and private."""

from __future__ import annotations

import difflib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.model.codec import canonical
from treering.model.kinds import RUN_ENDS
from treering.model.messages import AssistantMessage, ModelMessage, UserMessage
from treering.model.views import COMPACTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.model.carried import Carried, PrivateEvent
    from treering.spine.ports import Occasion, PrivatePast, SafePast

INPUTS_MAX: Final = 1_000
INPUTS_BYTES_MAX: Final = 16 * 1_024 * 1_024
"""Limits of the tool inputs that are remembered until their results come."""

PLUGIN: Final[dict[str, tuple[str, ...]]] = {
    "session.opened": ("session_start",),
    "session.forked": ("session_start",),
    "session.closed": ("before_reset", "session_end"),
    **dict.fromkeys(RUN_ENDS, ("agent_end",)),
    "conversation.user": ("message_received",),
    "conversation.assistant": ("llm_output",),
    "context.assembled": ("llm_input",),
    "ops.receipt": ("message_sent",),
    "ops.warning": ("message_sent",),
    "tool.result": ("after_tool_call",),
    "compaction.started": ("before_compaction",),
    "compaction.ended": ("after_compaction",),
}
"""The plugin hooks for each kind of event, in order."""

INTERNAL: Final[dict[str, tuple[str, str]]] = {
    "session.opened": ("session", "start"),
    "session.forked": ("session", "start"),
    "session.closed": ("session", "end"),
    **dict.fromkeys(RUN_ENDS, ("agent", "end")),
    "conversation.user": ("message", "received"),
    "ops.receipt": ("message", "sent"),
    "ops.warning": ("message", "sent"),
    "compaction.started": ("session", "compact:before"),
    "compaction.ended": ("session", "compact:after"),
}
"""The internal hook for each kind of event."""

RESET: Final = "reset"
NOT_DELIVERED: Final = "not_delivered"
"""The code of the warning for a message that could not be sent."""


def plugin_hooks(event: Carried) -> tuple[str, ...]:
    """Return the plugin hooks that ``event`` fires.

    A late result fires none: hooks were called for the earlier outcome of its call. Neither does
    the end of a run that only compacted the session: no agent worked in it.
    """
    if _is_silent(event):
        return ()
    hooks = PLUGIN.get(event.kind, ())
    if event.kind == "session.closed" and _fact(event, "reason") != RESET:
        return hooks[1:]
    return () if event.kind == "tool.result" and _fact(event, "late") else hooks


def internal_hook(event: Carried, origin: str) -> tuple[str, str] | None:
    """Return the internal hook that ``event`` triggers; None if ``origin`` triggered it already."""
    if event.origin == origin or _is_silent(event):
        return None
    return INTERNAL.get(event.kind)


def _is_silent(event: Carried) -> bool:
    """Return whether hooks ignore ``event``, although they are called for its kind."""
    if event.kind == "ops.warning":
        return bool(_fact(event, "code") != NOT_DELIVERED)
    return event.kind in RUN_ENDS and bool(_fact(event, "reason") == COMPACTION)


def context_of(event: Carried | Occasion, **more: Any) -> dict[str, Any]:
    """Return the context of an event for hooks."""
    context = {
        "agentId": event.agent_id,
        "sessionId": event.session_id,
        "sessionKey": event.session_key,
        "conversationId": event.session_id,
        "runId": event.run_id,
        "scope": event.scope,
        **more,
    }
    return {name: value for name, value in context.items() if value is not None}


def safe_payload(event: Carried) -> dict[str, Any]:
    """Return the public payload of ``event``: facts and sizes, never text."""
    ids = {"sessionId": event.session_id, "sessionKey": event.session_key, "runId": event.run_id}
    shaped = _SHAPES.get(event.kind, dict)(event.part.as_payload())
    if event.kind in RUN_ENDS:
        shaped = _ended(event.kind, shaped)
    elif event.kind == "conversation.user":
        shaped["timestamp"] = event.ts_ms
    return {name: value for name, value in {**ids, **shaped}.items() if value is not None}


def private_payload(event: PrivateEvent, inputs: Inputs) -> dict[str, Any]:
    """Return the payload of ``event`` with private content."""
    content = event.payload if isinstance(event.payload, dict) else {}
    safe = safe_payload(event)
    match event.kind:
        case "conversation.user":
            more = {"content": content.get("text"), "from": content.get("from")}
            more["metadata"] = _rest(content, "text", "from")
        case "conversation.assistant":
            texts = [content["text"]] if isinstance(content.get("text"), str) else []
            more = {"assistantTexts": texts, "lastAssistant": content}
            more["usage"] = content.get("usage")
        case "context.assembled":
            more = {"prompt": content.get("prompt"), "systemPrompt": content.get("system_prompt")}
            more["historyMessages"] = content.get("messages")
        case "ops.receipt" | "ops.warning":
            more = {"content": content.get("text"), "to": content.get("to")}
            more["error"] = _message(content)
        case "tool.result":
            more = {"params": inputs.of(event), "result": content.get("output")}
            more["error"] = _message(content.get("error"))
        case "run.failed" | "run.interrupted":
            more = {"error": _message(content) or content.get("reason")}
        case _:
            more = {}
    return safe | {name: value for name, value in more.items() if value is not None}


def facts_before(hook: str, event: Carried, past: SafePast) -> dict[str, Any]:
    """Return facts and counts for ``hook`` that are not in ``event`` itself."""
    match hook:
        case "llm_input" | "llm_output" if event.run_id is not None:
            started = past.run_started(event.scope, event.session_id, event.run_id)
            names: dict[str, Any] = {"provider": started.provider, "model": started.model}
            # Treering's contexts hold only text.
            return {**names, "imagesCount": 0} if hook == "llm_input" else names
        case "session_end":
            opened_ms = past.opened_ms(event.scope, event.session_id)
            lasted_ms = None if opened_ms is None else max(event.ts_ms - opened_ms, 0)
            count = past.message_count(event.scope, event.session_id, event.seq or 0)
            return {"messageCount": count, "durationMs": lasted_ms}
        case _:
            return {}


def contents_before(hook: str, event: Carried, past: PrivatePast) -> dict[str, Any]:
    """Return messages for ``hook`` that are not in ``event`` itself."""
    if hook not in {"agent_end", "before_reset", "before_compaction", "llm_input"}:
        return {}
    run_id = None if hook == "before_compaction" else event.run_id
    messages = past.messages(event.scope, event.session_id, run_id, event.seq)
    if hook != "llm_input":
        return {"messages": as_messages(messages)}
    asked = [at for at, message in enumerate(messages) if isinstance(message, UserMessage)]
    if not asked:
        return {"prompt": "", "historyMessages": as_messages(messages)}
    return {
        "prompt": messages[asked[-1]].text,
        "historyMessages": as_messages(messages[: asked[-1]]),
    }


def with_required(hook: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return ``payload`` with every field that plugins rely on; None where it is unknown."""
    return {**dict.fromkeys(REQUIRED_FIELDS.get(hook, ())), **payload}


class Inputs:
    """The inputs of recent tool calls, which their results do not repeat. Bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str], tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def note(self, event: PrivateEvent) -> None:
        """Remember the input of a ``tool.call``."""
        if not isinstance(event.payload, dict):
            return
        with self._lock:
            _, size = self._kept.pop(_call_key(event), (None, 0))
            self._kept[_call_key(event)] = event.payload.get("input"), event.payload_bytes
            self._bytes += event.payload_bytes - size
            while len(self._kept) > INPUTS_MAX or self._bytes > INPUTS_BYTES_MAX:
                _, (_, size) = self._kept.popitem(last=False)
                self._bytes -= size

    def of(self, event: PrivateEvent) -> Any:
        """Return the input of the call of a ``tool.result``, or None if unknown."""
        with self._lock:
            return self._kept.get(_call_key(event), (None, 0))[0]


def _call_key(event: Carried) -> tuple[str, str, str]:
    return event.scope, event.session_id, str(_fact(event, "call_id"))


def _fact(event: Carried, name: str) -> Any:
    return getattr(event.part, name, None)


def _sent(part: dict[str, Any]) -> dict[str, Any]:
    return {"success": True, **part}


def _not_sent(part: dict[str, Any]) -> dict[str, Any]:
    return {"success": False, "error": part.get("errorClass"), **part}


def _forked(part: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in part.items() if name in {"channel", "mode"}}
    return {**fields, "resumedFrom": part.get("parent")}


def _tool_returned(part: dict[str, Any]) -> dict[str, Any]:
    failed = part.get("status") not in {"ok", None}
    error = part.get("errorClass") or part.get("reason") or part.get("status")
    fields = {"isSynthetic": part.get("status") == "synthetic", **part}
    return {**fields, "error": error} if failed else fields


def _compacting(part: dict[str, Any]) -> dict[str, Any]:
    count = part.get("messagesBefore", part.get("messages"))
    counts = {"messageCount": count, "compactingCount": part.get("messages")}
    return {**counts, "tokenCount": part.get("tokensBefore"), **_uncounted(part)}


def _compacted(part: dict[str, Any]) -> dict[str, Any]:
    counts = {"messageCount": part.get("messagesAfter"), "compactedCount": part.get("messages")}
    return {**counts, "tokenCount": part.get("tokensAfter"), **_uncounted(part)}


def _uncounted(part: dict[str, Any]) -> dict[str, Any]:
    # In hooks, ``messages`` is a list of messages, so the counts have other names.
    return {name: value for name, value in part.items() if not name.startswith("messages")}


def _ended(kind: str, part: dict[str, Any]) -> dict[str, Any]:
    success = kind == "run.ended"
    error = None if success else part.get("errorClass") or part.get("reason") or RUN_ENDS[kind]
    return {**part, "success": success, "error": error}


_SHAPES: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "ops.receipt": _sent,
    "ops.warning": _not_sent,
    "session.forked": _forked,
    "tool.result": _tool_returned,
    "compaction.started": _compacting,
    "compaction.ended": _compacted,
}


def _message(error: Any) -> str | None:
    return error.get("message") if isinstance(error, dict) else None


def _rest(content: dict[str, Any], *names: str) -> dict[str, Any] | None:
    return {name: value for name, value in content.items() if name not in names} or None


def as_message(
    tool: str, call_id: str, output: Any, *, is_error: bool, is_synthetic: bool
) -> dict[str, Any]:
    """Return ``output`` as a message: text unchanged, other values as JSON and in ``details``.

    Raises InvalidInput if it is not a JSON value.
    """
    message: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": tool,
        "content": _content(output),
        "isError": is_error,
        "isSynthetic": is_synthetic,
    }
    if output is not None and not isinstance(output, str):
        message["details"] = output
    return message


def as_output(message: dict[str, Any], before: dict[str, Any], output: Any) -> Any:
    """Return the output to store after hooks changed the message ``before`` to ``message``.

    Return ``output`` itself if content and details are unchanged, and changed details if only they
    differ; otherwise the text of a single text block, or the content itself.
    """
    content, details = message.get("content"), message.get("details")
    if content == before["content"]:
        if details == before.get("details"):
            return output
        if details is not None:
            return details
    match content:
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return content


def as_messages(messages: Iterable[ModelMessage]) -> list[dict[str, Any]]:
    """Return messages for hooks: user, assistant, and a toolResult for each call."""
    converted: list[dict[str, Any]] = []
    for message in messages:
        content = _content(message.text or None)
        if not isinstance(message, AssistantMessage):
            converted.append({"role": "user", "content": content})
            continue
        content += [
            {"type": "toolCall", "id": call.call_id, "name": call.tool, "arguments": call.arguments}
            for call in message.calls
        ]
        converted.append({"role": "assistant", "content": content})
        converted += [
            as_message(
                result.tool,
                result.call_id,
                result.output,
                is_error=result.is_error,
                is_synthetic=result.reason is not None,
            )
            for result in message.results
        ]
    return converted


def _content(output: Any) -> list[dict[str, Any]]:
    if output is None:
        return []
    text = output if isinstance(output, str) else canonical(output, "output").decode()
    return [{"type": "text", "text": text}]


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
