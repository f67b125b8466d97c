"""The read position of a spool, and the detection of a replaced file."""

from __future__ import annotations

import os
import time
from typing import IO, TYPE_CHECKING, Final

import msgspec

from treering.capture.episodes.files import Fingerprint, fingerprint_of
from treering.model.times import instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.capture.episodes.ingest_receipts import Recovery

STATE_SCHEMA: Final = "treering.episodes.ingest.state.v1"


class IngestState(msgspec.Struct, kw_only=True):
    """The read position. States of openclaw-mem, which have only the first fields, are accepted."""

    schema: str = STATE_SCHEMA
    file: str = ""
    offset: int = 0
    dev: int | None = None
    inode: int | None = None
    size: int = 0
    updated_at: str | None = None
    ledger: str | None = None
    """The ledger that has everything before the offset."""
    generation: int = 0
    """How often the spool was restarted; the ids of lines without an id include it."""
    last_ts_ms: int | None = None
    """The last time of a line, which lines without a time use."""
    rejected: int = 0
    """Rejected lines of the current file."""
    print: Fingerprint | None = None

    def settle(
        self, stream: IO[bytes], *, ledger: str, key: Callable[[], bytes]
    ) -> Recovery | None:
        """Restart at the beginning if the file was replaced or rewritten; return why."""
        reason = self._restart_reason(stream, ledger, key)
        if reason is not None:
            # Lines without ids are the same events as long as the file begins in the same way.
            is_other = reason != "reset_to_zero_other_ledger" and not self._looks_same(stream, key)
            self.restart(another=is_other)
        status = os.fstat(stream.fileno())
        self.dev, self.inode, self.ledger = status.st_dev, status.st_ino, ledger
        return reason

    def restart(self, *, another: bool) -> None:
        """Forget the position; ``another`` if the coming lines are not those that were there."""
        self.offset = self.size = self.rejected = 0
        self.dev = self.inode = self.print = self.last_ts_ms = None
        self.generation += another

    def reached(self, stream: IO[bytes], offset: int, *, key: bytes) -> None:
        """Note that everything before ``offset`` is in the ledger."""
        self.offset = offset
        self.size = os.fstat(stream.fileno()).st_size
        self.print = fingerprint_of(stream, offset, key)
        self.schema = STATE_SCHEMA
        self.updated_at = instant(time.time_ns() // 1_000_000)

    def _restart_reason(
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
