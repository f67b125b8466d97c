"""What the records of a log tell: events of sessions, in the ledger's words.

A log is read as records; a reader of its format says of each what it tells. Nothing here knows a
ledger: ids, forks and repeats are settled where the events are taken in.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

_OF_WORDS: Final = "~words~"
"""Marks a key, or a session's name, that is made of what was said. An id of a log that holds it by
chance is only hidden without need."""


def of_words(key: str) -> str:
    """Return a key that is made of what was said, marked as such: it is never stored as it is."""
    return key if key.startswith(_OF_WORDS) else _OF_WORDS + key


def is_of_words(key: str) -> bool:
    """Whether ``key`` is made of what was said."""
    return _OF_WORDS in key


def unmarked(key: str) -> str:
    """Return a key as it was before it was marked."""
    return key.replace(_OF_WORDS, "")


class LogRecord(msgspec.Struct, frozen=True):
    """One JSON value of a log, or a stretch of bytes that is none."""

    value: Any
    """What it says; None if there is a fault."""
    line: int
    """The line where it begins, from 1."""
    offset: int
    """The byte where it begins, in the content as it is read: a compressed file's is unpacked."""
    end: int
    """The byte behind it."""
    fault: str | None = None
    """Why it is no record, in a word or two: torn, not JSON, too long, …"""
    mended: str | None = None
    """What was put right to read it: welded, BOM, NUL, encoding, …"""
    lines: int = 1
    """How many lines it stands for: blank ones come together."""


class ParsedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event that a record tells of."""

    session: str
    """The session's own id, as its agent names it; the reader has a SessionHeader for it."""
    key: str
    """Names the event, the same whenever and wherever it is read: from the log's own ids, or else
    ``of_words``."""
    kind: str
    summary: str
    ts_ms: int
    payload: Any = None
    refs: dict[str, Any] | None = None
    source: str | None = None
    agent: str | None = None
    """Who did it, where that may be another than the session's."""
    after: str | None = None
    """The key of what caused it, where the log says so: a session may go on from another's."""
    first: str | None = None
    """Of session.undone the first event that it hides, of context.compacted the first one that is
    kept: the key of an earlier event, whose seq is filled in when it is taken in."""
    former_key: str | None = None
    """The key that earlier versions gave it, if it was another: it is known by that, too."""
    apart_key: str | None = None
    """The key that it has where its own is that of something else: ``of_words``, and the same in
    whichever session it stands."""
    is_redacted: bool = False
    """Whether its content was erased where it comes from: it is recorded as erased."""


class SessionHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says of a session itself."""

    session: str
    agent: str
    """Who writes such logs: claude-code, codex, …; a subagent's is ``claude-code:reviewer``."""
    cwd: str | None = None
    """The folder that it worked in: what its scope is named after."""
    title: str | None = None
    key: str | None = None
    """The name that its channel knows it by."""
    name: str | None = None
    """Its own id in its scope, where one id names a session in each of several scopes."""
    parent: str | None = None
    """The session whose agent began this one, as its subagent."""
    call_id: str | None = None
    """The tool call of the parent that began it."""
    forked_from: str | None = None
    """The session whose past it repeats at its beginning."""
    about: dict[str, Any] = {}
    """What else is worth keeping of it, in a few small values: version, branch, model, …"""

    def bare(self) -> SessionHeader:
        """Return what it is to other sessions alone, without words of the log."""
        return msgspec.structs.replace(self, cwd=None, title=None, about={})


class ParsedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one record: events, or the reason why there are none."""

    record: LogRecord
    events: list[ParsedEvent] = []
    skipped: str | None = None


class SessionSource(Protocol):
    """Tells of the sessions in one file."""

    @property
    def sessions(self) -> dict[str, SessionHeader]:
        """Return the sessions told of so far. One is there before its first event is."""

    @property
    def keys_are_global(self) -> bool:
        """Whether a key names the same event in whichever session it is found."""

    @property
    def times_tell_apart(self) -> bool:
        """Whether copies keep the times of events, so that another time is another event."""

    def state(self) -> Any:
        """Return what it needs to go on behind the last record, as JSON; None if it cannot.

        No erasure reaches it, so it holds names, numbers and digests, and no text of the log. The
        names of its objects may come back in another order.
        """


class LogReader(SessionSource, Protocol):
    """Reads the records of one file of one format, in their order.

    Every record is answered by one ParsedRecord, sooner or later: what comes may have to be held
    back until more is known. Records with a fault are not given to it.
    """

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcomes that are settled with ``record``: its own, or earlier ones' too."""

    def finish(self) -> list[ParsedRecord]:
        """Return the outcomes of records that are still held back."""

    def resume(self, state: Any) -> None:
        """Go on from what ``state`` returned. Raises ValueError if it cannot."""
