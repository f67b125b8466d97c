"""Our own exports among the logs: restored as they are, and counted like other files."""

from __future__ import annotations

import contextlib
import io
from typing import IO, TYPE_CHECKING, Final, cast

import msgspec

from treering.errors import InvalidInput
from treering.formats.records import read_records
from treering.formats.sources import open_source
from treering.model.intakes import Fault
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from treering.capture.intake.line_counter import LineCounter
    from treering.capture.intake.sessions import Sessions
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

PART_BYTES: Final = 1024 * 1024
"""Bytes that are read at once if lines are only counted."""
_SESSION: Final = b'{"record":"session"'


class _Introduced(msgspec.Struct):
    """The line that a session begins with."""

    session_id: str


class _Tapped(io.RawIOBase):
    """The lines of an export; it reports the sessions on the way."""

    def __init__(self, stream: BinaryIO, report: Callable[[str], None]) -> None:
        super().__init__()
        self._stream = stream
        self._report = report

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line, or its first ``size`` bytes."""
        line = self._stream.readline(-1 if size is None else size)
        if line.startswith(_SESSION):
            with contextlib.suppress(msgspec.DecodeError):  # It is refused where it is read.
                self._report(msgspec.json.decode(line, type=_Introduced).session_id)
        return line


def restore(
    ledger: Ledger,
    path: Path,
    sessions: Sessions,
    counter: LineCounter,
    *,
    scope: Scope | None,
    dry_run: bool,
    advance: Callable[[int], None],
) -> None:
    """Restore an export. Raises InvalidInput if it is of another scope than ``scope``."""
    with open_source(path) as stream:
        own_scope = _check_scope(stream, scope)
        tapped = _Tapped(stream, lambda session: _see(sessions, counter, own_scope, session))
        if dry_run:
            counter.lines = _count(tapped)
            checked = "an export of Treering: its lines are checked when it is restored"
            counter.skipped[checked] = counter.lines
            return
        receipt = ledger.admin.restore(cast("IO[bytes]", tapped), progress=advance)
    if receipt.imported and own_scope is not None:
        sessions.events[own_scope] += receipt.imported
    counter.lines, counter.bytes = receipt.lines, path.stat().st_size
    counter.imported, counter.duplicates = receipt.imported, receipt.duplicates
    counter.events, counter.errors = receipt.imported, receipt.errors
    if receipt.other:
        counter.skipped["frames the events"] = receipt.other
    counter.faults = [
        Fault(file=counter.file, line=error.line, offset=error.offset, reason=error.reason)
        for error in receipt.errors_sample
    ]


def _count(tapped: _Tapped) -> int:
    """Return the number of lines, however long one of them is."""
    lines, is_open = 0, False
    while part := tapped.readline(PART_BYTES):
        is_open = not part.endswith(b"\n")
        lines += not is_open
    return lines + is_open


def _see(sessions: Sessions, counter: LineCounter, scope: Scope | None, session: str) -> None:
    if scope is not None:
        counter.sessions[session] = None
        sessions.see_restored(scope, session)


def _check_scope(stream: BinaryIO, named: Scope | None) -> Scope | None:
    """Return the scope of an export. Raises InvalidInput if it is not the one named."""
    first = next(read_records(stream), None)
    stream.seek(0)
    scope = first.value.get("scope") if first and isinstance(first.value, dict) else None
    if named is not None and scope != named:
        raise InvalidInput(
            f"it is an export of scope {scope}, not of {named}",
            hint="an export is restored to its own scope: leave --scope out",
        )
    return parse_scope(scope) if isinstance(scope, str) else None
