"""Entries of pi beside messages, and the keys of entries.

    entries  A  B  C  D(B)  E(C)         D continues from B, and E from C again
    events   A  B  C  undo  D  undo  E   an undo hides all events after the parent's

The events up to an entry show only the path to that entry. So hiding everything after the parent
restores the parent's path, including its earlier undos.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.formats.event_content import EventContent, observation
from treering.formats.loose import count, fields_of, name, without_none, word
from treering.formats.pi.messages import message_contents, usage_content
from treering.spine.words import shorten

_PARTS: Final = 3
_DIGITS: Final = 6
"""The digits kept of the digests of entries with ids."""


class EntryKeys:
    """Keys of entries, in the order in which they were written."""

    def __init__(self) -> None:
        self._firsts: list[str | None] = []
        """The key of each entry's first event; None if it has no events."""
        self._positions: dict[str, int] = {}
        self._digests: dict[str, str] = {}
        self.is_tree = False
        """Whether any entry names its parent."""
        self._last_message = -1
        """The position of the last entry with an event of the conversation."""

    @property
    def has_events(self) -> bool:
        """Return whether any entry has an event."""
        return any(first is not None for first in self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, key: str) -> bool:
        return key in self._positions

    def free_key(self, key: str) -> str:
        """Return ``key``, with a number appended if it is taken."""
        number = 1
        free = key
        while free in self._positions:
            number += 1
            free = f"{key}~{number}"
        return free

    def repeats(self, key: str, content: str) -> bool:
        """Return whether the entry with that ``key`` has the same content."""
        return self._digests.get(key) == content[:_DIGITS]

    def add(
        self, key: str | None, first: str | None, content: str = "", *, counts: bool = False
    ) -> None:
        """Add an entry whose events start with ``first``; without a key it is a position only."""
        if key is not None:
            self._positions[key] = len(self._firsts)
            self._digests[key] = content[:_DIGITS]
        if counts:
            self._last_message = len(self._firsts)
        self._firsts.append(first)

    def first_from(self, key: str) -> str | None:
        """Return the key of the first event of an entry or of a later one."""
        position = self._positions.get(key)
        return None if position is None else self.first_at(position)

    def hidden_from(self, parent: str | None) -> str | None:
        """Return the key of the first event to hide if the next entry continues from ``parent``.

        Return None if there is no such entry, or no conversation after it. A ``parent`` of None is
        the beginning.
        """
        position = -1 if parent is None else self._positions.get(parent)
        if position is None or position >= self._last_message:
            return None
        return self.first_at(position + 1)

    def first_at(self, position: int) -> str | None:
        """Return the key of the first event at or after the entry at ``place``."""
        if position < 0:
            return None
        rest = (self._firsts[at] for at in range(position, len(self._firsts)))
        return next((first for first in rest if first is not None), None)

    def state(self) -> Any:
        """Return a compact JSON form."""
        keys = dict(zip(self._positions.values(), self._positions, strict=True))
        lines = []
        for position, first in enumerate(self._firsts):
            key = keys.get(position, "")
            shown = "=" if first is not None and first == key else first or ""
            lines.append(f"{key}\t{shown}\t{self._digests.get(key, '')}")
        return {"entries": "\n".join(lines), "tree": self.is_tree, "weighty": self._last_message}

    @classmethod
    def of(cls, state: Any) -> EntryKeys:
        """Return the keys in ``state``. Raises ValueError if it is not such a state."""
        entry_keys = cls()
        if not isinstance(state, dict) or not isinstance(state.get("entries"), str):
            raise ValueError("not a state of entry keys")  # noqa: TRY004  (one error for all)
        for line in state["entries"].split("\n") if state["entries"] else ():
            parts = line.split("\t")
            if len(parts) != _PARTS:
                raise ValueError("not an entry of a state")
            key, shown, content = parts
            entry_keys.add(key or None, key if shown == "=" else shown or None, content)
        weighty = state.get("weighty")
        entry_keys._last_message = weighty if type(weighty) is int else len(entry_keys) - 1
        entry_keys.is_tree = state.get("tree") is True
        return entry_keys


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
