"""The parts of OpenCode's messages as events: texts, thoughts, calls, steps, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex.drafts import (
    PendingEvent,
    called,
    count_of,
    input_of,
    observed,
    returned,
    said,
    short_id,
)
from treering.formats.loose import fields_of, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.whole import timed, version_key
from treering.spine.conversion import plain
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNNING: Final = frozenset({"pending", "running"})
_FAILED: Final = frozenset({"error", "failed", "aborted"})
_ABORTED: Final = "MessageAbortedError"


class MessageHead(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts of a message have in common."""

    message_id: str
    role: str
    model: str | None = None
    provider: str | None = None
    is_summary: bool = False
    """Whether it sums up the conversation before it."""
    kept: str | None = None
    """Of a summary, the key of the first event that stays beside it."""


def message_head(message_id: str, value: dict[str, Any]) -> MessageHead:
    """Return what a message says of its parts."""
    nested = fields_of(value.get("model"))
    old = fields_of(fields_of(value.get("metadata")).get("assistant"))
    model = (value.get("modelID"), nested.get("modelID"), nested.get("id"), old.get("modelID"))
    provider = (value.get("providerID"), nested.get("providerID"), old.get("providerID"))
    return MessageHead(
        message_id=message_id,
        role=word(value.get("role")) or "assistant",
        model=next(filter(None, map(name_of, model)), None),
        provider=next(filter(None, map(name_of, provider)), None),
        is_summary=value.get("summary") is True or value.get("mode") == "compaction",
    )


def part_events(part: dict[str, Any], part_id: str, message: MessageHead) -> list[PendingEvent]:
    """Return the events of a part; none if it only marks a place."""
    part_id, span = short_id(part_id), fields_of(part.get("time"))
    match part.get("type"):
        case "text":
            drafts = [*_text(part, part_id, message)]
        case "reasoning":
            drafts = [*_thought(part, part_id, message)]
        case "tool":
            drafts = _tool(part, part_id, message)
        case "tool-invocation":
            drafts = _tool(_invocation(fields_of(part.get("toolInvocation"))), part_id, message)
        case "step-start":
            drafts = []
        case "step-finish":
            used = usage(part, f"{part_id}.usage", message)
            drafts = [used] if used else [observed(part_id, "step-finish", part)]
        case "retry":
            drafts = [_error(part.get("error"), part_id, message)]
        case sort:
            drafts = [observed(part_id, str(sort or "part"), part)]
    return timed(drafts, time_ms(span.get("start")) or time_ms(span.get("created")))


def is_unfinished(part: dict[str, Any], message: dict[str, Any]) -> bool:
    """Return whether a text is still being written, as far as it and its message tell."""
    is_text = part.get("type") in ("text", "reasoning")
    is_done = fields_of(message.get("time")).get("completed") or message.get("finish")
    is_open = not (is_done or message.get("error") or fields_of(part.get("time")).get("end"))
    return is_text and message.get("role") == "assistant" and is_open


def message_events(
    value: dict[str, Any], message: MessageHead, *, has_parts: bool, is_counted: bool
) -> list[PendingEvent]:
    """Return what a message says besides its parts: what it used, if these do not, and errors.

    Messages in folders may be there without their parts, with only their beginning.
    """
    drafts = []
    message_id = short_id(message.message_id)
    summary = fields_of(value.get("summary"))
    body = word(summary.get("body")) or word(summary.get("title"))
    if not has_parts and body is not None and message.role in {"user", "assistant"}:
        model = message.model if message.role == "assistant" else None
        key = version_key(f"{message_id}.summary", body)
        drafts.append(said(message.role, key, body, beside={"from": "summary"}, model=model))
    if value.get("error"):
        drafts.append(_error(value["error"], f"{message_id}.error", message))
    old = fields_of(fields_of(value.get("metadata")).get("assistant"))
    used = None if is_counted else usage({**old, **value}, f"{message_id}.usage", message)
    drafts += [used] if used else []
    stated = fields_of(value.get("time"))
    old_time = fields_of(fields_of(value.get("metadata")).get("time"))
    at = "completed" if has_parts else "created"
    return timed(drafts, time_ms(stated.get(at)) or time_ms(old_time.get(at)))


def usage(fields: dict[str, Any], key: str, message: MessageHead) -> PendingEvent | None:
    """Return what a step used; tokens from a cache, or into one, are part of the input."""
    tokens = fields_of(fields.get("tokens"))
    cache = fields_of(tokens.get("cache"))
    read, written = count_of(cache.get("read")) or 0, count_of(cache.get("write")) or 0
    sent, answered = count_of(tokens.get("input")) or 0, count_of(tokens.get("output")) or 0
    counts = {
        "input_tokens": sent + read + written,
        "output_tokens": answered + (count_of(tokens.get("reasoning")) or 0),
        "cached_tokens": read,
        "cache_creation_tokens": written,
    }
    if not any(counts.values()):
        return None
    cost = fields.get("cost")
    dollars = fields_of(cost).get("usd", cost)
    is_known = isinstance(dollars, int | float) and not isinstance(dollars, bool) and dollars > 0
    named = {"model": message.model, "provider": message.provider}
    refs = {
        **{at: value for at, value in named.items() if value is not None},
        **counts,
        "message_id": key.removesuffix(".usage"),
    }
    payload = {**refs, "tokens": tokens, **({"cost_usd": dollars} if is_known else {})}
    return PendingEvent(
        key=version_key(key, counts), kind="usage.reported", summary="usage reported",
        payload=payload, refs=refs,
    )  # fmt: skip


def _text(part: dict[str, Any], part_id: str, message: MessageHead) -> Iterator[PendingEvent]:
    text = part.get("text")
    if not isinstance(text, str) or not text.strip():
        return
    key = version_key(part_id, text)
    more = {at: part[at] for at in ("synthetic", "ignored", "metadata") if part.get(at)}
    if message.is_summary and message.role == "assistant":
        yield PendingEvent(
            key=key,
            kind="context.compacted",
            summary=shorten(text),
            payload={"summary": text, "by": "opencode"},
            refs={"by": "opencode"},
            first=message.kept,
        )
    elif message.role == "user" and more.get("synthetic"):
        # The program put it there: what a command or a file printed.
        yield observed(key, "synthetic", part)
    elif message.role in {"user", "assistant"}:
        model = message.model if message.role == "assistant" else None
        beside = {"beside": more} if more else {}
        yield said(message.role, key, text, model=model, message_id=message.message_id, **beside)
    else:
        yield observed(key, message.role, part)


def _thought(part: dict[str, Any], part_id: str, message: MessageHead) -> Iterator[PendingEvent]:
    text, more = part.get("text"), part.get("metadata") or None
    if (isinstance(text, str) and text.strip()) or more:
        key = version_key(part_id, text)
        shown = text if isinstance(text, str) else ""
        yield said("thinking", key, shown, metadata=more, message_id=message.message_id)


def _tool(part: dict[str, Any], part_id: str, message: MessageHead) -> list[PendingEvent]:
    """Return a call, and its outcome once it has one."""
    call_id = name_of(part.get("callID")) or part_id
    tool, state = name_of(part.get("tool")) or "unnamed", fields_of(part.get("state"))
    status, span = str(state.get("status")), fields_of(state.get("time"))
    if status == "pending" and not state.get("input"):
        return []
    given = input_of(state.get("input"), "input")
    more = {"title": state["title"]} if word(state.get("title")) else {}
    began_ms, ended_ms = time_ms(span.get("start")), time_ms(span.get("end"))
    began = called(f"call:{short_id(call_id)}", call_id, tool, given, **more)
    drafts = timed([began], began_ms)
    if status in _RUNNING:
        return drafts
    output, details = state.get("output"), fields_of(state.get("metadata"))
    words = state.get("error") if state.get("error") is not None else output
    error = None
    code = details.get("exit", details.get("exitCode"))
    if status in _FAILED or state.get("error"):
        shown = words if isinstance(words, str) else "failed"
        error = {"class": "Failed", "message": shorten(plain(shown))}
    elif type(code) is int and code != 0:
        error = {"class": "ExitCode", "message": f"exit code {code}"}
    took = ended_ms - began_ms if began_ms and ended_ms and ended_ms >= began_ms else None
    ended = returned(
        f"result:{short_id(call_id)}",
        call_id,
        tool,
        words,
        error,
        duration_ms=took,
        details=details or None,
        attachments=state.get("attachments") or None,
        message_id=message.message_id,
    )
    return [*drafts, *timed([ended], ended_ms)]


def _invocation(stated: dict[str, Any]) -> dict[str, Any]:
    """Return a call as early versions wrote it, as later ones do."""
    status = {"result": "completed", "call": "running", "partial-call": "pending"}
    state = {
        "status": status.get(str(stated.get("state")), "completed"),
        "input": stated.get("args"),
        "output": stated.get("result"),
    }
    return {"callID": stated.get("toolCallId"), "tool": stated.get("toolName"), "state": state}


def _error(error: Any, key: str, message: MessageHead) -> PendingEvent:
    """Return an error that ended an answer, or that it was broken off."""
    fields = fields_of(error)
    named = word(fields.get("name")) or "error"
    data = fields_of(fields.get("data"))
    text = (
        word(data.get("message"))
        or word(fields.get("message"))
        or (error if word(error) else named)
    )
    shown = shorten(plain(str(text)))
    payload = {"error": error, "message": shown, "message_id": message.message_id}
    if named == _ABORTED:
        return PendingEvent(
            key=key, kind="boundary.interrupt", summary=shown, payload=payload, refs={}
        )
    refs = {"code": shorten(named, 100)}
    return PendingEvent(key=key, kind="ops.error", summary=shown, payload=payload, refs=refs)
