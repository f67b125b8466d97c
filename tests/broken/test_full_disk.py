"""A full disk: nothing acknowledged is lost, nothing is half written, and work continues."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

import apsw
import pytest

from broken.disks import Disk, mounted
from broken.ledgers import SCOPE, marked, open_ledger, raw_bytes, traces
from broken.stories import NAME
from effort import quick_folder
from treering.errors import StorageError, StorageFull, TreeringError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.events import NewEvent

QUOTA_BYTES: Final = 1_500_000


class Room(Protocol):
    """A place with little room for a ledger."""

    path: Path

    def open(self) -> Ledger:
        """Open the ledger that lies there."""

    def free(self) -> None:
        """Make more room."""


class QuotaDisk(Disk):
    """Has room for so many bytes, over all files."""

    def __init__(self, quota: int) -> None:
        self.quota = quota
        self._sizes: dict[str, int] = {}

    def writing(self, name: str, offset: int, content: bytes) -> None:
        """Refuse what does not fit."""
        size = max(self._sizes.get(name, 0), offset + len(content))
        others = sum(size for other, size in self._sizes.items() if other != name)
        if size > self._sizes.get(name, 0) and others + size > self.quota:
            raise apsw.FullError("no space left")
        self._sizes[name] = size

    def resizing(self, name: str, size: int) -> None:
        """Note the new size."""
        self._sizes[name] = size

    def deleting(self, name: str, *, durably: bool) -> None:  # noqa: ARG002  (room is room)
        """Note that there is more room."""
        self._sizes.pop(name, None)


class SimulatedRoom:
    """A quota on an imagined disk."""

    def __init__(self, path: Path, vfs: str, disk: QuotaDisk) -> None:
        self.path = path
        self._vfs = vfs
        self._disk = disk

    def open(self) -> Ledger:
        """Open the ledger that lies there.

        Without checkpoints on the way: SQLite ignores it when such a one fails, since the commit
        before it holds, but apsw reports every exception that a VFS in Python raises.
        """
        return open_ledger(self.path, vfs=self._vfs, autocheckpoint_pages=0)

    def free(self) -> None:
        """Make more room."""
        self._disk.quota *= 4


class MountedRoom:
    """A real file system in memory, with a ballast that can be thrown off."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._ballast = folder / "ballast"
        self._ballast.write_bytes(bytes(2 * QUOTA_BYTES))

    def open(self) -> Ledger:
        """Open the ledger that lies there."""
        return open_ledger(self.path, autocheckpoint_pages=50)

    def free(self) -> None:
        """Make more room."""
        self._ballast.unlink()


@pytest.fixture(params=["simulated", "mounted"])
def room(request: pytest.FixtureRequest) -> Iterator[Room]:
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder, contextlib.ExitStack() as stack:
        # Where nothing may be mounted, the simulated disk is run again in its place.
        if request.param == "mounted" and _mount(folder):
            stack.callback(subprocess.run, ["umount", "--lazy", folder], check=True)
            yield MountedRoom(Path(folder))
        else:
            disk = QuotaDisk(QUOTA_BYTES)
            vfs = stack.enter_context(mounted(disk))
            yield SimulatedRoom(Path(folder) / NAME, vfs, disk)


def test_on_a_full_disk_what_was_acknowledged_is_what_is_stored(room: Room) -> None:
    ledger = room.open()

    acked, _ = _append_until_full(ledger)

    assert len(acked) > 10
    assert _ids(ledger) == acked
    assert ledger.admin.verify().intact
    ledger.close()
    with room.open() as again:
        assert _ids(again) == acked
        assert again.admin.verify().intact


def test_work_goes_on_once_there_is_room_again(room: Room) -> None:
    with room.open() as ledger:
        acked, refused = _append_until_full(ledger)
        room.free()

        ledger.append([refused])

        assert _ids(ledger) == acked | {refused.event_id}
        assert ledger.admin.verify().intact


def test_a_batch_that_does_not_fit_leaves_nothing_behind(room: Room) -> None:
    with room.open() as ledger:
        dice = Random(1)
        ledger.append([marked(dice, "first", size=100, session_id="s1")])
        batch = [marked(dice, f"b{n}", size=7_000, session_id="s1") for n in range(400)]

        with pytest.raises(StorageFull):
            ledger.append(batch)

        assert _ids(ledger) == {"first"}
        room.free()
        ledger.append(batch[:5])
        assert ledger.admin.verify().events == 6
        assert ledger.admin.verify().intact


def test_an_erasure_on_a_full_disk_is_completed_once_there_is_room(room: Room) -> None:
    ledger = room.open()
    secret = marked(Random(5), "secret", size=30_000, session_id="s1")
    ledger.append([secret])
    _append_until_full(ledger)
    with contextlib.suppress(StorageError):
        ledger.redact(SCOPE, event_id="secret")
    room.free()

    receipt = ledger.redact(SCOPE, event_id="secret")
    content = raw_bytes(room.path)

    assert receipt.physical == "done"
    assert ledger.event(SCOPE, "secret").redacted
    assert [trace for trace in traces(secret) if trace in content] == []
    assert ledger.admin.verify().intact
    ledger.close()


@pytest.mark.parametrize("quota", [0, 3_000, 40_000, 100_000])
def test_a_ledger_that_has_no_room_to_be_made_says_so(quota: int, tmp_path: Path) -> None:
    disk = QuotaDisk(quota)
    with mounted(disk) as vfs:
        with pytest.raises(StorageFull) as caught:
            open_ledger(tmp_path / NAME, vfs=vfs)
        disk.quota = QUOTA_BYTES

        with open_ledger(tmp_path / NAME, vfs=vfs) as ledger:
            assert ledger.admin.verify().intact

    assert "free some space" in (caught.value.hint or "")


def _append_until_full(ledger: Ledger) -> tuple[set[str], NewEvent]:
    """Append until there is no room; return the ids that were acknowledged, and what was not."""
    dice = Random(7)
    acked: set[str] = _ids(ledger)
    for number in range(10_000):
        size = dice.choice((100, 3_000, 30_000))
        event = marked(dice, f"e{number}", size=size, session_id=f"s{number % 3}")
        try:
            ledger.append([event])
        except TreeringError as error:
            assert isinstance(error, StorageFull), error  # noqa: PT017
            return acked, event
        acked.add(f"e{number}")
    raise AssertionError("the disk never was full")


def _ids(ledger: Ledger) -> set[str]:
    return {header.event_id for header in ledger.headers(SCOPE, first=1_000).items}


def _mount(folder: str) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    size = 3 * QUOTA_BYTES
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
