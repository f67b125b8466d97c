"""The events of a rollout, as its user interface received them, as events of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex.drafts import (
    PendingEvent,
    called,
    count_of,
    input_of,
    key_of,
    observed,
    returned,
    short_id,
    text_of,
    texts_of,
)
from treering.formats.codex.items import milliseconds
from treering.formats.codex.twins import LaneText
from treering.formats.loose import fields_of, says_beyond, word
from treering.formats.loose import name as name_of
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

Part = PendingEvent | LaneText

_COUNTS: Final = {
    "input_tokens": "input_tokens", "output_tokens": "output_tokens",
    "cached_input_tokens": "cached_tokens", "total_tokens": "total_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}  # fmt: skip
_CONTEXT_KINDS: Final = frozenset({"environment_context", "user_instructions"})
"""Kinds of user messages that the user did not write."""
_BESIDE: Final = frozenset({"type", "kind", "phase", "item"})
"""Fields that say nothing without a text."""


def read_event(event: dict[str, Any]) -> list[Part]:
    """Return what ``event`` says alone: no counts or rollbacks, which need earlier events.

    Empty if it says nothing.
    """
    sort = event.get("type")
    read = _READERS.get(sort) if isinstance(sort, str) else None
    parts = [] if read is None else read(event)
    is_unheard = read is None or (not parts and says_beyond(event, _BESIDE))
    return [observation_of(event)] if is_unheard else parts


def observation_of(event: dict[str, Any]) -> PendingEvent:
    """Return an event with all its content."""
    sort = event.get("type")
    return observed(key_of(["event", event]), sort if isinstance(sort, str) else "event", event)


def mcp_call_of(event: dict[str, Any]) -> list[Part]:
    """Return a call of an MCP tool and its outcome: the event at its end has both."""
    asked, result = fields_of(event.get("invocation")), fields_of(event.get("result"))
    call_id = name_of(event.get("call_id")) or f"codex-{key_of(event)}"
    tool = name_of(f"mcp__{asked.get('server')}__{asked.get('tool')}") or "mcp"
    answer = result.get("Ok", event.get("result"))
    failed = "Err" in result or fields_of(answer).get("isError") is True
    output = result["Err"] if "Err" in result else fields_of(answer).get("content", answer)
    texts = texts_of(output)
    output = text_of(output) if isinstance(output, list) and len(texts) == len(output) else output
    message = shorten(output if isinstance(output, str) else "failed")
    error = {"class": "Failed", "message": message} if failed else None
    took = milliseconds(event.get("duration"))
    return [
        called(
            f"call:{short_id(call_id)}",
            call_id,
            tool,
            input_of(asked.get("arguments"), "arguments"),
        ),
        returned(f"result:{short_id(call_id)}", call_id, tool, output, error, duration_ms=took),
    ]


class UsageCounter(msgspec.Struct):
    """The usage up to the last report."""

    total: dict[str, int] = {}

    def report(
        self, event: dict[str, Any], model: str | None, provider: str | None
    ) -> PendingEvent | str:
        """Return the usage of the last call; a reason, if it was already reported."""
        stated = fields_of(event.get("info"))
        total = _counts(stated.get("total_token_usage", event))
        last = _counts(stated.get("last_token_usage"))
        if not total and not last:
            return observation_of(event)
        if total and total == self.total:
            return "repeats the last count"
        if not last:
            last = {name: max(0, count - self.total.get(name, 0)) for name, count in total.items()}
        self.total = total
        named = {"model": model, "provider": provider}
        refs = {name: value for name, value in {**named, **last}.items() if value is not None}
        window = count_of(stated.get("model_context_window"))
        more = {"context_window": window, "rate_limits": event.get("rate_limits")}
        return PendingEvent(
            key=key_of(["usage", total, last]),
            kind="usage.reported",
            summary="usage reported",
            payload={**{name: count for name, count in more.items() if count is not None}, **refs},
            refs=refs,
        )


def _counts(stated: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for theirs, ours in _COUNTS.items() if isinstance(stated, dict) else ():
        count = stated.get(theirs)
        if type(count) is int and count >= 0:
            counts[ours] = count
    return counts


def _read_user(event: dict[str, Any]) -> list[Part]:
    if word(event.get("kind")) in _CONTEXT_KINDS:
        return [observation_of(event)]
    text = text_of(event.get("message"))
    rest = {
        name: value
        for name, value in event.items()
        if name not in {"type", "message", "kind"} and value
    }
    return [LaneText(role="user", lane="event", text=text, more=rest)] if text or rest else []


def _read_answer(event: dict[str, Any]) -> list[Part]:
    text = text_of(event.get("message"))
    phase = {"phase": event.get("phase")}
    return [LaneText(role="assistant", lane="event", text=text, more=phase)] if text.strip() else []


def _read_thought(event: dict[str, Any]) -> list[Part]:
    text = text_of(event.get("text"))
    return [LaneText(role="thinking", lane="event", text=text)] if text.strip() else []


def _read_completed(event: dict[str, Any]) -> list[Part]:
    """Return the text of a completed item, which newer files have nowhere else."""
    item = fields_of(event.get("item"))
    content = item.get("content")
    named = {"phase": item.get("phase"), "message_id": name_of(item.get("id"))}
    if item.get("type") == "UserMessage" and isinstance(content, list):
        pictures = len(texts_of(content)) < len(content)
        more = {"content": content} if pictures else {}
        return [LaneText(role="user", lane="turn", text="".join(texts_of(content)), more=more)]
    if item.get("type") == "AgentMessage" and text_of(content).strip():
        text = "".join(texts_of(content))
        return [LaneText(role="assistant", lane="turn", text=text, more=named)]
    if item.get("type") == "Reasoning":
        parts = [*texts_of(item.get("summary_text")), *texts_of(item.get("raw_content"))]
        return [LaneText(role="thinking", lane="turn", text=text) for text in parts]
    return [observation_of(event)]


def _read_abort(event: dict[str, Any]) -> list[Part]:
    reason = event.get("reason")
    title = f"turn aborted: {reason}" if isinstance(reason, str) and reason else "turn aborted"
    return [_marked("boundary.interrupt", event, {**event, "title": shorten(title)}, title)]


def _read_trouble(kind: str) -> Callable[[dict[str, Any]], list[Part]]:
    def read(event: dict[str, Any]) -> list[Part]:
        message = text_of(event.get("message")) or str(event.get("type"))
        return [_marked(kind, event, {**event, "message": message}, message)]

    return read


def _read_title(event: dict[str, Any]) -> list[Part]:
    title = text_of(event.get("thread_name")).strip()
    if not title:
        return [observation_of(event)]
    return [_marked("session.titled", event, {"title": shorten(title)}, title)]


def _marked(
    kind: str, event: dict[str, Any], payload: dict[str, Any], summary: str
) -> PendingEvent:
    refs = {"code": str(event["type"])} if kind.startswith("ops.") else {}
    key = key_of(["event", event])
    return PendingEvent(key=key, kind=kind, summary=shorten(summary), payload=payload, refs=refs)


_READERS: Final[dict[str, Callable[[dict[str, Any]], list[Part]]]] = {
    "user_message": _read_user,
    "agent_message": _read_answer,
    "agent_reasoning": _read_thought,
    "agent_reasoning_raw_content": _read_thought,
    "item_completed": _read_completed,
    "turn_aborted": _read_abort,
    "error": _read_trouble("ops.error"),
    "stream_error": _read_trouble("ops.error"),
    "warning": _read_trouble("ops.warning"),
    "thread_name_updated": _read_title,
}
