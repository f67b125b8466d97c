"""Finding and opening the ledger that a command line means.

Asking a ledger that is not there gives nothing and makes nothing. Where a receipt would promise
something, such as erased, proved or copied, the ledger has to be there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from treering.config import DATABASE_VARIABLE, default_database
from treering.errors import InvalidInput, NotFound, StorageError
from treering.surfaces.cli.commands import invocation
from treering.surfaces.cli.output import note

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger

MEMORY: Final = ":memory:"

Access = Literal["read", "change"]
"""What a command means to do with what is recorded."""


def open_to_write() -> Ledger:
    """Open the ledger for writing, as given: nothing is masked. Made if it is not there."""
    from treering.app import open as open_ledger  # noqa: PLC0415  (after the input was checked)

    return open_ledger(database_path(), guard="off")


def open_if_there(access: Access = "read") -> Ledger:
    """Open the ledger; one that is not there reads as empty, and nothing is made."""
    path = database_path()
    if _is_missing(path):
        if not invocation().as_json:
            note(f"there is no ledger at {path} yet")
        return _open(MEMORY, access)
    return _open(path, access)


def open_existing(access: Access = "read") -> Ledger:
    """Open the ledger. Raises NotFound if it is not there."""
    path = database_path()
    if _is_missing(path):
        raise NotFound(
            f"there is no ledger at {path}", hint="name it with --db, or set TREERING_DB"
        )
    return _open(path, access)


def database_path() -> str:
    """Return where the ledger is. Raises if a named one cannot be there."""
    named = invocation().database
    if named is not None and not named.strip():
        raise InvalidInput("--db is empty", hint="name a file, or leave --db out")
    path = Path(named or default_database()).expanduser()
    if str(path) == MEMORY:
        return MEMORY
    if path.is_dir():
        raise StorageError(
            f"{path} is a folder, not a ledger", hint=f"name a file in it, as in {path}/ledger.db"
        )
    # The default's folder is ours to make; a missing one that was named is most likely a typo.
    is_named = named is not None or bool(os.environ.get(DATABASE_VARIABLE))
    if is_named and not path.absolute().parent.is_dir():
        raise StorageError(
            f"the folder {path.absolute().parent} does not exist",
            hint=f"make it, or correct the path: {path}",
        )
    return str(path)


def _open(path: str, access: Access) -> Ledger:
    from treering.app import open as open_ledger  # noqa: PLC0415  (after the input was checked)

    # What may not be written to can still be read, from a copy that leaves no trace.
    shared = access == "change" or path == MEMORY or _is_writable(Path(path).absolute())
    return open_ledger(path, mode="rw" if shared else "ro")


def _is_missing(path: str) -> bool:
    return path != MEMORY and not Path(path).exists()


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
