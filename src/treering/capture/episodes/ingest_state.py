"""How far a spool was read, and whether it is still the file that it was."""

from __future__ import annotations

import os
import time
from typing import IO, TYPE_CHECKING, Final

import msgspec

from treering.capture.episodes.files import Print, print_of
from treering.model.times import instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.capture.episodes.ingest_receipts import Recovery

STATE_SCHEMA: Final = "treering.episodes.ingest.state.v1"


class IngestState(msgspec.Struct, kw_only=True):
    """Where to go on. States of openclaw-mem are read, too: they have the first fields only."""

    schema: str = STATE_SCHEMA
    file: str = ""
    offset: int = 0
    dev: int | None = None
    inode: int | None = None
    size: int = 0
    updated_at: str | None = None
    ledger: str | None = None
    """The ledger that has what stands before the offset."""
    generation: int = 0
    """How often the spool began anew: lines without an id are named after it."""
    last_ts_ms: int | None = None
    """The time that was told last: that of lines that tell none."""
    rejected: int = 0
    """Lines of the file as it is that could not be taken."""
    print: Print | None = None

    def settle(
        self, stream: IO[bytes], *, ledger: str, key: Callable[[], bytes]
    ) -> Recovery | None:
        """Go back to the beginning if the file is another than it was; return why."""
        why = self._why_anew(stream, ledger, key)
        if why is not None:
            # Lines without ids are the same events as long as the file begins as it did.
            is_other = why != "reset_to_zero_other_ledger" and not self._looks_same(stream, key)
            self.begin_anew(another=is_other)
        status = os.fstat(stream.fileno())
        self.dev, self.inode, self.ledger = status.st_dev, status.st_ino, ledger
        return why

    def begin_anew(self, *, another: bool) -> None:
        """Forget how far it was read; ``another`` if what comes is not what was there."""
        self.offset = self.size = self.rejected = 0
        self.dev = self.inode = self.print = self.last_ts_ms = None
        self.generation += another

    def reached(self, stream: IO[bytes], offset: int, *, key: bytes) -> None:
        """Remember that all before ``offset`` is in the ledger."""
        self.offset = offset
        self.size = os.fstat(stream.fileno()).st_size
        self.print = print_of(stream, offset, key)
        self.schema = STATE_SCHEMA
        self.updated_at = instant(time.time_ns() // 1_000_000)

    def _why_anew(
        self, stream: IO[bytes], ledger: str, key: Callable[[], bytes]
    ) -> Recovery | None:
        status = os.fstat(stream.fileno())
        if self.ledger is not None and self.ledger != ledger:
            return "reset_to_zero_other_ledger"
        if self.inode is not None and (self.dev, self.inode) != (status.st_dev, status.st_ino):
            return "reset_to_zero_source_replaced"
        if status.st_size < self.offset:
            return "reset_to_zero_source_shrunk"
        return None if self._looks_same(stream, key) else "reset_to_zero_source_rewritten"

    def _looks_same(self, stream: IO[bytes], key: Callable[[], bytes]) -> bool:
        return self.print is None or self.print.fits(stream, key)
