"""Disks under SQLite that can be watched and made to fail, as apsw virtual file systems."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

_numbers = itertools.count(1)


class Disk:
    """Hears of every operation before it reaches the real disk, and may raise instead.

    Shared memory passes by: it does not outlive the machine.
    """

    def creating(self, name: str) -> None:
        """Hear that the file ``name`` is about to be made."""

    def writing(self, name: str, offset: int, content: bytes) -> None:
        """Hear that ``content`` is about to be written at ``offset``."""

    def resizing(self, name: str, size: int) -> None:
        """Hear that the file is about to be cut, or grown, to ``size``."""

    def syncing(self, name: str) -> None:
        """Hear that what was written to the file is about to be made durable."""

    def synced(self, name: str) -> None:
        """Hear that it was."""

    def deleting(self, name: str, *, durably: bool) -> None:
        """Hear that the file is about to be deleted."""


@contextlib.contextmanager
def mounted(disk: Disk) -> Iterator[str]:
    """Yield the name of a VFS whose files lie on ``disk``."""
    vfs = _Mounted(f"disk-{next(_numbers)}", disk)
    try:
        yield vfs.vfs_name
    finally:
        vfs.unregister()


class _Mounted(apsw.VFS):
    def __init__(self, name: str, disk: Disk) -> None:
        self.vfs_name = name
        self._disk = disk
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            return apsw.VFSFile("", name, flags)
        if flags[0] & apsw.SQLITE_OPEN_CREATE and not Path(path).exists():
            self._disk.creating(Path(path).name)
        return _File(name, flags, Path(path).name, self._disk)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802
        self._disk.deleting(Path(filename).name, durably=bool(syncdir))
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(
        self, name: str | apsw.URIFilename | None, flags: list[int], short: str, disk: Disk
    ) -> None:
        super().__init__("", name, flags)
        self._short = short
        self._disk = disk

    def xWrite(self, data: Buffer, offset: int) -> None:  # noqa: N802
        self._disk.writing(self._short, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.resizing(self._short, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.syncing(self._short)
        super().xSync(flags)
        self._disk.synced(self._short)
