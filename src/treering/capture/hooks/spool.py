"""The spool drained: transcripts that hooks have named are taken in, decisions noted.

A part of the spool is moved away, read, acted on and then removed, in this order. What is cut off
in the middle is read again: whoever takes it in knows what it has already.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.hooks.spool_lines import (
    PermissionDecision,
    decision,
    read_wake,
    side_file,
    spooled_lines,
    transcripts,
)
from treering.capture.quarantine import Quarantine, is_line_fault, reason_of
from treering.errors import StorageError, TreeringError
from treering.hook import SIDE_FOLDER, SUFFIX, spool_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.capture.secrets import SecretGuard

LOCK: Final = "drain.lock"
UNREAD: Final = "unread.log"
"""Where lines are set aside that cannot be recorded, with their secrets masked."""
AWAY: Final = ".draining"
BARRIER_S_MAX: Final = 2.0
ORPHAN_S: Final = 3_600
"""A file beside the spool that no line names after so long is left by a hook that was killed."""


class Refused(msgspec.Struct, frozen=True):
    """A transcript that could not be taken in."""

    path: str
    error: str


class DrainReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was in the spool, and what became of it."""

    lines: int = 0
    transcripts: int = 0
    """How many different transcripts were taken in."""
    missing: list[str] = []
    """Transcripts that are not there, yet or any more."""
    refused: list[Refused] = []
    decisions: int = 0
    unread: int = 0
    """Lines that could not be read or recorded; they are kept, masked, in ``unread.log``."""
    taken: list[Any] = []
    """What ``take`` gave back."""
    is_busy: bool = False
    """Whether another process drains the spool just now; then nothing was done."""


def default_spool() -> Path:
    """Return the folder that hooks write to."""
    return Path(spool_folder())


def is_waiting(folder: Path) -> bool:
    """Whether there is something to drain."""
    return any(
        path.name.endswith(AWAY) or status.st_size > 0 for path, status in spool_files(folder)
    )


def spool_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return what hooks have written and what was moved away; nothing but plain files."""
    found: list[tuple[Path, os.stat_result]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((SUFFIX, AWAY)):
                with contextlib.suppress(OSError):  # One that is gone hides no other.
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        found.append((Path(entry.path), status))
    return found


def drain(
    folder: Path,
    *,
    take: Callable[[Sequence[Path]], Any],
    note: Callable[[PermissionDecision], Any],
    guard: SecretGuard,
) -> DrainReceipt:
    """Act on all that is in the spool, then remove it.

    ``take`` is handed the transcripts, ``note`` each decision; both may be handed what they know
    already. A line that cannot be read or recorded is set aside. If they raise an error of the
    database or the disk, all stays for the next time, and it is raised.
    """
    if not is_waiting(folder):
        return DrainReceipt()
    with _only_one(folder) as is_only:
        if not is_only:
            return DrainReceipt(is_busy=True)
        parts = _set_aside(folder)
        return _act(folder, parts, take, note, guard)


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[bool]:
    """Give whether nobody else drains; as long as this lasts, nobody will."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _set_aside(folder: Path) -> list[Path]:
    """Move away what hooks have written, and return all that is away, the oldest first."""
    for path in sorted(path for path, _ in spool_files(folder) if path.name.endswith(SUFFIX)):
        with contextlib.suppress(FileNotFoundError):
            away = path.with_name(f"{path.name}.{time.time_ns()}{AWAY}")
            path.rename(away)
            _let_finish(away)
    found = [(status.st_mtime_ns, path) for path, status in spool_files(folder)]
    return [path for _, path in sorted(found) if path.name.endswith(AWAY)]


def _let_finish(path: Path) -> None:
    """Wait for hooks that are writing to ``path`` just now; no other will begin to."""
    deadline = time.monotonic() + BARRIER_S_MAX
    with path.open("rb") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(0.002)
                    continue
            except OSError:
                # A disk without locks: a moment has to do.
                time.sleep(0.05)
            return


def _act(
    folder: Path,
    parts: list[Path],
    take: Callable[[Sequence[Path]], Any],
    note: Callable[[PermissionDecision], Any],
    guard: SecretGuard,
) -> DrainReceipt:
    lines = 0
    named: dict[Path, None] = {}
    noted: list[tuple[PermissionDecision, bytes]] = []
    beside: list[Path] = []
    aside = Quarantine(folder / UNREAD, guard=guard)
    unread = 0
    for line in (line for part in parts for line in spooled_lines(part)):
        try:
            wake = read_wake(line)
            paths, path = transcripts(wake), side_file(wake, folder)
            told = decision(wake, folder, guard)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  (one line must not hold up those behind it)
            unread += 1
            aside.add(reason_of(error), line)
            continue
        lines += 1
        named |= dict.fromkeys(paths)
        noted += [(told, line)] if told else []
        beside += [path] if path else []
    # A name that is too long, or in a folder that may not be read, is not there.
    there = [path for path in named if os.path.isfile(path)]  # noqa: PTH113  (it never raises)
    taken, refused = _take_in(there, take)
    decisions = 0
    for found, line in noted:
        try:
            note(found)
            decisions += 1
        except Exception as error:
            if not is_line_fault(error):
                raise
            unread += 1
            aside.add(reason_of(error), line)
    aside.flush()
    for path in [*beside, *_orphans(folder)]:
        with contextlib.suppress(OSError):  # A line may name what is not a file.
            path.unlink(missing_ok=True)
    for path in parts:
        path.unlink(missing_ok=True)
    return DrainReceipt(
        lines=lines,
        transcripts=len(there) - len(refused),
        missing=[str(path) for path in named if path not in there],
        refused=refused,
        decisions=decisions,
        unread=unread,
        taken=taken,
    )


def _orphans(folder: Path) -> list[Path]:
    """Return files beside the spool whose line was never written, or was set aside."""
    try:
        with os.scandir(folder / SIDE_FOLDER) as entries:
            before = time.time() - ORPHAN_S
            return [Path(one.path) for one in entries if one.stat().st_mtime < before]
    except OSError:
        return []


def _take_in(
    paths: list[Path], take: Callable[[Sequence[Path]], Any]
) -> tuple[list[Any], list[Refused]]:
    """Take all in at once; if one of them is refused, each by itself."""
    if not paths:
        return [], []
    try:
        return [take(paths)], []
    except (StorageError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  (which of them it was is found out below)
        taken: list[Any] = []
    refused: list[Refused] = []
    for path in paths:
        try:
            taken.append(take([path]))
        except (StorageError, MemoryError):
            raise
        except (TreeringError, OSError) as error:
            refused.append(Refused(str(path), str(error)))
        except Exception as error:  # noqa: BLE001  (one transcript must not hold up the others)
            refused.append(Refused(str(path), reason_of(error)))
    return taken, refused
