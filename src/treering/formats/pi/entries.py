"""pi's entries other than messages as events: compactions, branches, names, changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.event_content import EventContent, observation
from treering.formats.loose import count, fields_of, name, without_none, word
from treering.formats.pi.messages import message_contents, usage_content
from treering.spine.words import shorten

if TYPE_CHECKING:
    from treering.formats.pi.entry_keys import EntryKeys

_PLACE: Final = frozenset({"type", "id", "parentId", "timestamp"})
"""Fields of an entry that identify and position it."""


def entry_contents(
    entry: dict[str, Any], key: str, entry_keys: EntryKeys, agent: str
) -> list[EventContent]:
    """Return the events of an entry; none if it is empty."""
    match entry.get("type"):
        case "message" if isinstance(entry.get("message"), dict):
            return message_contents(entry["message"], key)
        case "compaction" if word(entry.get("summary")):
            return [_compaction(entry, entry_keys, agent), *_usage(entry, key)]
        case "branch_summary" if word(entry.get("summary")):
            return [_branch_summary(entry), *_usage(entry, key)]
        case "session_info" | "title_change" if title := _title(entry):
            return [
                EventContent(
                    kind="session.titled", summary=shorten(title), payload={"title": title}
                )
            ]
        case "reset" | "reset_boundary":
            payload = {"title": "reset", **_content(entry)}
            return [EventContent(kind="boundary.segment", summary="reset", payload=payload)]
        case "usage" | "model_usage" if used := usage_content(entry, key):
            return [used]
        case type_:
            return [_observed(name(type_) or "entry", entry)]


def _compaction(entry: dict[str, Any], entry_keys: EntryKeys, agent: str) -> EventContent:
    first_id, index = entry.get("firstKeptEntryId"), entry.get("firstKeptEntryIndex")
    first = entry_keys.first_from(first_id) if isinstance(first_id, str) else None
    if first is None and type(index) is int:
        first = entry_keys.first_at(index)
    origin = without_none(from_tokens=count(entry.get("tokensBefore")) or None, by=agent)
    own_fields = {"summary", "tokensBefore", "firstKeptEntryId", "firstKeptEntryIndex", "usage"}
    rest = {at: value for at, value in _content(entry).items() if at not in own_fields}
    return EventContent(
        kind="context.compacted",
        summary=shorten(entry["summary"]),
        payload={**rest, "summary": entry["summary"], **origin},
        refs=origin,
        first=first,
    )


def _branch_summary(entry: dict[str, Any]) -> EventContent:
    rest = {at: value for at, value in _content(entry).items() if at not in {"summary", "usage"}}
    title = "what another branch came to"
    return EventContent(
        kind="boundary.checkpoint",
        summary=shorten(entry["summary"]),
        payload={**rest, "title": title, "content": entry["summary"]},
    )


def _title(entry: dict[str, Any]) -> str | None:
    title = word(entry.get("name")) or word(entry.get("title"))
    return title and title.strip()


def _usage(entry: dict[str, Any], key: str) -> list[EventContent]:
    used = usage_content(entry, key)
    return [used] if used else []


def _observed(type_: str, entry: dict[str, Any]) -> EventContent:
    content = observation(type_, {at: value for at, value in entry.items() if at != "type"})
    named = without_none(
        custom=name(entry.get("customType")),
        model=name(entry.get("modelId")) or name(entry.get("model")),
        provider=name(entry.get("provider")),
    )
    refs = {**fields_of(content.refs), **named}
    return msgspec.structs.replace(content, refs=refs)


def _content(entry: dict[str, Any]) -> dict[str, Any]:
    return {at: value for at, value in entry.items() if at not in _PLACE}
