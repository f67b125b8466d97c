"""What an older or another reader made of a log: kept where it was said, replaced where derived.

A log may have been read by an older version of its reader, or by the reader of another agent. Read
again, what was said is found where it is, and stays there. What the earlier reader derived beside
it, and the present one does not, is erased: the log does not say it, and the log is still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.capture.intake.event_ids import EventIds
from treering.formats.loose import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.capture.intake.ledger_buffer import Item, LedgerBuffer
    from treering.formats.parsed import ParsedEvent
    from treering.ledger.records import EventLocation
    from treering.model.events import Event
    from treering.model.scopes import Scope


SAID: Final = ("conversation.", "tool.")
"""Kinds of what was said and done, which is never replaced."""
DERIVED: Final = ("ops.", "usage.", "context.", "boundary.", "session.titled")
"""Kinds of what readers derive."""

_Key = tuple[str, object]


class FormerReading:
    """The events of the sessions of a file that an earlier reader recorded."""

    def __init__(self, buffer: LedgerBuffer, format_name: str) -> None:
        self.format = format_name
        """The format that it was read in."""
        self._buffer = buffer
        self._ids = EventIds(format_name, buffer.ledger.importing.id_key)
        self._known: dict[tuple[Scope, str], dict[_Key, list[Event]]] = {}
        """The events of each session that were not found in the log yet."""
        self._found: set[str] = set()
        self.first: dict[tuple[Scope, str], ParsedEvent] = {}
        """An event of each session of the file."""

    def find(self, scope: Scope, item: Item, session: str, *, is_global: bool) -> str | None:
        """Return the id by which an earlier reader recorded an event; None if none did.

        ``session`` is its session in the ledger. An erased event is known by its id, or else by
        its kind and time: it stays erased.
        """
        event = item.event
        self._found.add(item.ids[0])
        home = "" if is_global else event.session
        named = self._ids.everywhere(event.key) if is_global else self._ids.named(home, event.key)
        by_key = self._events(scope, session)
        for key in (("id", named), _content(event.kind, event.payload), _erased(event)):
            waiting = by_key.get(key)
            while waiting:
                earlier = waiting.pop(0)
                if earlier.event_id not in self._found:
                    self._found.add(earlier.event_id)
                    return earlier.event_id
        return None

    def differs(self, scope: Scope, item: Item, session: str) -> bool:
        """Return whether an earlier reader derived something else under the id of an event."""
        self.first.setdefault((scope, session), item.event)
        if not item.event.kind.startswith(DERIVED):
            return False
        before = self._events(scope, session).get(("id", item.ids[0]), [])
        content = _content(item.event.kind, item.event.payload)
        return any(
            not event.redacted and _content(event.kind, event.payload) != content
            for event in before
        )

    def stale(self, scope: Scope, session: str) -> list[str]:
        """Return the ids of derived events of a session that the present reader does not derive."""
        by_key = self._events(scope, session)
        events = {event.event_id: event for waiting in by_key.values() for event in waiting}
        return [
            event_id
            for event_id, event in events.items()
            if event.kind.startswith(DERIVED)
            and event.origin == self.format
            and event.session_id == session
            and not event.redacted
            and event_id not in self._found
        ]

    def places(self, scope: Scope, ids: list[str]) -> dict[str, EventLocation]:
        """Return where events are."""
        return self._buffer.find_ids(scope, ids) if ids else {}

    def _events(self, scope: Scope, session: str) -> dict[_Key, list[Event]]:
        by_key = self._known.get((scope, session))
        if by_key is None:
            by_key = self._known[scope, session] = {}
            for event in self._buffer.all_events(scope, session):
                keys: list[_Key] = [("id", event.event_id)]
                if event.redacted:
                    keys.append((event.kind, event.ts_ms))
                else:
                    keys.append(_content(event.kind, event.payload))
                for key in keys:
                    by_key.setdefault(key, []).append(event)
        return by_key


def _content(kind: str, payload: object) -> _Key:
    """Return what distinguishes an event in its session, the same for every reader."""
    is_said = kind.startswith(SAID)
    return kind, lines_of(payload) if is_said else digest(payload)


def _erased(event: ParsedEvent) -> _Key:
    return event.kind, event.ts_ms


_FIELDS: Final = ("text", "input", "output", "thinking", "content")
"""Fields of a payload with messages, inputs and outputs."""
_MASK_BEGINS: Final = "[redacted:"


def holds(recorded: Any, parsed: Any) -> bool:
    """Whether the payload ``recorded`` holds all words of the payload ``parsed``.

    It may hold them in another shape: another version may have read them. Words under a mask are
    not compared.
    """
    words = _words_in(parsed)
    if isinstance(recorded, dict) and all(
        recorded.get(name) == part for name, part in words.items()
    ):
        return True
    leaves = set(_leaves(recorded))
    missing = [leaf for leaf in _leaves(words) if leaf not in leaves]
    if not missing:
        return True
    masked = [leaf for leaf in leaves if isinstance(leaf, str) and _MASK_BEGINS in leaf]
    lines = {line for leaf in leaves for line in _lines(leaf)}
    return all(
        lines.issuperset(_lines(leaf)) or any(_fits(str(leaf), mask) for mask in masked)
        for leaf in missing
    )


def lines_of(payload: Any) -> frozenset[str]:
    """Return the words of a payload, in lines."""
    return frozenset(line for leaf in _leaves(_words_in(payload)) for line in _lines(leaf))


def _words_in(payload: Any) -> dict[str, Any]:
    if not isinstance(payload, dict):
        return {}
    words = {name: payload[name] for name in _FIELDS if payload.get(name) is not None}
    message = payload.get("message")
    if isinstance(message, dict):
        message = message.get("content")
    return words if message is None else {**words, "message": message}


def _leaves(value: Any) -> Iterator[Any]:
    """Give the values in ``value`` that contain no others."""
    ahead = [value]
    while ahead:
        node = ahead.pop()
        if isinstance(node, dict):
            ahead.extend(node.values())
        elif isinstance(node, list):
            ahead.extend(node)
        elif node is not None and node != "":
            yield node


def _lines(value: Any) -> Iterator[str]:
    return (line for raw_line in str(value).splitlines() if (line := raw_line.strip()))


def _fits(text: str, masked: str) -> bool:
    """Whether ``text`` equals ``masked`` except under its masks."""
    # Loading the guard takes long, and mostly nothing is masked.
    from treering.capture.secret_values import MASK  # noqa: PLC0415

    first, *rest = MASK.split(masked)
    if not rest or not text.startswith(first) or not text.endswith(rest[-1]):
        return False
    *middle, last = rest
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        start = text.find(piece, at, end)
        if start < 0:
            return False
        at = start + len(piece)
    return at <= end
