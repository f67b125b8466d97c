"""Settings files of other agents: read, backed up and replaced as a whole."""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from treering.errors import InvalidInput, StorageError

BACKUP: Final = ".treering-backup-"
SETTINGS_BYTES_MAX: Final = 16_777_216


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it is and as it is to be; None where there is none."""

    path: Path
    """The file itself, where links have been followed."""
    before: bytes | None
    after: bytes | None
    is_ours: bool = False
    """Whether we wrote it: then no backup is needed."""
    in_own_folder: bool = False
    """Whether its folder is ours as well, and goes with the last of its files."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to one file."""

    path: str
    backup: str | None
    """Where the bytes are that it had before, unless it was ours or not there."""


def replace(change: Change, *, stamp: str) -> Done:
    """Give a file its new content, and keep the old one beside it under a name with ``stamp``.

    Raises StorageError if the file is not what it was when the change was planned.
    """
    path = change.path
    if read_settings(path) != change.before:
        raise StorageError(f"{path} has changed meanwhile", hint="nothing is lost: run it again")
    backup = None
    if change.before is not None and not change.is_ours:
        backup = free_name(path.with_name(path.name + BACKUP + stamp))
        write_whole(backup, change.before, like=path)
    if change.after is None:
        path.unlink()
        if change.in_own_folder:
            # What somebody else put into it stays, and so does the folder.
            with contextlib.suppress(OSError):
                path.parent.rmdir()
    else:
        write_whole(path, change.after, like=path)
    return Done(path=str(path), backup=str(backup) if backup else None)


def backups(path: Path) -> list[bytes]:
    """Return what the backups of a file hold, the latest first."""
    found = sorted(
        path.parent.glob(f"{glob.escape(path.name)}{BACKUP}*"),
        key=lambda one: (one.stat().st_mtime_ns, one.name),
        reverse=True,
    )
    return [one.read_bytes() for one in found]


def read_settings(path: Path) -> bytes | None:
    """Return what a file holds, None if there is none."""
    try:
        if path.stat().st_size > SETTINGS_BYTES_MAX:
            raise InvalidInput(f"{path} is too large for settings", hint="look at what it is")
        return path.read_bytes()
    except FileNotFoundError:
        return None


def decoded(path: Path, body: bytes) -> str:
    """Return the text of a file. Raises InvalidInput if it is none."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8", hint="save it as UTF-8, then run again"
        ) from error


def free_name(path: Path) -> Path:
    """Return ``path``, or one like it that is not taken."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def write_whole(path: Path, body: bytes, *, like: Path) -> None:
    """Write a file as a whole, with the permissions and the owner that ``like`` has."""
    try:
        found: os.stat_result | None = like.stat()
    except FileNotFoundError:
        found = None
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.partial")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(body)
            stream.flush()
            if found is not None:
                os.fchmod(stream.fileno(), stat.S_IMODE(found.st_mode))
                with contextlib.suppress(PermissionError):
                    os.fchown(stream.fileno(), found.st_uid, found.st_gid)
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
