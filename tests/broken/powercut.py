"""Power cuts, simulated: what may be left on a disk when it loses power at any moment.

A file keeps all that was written before its last sync. Of what came after, any part may survive:
some writes and not others, some 512-byte sectors of a write and not others, a truncation or not.
Names of files are kept in the order in which they were made and deleted; they are durable after
the first sync of a new file (SQLite then syncs the folder as well) or a durable deletion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from broken.disks import Disk

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

SECTOR_BYTES: Final = 512
_KEPT: Final = (0.0, 0.3, 0.7, 1.0)
"""Chances that an unsynced operation survives; one is drawn for each cut."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that was asked of the disk."""

    verb: Literal["write", "resize", "sync", "create", "delete"]
    file: int
    """Tells files of the same name apart."""
    name: str
    at: int = 0
    """Where it was written, the new size, or whether a deletion was durable."""
    content: bytes = b""


@dataclass
class _Names:
    """Which file each name stands for."""

    files: dict[str, int] = field(default_factory=dict)
    made: int = 0


class RecordingDisk(Disk):
    """Remembers every operation, so that the disk can be rebuilt as of any of them.

    ``present`` names the files that lie there, empty and durable, from the start.
    """

    def __init__(self, present: str) -> None:
        self.log: list[Operation] = []
        self._forgotten: set[int] = set()
        """Writes that the kernel has given up, though every program still reads them."""
        self.present = present
        self._names = _Names({present: 0}, 0)

    def creating(self, name: str) -> None:
        """Note a new file."""
        self._names.made += 1
        self._names.files[name] = self._names.made
        self.log.append(Operation("create", self._names.made, name))

    def writing(self, name: str, offset: int, content: bytes) -> None:
        """Note a write."""
        self.log.append(Operation("write", self._file(name), name, offset, content))

    def resizing(self, name: str, size: int) -> None:
        """Note a new size."""
        self.log.append(Operation("resize", self._file(name), name, size))

    def synced(self, name: str) -> None:
        """Note that what came before is durable."""
        self.log.append(Operation("sync", self._file(name), name))

    def deleting(self, name: str, *, durably: bool) -> None:
        """Note a deletion."""
        if name in self._names.files:
            self.log.append(Operation("delete", self._names.files.pop(name), name, int(durably)))

    def forget_unsynced(self, name: str) -> None:
        """Do as kernels do when a sync fails: take what could not be written for written."""
        file = self._file(name)
        for at in range(len(self.log) - 1, -1, -1):
            if self.log[at].file == file:
                if self.log[at].verb == "sync":
                    return
                self._forgotten.add(at)

    def continued(self, cut: int) -> RecordingDisk:
        """Return the disk as every program but the one that was killed sees it after ``cut``."""
        disk = RecordingDisk(self.present)
        disk.log = self.log[:cut]
        for op in disk.log:
            if op.verb == "create":
                disk._names.files[op.name] = disk._names.made = op.file
            elif op.verb == "delete":
                disk._names.files.pop(op.name, None)
        return disk

    def written(self) -> dict[str, bytes]:
        """Return the files, by name, with all that was written, durable or not."""
        contents: dict[int, bytearray] = {0: bytearray()}
        for op in self.log:
            if op.verb in {"write", "resize"}:
                _apply(contents.setdefault(op.file, bytearray()), op)
        return {name: bytes(contents[file]) for name, file in self._names.files.items()}

    def surviving(self, cut: int, dice: Random) -> dict[str, bytes]:
        """Return the files that are left, by name, when power fails after ``cut`` operations."""
        happened = self.log[:cut]
        kept = dice.choice(_KEPT)
        names = self._surviving_names(happened, dice)
        last_sync = {op.file: at for at, op in enumerate(happened) if op.verb == "sync"}
        contents: dict[int, bytearray] = {file: bytearray() for file in names.values()}
        for at, op in enumerate(happened):
            content = contents.get(op.file)
            if content is None or op.verb not in {"write", "resize"} or at in self._forgotten:
                continue
            if at < last_sync.get(op.file, -1):
                _apply(content, op)
            elif op.verb == "write":
                _apply_torn(content, op, kept, dice)
            elif dice.random() < kept:
                _apply(content, op)
        return {name: bytes(contents[file]) for name, file in names.items()}

    def _file(self, name: str) -> int:
        if name not in self._names.files:
            self.creating(name)
        return self._names.files[name]

    def _surviving_names(self, happened: list[Operation], dice: Random) -> dict[str, int]:
        """Apply what is durable of the folder, and then a part of what came behind, in order."""
        changes: list[Operation] = []
        durable = 0
        fresh: set[int] = set()
        for op in happened:
            if op.verb == "create":
                changes.append(op)
                fresh.add(op.file)
            elif op.verb == "delete":
                changes.append(op)
                durable = len(changes) if op.at else durable
            elif op.verb == "sync" and op.file in fresh:
                fresh.discard(op.file)
                durable = len(changes)
        names = {self.present: 0}
        for op in changes[: dice.randint(durable, len(changes))]:
            if op.verb == "create":
                names[op.name] = op.file
            else:
                names.pop(op.name, None)
        return names


def write_files(files: dict[str, bytes], folder: Path) -> None:
    """Lay the surviving files out in ``folder``."""
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _apply(content: bytearray, op: Operation) -> None:
    if op.verb == "resize":
        del content[op.at :]
        content.extend(bytes(op.at - len(content)))
        return
    end = op.at + len(op.content)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[op.at : end] = op.content


def _apply_torn(content: bytearray, op: Operation, kept: float, dice: Random) -> None:
    """Apply a write that was not synced: all of it, nothing, or some of its sectors."""
    start, end = op.at, op.at + len(op.content)
    if start // SECTOR_BYTES == (end - 1) // SECTOR_BYTES or dice.random() < 0.5:
        if dice.random() < kept:
            _apply(content, op)
        return
    while start < end:
        stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        if dice.random() < kept:
            piece = op.content[start - op.at : stop - op.at]
            _apply(content, Operation("write", op.file, op.name, start, piece))
        start = stop
