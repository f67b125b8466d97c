"""Convert an episode to an event of the ledger, and an event to an episode.

The event uses the ledger's own fields. The payload keeps what they do not cover under ``apeira``:
the episode's number if the event determines everything else, otherwise its whole line, so that
every episode can be written back byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import InvalidInput
from treering.formats.apeira.episodic import USAGE_EVENT, Episode, parse_episode
from treering.formats.apeira.json import JsonParseError, copy, parse, stringify
from treering.formats.loose import objects_in, storable
from treering.model.codec import decode, encode
from treering.model.fields import check_name
from treering.model.parts import part_of
from treering.spine.conversion import plain
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.model.events import Event

OWN_FIELD: Final = "apeira"
"""The payload field for what the ledger's own fields do not cover."""
CONTEXT: Final = "context"
"""Marks an event that holds the context of a stored state and is not an episode."""

_LEDGER_SOURCES: Final = {
    "user": "user", "agent": "agent", "model": "agent", "tool": "tool", "runtime": "system",
}  # fmt: skip
_SOURCES: Final = {"user": "user", "agent": "model", "tool": "tool", "system": "runtime"}
"""The episode's source for an event that the ledger recorded first."""
_BOUNDARIES: Final = {
    "checkpoint": "boundary.checkpoint",
    "interrupt": "boundary.interrupt",
    "overflow": "boundary.overflow",
    "intent": "boundary.intent",
    "segment": "boundary.segment",
}
_REASONS: Final = {kind: reason for reason, kind in _BOUNDARIES.items()}
_ROLES: Final = {"conversation.user": "user", "conversation.assistant": "assistant"}
_KINDS: Final = {role: kind for kind, role in _ROLES.items()}
_USAGE: Final = {
    "inputTokens": "input_tokens", "outputTokens": "output_tokens", "totalTokens": "total_tokens",
}  # fmt: skip


class EpisodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an episode's event, for any session."""

    kind: str
    summary: str
    payload: dict[str, Any]
    refs: dict[str, Any] | None
    origin: str | None
    source: str | None


def entry_of(episode: Episode, tools: Mapping[str, str]) -> EpisodeEvent:
    """Return the event to record for ``episode``; ``tools`` maps earlier call ids to tool names."""
    meta = episode["meta"] if isinstance(episode["meta"], dict) else {}
    origin = name_in(meta, "source")
    kind, summary, payload = _content(episode, tools)
    own = {"id": episode["id"]}
    # Compare the stored form: canonical JSON sorts keys, including those of a tool's input.
    stored = decode(encode({**payload, OWN_FIELD: own}))
    line = stringify(episode)
    if line != _line(kind, summary, stored, origin, name_in(meta, "turnId")):
        own = {"line": line}
    return EpisodeEvent(
        kind=kind,
        summary=summary,
        payload={**payload, OWN_FIELD: own},
        refs=_refs(kind, payload),
        origin=origin,
        source=_LEDGER_SOURCES.get(origin or ""),
    )


def episode_of(event: Event) -> Episode | None:
    """Return ``event`` as an episode, without an id if it was not imported as one.

    Return None if a log of episodes has no equivalent.
    """
    payload = event.payload if isinstance(event.payload, dict) else {}
    own = payload.get(OWN_FIELD)
    own = own if isinstance(own, dict) else {}
    if own.get(CONTEXT):
        return None
    try:
        if isinstance(own.get("line"), str):
            return parse_episode(own["line"])
    except JsonParseError:
        pass  # Masking broke the line; the event itself still has the content.
    has_id = type(own.get("id")) is int
    source = event.origin if has_id else _SOURCES[event.source]
    rebuilt = _rebuild(event.kind, event.summary, payload, source, event.turn_id)
    return rebuilt | {"id": own["id"]} if rebuilt is not None and has_id else rebuilt


def context_of(event: Event) -> dict[str, Any] | None:
    """Return the context of a stored state, or None if ``event`` does not hold one."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    own, context = payload.get(OWN_FIELD), payload.get(CONTEXT)
    is_context = isinstance(own, dict) and own.get(CONTEXT) and isinstance(context, dict)
    return context if is_context else None


def name_in(value: Mapping[str, Any], field: str) -> str | None:
    """Return a field that the ledger accepts as a name, or None."""
    try:
        return check_name(value.get(field), field)  # type: ignore[arg-type]  # Any type is checked.
    except InvalidInput:
        return None


def item_in(episode: Episode) -> dict[str, Any]:
    """Return the item of an episode, or an empty dict."""
    payload = episode["payload"]
    item = payload.get("item") if isinstance(payload, dict) else None
    return item if episode["type"] == "item" and isinstance(item, dict) else {}


# From episode to event.


def _content(episode: Episode, tools: Mapping[str, str]) -> tuple[str, str, dict[str, Any]]:
    """Return the kind, the summary and the payload of the event for ``episode``."""
    payload = episode["payload"] if isinstance(episode["payload"], dict) else {}
    if episode["type"] == "item":
        return _item_content(item_in(episode), tools)
    if episode["type"] == "boundary":
        reason, title = payload.get("reason"), payload.get("title")
        if isinstance(reason, str) and reason in _BOUNDARIES:
            words = plain(title) if isinstance(title, str) else reason
            content = payload.get("content")
            rest = {"content": plain(content)} if isinstance(content, str) else {}
            return _BOUNDARIES[reason], _line_of(words), {"title": words, **rest}
        return "ops.observation", "boundary of another kind", {}
    event, stated = payload.get("event"), payload.get("data")
    if event == USAGE_EVENT and isinstance(stated, dict):
        counts = {
            ours: stated[theirs]
            for theirs, ours in _USAGE.items()
            if type(stated.get(theirs)) in {int, float} and storable(stated[theirs])
        }
        return "usage.reported", "usage reported", counts
    name = plain(event) if isinstance(event, str) else "unnamed"
    rest = {"data": stated} if stated is not None and storable(stated) else {}
    return "ops.observation", _line_of(name), {"event": name, **rest}


def _item_content(
    item: dict[str, Any], tools: Mapping[str, str]
) -> tuple[str, str, dict[str, Any]]:
    type_, role = item.get("type"), item.get("role")
    call_id, tool = name_in(item, "call_id"), name_in(item, "name")
    if type_ in ("message", None) and isinstance(role, str) and role in _KINDS:
        text = plain(_words(item.get("content")))
        return _KINDS[role], _line_of(text), {"text": text}
    if type_ == "function_call" and call_id and tool:
        call = {"call_id": call_id, "name": tool, "input": _input(item.get("arguments"))}
        return "tool.call", f"{tool} called", call
    if type_ == "function_call_output" and call_id:
        name, output = tools.get(call_id), item.get("output")
        stored_output = output if storable(output) else plain(stringify(output))
        result = {"call_id": call_id, "name": name, "status": "ok", "output": stored_output}
        return "tool.result", f"{name or 'a tool'} returned", result
    named = plain(type_) if isinstance(type_, str) else "unnamed"
    return "ops.observation", _line_of(f"item: {named}"), {"item": named}


def _words(content: Any) -> str:
    """Return the text of a message; the texts of its parts, joined by newlines."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in objects_in(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def _input(arguments: Any) -> Any:
    """Return the input of a call: its arguments parsed as JSON, or as text if they are not JSON."""
    if not isinstance(arguments, str):
        return arguments if storable(arguments) else None
    try:
        parsed = parse(arguments)
    except JsonParseError:
        return plain(arguments)
    return parsed if isinstance(parsed, dict | list) and storable(parsed) else plain(arguments)


def _refs(kind: str, payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return the parts of ``payload`` that may be shown."""
    named = {**payload, "tool": payload.get("name")} if kind.startswith("tool.") else payload
    return part_of(kind, named).as_refs() or None


def _line_of(text: str) -> str:
    return shorten(text.replace("\0", "\ufffd"))


# From event to episode.


def _line(
    kind: str, summary: str, payload: dict[str, Any], source: str | None, turn_id: str | None
) -> str | None:
    """Return the line of the episode that this event would become."""
    rebuilt = _rebuild(kind, summary, payload, source, turn_id)
    own = {"id": payload[OWN_FIELD]["id"]}
    return None if rebuilt is None else stringify(copy(rebuilt | own))


def _rebuild(
    kind: str, summary: str, payload: dict[str, Any], source: str | None, turn_id: str | None
) -> Episode | None:
    type_, content = _type_and_payload(kind, summary, payload)
    if type_ is None:
        return None
    meta = {"source": source} | ({} if turn_id is None else {"turnId": turn_id})
    return {"meta": meta, "payload": content, "type": type_}


def _type_and_payload(
    kind: str, summary: str, payload: dict[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return the type and the payload of the episode for this event."""
    if kind in _ROLES:
        text = payload.get("text")
        content = text if isinstance(text, str) else summary
        return "item", {"item": {"content": content, "role": _ROLES[kind], "type": "message"}}
    if kind == "tool.call":
        called = {"call_id": payload.get("call_id"), "name": payload.get("name")}
        arguments = _arguments(payload.get("input"))
        return "item", {"item": {"arguments": arguments, **called, "type": "function_call"}}
    if kind == "tool.result":
        item = {"call_id": payload.get("call_id"), "output": _output(payload)}
        return "item", {"item": {**item, "type": "function_call_output"}}
    if kind in _REASONS:
        rest = {"content": payload["content"]} if "content" in payload else {}
        title = payload.get("title", summary)
        return "boundary", {**rest, "reason": _REASONS[kind], "title": title}
    if kind == "usage.reported":
        counts = part_of(kind, payload).as_payload()
        return "meta", {"data": counts, "event": USAGE_EVENT}
    if kind.split(".", 1)[0] in _BOOKKEEPING:
        return None, {}
    stated = {key: value for key, value in payload.items() if key != OWN_FIELD}
    if kind == "ops.observation" and "event" in stated:
        rest = {"data": stated["data"]} if "data" in stated else {}
        return "meta", {**rest, "event": stated["event"]}
    return "meta", {"data": {"summary": summary, **stated}, "event": kind}


_BOOKKEEPING: Final = frozenset({"run", "session", "inbox", "ledger", "context"})
"""First words of kinds that record how the ledger is kept, not what happened."""


def _arguments(given: Any) -> str:
    if given is None:
        return "{}"
    return given if isinstance(given, str) else stringify(copy(given))


def _output(payload: dict[str, Any]) -> Any:
    output = payload.get("output")
    if "output" not in payload and isinstance(payload.get("error"), dict):
        output = payload["error"].get("message")
    parts = output if isinstance(output, list) else [None]
    # Only a list of parts, as models accept them, is returned as a list.
    if all(isinstance(part, dict) and "type" in part for part in parts):
        return output
    text = output if isinstance(output, str) else stringify(copy(output))
    if payload.get("status") not in _FAILURES or text.lstrip()[:5].lower() == "error":
        return text
    # Apeira has no field for a failure, so mark it in the text, as OpenAI contexts do.
    return f"Error: {text}"


_FAILURES: Final = frozenset({"failed", "synthetic", "error"})
"""Statuses of calls that returned no result."""
