"""Clawser's EventLog: appended to, asked, written as lines, and derived from."""

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
    """The events of one conversation, in order. What is in it is not changed from outside."""

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

    __hash__ = None  # type: ignore[assignment]  # It grows.

    # Writing.

    def append(
        self,
        type: str,  # noqa: A002  (the format's own name)
        data: Any = None,
        source: str = "system",
    ) -> str:
        """Add an event and return its id; beyond ``max_size`` the oldest goes.

        An error of ``on_append`` is nobody's concern. Raises InvalidInput if ``data`` is no JSON.
        """
        if not isinstance(type, str) or not isinstance(source, str):
            raise InvalidInput("type and source are texts", hint="see the table of types")
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
        """Put ``events`` in the place of all; new ids go on behind theirs."""
        self._place([parse(stringify(event)) for event in events])

    def _place(self, events: list[Any]) -> None:
        self._events = events
        ids = (event.get("id") for event in self._events if isinstance(event, dict))
        found = (_SEQUENCE.search(id_) for id_ in ids if isinstance(id_, str))
        used = [int(match[1]) + 1 for match in found if match]
        self._next = max([self.size, *used])

    def clear(self) -> None:
        """Forget all events, and number from 0."""
        self._events = []
        self._next = 0

    # Reading.

    @property
    def events(self) -> list[Any]:
        """Return all events, as a copy."""
        return copy.deepcopy(self._events)

    @property
    def size(self) -> int:
        """Return how many events there are."""
        return len(self._events)

    def query(
        self,
        *,
        type: str | None = None,  # noqa: A002  (the format's own name)
        source: str | None = None,
        limit: int | None = None,
    ) -> list[Any]:
        """Return the events that fit; with a ``limit`` above 0, the last so many of them."""
        found = [
            event
            for event in self._events
            if (not type or views.type_of(event) == type)
            and (not source or (isinstance(event, dict) and event.get("source") == source))
        ]
        return copy.deepcopy(found[-limit:] if limit and limit > 0 else found)

    def summary(self) -> dict[str, int]:
        """Return how many events of each type there are."""
        return dict(Counter(_counted_as(event) for event in self._events))

    # Lines.

    @classmethod
    def from_jsonl(cls, text: str | bytes | None) -> Self:
        """Return the log that ``text`` holds; bad lines are passed over, see ``read_jsonl``."""
        log = cls()
        log._place(parse_lines(text or "").values)
        return log

    def to_jsonl(self) -> str:
        """Return one line for each event, and no newline at the end."""
        return "\n".join(stringify(event) for event in self._events)

    # Deriving.

    def derive_session_history(self, system_prompt: str | None = None) -> list[dict[str, Any]]:
        """Return the messages of a model call: see ``session_history``."""
        return copy.deepcopy(views.session_history(self._events, system_prompt))

    def derive_tool_call_log(self, *, time_zone: str = "UTC") -> list[dict[str, Any]]:
        """Return the finished tool calls, the last one first, with the time of day in a zone."""
        return copy.deepcopy(views.tool_call_log(self._events, time_zone=time_zone))

    def derive_goals(self) -> list[dict[str, Any]]:
        """Return the goals in their last state."""
        return copy.deepcopy(views.goals(self._events))

    def slice_to_turn_end(self, event_id: str) -> list[Any] | None:
        """Return all events up to the end of the turn of one; None if there is no such event."""
        end = views.turn_end(self._events, event_id)
        return None if end is None else copy.deepcopy(self._events[:end])


class ParsedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log, and what could not be read of its lines."""

    log: EventLog
    lines: int
    bad: int
    bad_lines: tuple[UnreadLine, ...]
    """The first of them."""


def read_jsonl(text: str | bytes) -> ParsedLog:
    """Return the log that ``text`` holds, and an account of the lines that are no events."""
    found = parse_lines(text)
    log = EventLog()
    log._place(found.values)  # noqa: SLF001  (they are nobody else's: no copy is needed)
    return ParsedLog(log=log, lines=found.lines, bad=found.bad, bad_lines=found.bad_lines)


def _counted_as(event: Any) -> str:
    # A browser spells a missing name so.
    named = event.get("type", "undefined") if isinstance(event, dict) else "undefined"
    return named if isinstance(named, str) else stringify(named)
