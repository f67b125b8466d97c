"""A disk that cannot sync: the caller learns what is uncertain, and a retry doubles nothing."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import apsw
import pytest

from broken.disks import mounted
from broken.ledgers import SCOPE, marked, open_ledger, raw_bytes, said, traces
from broken.powercut import RecordingDisk, write_files
from broken.stories import NAME
from effort import LONG, quick_folder
from treering.errors import OutcomeUnknown, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.events import NewEvent

APPENDS: Final = 12
ALWAYS: Final = 10**9


class FailingDisk(RecordingDisk):
    """Fails some syncs, and remembers what would survive a power cut."""

    def __init__(self) -> None:
        super().__init__(present=NAME)
        self.forgetful = False
        """Whether what a failed sync was to write never reaches the disk."""
        self.sound = ALWAYS
        """So many syncs succeed."""
        self.failing = 0
        """So many fail then."""
        self.failed = 0

    def fail(self, *, after: int, times: int) -> None:
        """Let ``after`` syncs succeed and ``times`` of them fail."""
        self.sound, self.failing = after, times

    def heal(self) -> None:
        """Let every sync succeed again."""
        self.fail(after=ALWAYS, times=0)

    def syncing(self, name: str) -> None:
        """Fail when it is time to."""
        if self.sound > 0:
            self.sound -= 1
        elif self.failing > 0:
            self.failing -= 1
            self.failed += 1
            if self.forgetful:
                self.forget_unsynced(name)
            raise apsw.IOError("the disk is gone")


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def vfs(disk: FailingDisk) -> Iterator[str]:
    with mounted(disk) as name:
        yield name


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        yield Path(folder) / NAME


# Every sync fails once, and every one for good; the long run has all combinations.
FAILURES: Final = (
    list(itertools.product(range(10), (1, 2, 5, ALWAYS), (False, True)))
    if LONG
    else [
        *((after, 1, False) for after in range(10)),
        *((after, ALWAYS, True) for after in range(10)),
        *((0, 1, True), (0, 2, False), (3, 2, True), (3, 5, False), (7, 5, True)),
        *((7, 2, True), (7, ALWAYS, False)),
    ]
)


@pytest.mark.parametrize(("after", "times", "forgetful"), FAILURES)
def test_after_a_failed_sync_a_retry_loses_and_doubles_nothing(
    disk: FailingDisk,
    vfs: str,
    path: Path,
    after: int,
    times: int,
    forgetful: bool,  # noqa: FBT001
) -> None:
    disk.forgetful = forgetful
    ledger = open_ledger(path, vfs=vfs, autocheckpoint_pages=12)
    events = [said(f"event {n}", event_id=f"e{n}") for n in range(APPENDS)]
    disk.fail(after=after, times=times)
    failed = _append_one_by_one(ledger, events)
    disk.heal()

    for event in events:
        ledger.append([event])

    assert disk.failed
    assert failed or after
    assert _ids(ledger) == {event.event_id for event in events}
    assert (ledger.admin.verify().intact, ledger.admin.verify().events) == (True, APPENDS)
    assert {_survives_power_cut(disk, seed) for seed in range(4)} == {(True, APPENDS)}
    ledger.close()
    with open_ledger(path) as again:
        assert (again.admin.verify().intact, again.admin.verify().events) == (True, APPENDS)


def test_a_commit_that_cannot_sync_names_the_events_that_are_uncertain(
    disk: FailingDisk, vfs: str, path: Path
) -> None:
    with open_ledger(path, vfs=vfs) as ledger:
        ledger.append([said("before")])
        disk.fail(after=0, times=1)

        with pytest.raises(OutcomeUnknown) as caught:
            ledger.append([said("one", event_id="e1"), said("two")])

    assert caught.value.event_ids[0] == "e1"
    assert len(caught.value.event_ids) == 2
    assert "same event ids" in (caught.value.hint or "")


def test_a_ledger_that_cannot_be_made_is_made_once_the_disk_recovers(
    disk: FailingDisk, vfs: str, path: Path
) -> None:
    for after in range(4):
        disk.fail(after=after, times=ALWAYS)
        with pytest.raises(StorageError):
            open_ledger(path, vfs=vfs)
    disk.heal()

    with open_ledger(path, vfs=vfs) as ledger:
        ledger.append([said("at last")])
        assert ledger.admin.verify().intact


@pytest.mark.parametrize("after", range(6))
def test_an_erasure_whose_sync_failed_is_completed_by_the_next_attempt(
    disk: FailingDisk, vfs: str, path: Path, after: int
) -> None:
    ledger = open_ledger(path, vfs=vfs)
    secret = marked(Random(after), "secret", size=20_000, session_id="s1")
    ledger.append([secret])
    disk.fail(after=after, times=ALWAYS)
    with contextlib.suppress(StorageError):
        ledger.redact(SCOPE, event_id="secret")
    disk.heal()

    receipt = ledger.redact(SCOPE, event_id="secret")
    content = raw_bytes(path)

    assert receipt.physical == "done"
    assert [trace for trace in traces(secret) if trace in content] == []
    assert ledger.admin.verify().intact
    assert ledger.event(SCOPE, "secret").redacted
    ledger.close()


def _append_one_by_one(ledger: Ledger, events: list[NewEvent]) -> int:
    """Append what can be; return how many could not."""
    failures: list[tuple[NewEvent, StorageError]] = []
    for event in events:
        try:
            ledger.append([event])
        except StorageError as error:
            failures.append((event, error))
    for event, failure in failures:
        assert failure.hint
        if isinstance(failure, OutcomeUnknown):
            assert failure.event_ids == (event.event_id,)
    return len(failures)


def _ids(ledger: Ledger) -> set[str]:
    return {header.event_id for header in ledger.headers(SCOPE, first=1_000).items}


def _survives_power_cut(disk: FailingDisk, seed: int) -> tuple[bool, int]:
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        write_files(disk.surviving(len(disk.log), Random(seed)), Path(folder))
        with open_ledger(Path(folder) / NAME) as ledger:
            verification = ledger.admin.verify()
            return verification.intact, verification.events
