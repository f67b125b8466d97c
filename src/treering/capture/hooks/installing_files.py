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
    """The content of one file before and after; None if it does not exist."""

    path: Path
    """The file itself, with links resolved."""
    before: bytes | None
    after: bytes | None
    is_ours: bool = False
    """Whether Treering wrote it: then it needs no backup."""
    in_own_folder: bool = False
    """Whether its folder is Treering's as well, and is removed with its last file."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one file."""

    path: str
    backup: str | None
    """The path of the backup, unless the file was Treering's or did not exist."""


def replace(change: Change, *, stamp: str) -> Done:
    """Write a file's new content, and keep a backup beside it with ``stamp`` in its name.

    Raises StorageError if the file has changed since the change was planned.
    """
    path = change.path
    if read_settings(path) != change.before:
        raise StorageError(f"{path} has changed meanwhile", hint="nothing is lost: try again")
    backup = None
    if change.before is not None and not change.is_ours:
        backup = free_name(path.with_name(path.name + BACKUP + stamp))
        write_whole(backup, change.before, template=path)
    if change.after is None:
        path.unlink()
        if change.in_own_folder:
            # The folder stays if it contains other files.
            with contextlib.suppress(OSError):
                path.parent.rmdir()
    else:
        write_whole(path, change.after, template=path)
    return Done(path=str(path), backup=str(backup) if backup else None)


def backups(path: Path) -> list[bytes]:
    """Return the contents of a file's backups, latest first."""
    paths = sorted(
        path.parent.glob(f"{glob.escape(path.name)}{BACKUP}*"),
        key=lambda path: (path.stat().st_mtime_ns, path.name),
        reverse=True,
    )
    return [backup.read_bytes() for backup in paths]


def read_settings(path: Path) -> bytes | None:
    """Return a file's content, or None if it does not exist."""
    try:
        if path.stat().st_size > SETTINGS_BYTES_MAX:
            raise InvalidInput(f"{path} is too large for settings", hint="check the file")
        return path.read_bytes()
    except FileNotFoundError:
        return None


def decoded(path: Path, body: bytes) -> str:
    """Return a file's text. Raises InvalidInput if it is not UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8", hint="save it as UTF-8, then try again"
        ) from error


def free_name(path: Path) -> Path:
    """Return ``path``, with a number appended if it exists."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def write_whole(path: Path, body: bytes, *, template: Path) -> None:
    """Replace a file, with the permissions and owner of ``template``."""
    try:
        status: os.stat_result | None = template.stat()
    except FileNotFoundError:
        status = None
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.partial")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(body)
            stream.flush()
            if status is not None:
                os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))
                with contextlib.suppress(PermissionError):
                    os.fchown(stream.fileno(), status.st_uid, status.st_gid)
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
