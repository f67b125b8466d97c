"""Restoring native JSONL: every line is accounted for, the chain is checked on arrival."""

from __future__ import annotations

from functools import partial
from typing import IO, TYPE_CHECKING, Final

from treering.errors import InvalidInput
from treering.ledger.jsonl import (
    EndLine,
    EventLine,
    OpeningLine,
    SessionLine,
    parse_line,
    to_record,
    to_session,
)
from treering.ledger.record_restorer import RecordRestorer, check_id_marks, note_id_marks
from treering.model.codec import SPILL_BYTES_MAX
from treering.model.receipts import LineError, RestoreReceipt
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.jsonl import Line
    from treering.ledger.ports import EventStore
    from treering.ledger.record_restorer import Refuse

ERRORS_SAMPLE_MAX: Final = 5
LINE_BYTES_MAX: Final = 2 * SPILL_BYTES_MAX
"""A longer line is not an event of a ledger."""


def read_export(
    store: EventStore, stream: IO[bytes], progress: Callable[[int], None] | None = None
) -> RestoreReceipt:
    """Read back what ``write_export`` wrote; damaged lines cost no other."""
    reading = _ExportReader(store)
    offset = 0
    for number, (line, size) in enumerate(_lines(stream), start=1):
        reading.take(line, number, offset)
        offset += size
        if progress is not None:
            progress(size)
    return reading.finish()


def _lines(stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield each line and its size; of a line over the limit, only the beginning."""
    while line := stream.readline(LINE_BYTES_MAX):
        size = len(line)
        while size >= LINE_BYTES_MAX and not line.endswith(b"\n"):
            rest = stream.readline(LINE_BYTES_MAX)
            size += len(rest)
            if len(rest) < LINE_BYTES_MAX or rest.endswith(b"\n"):
                break
        yield line, size


class _ExportReader:
    """One restore: every line is stored, or refused with its place, and counted."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._arrivals = RecordRestorer(store)
        self._exports = _Exports()
        self._lines = self._other = self._errors = 0
        self._sample: list[LineError] = []
        self._marks: list[tuple[Scope, dict[str, str]]] = []
        """The marks of the keys that hide the ids of each export."""

    def take(self, line: bytes, number: int, offset: int) -> None:
        """Take one line, or note why not. Raise InvalidInput if no line can be stored."""
        self._lines += 1
        if not line.strip():
            self._other += 1
            return
        refuse = partial(self._refuse, number, offset)
        try:
            self._take(parse_line(line), refuse)
        except InvalidInput as error:
            if self._exports.withheld and not self._arrivals.sessions:
                raise
            refuse(str(error))

    def finish(self) -> RestoreReceipt:
        """Store the rest, prove it, and return the receipt."""
        unproved = self._arrivals.finish(whole=self._exports.whole)
        for scope, marks in self._marks:
            note_id_marks(self._store, scope, marks)
        for broken in unproved:
            self._note(0, 0, f"session {broken.session_id}, seq {broken.seq}: {broken.detail}")
        return RestoreReceipt(
            lines=self._lines,
            imported=self._arrivals.added,
            duplicates=self._arrivals.known,
            other=self._other,
            errors=self._errors,
            sessions=self._arrivals.sessions,
            complete=self._exports.whole and not unproved and not self._errors,
            errors_sample=self._sample,
        )

    def _take(self, entry: Line, refuse: Refuse) -> None:
        match entry:
            case OpeningLine():
                self._arrivals.flush()
                self._exports.open(entry)
                self._marks.append((scope := Scope(self._exports.scope()), entry.id_keys))
                check_id_marks(self._store, scope, entry.id_keys)
                self._other += 1
            case SessionLine():
                self._arrivals.introduce(to_session(entry, self._exports.scope()))
                self._exports.sessions += 1
                self._other += 1
            case EventLine():
                self._arrivals.take(to_record(entry, self._exports.scope()), refuse)
                self._exports.events += 1
            case EndLine():
                self._exports.close(entry)
                self._other += 1

    def _refuse(self, number: int, offset: int, reason: str) -> None:
        self._errors += 1
        self._note(number, offset, reason)

    def _note(self, number: int, offset: int, reason: str) -> None:
        if len(self._sample) < ERRORS_SAMPLE_MAX:
            self._sample.append(LineError(line=number, offset=offset, reason=reason))


class _Exports:
    """The exports in one file, one after the other: each opens, and ends with its counts."""

    def __init__(self) -> None:
        self.sessions = 0
        """Sessions of the export that is open."""
        self.events = 0
        self.withheld = False
        """Whether the last opening was of an export for reading only."""
        self._scope: str | None = None
        self._ended = 0
        self._sound = True

    @property
    def whole(self) -> bool:
        """Whether every opening has its end, and every end its counts."""
        return self._sound and self._ended > 0 and self._scope is None

    def scope(self) -> str:
        """Return the scope of the export that is open. Raises InvalidInput if none is."""
        if self._scope is None:
            raise InvalidInput(
                "the line is outside of an export: its opening is missing",
                hint="import a treering export",
            )
        return self._scope

    def open(self, line: OpeningLine) -> None:
        """Begin an export. Raises InvalidInput if it cannot be restored."""
        self._sound = self._sound and self._scope is None
        self._scope = None
        scope = parse_scope(line.scope)
        if scope != line.scope:
            raise InvalidInput(
                f"{line.scope!r} is not spelled as in a ledger: {scope}",
                hint="import the file as it was exported",
            )
        self.withheld = line.payloads == "withheld"
        if self.withheld:
            raise InvalidInput(
                "this export has no payloads and cannot be restored",
                hint="export again with --include-payload",
            )
        self._scope = scope
        self.sessions = self.events = 0

    def close(self, line: EndLine) -> None:
        """End the export that is open."""
        self.scope()
        self._sound = self._sound and (line.sessions, line.events) == (self.sessions, self.events)
        self._ended += 1
        self._scope = None
