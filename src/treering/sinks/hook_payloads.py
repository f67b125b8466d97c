"""What hooks are told of events, in the names that hooks know: safe parts, and private ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from treering.model.kinds import RUN_ENDS
from treering.model.messages import UserMessage
from treering.model.runs import COMPACTION
from treering.sinks.hook_messages import as_messages
from treering.sinks.hook_names import REQUIRED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.model.carried import Carried, PrivateEvent
    from treering.spine.ports import Occasion, PrivatePast, SafePast

INPUTS_MAX: Final = 1_000
INPUTS_BYTES_MAX: Final = 16 * 1_024 * 1_024
"""So many tool inputs, and so many bytes of them, are remembered for the results to come."""

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
"""The plugin hooks that are fired for each kind of event, in order."""

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
"""The internal hook that is triggered for each kind of event."""

RESET: Final = "reset"
NOT_DELIVERED: Final = "not_delivered"
"""The code of the warning that a message could not be sent."""


def plugin_hooks(event: Carried) -> tuple[str, ...]:
    """Return the plugin hooks that ``event`` fires.

    A late result fires none: its call had its outcome, and hooks were told of that. Nor does the
    end of a run that only compacted the session: no agent was at work in it.
    """
    if _is_silent(event):
        return ()
    hooks = PLUGIN.get(event.kind, ())
    if event.kind == "session.closed" and _fact(event, "reason") != RESET:
        return hooks[1:]
    return () if event.kind == "tool.result" and _fact(event, "late") else hooks


def internal_hook(event: Carried, origin: str) -> tuple[str, str] | None:
    """Return the internal hook that ``event`` triggers; none if ``origin`` triggered it already."""
    if event.origin == origin or _is_silent(event):
        return None
    return INTERNAL.get(event.kind)


def _is_silent(event: Carried) -> bool:
    """Whether ``event`` is one that hooks are not told of, although others of its kind are."""
    if event.kind == "ops.warning":
        return bool(_fact(event, "code") != NOT_DELIVERED)
    return event.kind in RUN_ENDS and bool(_fact(event, "reason") == COMPACTION)


def context_of(event: Carried | Occasion, **more: Any) -> dict[str, Any]:
    """Return where something happens, as hooks are told."""
    told = {
        "agentId": event.agent_id,
        "sessionId": event.session_id,
        "sessionKey": event.session_key,
        "conversationId": event.session_id,
        "runId": event.run_id,
        "scope": event.scope,
        **more,
    }
    return {name: value for name, value in told.items() if value is not None}


def safe_payload(event: Carried) -> dict[str, Any]:
    """Return what may be told of ``event``: facts and sizes, never a text."""
    told = {"sessionId": event.session_id, "sessionKey": event.session_key, "runId": event.run_id}
    shaped = _SHAPES.get(event.kind, dict)(event.part.as_payload())
    if event.kind in RUN_ENDS:
        shaped = _ended(event.kind, shaped)
    elif event.kind == "conversation.user":
        shaped["timestamp"] = event.ts_ms
    return {name: value for name, value in {**told, **shaped}.items() if value is not None}


def private_payload(event: PrivateEvent, inputs: Inputs) -> dict[str, Any]:
    """Return all that can be told of ``event``, private content included."""
    content = event.payload if isinstance(event.payload, dict) else {}
    told = safe_payload(event)
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
    return told | {name: value for name, value in more.items() if value is not None}


def facts_before(hook: str, event: Carried, past: SafePast) -> dict[str, Any]:
    """Return what ``hook`` is told that ``event`` does not say itself: facts and counts."""
    match hook:
        case "llm_input" | "llm_output" if event.run_id is not None:
            started = past.run_started(event.scope, event.session_id, event.run_id)
            found: dict[str, Any] = {"provider": started.provider, "model": started.model}
            # What Treering assembles holds texts alone.
            return {**found, "imagesCount": 0} if hook == "llm_input" else found
        case "session_end":
            opened_ms = past.opened_ms(event.scope, event.session_id)
            lasted_ms = None if opened_ms is None else max(event.ts_ms - opened_ms, 0)
            count = past.message_count(event.scope, event.session_id, event.seq or 0)
            return {"messageCount": count, "durationMs": lasted_ms}
        case _:
            return {}


def contents_before(hook: str, event: Carried, past: PrivatePast) -> dict[str, Any]:
    """Return the messages that ``hook`` is told of besides what ``event`` says itself."""
    if hook not in {"agent_end", "before_reset", "before_compaction", "llm_input"}:
        return {}
    asking = None if hook == "before_compaction" else event.run_id
    found = past.messages(event.scope, event.session_id, asking, event.seq)
    if hook != "llm_input":
        return {"messages": as_messages(found)}
    asked = [at for at, one in enumerate(found) if isinstance(one, UserMessage)]
    if not asked:
        return {"prompt": "", "historyMessages": as_messages(found)}
    return {"prompt": found[asked[-1]].text, "historyMessages": as_messages(found[: asked[-1]])}


def with_required(hook: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return ``payload`` with every field that plugins rely on: None if nothing is told of it."""
    return {**dict.fromkeys(REQUIRED_FIELDS.get(hook, ())), **payload}


class Inputs:
    """The inputs of recent tool calls, which their results do not repeat; the oldest go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str], tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def note(self, event: PrivateEvent) -> None:
        """Remember the input of a ``tool.call``."""
        if not isinstance(event.payload, dict):
            return
        with self._lock:
            _, size = self._kept.pop(_place(event), (None, 0))
            self._kept[_place(event)] = event.payload.get("input"), event.payload_bytes
            self._bytes += event.payload_bytes - size
            while len(self._kept) > INPUTS_MAX or self._bytes > INPUTS_BYTES_MAX:
                _, (_, size) = self._kept.popitem(last=False)
                self._bytes -= size

    def of(self, event: PrivateEvent) -> Any:
        """Return the input of the call that a ``tool.result`` ends; None if it is not known."""
        with self._lock:
            return self._kept.get(_place(event), (None, 0))[0]


def _place(event: Carried) -> tuple[str, str, str]:
    return event.scope, event.session_id, str(_fact(event, "call_id"))


def _fact(event: Carried, name: str) -> Any:
    return getattr(event.part, name, None)


def _sent(part: dict[str, Any]) -> dict[str, Any]:
    return {"success": True, **part}


def _not_sent(part: dict[str, Any]) -> dict[str, Any]:
    return {"success": False, "error": part.get("errorClass"), **part}


def _forked(part: dict[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in part.items() if name in {"channel", "mode"}}
    return {**told, "resumedFrom": part.get("parent")}


def _tool_returned(part: dict[str, Any]) -> dict[str, Any]:
    failed = part.get("status") not in {"ok", None}
    error = part.get("errorClass") or part.get("reason") or part.get("status")
    told = {"isSynthetic": part.get("status") == "synthetic", **part}
    return {**told, "error": error} if failed else told


def _compacting(part: dict[str, Any]) -> dict[str, Any]:
    count = part.get("messagesBefore", part.get("messages"))
    told = {"messageCount": count, "compactingCount": part.get("messages")}
    return {**told, "tokenCount": part.get("tokensBefore"), **_uncounted(part)}


def _compacted(part: dict[str, Any]) -> dict[str, Any]:
    told = {"messageCount": part.get("messagesAfter"), "compactedCount": part.get("messages")}
    return {**told, "tokenCount": part.get("tokensAfter"), **_uncounted(part)}


def _uncounted(part: dict[str, Any]) -> dict[str, Any]:
    # Hooks know ``messages`` as a list of them, so that the counts go by their other names.
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
