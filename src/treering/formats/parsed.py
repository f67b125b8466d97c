"""The events and sessions that readers parse from the records of a log.

Nothing here depends on a ledger: ids, forks and repeats are resolved when the events are imported.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Protocol

import msgspec

_OF_WORDS: Final = "~words~"
"""Marks a key or session name that is derived from content. A log's own id that happens to contain
it is only hidden without need."""


def content_key(key: str) -> str:
    """Return a key that is derived from content, marked so that it is never stored as it is."""
    return key if key.startswith(_OF_WORDS) else _OF_WORDS + key


def is_content_key(key: str) -> bool:
    """Return whether ``key`` is derived from content."""
    return _OF_WORDS in key


def names_words(refs: dict[str, Any]) -> bool:
    """Return whether a name among ``refs`` is derived from content."""
    for name in refs.values():  # noqa: SIM110  (every event passes here: a generator costs)
        if type(name) is str and _OF_WORDS in name:
            return True
    return False


def without_mark(key: str) -> str:
    """Return a key without the mark."""
    return key.replace(_OF_WORDS, "")


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One JSON value of a log, or a range of bytes that is not JSON."""

    value: Any
    """The parsed value; None if there is a fault."""
    line: int
    """The line where it begins, from 1."""
    offset: int
    """The byte where it begins, in the decompressed content."""
    end: int
    """The byte after its end."""
    fault: str | None = None
    """Why it is not a record, in a word or two: torn, not JSON, too long, …"""
    mended: str | None = None
    """What was repaired to read it: welded, BOM, NUL, encoding, …"""
    lines: int = 1
    """The number of lines it covers: blank lines are grouped."""


class RecordGroup(msgspec.Struct, frozen=True):
    """Records that are left out while none of them has changed: the rows of one session.

    How they are read must not depend on other groups.
    """

    mark: str
    """A digest of all that the records hold."""
    lines: int
    """How many lines they count as."""
    records: Any
    """Iterates over the values, or ``LogRecord``s; it is asked only if they have changed."""


class ParsedEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a record."""

    session: str
    """The session's id in the log; the reader has a SessionHeader for it."""
    key: str
    """Identifies the event wherever and whenever it is read: from the log's own ids, or else
    ``content_key``."""
    kind: str
    summary: str
    ts_ms: int
    payload: Any = None
    refs: dict[str, Any] | None = None
    source: str | None = None
    agent: str | None = None
    """The agent, if it may differ from the session's."""
    after: str | None = None
    """The key of the event that caused it, if the log names one; it may be in another session."""
    first: str | None = None
    """The key of an earlier event: the first that session.undone hides, or the first that
    context.compacted keeps. Its seq is filled in on import."""
    former_key: str | None = None
    """The key that earlier versions of the reader gave it, if different; it still identifies it."""
    alternate_key: str | None = None
    """The key to use if another event has ``key`` already: ``content_key``, and the same in every
    session."""
    unless: str | None = None
    """The key of an event of the session that shows that another log of it, which tells more, was
    imported: then it is known."""
    is_redacted: bool = False
    """Whether its content was erased at the source; then it is recorded as erased."""


class SessionHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The session's own fields in a log."""

    session: str
    agent: str
    """The program that writes the log: claude-code, codex, …; for a subagent
    ``claude-code:reviewer``."""
    cwd: str | None = None
    """Its working folder, which its scope is named after."""
    title: str | None = None
    key: str | None = None
    """The session's name in its channel."""
    name: str | None = None
    """Its id within its scope, if the same id occurs in several scopes."""
    parent: str | None = None
    """The session that started this one as a subagent."""
    call_id: str | None = None
    """The parent's tool call that started it."""
    forked_from: str | None = None
    """The session whose events it repeats at its beginning."""
    about: dict[str, Any] = {}
    """A few other small values: version, branch, model, …"""

    def bare(self) -> SessionHeader:
        """Return only the fields that link it to other sessions, without any text of the log."""
        return msgspec.structs.replace(self, cwd=None, title=None, about={})


class ParsedRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one record: its events, or why there are none."""

    record: LogRecord
    events: list[ParsedEvent] = []
    skipped: str | None = None


class SessionSource(Protocol):
    """The sessions of one file."""

    @property
    def sessions(self) -> dict[str, SessionHeader]:
        """Return the sessions so far; each is listed before its first event."""

    @property
    def keys_are_global(self) -> bool:
        """Return whether a key names the same event in every session."""

    @property
    def copies_keep_times(self) -> bool:
        """Return whether copies keep the times of events, so that a new time is a new event."""

    def state(self) -> Any:
        """Return the state to resume from after the last record, as JSON; None if impossible.

        Erasure does not reach this state, so it holds names, numbers and digests, but no text of
        the log. Object keys may come back in another order.
        """


class LogReader(SessionSource, Protocol):
    """Reads the records of one file of one format, in order.

    Each record is answered by exactly one ParsedRecord, possibly later: a record may be held back
    until more is known. Records with a fault are not passed in.
    """

    agent: str
    """The agent whose sessions these are. It may be changed before the first record, to that of
    another agent with the same format."""

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcomes that ``record`` settles: its own, or those of earlier records."""

    def finish(self) -> list[ParsedRecord]:
        """Return the outcomes of records that are still held back."""

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""


class PromptReader:
    """The base of readers that answer each record at once."""

    copies_keep_times: ClassVar[bool] = False

    def finish(self) -> list[ParsedRecord]:
        """Return an empty list: records are never held back."""
        return []
