"""Drain the spool: import the transcripts that hooks named, and record decisions.

A part of the spool is moved away, read, processed and then removed, in this order. After a crash it
is read again: importing the same again adds nothing.
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
"""The file for lines that cannot be recorded, with secrets masked."""
AWAY: Final = ".draining"
BARRIER_S_MAX: Final = 2.0
ORPHAN_S: Final = 3_600
"""A file beside the spool that no line names after this time belongs to a hook that was killed."""


class Refused(msgspec.Struct, frozen=True):
    """A transcript that could not be imported."""

    path: str
    error: str


class DrainReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the spool, and the result."""

    lines: int = 0
    transcripts: int = 0
    """The number of different transcripts imported."""
    missing: list[str] = []
    """Transcripts that do not exist, yet or any more."""
    refused: list[Refused] = []
    decisions: int = 0
    unread: int = 0
    """Lines that could not be read or recorded; they are kept, masked, in ``unread.log``."""
    taken: list[Any] = []
    """The results of ``take``."""
    is_busy: bool = False
    """Whether another process is draining the spool; then nothing was done."""


def default_spool() -> Path:
    """Return the folder that hooks write to."""
    return Path(spool_folder())


def is_waiting(folder: Path) -> bool:
    """Return whether there is something to drain."""
    return any(
        path.name.endswith(AWAY) or status.st_size > 0 for path, status in spool_files(folder)
    )


def spool_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the regular files of the spool, including those moved away."""
    files: list[tuple[Path, os.stat_result]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((SUFFIX, AWAY)):
                with contextlib.suppress(OSError):  # Skip only the file that is gone.
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        files.append((Path(entry.path), status))
    return files


def drain(
    folder: Path,
    *,
    take: Callable[[Sequence[Path]], Any],
    note: Callable[[PermissionDecision], Any],
    guard: SecretGuard,
) -> DrainReceipt:
    """Process everything in the spool, then remove it.

    ``take`` receives the transcripts, ``note`` each decision; both may receive known ones again. A
    line that cannot be read or recorded is set aside. If they raise an error of the database or the
    disk, everything stays for the next time, and it is raised.
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
    """Yield whether this process is the only one that drains, and keep others out meanwhile."""
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
    """Move away the files that hooks have written, and return all moved ones, oldest first."""
    for path in sorted(path for path, _ in spool_files(folder) if path.name.endswith(SUFFIX)):
        with contextlib.suppress(FileNotFoundError):
            away = path.with_name(f"{path.name}.{time.time_ns()}{AWAY}")
            path.rename(away)
            _wait_for_writers(away)
    moved = [(status.st_mtime_ns, path) for path, status in spool_files(folder)]
    return [path for _, path in sorted(moved) if path.name.endswith(AWAY)]


def _wait_for_writers(path: Path) -> None:
    """Wait for hooks that are writing to ``path``; no other hook will open it."""
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
                # Without file locks, wait for a moment.
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
    side_files: list[Path] = []
    quarantine = Quarantine(folder / UNREAD, guard=guard)
    unread = 0
    for line in (line for part in parts for line in spooled_lines(part)):
        try:
            wake = read_wake(line)
            paths, path = transcripts(wake), side_file(wake, folder)
            decided = decision(wake, folder, guard)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  (one line must not hold up later ones)
            unread += 1
            quarantine.add(reason_of(error), line)
            continue
        lines += 1
        named |= dict.fromkeys(paths)
        noted += [(decided, line)] if decided else []
        side_files += [path] if path else []
    # A path that is too long or in an unreadable folder counts as missing.
    there = [path for path in named if os.path.isfile(path)]  # noqa: PTH113  (it never raises)
    taken, refused = _import(there, take)
    decisions = 0
    for decided, line in noted:
        try:
            note(decided)
            decisions += 1
        except Exception as error:
            if not is_line_fault(error):
                raise
            unread += 1
            quarantine.add(reason_of(error), line)
    quarantine.flush()
    for path in [*side_files, *_orphans(folder)]:
        with contextlib.suppress(OSError):  # A line may name something other than a file.
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
            return [Path(entry.path) for entry in entries if entry.stat().st_mtime < before]
    except OSError:
        return []


def _import(
    paths: list[Path], take: Callable[[Sequence[Path]], Any]
) -> tuple[list[Any], list[Refused]]:
    """Import all transcripts at once; if that fails, one by one."""
    if not paths:
        return [], []
    try:
        return [take(paths)], []
    except (StorageError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  (the loop below finds out which one failed)
        taken: list[Any] = []
    refused: list[Refused] = []
    for path in paths:
        try:
            taken.append(take([path]))
        except (StorageError, MemoryError):
            raise
        except (TreeringError, OSError) as error:
            refused.append(Refused(str(path), str(error)))
        except Exception as error:  # noqa: BLE001  (one transcript must not hold up others)
            refused.append(Refused(str(path), reason_of(error)))
    return taken, refused
