"""The state of logs on disk: whether they are imported, whether they are damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from treering.capture.intake import BOOKMARK_SCOPE
from treering.capture.intake.bookmarks import Bookmark, read_bookmark
from treering.capture.intake.log_search import find_files, look_through
from treering.capture.intake.probe import probe, whole_source
from treering.errors import TreeringError
from treering.formats.sources import Source, fingerprint, is_torn, open_source, tail_print
from treering.model.codec import decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger

FILES_MAX: Final = 2_000
"""The number of logs to check, newest first."""
TAIL_BYTES_MAX: Final = 64 * 1024
WRITTEN_S: Final = 120
"""A log written this recently may be in the middle of a line."""

LogState = Literal["current", "new", "grown", "unknown"]
"""current: imported completely; new: not imported; grown: not its end; unknown: not a log."""

CUT_OFF: Final = "it is cut off, so that nothing of it can be read"
_WHOLE: Final = ".json"
_LINED: Final = (".jsonl", ".ndjson")


class LogHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one log."""

    path: Path
    size: int
    mtime_ms: int
    state: LogState
    damage: str | None = None
    """A short description of damage at its end."""


def unreadable_folders(root: Path) -> list[str]:
    """Return the folders below ``root`` that may not be read."""
    return look_through([root]).unreadable


def log_files(root: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the files in a folder that may be logs, newest first."""
    files = []
    for file in find_files([root]):
        if file.left_out is None:
            try:
                files.append((file.path, file.path.stat()))
            except OSError:
                continue  # It was deleted meanwhile.
    return sorted(files, key=lambda pair: (-pair[1].st_mtime_ns, str(pair[0])))


def look_at(
    files: Sequence[tuple[Path, os.stat_result]],
    ledger: Ledger | None,
    *,
    scopes: Sequence[str] = (),
    now_ms: int,
) -> Iterator[LogHealth]:
    """Yield the state of each of ``files``, up to ``FILES_MAX``.

    ``ledger`` shows how far they were imported, by imports without a scope or into one of
    ``scopes``.
    """
    for path, status in files[:FILES_MAX]:
        mtime_ms = status.st_mtime_ns // 1_000_000
        settled = now_ms - mtime_ms > WRITTEN_S * 1_000
        yield LogHealth(
            path=path,
            size=status.st_size,
            mtime_ms=mtime_ms,
            state=_state(path, status, ledger, scopes),
            damage=damage_in(path) if settled else None,
        )


def damage_in(path: Path) -> str | None:
    """Return what is wrong with the end of a log of lines; None if nothing is found.

    Only the last bytes are read.
    """
    if path.suffix == _WHOLE:
        return _damage_in_whole(path)
    if path.suffix not in _LINED:
        return None
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            start = stream.seek(max(size - TAIL_BYTES_MAX, 0))
            end = stream.read(TAIL_BYTES_MAX)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    body = end.rstrip(b"\r\n\t ")
    if body.endswith(b"\x00"):
        return "it ends in NUL bytes"
    at = body.rfind(b"\n")
    if not body or (at < 0 and start > 0):
        return None  # It is empty, or the last line begins further up.
    try:
        decode(body[at + 1 :].removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError, TreeringError):
        return "its last line is torn"
    return None


def _damage_in_whole(path: Path) -> str | None:
    """Return whether a file with one JSON value is cut off, and how."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - TAIL_BYTES_MAX, 0))
            end = stream.read(TAIL_BYTES_MAX).rstrip()
        # A file with a proper end is not parsed: there may be thousands of them.
        return CUT_OFF if end and not end.endswith((b"}", b"]")) and is_torn(path) else None
    except (OSError, TreeringError) as error:
        return f"it cannot be read: {error}"


def folder_in(path: Path) -> str | None:
    """Return the working folder in a log. Raises InvalidInput if the file is not a log."""
    probed = probe(Source.of(path, path.stat()), None, is_named=False)
    return None if probed is None else probed.folder


def _state(
    path: Path, status: os.stat_result, ledger: Ledger | None, scopes: Sequence[str]
) -> LogState:
    source = Source.of(path, status)
    has_bookmark = False
    if ledger is not None:
        for scope in dict.fromkeys((BOOKMARK_SCOPE, *scopes)):
            bookmark = read_bookmark(ledger.importing.bookmarks(scope).find(str(path.resolve())))
            if bookmark is not None and _is_imported(bookmark, source):
                return "current"
            has_bookmark = has_bookmark or bookmark is not None
    try:
        probed = probe(source, None, is_named=False)
    except (TreeringError, OSError):
        return "unknown"
    if has_bookmark:
        return "grown"
    # Imports of exports leave no bookmark, so their state is unknown.
    return "new" if probed is not None and probed.kind != "native" else "unknown"


def _is_imported(bookmark: Bookmark, source: Source) -> bool:
    """Return whether a log is unchanged since it was read, apart from its modification time."""
    source = whole_source(source, bookmark.format)
    if not bookmark.is_up_to_date or bookmark.size != source.size:
        return False
    if bookmark.is_current(source):
        return True
    try:
        with open_source(source.path) as stream:
            return (
                fingerprint(stream, bookmark.size) == bookmark.head
                and tail_print(stream, bookmark.offset) == bookmark.tail
            )
    except (TreeringError, OSError):
        return False
