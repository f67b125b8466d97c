"""Leases on a file: what one store holds, for all processes that share it to see."""

from __future__ import annotations

import os
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.errors import Closed, ReadOnly, StorageError, check_from_system
from treering.storage.leases import (
    LeaseOwner,
    disuse,
    is_gone_from_sight,
    is_running,
    new_owner,
    use,
)
from treering.storage.sqlite.lease_files import FILES, IS_SUPPORTED

if TYPE_CHECKING:
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.lease_files import LeaseFile

_HOLD: Final = "hold\0"
"""Before the names that are held, so that none is an owner's."""


class Leases:
    """What one store holds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._path = None if database.in_memory else os.path.realpath(database.path) + ".leases"
        self._closed = False
        self._owner: str | None = None
        self._start()

    def owner(self) -> str:
        """Return the name under which this process holds its runs, held from now on."""
        with FILES.lock.guard, FILES.lock:
            self._enter()
            if self._owner is None:
                file = self._settle()
                owner = new_owner(self._place(file))
                self._take(file, owner)
                use(owner)
                self._owner = owner
            elif self._path is not None and IS_SUPPORTED:
                self._settle()
            return self._owner

    def is_gone(self, owner: str, seen_ms: int) -> bool:
        """Whether the process of ``owner`` is certainly gone."""
        named = LeaseOwner.parse(owner)
        if named is None:
            return False
        if self._path is None:
            return self._process != os.getpid() or owner != self._owner
        if named.process == os.getpid() and is_running(named):
            return False
        with FILES.lock.guard, FILES.lock:
            free = self._is_free(named)
        if free is None:
            return is_gone_from_sight(named, time.time_ns() // 1_000_000 - seen_ms)
        return free

    def is_in_copy(self, owner: str) -> bool:
        """Whether ``owner`` holds its runs in another ledger, of which this is a copy."""
        named = LeaseOwner.parse(owner)
        if named is None:
            return False
        if self._path is None:
            return owner != self._owner
        return IS_SUPPORTED and not named.place.startswith(f"{self._ledger()}-")

    def hold(self, name: str) -> bool:
        """Hold ``name`` alone; return False if another store has it."""
        with FILES.lock.guard, FILES.lock:
            self._enter()
            return self._take(self._settle(), _HOLD + name)

    def release(self, name: str) -> None:
        """Release ``name`` if it is held."""
        with FILES.lock.guard, FILES.lock:
            if self._process == os.getpid():
                self._release(_HOLD + name)

    def close(self) -> None:
        """Release everything."""
        with FILES.lock.guard, FILES.lock:
            self._closed = True
            if self._process != os.getpid():
                return
            for name in list(self._held):
                self._release(name)
            if self._owner is not None:
                disuse(self._owner)
                self._owner = None

    # The caller has entered the files.

    def _start(self) -> None:
        self._process = os.getpid()
        self._owner = None
        self._held: set[str] = set()
        self._file: LeaseFile | None = None

    def _enter(self) -> None:
        if self._process != os.getpid():
            self._start()
        if self._closed:
            raise Closed("the ledger has been closed", hint="open it again")
        if self._database.read_only:
            raise ReadOnly(
                f"{self._database.path} was opened read-only", hint='open it without mode="ro"'
            )

    def _settle(self) -> LeaseFile | None:
        """Return the file as it lies there now, with all that is held locked in it.

        It may have been removed, or somebody else may have closed it in this process.
        """
        if self._path is None or not IS_SUPPORTED:
            return None
        try:
            file = FILES.at(self._path, create=True)
        except OSError as error:
            check_from_system(error)
            raise StorageError(
                f"cannot open {self._path}: {error.strerror}",
                hint="check the permissions of the ledger's folder, or open it read-only",
            ) from error
        if file is None:
            raise AssertionError
        before, self._file = self._file, file
        for name in list(self._held):
            if before is not None and before is not file:
                before.holders.pop(name, None)
            if self._may_hold(file, name) and file.lock_again(name):
                file.holders[name] = weakref.ref(self)
            else:
                self._held.discard(name)
        return file

    def _take(self, file: LeaseFile | None, name: str) -> bool:
        if file is None:  # Nobody else can see it, or nothing tells.
            return True
        if not self._may_hold(file, name) or not file.lock(name):
            return False
        file.holders[name] = weakref.ref(self)
        self._held.add(name)
        return True

    def _release(self, name: str) -> None:
        # Also what is not noted as held: a thread that took it may have been interrupted.
        if self._file is not None and self._may_hold(self._file, name):
            self._file.unlock(name)
            self._file.holders.pop(name, None)
        self._held.discard(name)

    def _may_hold(self, file: LeaseFile, name: str) -> bool:
        """Whether no other store of this process holds ``name``."""
        holder = file.holders.get(name)
        return holder is None or holder() is self

    def _is_free(self, owner: LeaseOwner) -> bool | None:
        """Whether nobody holds the lock of ``owner``; None if the file cannot tell."""
        if self._path is None or not IS_SUPPORTED:
            return None
        try:
            file = FILES.at(self._path, create=False)
        except OSError as error:
            check_from_system(error)
            return None
        if file is None or owner.place != self._place(file):
            return None
        return str(owner) not in file.holders and file.is_free(str(owner))

    def _place(self, file: LeaseFile | None) -> str:
        """Return the ledger, and the file that shows what is held in it."""
        return "alone-0" if file is None else f"{self._ledger()}-{file.inode:x}"

    def _ledger(self) -> str:
        """Return what tells this ledger from its copies, and stays when it is moved."""
        return f"file-{Path(self._database.path).stat().st_ino:x}"
