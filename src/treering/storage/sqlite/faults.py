"""SQLite's errors in the ledger's words, translated once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from treering.errors import (
    Busy,
    Corrupt,
    NotALedger,
    OutcomeUnknown,
    ReadOnly,
    StorageError,
    StorageFull,
)
from treering.storage.sqlite.write_lock import find_holder

if TYPE_CHECKING:
    from treering.errors import TreeringError


def translate(error: apsw.Error, path: str) -> TreeringError:
    """Return the ledger's error for SQLite's ``error``."""
    if isinstance(error, apsw.SQLError) and isinstance(error.__context__, apsw.Error):
        # A read that fails may end its transaction, which then cannot be undone.
        error = error.__context__
    match error:
        case apsw.FullError():
            return StorageFull(
                f"the disk is full: nothing of this call was recorded in {path}",
                hint="free some space, then try again",
            )
        case apsw.BusyError() | apsw.LockedError():
            holder = find_holder(path)
            return Busy(
                f"another program keeps {path} locked{f': {holder}' if holder else ''}",
                hint=f"{holder.remedy}, then try again"
                if holder
                else "close other tools that have the file open, then try again",
            )
        case apsw.NotADBError():
            return NotALedger(
                f"{path} is not a SQLite file", hint="check the path, or name a new file"
            )
        case apsw.CorruptError():
            return Corrupt(
                f"{path} is damaged: {error}",
                hint="keep a copy, then run treering verify and restore from an export",
            )
        case apsw.ReadOnlyError():
            return ReadOnly(
                f"{path} cannot be written to", hint="check its permissions and its folder's"
            )
        case apsw.CantOpenError():
            return StorageError(
                f"cannot open {path}", hint="check that the folder exists and may be written to"
            )
        case apsw.IOError() if _is_without_log(error, path):
            return Busy(
                f"the log of {path} was removed, and another program that has the file open still"
                " holds what is in it",
                hint="let that program record something, or end it; then try again",
            )
        case apsw.IOError():
            return StorageError(
                f"the disk failed while using {path}: {error}",
                hint="check the disk; what was acknowledged before is kept",
            )
        case _:
            return StorageError(
                f"SQLite cannot use {path}: {error}",
                hint="if it is a ledger, it may be damaged: keep a copy, then try treering verify",
            )


def _is_without_log(error: apsw.Error, path: str) -> bool:
    """Whether the shared memory refers to a log that is missing."""
    log = Path(f"{path}-wal")
    result = getattr(error, "extendedresult", None)  # Not among the types of apsw.
    is_short = result == apsw.SQLITE_IOERR_SHORT_READ
    # Whoever opens the file makes an empty one.
    return is_short and not (log.exists() and log.stat().st_size)


def damaged(path: str, error: Exception) -> Corrupt:
    """Return the error for a file whose pages are not where they belong."""
    return Corrupt(
        f"{path} is damaged: the stored data is invalid ({type(error).__name__})",
        hint="keep a copy, then run treering verify and restore from an export or a backup",
    )


def translate_commit(error: apsw.Error, path: str, event_ids: list[str]) -> TreeringError:
    """Return the ledger's error for a COMMIT that failed."""
    if isinstance(error, apsw.IOError):
        return OutcomeUnknown(
            f"the disk failed while {path} was being synced: the events may or may not be kept",
            event_ids=event_ids,
            hint="append them again with the same event ids: nothing is recorded twice",
        )
    return translate(error, path)
