"""How far a log was read, so that only what is new in it is read the next time.

It saves work and nothing else: whoever loses it reads a log from its beginning, and takes in
nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.parsed import SessionHeader
from treering.formats.registry import version_of
from treering.formats.sources import Source, fingerprint, tail_print

if TYPE_CHECKING:
    from typing import BinaryIO

STATE_BYTES_MAX: Final = 256 * 1024
"""What is kept of a reader to go on with; if it is more, a log is read from its beginning."""


class Bookmark(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log was left."""

    size: int
    mtime_ns: int
    device: int
    inode: int
    offset: int
    """What lies before it is taken in."""
    line: int
    head: str
    """What the file began with, as a hash."""
    tail: str
    """What lay right before the offset, as a hash."""
    format: str | None = None
    version: int = 1
    """How well its reader read it: by a better one, it is read again from its beginning."""
    state: Any = None
    """What its reader needs to go on; None if it cannot."""
    sessions: dict[str, SessionHeader] = {}
    """What its sessions are to each other; what they are about is in the ledger, to be erased."""

    def is_current(self, source: Source) -> bool:
        """Whether nothing was written to the file since, and nobody would read more in it."""
        return self.is_up_to_date and (self.size, self.mtime_ns, self.device, self.inode) == (
            source.size,
            source.mtime_ns,
            source.device,
            source.inode,
        )

    @property
    def is_up_to_date(self) -> bool:
        """Whether its reader is still the one that read it."""
        return self.version == version_of(self.format)

    def goes_on(self, source: Source, stream: BinaryIO) -> bool:
        """Whether the file holds what it held, and may have grown. It is read from the start."""
        return (
            self.is_up_to_date
            and self.state is not None
            and source.size >= self.offset > 0
            and fingerprint(stream, self.size) == self.head
            and tail_print(stream, self.offset) == self.tail
        )


def read_bookmark(note: Any) -> Bookmark | None:
    """Return what was noted of a file; None if that cannot be understood."""
    try:
        return None if note is None else msgspec.convert(note, Bookmark)
    except msgspec.ValidationError:
        return None
