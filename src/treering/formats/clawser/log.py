"""Clawser's EventLog: append, query, serialize and derive."""

from __future__ import annotations

import contextlib
import copy
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from treering.errors import InvalidInput
from treering.formats.clawser import views
from treering.formats.clawser.text import UnreadLine, parse, parse_lines, stringify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SEQUENCE: Final = re.compile(r"_([0-9]{1,18})\Z")


class EventLog:
    """The events of one conversation, in order. Events passed in and returned are copies."""

    def __init__(
        self,
        max_size: int | None = None,
        on_append: Callable[[dict[str, Any]], None] | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._events: list[Any] = []
        self._next = 0
        self._max_size = max_size or 0
        self._on_append = on_append
        self._clock = clock

    def __repr__(self) -> str:
        return f"EventLog({self.size} events)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventLog) and self._events == other._events

    __hash__ = None  # type: ignore[assignment]  # It is mutable.

    # Writing.

    def append(
        self,
        type: str,  # noqa: A002  (the format's own name)
        data: Any = None,
        source: str = "system",
    ) -> str:
        """Add an event and return its id; above ``max_size`` the oldest is removed.

        Errors of ``on_append`` are ignored. Raises InvalidInput if ``data`` is not JSON.
        """
        if not isinstance(type, str) or not isinstance(source, str):
            raise InvalidInput("type and source must be text", hint="see the table of types")
        content = parse(stringify({} if data is None else data))
        now_ms = self._clock()
        event = {
            "id": f"evt_{now_ms}_{self._next}",
            "type": type,
            "timestamp": now_ms,
            "data": content,
            "source": source,
        }
        self._next += 1
        self._events.append(event)
        if self._max_size > 0:
            del self._events[: -self._max_size]
        if self._on_append is not None:
            with contextlib.suppress(Exception):
                self._on_append(copy.deepcopy(event))
        return str(event["id"])

    def load(self, events: Iterable[Any]) -> None:
        """Replace all events with ``events``; new ids continue after theirs."""
        self._replace([parse(stringify(event)) for event in events])

    def _replace(self, events: list[Any]) -> None:
        self._events = events
        ids = (event.get("id") for event in self._events if isinstance(event, dict))
        matches = (_SEQUENCE.search(id_) for id_ in ids if isinstance(id_, str))
        used = [int(match[1]) + 1 for match in matches if match]
        self._next = max([self.size, *used])

    def clear(self) -> None:
        """Remove all events and restart the numbering at 0."""
        self._events = []
        self._next = 0

    # Reading.

    @property
    def events(self) -> list[Any]:
        """Return a copy of all events."""
        return copy.deepcopy(self._events)

    @property
    def size(self) -> int:
        """Return the number of events."""
        return len(self._events)

    def query(
        self,
        *,
        type: str | None = None,  # noqa: A002  (the format's own name)
        source: str | None = None,
        limit: int | None = None,
    ) -> list[Any]:
        """Return the matching events; with a ``limit`` above 0, only the last of them."""
        events = [
            event
            for event in self._events
            if (not type or views.type_of(event) == type)
            and (not source or (isinstance(event, dict) and event.get("source") == source))
        ]
        return copy.deepcopy(events[-limit:] if limit and limit > 0 else events)

    def summary(self) -> dict[str, int]:
        """Return the number of events of each type."""
        return dict(Counter(_counted_as(event) for event in self._events))

    # Lines.

    @classmethod
    def from_jsonl(cls, text: str | bytes | None) -> Self:
        """Return the log in ``text``; bad lines are skipped, see ``read_jsonl``."""
        log = cls()
        log._replace(parse_lines(text or "").values)
        return log

    def to_jsonl(self) -> str:
        """Return one line per event, without a final newline."""
        return "\n".join(stringify(event) for event in self._events)

    # Deriving.

    def derive_session_history(self, system_prompt: str | None = None) -> list[dict[str, Any]]:
        """Return the messages for a model call; see ``session_history``."""
        return copy.deepcopy(views.session_history(self._events, system_prompt))

    def derive_tool_call_log(self, *, time_zone: str = "UTC") -> list[dict[str, Any]]:
        """Return the finished tool calls, latest first, with the time of day in ``time_zone``."""
        return copy.deepcopy(views.tool_call_log(self._events, time_zone=time_zone))

    def derive_goals(self) -> list[dict[str, Any]]:
        """Return the goals in their latest state."""
        return copy.deepcopy(views.goals(self._events))

    def slice_to_turn_end(self, event_id: str) -> list[Any] | None:
        """Return all events up to the end of an event's turn; None if the event does not exist."""
        end = views.turn_end(self._events, event_id)
        return None if end is None else copy.deepcopy(self._events[:end])


class ParsedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log and the lines that could not be read."""

    log: EventLog
    lines: int
    bad: int
    bad_lines: tuple[UnreadLine, ...]
    """The first of these lines."""


def read_jsonl(text: str | bytes) -> ParsedLog:
    """Return the log in ``text``, and the lines that are not events."""
    parsed = parse_lines(text)
    log = EventLog()
    log._replace(parsed.values)  # The values are not shared, so no copy is needed.
    return ParsedLog(log=log, lines=parsed.lines, bad=parsed.bad, bad_lines=parsed.bad_lines)


def _counted_as(event: Any) -> str:
    # A browser shows a missing name like this.
    named = event.get("type", "undefined") if isinstance(event, dict) else "undefined"
    return named if isinstance(named, str) else stringify(named)
