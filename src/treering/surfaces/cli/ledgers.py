"""Finding and opening the ledger that a command line means.

Asking a ledger that is not there gives nothing and makes nothing. Where a receipt would promise
something, such as erased, proved or copied, the ledger has to be there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.config import default_database
from treering.errors import InvalidInput, NotFound, StorageError
from treering.surfaces.cli.commands import invocation
from treering.surfaces.cli.output import note

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger

MEMORY: Final = ":memory:"


def open_to_write() -> Ledger:
    """Open the ledger for writing, as given: nothing is masked. Made if it is not there."""
    from treering.app import open as open_ledger  # noqa: PLC0415  (after the input was checked)

    return open_ledger(database_path(), guard="off")


def open_if_there() -> Ledger:
    """Open the ledger to read it; one that is not there reads as empty."""
    from treering.app import open as open_ledger  # noqa: PLC0415  (after the input was checked)

    path = database_path()
    if path != MEMORY and not Path(path).exists():
        if not invocation().as_json:
            note(f"there is no ledger at {path} yet")
        path = MEMORY
    return open_ledger(path, mode="rw" if _is_writable(path) else "ro")


def open_existing() -> Ledger:
    """Open the ledger. Raises NotFound if it is not there."""
    from treering.app import open as open_ledger  # noqa: PLC0415  (after the input was checked)

    path = database_path()
    if path != MEMORY and not Path(path).exists():
        raise NotFound(
            f"there is no ledger at {path}", hint="name it with --db, or set TREERING_DB"
        )
    return open_ledger(path, mode="rw" if _is_writable(path) else "ro")


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
    is_named = named is not None or "TREERING_DB" in os.environ
    if is_named and not path.absolute().parent.is_dir():
        raise StorageError(
            f"the folder {path.absolute().parent} does not exist",
            hint=f"make it, or correct the path: {path}",
        )
    return str(path)


def _is_writable(path: str) -> bool:
    """Whether the file can be shared with writers; if not, it is read without leaving a trace."""
    if path == MEMORY:
        return True
    return os.access(path, os.W_OK) and os.access(Path(path).absolute().parent, os.W_OK)
