"""What a ledger was asked to do, what it acknowledged, and what a power cut leaves of that."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from broken.disks import mounted
from broken.ledgers import AGENT, SCOPE, marked, open_ledger, said, shown
from broken.powercut import RecordingDisk, write_files
from effort import quick_folder
from treering.errors import TreeringError
from treering.storage.sqlite import indexes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event, NewEvent
    from treering.storage import Durability

NAME: Final = "ledger.db"
SESSIONS: Final = ("s1", "s2", "s3")
OLD_MS: Final = 1_000_000
"""The time of events that are to expire."""
AUTOCHECKPOINT_PAGES: Final = 20
"""Few, so that checkpoints happen between the appends of a short story."""
LAG_EVENTS: Final = 9
"""Few, so that events are entered into the indexes as well."""


@dataclass
class Story:
    """A ledger on a recording disk, and when each thing was begun and acknowledged."""

    path: Path
    vfs: str
    disk: RecordingDisk
    durability: Durability
    dice: Random
    events: dict[str, NewEvent] = field(default_factory=dict)
    acked: dict[str, int] = field(default_factory=dict)
    """How far the disk's log had come when each event was acknowledged."""
    batches: list[list[str]] = field(default_factory=list)
    erasing: dict[str, int] = field(default_factory=dict)
    """How far it had come when somebody began to erase the event."""
    erased: dict[str, int] = field(default_factory=dict)
    """How far it had come when the receipt said that its bytes are gone."""

    @property
    def now(self) -> int:
        """How far the disk's log has come."""
        return len(self.disk.log)

    def open(self) -> Ledger:
        """Open the ledger, with frequent checkpoints."""
        return open_ledger(
            self.path,
            vfs=self.vfs,
            durability=self.durability,
            autocheckpoint_pages=AUTOCHECKPOINT_PAGES,
        )

    def append(self, ledger: Ledger, count: int = 1, *, ts_ms: int | None = None) -> list[str]:
        """Append ``count`` events in one call; return their ids."""
        batch: list[NewEvent] = []
        for _ in range(count):
            event_id = f"e{len(self.events)}"
            size = self.dice.choice((10, 300, 2_000, 12_000))
            session_id = self.dice.choice(SESSIONS)
            event = marked(self.dice, event_id, size=size, session_id=session_id, ts_ms=ts_ms)
            self.events[event_id] = event
            batch.append(event)
        ids = [str(event.event_id) for event in batch]
        self.batches.append(ids)
        ledger.append(batch)
        self.acked.update(dict.fromkeys(ids, self.now))
        return ids

    def redact_event(self, ledger: Ledger, event_id: str) -> None:
        """Redact one event."""
        self._erase([event_id], lambda: ledger.redact(SCOPE, event_id=event_id).physical)

    def redact_session(self, ledger: Ledger, session_id: str) -> None:
        """Redact all of a session."""
        ids = [name for name, event in self.events.items() if event.session_id == session_id]
        self._erase(ids, lambda: ledger.redact(SCOPE, session_id=session_id).physical)

    def expire(self, ledger: Ledger) -> None:
        """Expire all old events."""
        ids = [name for name, event in self.events.items() if event.ts_ms == OLD_MS]
        self._erase(ids, lambda: ledger.expire(SCOPE).physical)

    def _erase(self, ids: Sequence[str], erase: Callable[[], str]) -> None:
        for event_id in ids:
            self.erasing.setdefault(event_id, self.now)
        physical = erase()
        assert physical == "done"
        for event_id in ids:
            self.erased.setdefault(event_id, self.now)


def appending(story: Story) -> None:
    """Append one by one."""
    with story.open() as ledger:
        for _ in range(60):
            story.append(ledger)


def batching(story: Story) -> None:
    """Append in batches."""
    with story.open() as ledger:
        for _ in range(16):
            story.append(ledger, story.dice.randint(2, 12))


def redacting(story: Story) -> None:
    """Append, and redact events and sessions in between."""
    with story.open() as ledger:
        for step in range(40):
            ids = story.append(ledger, story.dice.randint(1, 3))
            if step % 4 == 3:
                story.redact_event(ledger, story.dice.choice(ids))
            if step % 13 == 12:
                story.redact_session(ledger, story.dice.choice(SESSIONS))


def expiring(story: Story) -> None:
    """Append old events and new ones, and expire in between."""
    with story.open() as ledger:
        for step in range(40):
            story.append(ledger, story.dice.randint(1, 3), ts_ms=OLD_MS if step % 2 else None)
            if step % 8 == 7:
                story.expire(ledger)


def migrating(story: Story) -> None:
    """Make a ledger, and come back to it."""
    for _ in range(3):
        with story.open() as ledger:
            story.append(ledger)


WORKLOADS: Final[dict[str, Callable[[Story], None]]] = {
    "append": appending,
    "batch": batching,
    "redact": redacting,
    "expire": expiring,
    "migrate": migrating,
}


@contextlib.contextmanager
def told(workload: str, *, seed: int, durability: Durability = "full") -> Iterator[Story]:
    """Run a workload to its end and yield its story."""
    folder = Path(tempfile.mkdtemp(prefix="treering-story-", dir=quick_folder()))
    disk = RecordingDisk(present=NAME)
    usual, indexes.LAG_EVENTS_MAX = indexes.LAG_EVENTS_MAX, LAG_EVENTS  # type: ignore[misc]
    try:
        with mounted(disk) as vfs:
            story = Story(folder / NAME, vfs, disk, durability, Random(seed))
            WORKLOADS[workload](story)
            yield story
    finally:
        indexes.LAG_EVENTS_MAX = usual  # type: ignore[misc]
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Aftermath:
    """What one power cut did to a ledger."""

    cut: int
    lost: list[str]
    """Events that were acknowledged and are gone, or read otherwise."""
    torn: list[list[str]]
    """Batches of which a part is there."""
    remaining: list[str]
    """Events that were erased and whose bytes are still in a file."""
    broken: str | None
    """Why the ledger cannot be used or proved, if so."""

    @property
    def sound(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.torn or self.remaining or self.broken)


def cut_power(story: Story, seed: int) -> Aftermath:
    """Cut the power at a moment that ``seed`` chooses, open what is left, and look."""
    dice = Random(seed)
    moments = sorted(set(story.acked.values()) | set(story.erased.values()))
    cut = dice.choice(moments) if dice.random() < 0.3 else dice.randint(0, story.now)
    with tempfile.TemporaryDirectory(prefix="treering-cut-", dir=quick_folder()) as folder:
        files = story.disk.surviving(cut, dice)
        write_files(files, Path(folder))
        # Keys lie elsewhere, and are synced before anything is kept under them.
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(f"{story.path}.keys", f"{Path(folder) / NAME}.keys")
        gone = [name for name, at in story.erased.items() if at <= cut]
        remaining = _still_there(story, gone, files)
        try:
            lost, torn, blank = _reopen(story, cut, Path(folder) / NAME)
        except TreeringError as error:
            return Aftermath(cut, [], [], remaining, f"{type(error).__name__}: {error}")
        except AssertionError as error:
            return Aftermath(cut, [], [], remaining, str(error))
        after = {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.is_file()}
        return Aftermath(cut, lost, torn, remaining + _still_there(story, blank, after), None)


def _reopen(story: Story, cut: int, path: Path) -> tuple[list[str], list[list[str]], list[str]]:
    """Return which acknowledged events are lost, which batches torn, which events blank."""
    with open_ledger(path) as ledger:
        _prove(ledger)
        found = _read(ledger)
        ledger.append([said("life goes on", event_id="afterwards")])
        _prove(ledger)
    acked = [name for name, at in story.acked.items() if at <= cut]
    lost = [name for name in acked if not _is_kept(story, name, found.get(name), cut)]
    present = found.keys() | {name for name in story.erasing if story.erasing[name] <= cut}
    torn = [
        batch
        for batch in story.batches
        if any(name in found for name in batch) and not present.issuperset(batch)
    ]
    blank = [name for name, at in story.erased.items() if at <= cut]
    blank += [name for name, event in found.items() if event.redacted and name not in blank]
    return lost, torn, blank


def _prove(ledger: Ledger) -> None:
    verification = ledger.admin.verify()
    assert verification.intact, f"the chain is broken: {verification.first_broken}"


def _read(ledger: Ledger) -> dict[str, Event]:
    found: dict[str, Event] = {}
    for session_id in SESSIONS:
        last = 0
        for event in ledger.session(session_id, scope=SCOPE, agent=AGENT).events():
            assert event.seq > last, f"seq {event.seq} comes after {last} in {session_id}"
            last = event.seq
            found[event.event_id] = event
    return found


def _is_kept(story: Story, event_id: str, found: Event | None, cut: int) -> bool:
    stated = story.events[event_id]
    if story.erased.get(event_id, cut + 1) <= cut:
        return found is None or (found.redacted and found.summary == "[REDACTED]")
    if found is None or found.redacted:
        return story.erasing.get(event_id, cut + 1) <= cut
    return (found.summary, found.refs, found.payload) == (
        stated.summary,
        stated.refs,
        stated.payload,
    )


def _still_there(story: Story, event_ids: Sequence[str], files: dict[str, bytes]) -> list[str]:
    events = [story.events[event_id] for event_id in event_ids]
    return sorted(shown(events, b"".join(files.values())))
