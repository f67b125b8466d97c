"""How far a log was read, so that the next import reads only what is new in it.

It saves work and nothing else: without it a log is read from its beginning, and nothing is recorded
twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.parsed import SessionHeader
from treering.formats.registry import version_of
from treering.formats.sources import Source, fingerprint, tail_print
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from treering.formats.parsed import SessionSource


MARKS_MAX: Final = 4_096
"""The groups that are remembered: those of a larger database are read again, the oldest first."""


class Bookmark(msgspec.Struct, frozen=True, kw_only=True):
    """Where the last import of a log ended."""

    size: int
    mtime_ns: int
    device: int
    inode: int
    offset: int
    """All bytes before it are imported."""
    line: int
    head: str
    """A hash of the beginning of the file."""
    tail: str
    """A hash of the bytes right before the offset."""
    format: str | None = None
    version: int = 1
    """The version of its reader: a later one reads it again from its beginning."""
    state: Any = None
    """What its reader needs to continue; None if it cannot."""
    is_stale: bool = False
    """Whether an older reader derived events that were not replaced since."""
    former: str | None = None
    """The format that this older reader read it in."""
    marks: tuple[str, ...] = ()
    """The groups of records that need not be read again; see ``RecordGroup``."""
    sessions: dict[str, SessionHeader] = {}
    """How its sessions are related. Their words are in the ledger alone, to be erased there."""

    def is_current(self, source: Source) -> bool:
        """Whether the file has not changed since, and a reader would find no more in it."""
        return self.is_up_to_date and (self.size, self.mtime_ns, self.device, self.inode) == (
            source.size,
            source.mtime_ns,
            source.device,
            source.inode,
        )

    @property
    def is_up_to_date(self) -> bool:
        """Whether it was made by the present version of its reader."""
        return self.version == version_of(self.format)

    def former_format(self, source: Source, stream: BinaryIO, format_name: str) -> str | None:
        """Return the format that an older or another reader read the file in; None if none did.

        None also if the file does not hold any more what it held then: nothing is replaced by less.
        """
        is_other = self.format != format_name or not self.is_up_to_date or self.is_stale
        if not is_other or not source.size >= self.offset > 0:
            return None
        is_same = (
            fingerprint(stream, self.size) == self.head
            and tail_print(stream, self.offset) == self.tail
        )
        return (self.former or self.format) if is_same else None

    def can_resume(self, source: Source, stream: BinaryIO) -> bool:
        """Whether the file still holds what it held, and may have grown."""
        return (
            self.is_up_to_date
            and self.state is not None
            and source.size >= self.offset > 0
            and fingerprint(stream, self.size) == self.head
            and tail_print(stream, self.offset) == self.tail
        )


def make_bookmark(
    source: Source,
    stream: BinaryIO,
    end: tuple[int, int],
    *,
    format_name: str,
    reader: SessionSource | None,
    before: Bookmark | None = None,
    marks: Sequence[str] = (),
) -> Bookmark:
    """Return the bookmark of a file that was read up to the byte and the line ``end``.

    ``reader`` is its reader, if that can continue there. ``before`` is the bookmark whose events
    are still there, if an older reader recorded some of them. ``marks`` are the groups that are
    imported.
    """
    is_stale = before is not None and (before.is_stale or not before.is_up_to_date)
    offset, line = end
    is_seekable = stream.seekable()
    state = reader.state() if reader is not None and is_seekable else None
    sessions = {} if reader is None or state is None else reader.sessions
    return Bookmark(
        size=source.size,
        mtime_ns=source.mtime_ns,
        device=source.device,
        inode=source.inode,
        offset=offset,
        line=line,
        head=fingerprint(stream, source.size) if is_seekable else "",
        tail=tail_print(stream, offset) if is_seekable else "",
        format=format_name,
        version=version_of(format_name),
        state=state,
        is_stale=is_stale,
        marks=tuple(marks[-MARKS_MAX:]),
        former=(before.former or before.format) if before is not None and is_stale else None,
        sessions={name: header.bare() for name, header in sessions.items()},
    )


def note_of_bookmark(bookmark: Bookmark) -> msgspec.Raw:
    """Return a bookmark as JSON that waits to be written: the values in it can go."""
    return msgspec.Raw(encode(bookmark))


def read_bookmark(note: Any) -> Bookmark | None:
    """Return the bookmark in a note; None if there is none, or it cannot be read."""
    try:
        if isinstance(note, msgspec.Raw):
            return msgspec.json.decode(note, type=Bookmark)
        return None if note is None else msgspec.convert(note, Bookmark)
    except msgspec.ValidationError:
        return None
