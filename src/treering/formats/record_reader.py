"""The base of readers that need no more than one record at a time.

A subclass says to which session a record belongs, and which events it has. The rest is done here:
times, keys, repeats, observations of what is unknown, and the state to resume from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from treering.formats.event_content import EventContent, observation, placed, undone
from treering.formats.loose import bounded, digest, keep, name, stem, time_ms, word
from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionHeader, content_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import PurePath

MARKS_MAX: Final = 1_000
"""Records that are remembered to recognize repeats."""
TRAIL_MAX: Final = 200
"""Records to which a session can be rewound."""
NAMES_MAX: Final = 128
"""Calls whose tools are remembered until their results come."""
SECONDS_MAX: Final = 100_000_000_000
"""Larger times are in milliseconds."""
_IN_ORDER: Final = ("marks", "tools", "trail")
_MARK_DIGITS: Final = 12
_TIMES: Final = ("timestamp", "time", "created_at", "createdAt", "ts")


class ReaderState(msgspec.Struct, kw_only=True):
    """What a reader remembers from one record to the next: names, numbers and digests."""

    sessions: dict[str, SessionHeader] = {}
    session: str = ""
    """The session of the last record."""
    ts_ms: int = 1
    is_timed: bool = False
    """Whether the last record had a time of its own."""
    marks: dict[str, str] = {}
    """Digests of the last records, by session and id."""
    counts: dict[str, int] = {}
    """How often each record came that has neither an id nor a time, by its digest."""
    tools: dict[str, str] = {}
    """The tools of calls, by call id."""
    trail: dict[str, str] = {}
    """The keys of the first events of the last records, by the ids of the records."""


class RecordReader:
    """Reads a log record by record. A subclass has an ``agent`` and parses a record."""

    agent: str = ""
    keys_are_global: ClassVar[bool] = False
    copies_keep_times: ClassVar[bool] = True
    state_type: ClassVar[type[ReaderState]] = ReaderState

    def __init__(self, path: PurePath | None = None) -> None:
        self.path = path
        self.now: Any = self.state_type()

    # What a subclass says.

    def parse(self, record: dict[str, Any]) -> Iterable[EventContent] | str:
        """Return the events of a record, or why it has none.

        If nothing is returned for a record that holds text, it is kept as an observation.
        """
        raise NotImplementedError  # Each format has its own.

    def session_of(self, record: dict[str, Any]) -> SessionHeader | str | None:
        """Return the session of a record: a header if it is new or has changed, or its id.

        None for that of the record before; the first record is in a session that is named after
        the file.
        """
        del record
        return None

    def id_of(self, record: dict[str, Any]) -> str | None:
        """Return the record's own id, which is unique in its session; None if it has none."""
        return name(record.get("id"))

    def time_of(self, record: dict[str, Any]) -> int | None:
        """Return the record's own time, in milliseconds; None if it has none."""
        return next((ms for at in _TIMES if (ms := milliseconds(record.get(at)))), None)

    def title_of(self, record: dict[str, Any]) -> str:
        """Return what an observation of a record is called."""
        return word(record.get("type")) or "record"

    # What the importer asks.

    @property
    def sessions(self) -> dict[str, SessionHeader]:
        """Return the sessions so far."""
        headers: dict[str, SessionHeader] = self.now.sessions
        return headers

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcome of ``record``; records are never held back."""
        value = record.value if isinstance(record.value, dict) else {"value": record.value}
        now = self.now
        session = self._open(value)
        own_ms = self.time_of(value)
        now.is_timed = own_ms is not None
        now.ts_ms = own_ms or now.ts_ms
        key = self._key_of(value, session)
        if key is None:
            return [ParsedRecord(record=record, skipped="repeats a record")]
        parsed = self.parse(value)
        contents = [] if isinstance(parsed, str) else list(parsed)
        reason = parsed if isinstance(parsed, str) else "tells nothing"
        if not contents and not isinstance(parsed, str):
            contents = [observation(self.title_of(value), value)]
        events = self._events(contents, session, key)
        if events and (named := self.id_of(value)) is not None:
            keep(now.trail, named, events[0].key, TRAIL_MAX)
        return [ParsedRecord(record=record, events=events, skipped=None if events else reason)]

    def finish(self) -> list[ParsedRecord]:
        """Return an empty list: records are never held back."""
        return []

    def state(self) -> Any:
        """Return the state to resume from; None if it is too large."""
        bare = {session: header.bare() for session, header in self.sessions.items()}
        state = msgspec.to_builtins(msgspec.structs.replace(self.now, sessions=bare))
        # In the order in which they came: an object may come back in another order.
        state |= {at: [[*pair] for pair in state[at].items()] for at in _IN_ORDER}
        return bounded(state)

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        try:
            fields = msgspec.convert(state, dict[str, Any])
            pairs = {
                at: dict(msgspec.convert(fields.get(at, []), list[tuple[str, str]]))
                for at in _IN_ORDER
            }
            self.now = msgspec.convert(fields | pairs, self.state_type)
        except msgspec.ValidationError as error:
            raise ValueError(f"this is not a state of {self.agent}") from error

    # For subclasses.

    def own_session(self) -> str:
        """Return a name for a session that no record names: from its file."""
        return stem(self.path) or self.agent

    def name_call(self, call_id: str, tool: str) -> None:
        """Remember the tool of a call until its result comes."""
        keep(self.now.tools, call_id, tool, NAMES_MAX)

    def tool_of(self, call_id: str | None) -> str | None:
        """Return the tool of a call, if it is known."""
        tool: str | None = self.now.tools.get(call_id or "")
        return tool

    def rewind(self, kept: str | None, **more: Any) -> EventContent | None:
        """Return the event that undoes everything after the record with the id ``kept``.

        None if nothing comes after it. If that record is unknown by now, everything is undone.
        """
        ids = list(self.now.trail)
        start = ids.index(kept) + 1 if kept in ids else 0
        hidden = ids[start:]
        first = self.now.trail[hidden[0]] if hidden else None
        for record_id in hidden:
            del self.now.trail[record_id]
        return None if first is None else undone(first, **more)

    # Sessions and keys.

    def _open(self, value: dict[str, Any]) -> str:
        now = self.now
        stated = self.session_of(value)
        if isinstance(stated, SessionHeader):
            now.sessions[stated.session] = stated
            now.session = stated.session
        else:
            now.session = stated or now.session or self.own_session()
            if now.session not in now.sessions:
                header = SessionHeader(session=now.session, agent=self.agent)
                now.sessions[now.session] = header
        session: str = now.session
        return session

    def _key_of(self, value: dict[str, Any], session: str) -> str | None:
        """Return the key of a record; None if it was there before.

        A record that says something else under the id of an earlier one has a key of its content.
        """
        marks: dict[str, str] = self.now.marks
        named, mark = self.id_of(value), digest(value)[:_MARK_DIGITS]
        if named is not None:
            at = digest([session, named])[:_MARK_DIGITS]
            before = marks.get(at)
            if before is None:
                keep(marks, at, mark, MARKS_MAX)
                return named
            other = content_key(f"{named}~{mark}")
            return None if before == mark or not self._is_first(other) else other
        at = digest([session, value])
        if self.now.is_timed:
            return content_key(at) if self._is_first(at) else None
        counts: dict[str, int] = self.now.counts
        again = counts[at[:_MARK_DIGITS]] = counts.get(at[:_MARK_DIGITS], 0) + 1
        return content_key(at if again == 1 else f"{at}~{again}")

    def _is_first(self, key: str) -> bool:
        at = digest(key)[:_MARK_DIGITS]
        is_first = at not in self.now.marks
        keep(self.now.marks, at, "", MARKS_MAX)
        return is_first

    def _events(
        self, contents: Sequence[EventContent], session: str, key: str
    ) -> list[ParsedEvent]:
        now = self.now
        # What was said has the record's own key, whatever else the record says.
        spoken = (
            at for at, content in enumerate(contents) if content.kind.startswith("conversation.")
        )
        first = next(spoken, 0)
        approximate = {} if now.is_timed else {"time": "approximate"}
        return [
            placed(
                content,
                session,
                key if at == first else f"{key}.{at + (at < first)}",
                now.ts_ms,
                **approximate,
            )
            for at, content in enumerate(contents)
        ]


def milliseconds(value: Any) -> int | None:
    """Return a time in milliseconds; a number may count seconds."""
    in_seconds = type(value) in {int, float} and 0 < value < SECONDS_MAX
    return time_ms(value * 1_000.0 if in_seconds else value)
