"""Convert Clawser's events to the ledger's kinds, and back.

The payload keeps under ``clawser`` what the canonical fields of a kind do not cover: the id,
unknown fields, the original type and the order of the fields. If even that cannot restore the event
exactly, its whole line is kept.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from treering.errors import InvalidInput
from treering.formats.clawser.text import parse, stringify, truthy
from treering.formats.clawser.views import content_of, type_of
from treering.model.codec import canonical, decode
from treering.model.events import NAME_CHARACTERS_MAX, REDACTED
from treering.model.fields import TIME_MS_MAX, check_name, looks_like_seconds
from treering.model.kinds import SOURCES
from treering.spine.conversion import plain
from treering.spine.words import describe, shorten

NOTE: Final = "clawser"
UNKNOWN_KIND: Final = "ops.observation"

KINDS: Final = {
    "user_message": "conversation.user",
    "agent_message": "conversation.assistant",
    "tool_call": "tool.call",
    "tool_result": "tool.result",
    "goal_added": "goal.added",
    "goal_updated": "goal.updated",
    "goal_edited": "goal.updated",
    "goal_removed": "goal.removed",
    "memory_stored": "memory.stored",
    "memory_forgotten": "memory.forgotten",
    "scheduler_added": "schedule.added",
    "scheduler_fired": "schedule.fired",
    "scheduler_removed": "schedule.removed",
    "context_compacted": "context.compacted",
    "autonomy_blocked": "ops.blocked",
    "cache_hit": "ops.cache_hit",
    "error": "ops.error",
}
"""The kind of each type; other types become observations."""

TYPES: Final = {kind: name for name, kind in reversed(KINDS.items())}
"""The default type of each kind: the first one that maps to it."""

_GOAL: Final = {"id": "id", "description": "description", "status": "status"}
_FIELDS: Final[dict[str, dict[str, str]]] = {
    "conversation.user": {"content": "text"},
    "conversation.assistant": {"content": "text"},
    "tool.call": {"call_id": "call_id", "name": "name", "arguments": "input"},
    "tool.result": {"call_id": "call_id", "name": "name"},
    "goal.added": {**_GOAL, "parent": "parent"},
    "goal.updated": {"id": "id", "status": "status", "description": "description",
                     "progress": "progress"},
    "goal.removed": {"id": "id"},
    "memory.stored": {"id": "id", "key": "key", "category": "category"},
    "memory.forgotten": {"id": "id"},
    "schedule.added": {"id": "id", "schedule_type": "schedule_type", "prompt": "prompt",
                       "spec": "spec"},
    "schedule.fired": {"id": "id", "prompt": "prompt"},
    "schedule.removed": {"id": "id"},
    UNKNOWN_KIND: {},
}  # fmt: skip
"""Fields of an event and their names in the kind; other kinds keep the names."""

_TIME_IN_ID: Final = re.compile(r"evt_([0-9]{1,15})_")
_TEXTS: Final = frozenset({"text", "call_id", "name"})
"""Fields that must be text, or are left out."""


class LedgerFields(msgspec.Struct, frozen=True, kw_only=True):
    """One Clawser event in the ledger's terms."""

    kind: str
    summary: str
    payload: dict[str, Any]
    refs: dict[str, Any] | None
    ts_ms: int
    source: str | None
    origin: str | None


def state(event: Any) -> LedgerFields:
    """Return ``event`` in the ledger's terms, so that it can be rebuilt."""
    kind = KINDS.get(type_of(event) or "", UNKNOWN_KIND)
    fields = _canonical_fields(kind, event)
    ts_ms = _time(event)
    source = event.get("source") if isinstance(event, dict) else None
    origin = source if _is_name(source) else None
    noted = _note(kind, fields, event, origin=origin, ts_ms=ts_ms)
    payload = {**fields, NOTE: noted}
    stored = _stored(payload)
    line = stringify(event)
    if stored is None or stringify(rebuild(kind, stored, origin=origin, ts_ms=ts_ms)) != line:
        payload = {**_storable(fields), NOTE: {"line": line}}
    return LedgerFields(
        kind=kind,
        summary=_summary(kind, payload, event),
        payload=payload,
        refs=_refs(kind, payload) or None,
        ts_ms=ts_ms,
        source=source if isinstance(source, str) and source in SOURCES else None,
        origin=origin,
    )


def rebuild(kind: str, payload: Any, *, origin: str | None, ts_ms: int) -> Any:
    """Return the event that a payload was made from, without what was masked or erased."""
    payload = payload if isinstance(payload, dict) else {}
    noted = payload.get(NOTE)
    noted = noted if isinstance(noted, dict) else {}
    if isinstance(noted.get("line"), str):
        try:
            return parse(noted["line"])
        except InvalidInput:
            noted = {}  # It was masked; the other fields still have content.
    return {
        "id": noted.get("id"),
        "type": noted.get("type", TYPES.get(kind, kind)),
        "timestamp": noted.get("timestamp", ts_ms),
        "data": content_from(kind, payload),
        "source": noted.get("source", origin),
    }


def content_from(kind: str, payload: dict[str, Any]) -> Any:
    """Return the fields of an event from those of its kind."""
    noted = payload.get(NOTE)
    noted = noted if isinstance(noted, dict) else {}
    names = _FIELDS.get(kind) or {}
    if kind not in _FIELDS:
        names = {name: name for name in payload if name != NOTE}
    content = {name: payload[own] for name, own in names.items() if own in payload}
    if kind == "tool.result":
        content["result"] = _result_from(payload)
    rest = noted.get("data")
    content |= rest if isinstance(rest, dict) else {}
    keys = noted.get("keys")
    return (
        {name: content[name] for name in keys if name in content} if keys is not None else content
    )


def erased_content(kind: str) -> dict[str, Any]:
    """Return the fields of an event whose content was erased."""
    is_message = kind in {"conversation.user", "conversation.assistant"}
    return {"content": REDACTED} if is_message else {"redacted": True}


def _canonical_fields(kind: str, event: Any) -> dict[str, Any]:
    content = content_of(event)
    if kind == UNKNOWN_KIND:
        return {"type": type_of(event)} if type_of(event) is not None else {}
    if kind not in _FIELDS:
        return {name: value for name, value in content.items() if name != NOTE}
    fields = {own: content[name] for name, own in _FIELDS[kind].items() if name in content}
    if kind == "schedule.fired" and "job_id" in content:
        fields.setdefault("id", content["job_id"])
    fields = {
        own: value for own, value in fields.items() if own not in _TEXTS or isinstance(value, str)
    }
    if kind in {"conversation.user", "conversation.assistant"}:
        fields.setdefault("text", "")
    return {**fields, **_outcome(content)} if kind == "tool.result" else fields


def _outcome(content: dict[str, Any]) -> dict[str, Any]:
    result = content.get("result")
    result = result if isinstance(result, dict) else {}
    ok = truthy(result.get("success"))
    outcome: dict[str, Any] = {"status": "ok" if ok else "failed"}
    if "output" in result:
        outcome["output"] = result["output"]
    if isinstance(result.get("error"), str):
        outcome["error"] = describe(result["error"])
    elif not ok:
        outcome["error"] = describe("unknown error")
    return outcome


def _result_from(payload: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"success": payload.get("status") == "ok"}
    if "output" in payload:
        result["output"] = payload["output"]
    error = payload.get("error")
    if isinstance(error, dict) and "message" in error:
        result["error"] = error["message"]
    return result


def _note(
    kind: str, fields: dict[str, Any], event: Any, *, origin: str | None, ts_ms: int
) -> dict[str, Any]:
    """Return the parts of ``event`` that ``fields`` do not cover."""
    event = event if isinstance(event, dict) else {}
    noted: dict[str, Any] = {"id": event.get("id")}
    if event.get("type") != TYPES.get(kind):
        noted["type"] = event.get("type")
    if type(event.get("timestamp")) is not int or event["timestamp"] != ts_ms:
        noted["timestamp"] = event.get("timestamp")
    if event.get("source") != origin:
        noted["source"] = event.get("source")
    content = content_of(event)
    covered = content_from(kind, _stored(fields) or {})
    rest = {
        name: value
        for name, value in content.items()
        if name not in covered or stringify(covered[name]) != stringify(value)
    }
    if rest:
        noted["data"] = rest
    # In the order in which the ledger returns them.
    if list(covered | dict(sorted(rest.items()))) != list(content):
        noted["keys"] = list(content)
    return noted


def _stored(payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return ``payload`` as the ledger returns it, or None if it cannot store it."""
    try:
        stored: dict[str, Any] = decode(canonical(payload, "payload"))
    except InvalidInput:
        return None
    return stored


def _storable(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the part of ``fields`` that the ledger can store."""
    texts = {
        name: plain(value) if isinstance(value, str) else value for name, value in fields.items()
    }
    return {
        name: value for name, value in texts.items() if _stored({name: value, NOTE: {}}) is not None
    }


def _time(event: Any) -> int:
    """Return an event's time from its timestamp or its id."""
    event = event if isinstance(event, dict) else {}
    in_id = _TIME_IN_ID.match(str(event.get("id")))
    for ts_ms in (event.get("timestamp"), int(in_id[1]) if in_id else None):
        if isinstance(ts_ms, int | float) and 1 <= ts_ms <= TIME_MS_MAX:
            return int(ts_ms) * (1_000 if looks_like_seconds(int(ts_ms)) else 1)
    return 1


def _is_name(text: Any) -> bool:
    try:
        check_name(text, "origin")
    except InvalidInput:
        return False
    return True


def _refs(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    if kind in {"conversation.user", "conversation.assistant"}:
        return {"characters": len(payload["text"])}
    if kind not in {"tool.call", "tool.result"}:
        return {}
    named = {"call_id": payload.get("call_id"), "tool": payload.get("name")}
    refs = {name: text for name, text in named.items() if text and len(text) <= NAME_CHARACTERS_MAX}
    return refs | ({"status": payload["status"]} if kind == "tool.result" else {})


def _summary(kind: str, payload: dict[str, Any], event: Any) -> str:
    match kind:
        case "conversation.user" | "conversation.assistant":
            summary = payload["text"]
        case "tool.call":
            summary = f"{payload.get('name') or 'tool'} called"
        case "tool.result":
            ended = "returned" if payload["status"] == "ok" else "failed"
            summary = f"{payload.get('name') or 'tool'} {ended}"
        case _:
            # Only names: these summaries may be shown to anybody.
            summary = (type_of(event) or "something").replace("_", " ")
            summary += f" {payload['id']}" if isinstance(payload.get("id"), str) else ""
    return shorten(plain(summary).replace("\0", ""))
