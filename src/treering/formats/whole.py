"""The readers of logs that are read whole: databases, folders and documents that are rewritten.

Such a log has no place to continue from. It is read again when it has changed, and what is known is
recognized by its ids.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex.drafts import PendingEvent, digest
from treering.formats.loose import fields_of, without_none
from treering.formats.parsed import (
    ParsedEvent,
    ParsedRecord,
    PromptReader,
    RecordGroup,
    SessionHeader,
    content_key,
)
from treering.formats.records.values import Unreadable, read_value
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import PurePath

    from treering.formats.parsed import LogRecord

NOTHING: Final = "tells nothing"
UNFINISHED: Final = "is still being written"
_VERSION_DIGITS: Final = 8
_MARK_BYTES: Final = 8


class WholeReader(PromptReader):
    """What these readers share: sessions, the times of their events, and keys made of content."""

    keys_are_global = False
    agent = ""
    is_live = False
    """Whether the log is being followed: then what is unfinished waits until it is whole."""

    def __init__(self, path: PurePath | None = None) -> None:
        """``path`` may contain ids."""
        self._path = path
        self.sessions: dict[str, SessionHeader] = {}
        self._now_ms: dict[str, int] = {}
        """The time of the last event of each session."""
        self._timed: set[str] = set()
        """The sessions for which the record at hand tells the time."""
        self._counts: Counter[tuple[str, str]] = Counter()
        """How often each content without an id occurred in each session."""

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcomes that ``record`` settles."""
        self._timed.clear()
        return self._read(record)

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        raise NotImplementedError  # Each format has its own.

    def state(self) -> Any:
        """Return None: it is read from the beginning."""
        return None

    def resume(self, state: Any) -> None:
        """Refuse: a whole file has no state to resume from."""
        del state
        raise ValueError("this format has no state to resume from")

    def _open(self, header: SessionHeader) -> str:
        """Add or replace the header of a session; return the session."""
        self.sessions[header.session] = header
        return header.session

    def _is_at(self, session: str, ts_ms: int | None, *, is_about: bool = False) -> None:
        """Note the time of the record at hand; ``is_about`` if it is only near that time."""
        if ts_ms is not None:
            self._now_ms[session] = ts_ms
            if not is_about:
                self._timed.add(session)

    def _events(self, session: str, drafts: Iterable[PendingEvent]) -> list[ParsedEvent]:
        """Return events in their session.

        One without a time has that of its record, or else about that of the event before.
        """
        events = []
        for draft in drafts:
            is_timed = draft.ts_ms is not None or session in self._timed
            self._is_at(session, draft.ts_ms, is_about=True)
            about = {} if is_timed else {"time": "approximate"}
            events.append(
                ParsedEvent(
                    session=session,
                    key=draft.key,
                    kind=draft.kind,
                    summary=draft.summary,
                    ts_ms=self._now_ms.get(session, 1),
                    payload=draft.payload,
                    refs={**draft.refs, **about} or None,
                    first=draft.first,
                )
            )
        return events

    def _outcome(
        self, record: LogRecord, session: str, drafts: Iterable[PendingEvent], otherwise: str
    ) -> ParsedRecord:
        """Return the events of a record, or why there are none."""
        events = self._events(session, drafts)
        return ParsedRecord(record=record, events=events, skipped=None if events else otherwise)

    def _key(self, session: str, content: Any) -> str:
        """Return the key of what has no id: its content, and how often that occurred before."""
        mark = digest(content)
        self._counts[session, mark] += 1
        again = self._counts[session, mark]
        return content_key(mark if again == 1 else f"{mark}~{again}")


def version_key(name: str, content: Any) -> str:
    """Return the key of a text that may be found unfinished: another text is another event."""
    return f"{name}.v{content_key(digest(content)[:_VERSION_DIGITS])}"


def timed(drafts: Iterable[PendingEvent], ts_ms: int | None) -> list[PendingEvent]:
    """Return ``drafts`` at a time, if they have none of their own."""
    return [
        draft if draft.ts_ms else msgspec.structs.replace(draft, ts_ms=ts_ms) for draft in drafts
    ]


def titled(title: str) -> PendingEvent:
    """Return the event that gives a session its title."""
    payload = {"title": shorten(title)}
    return PendingEvent(
        key=version_key("title", title),
        kind="session.titled",
        summary=payload["title"],
        payload=payload,
        refs={},
    )


def used(
    key: str,
    counts: dict[str, int],
    *,
    cost: Any = None,
    stated: dict[str, Any] | None = None,
    **named: str | None,
) -> PendingEvent:
    """Return what a request used; ``named`` are its model, its provider and its message.

    ``stated`` is kept beside the counts; a ``cost`` in dollars only if it is a number above 0.
    """
    refs = {**without_none(**named), **counts}
    is_known = isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0
    payload = {**refs, **(stated or {}), **({"cost_usd": cost} if is_known else {})}
    return PendingEvent(
        key=key, kind="usage.reported", summary="usage reported", payload=payload, refs=refs
    )


def compacted(key: str, text: str, *, by: str, first: str | None = None) -> PendingEvent:
    """Return a summary that replaced all that was said before it, or before the event ``first``."""
    refs = {"by": by}
    return PendingEvent(
        key=key,
        kind="context.compacted",
        summary=shorten(text),
        payload={"summary": text, **refs},
        refs=refs,
        first=first,
    )


def undone(key: str, summary: str, first: str, payload: Any = None) -> PendingEvent:
    """Return the event that undoes everything from the event with the key ``first``."""
    return PendingEvent(
        key=key, kind="session.undone", summary=summary, payload=payload, refs={}, first=first
    )


def failed(key: str, summary: str, payload: dict[str, Any], code: str) -> PendingEvent:
    """Return an error that was shown."""
    return PendingEvent(
        key=key, kind="ops.error", summary=summary, payload=payload, refs={"code": code}
    )


def has_columns(tables: Sequence[Any], wanted: Mapping[str, Iterable[str]]) -> float:
    """Return 1 if a database has the ``wanted`` columns, by their tables; otherwise 0."""
    columns = {str(table.get("table")): table.get("columns") for table in map(fields_of, tables)}
    return float(all({*names} <= {*(columns.get(at) or ())} for at, names in wanted.items()))


def group(rows: Iterable[Any], records: Iterable[Any]) -> RecordGroup:
    """Return ``records`` as a group that changes with ``rows``, of which each counts as a line."""
    mark, lines = blake2b(digest_size=_MARK_BYTES), 0
    for row in rows:
        mark.update(msgspec.msgpack.encode(row))
        lines += 1
    return RecordGroup(mark.hexdigest(), lines, records)


def json_of(text: Any) -> Any:
    """Return the value of JSON in a text or in bytes; None if it is not JSON, or nested too deeply.

    An object or a list is returned as it is.
    """
    if not isinstance(text, str | bytes):
        return text if isinstance(text, dict | list) else None
    try:
        return read_value(text.encode(errors="replace") if isinstance(text, str) else text)[0]
    except Unreadable:
        return None
