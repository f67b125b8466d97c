"""Files of JSON lines that are appended to, readable by their owner only."""

from __future__ import annotations

import json
import os
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from treering.files import OWNER_FILE, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILES_OPEN_MAX: Final = 32
WINDOW_BYTES: Final = 64 * 1024
"""The size of the first window at a file's end."""

_encode = msgspec.json.Encoder().encode


def json_line(value: Any) -> bytes:
    """Return ``value`` as one line of JSON with a newline; keys keep their order."""
    try:
        return _encode(value) + b"\n"
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        # Deltas are not stored, so they may not be valid JSON.
        text = json.dumps(value, default=repr, skipkeys=True, ensure_ascii=False)
        return text.encode(errors="replace") + b"\n"


def json_page(value: Any) -> bytes:
    """Return ``value`` as indented JSON."""
    return msgspec.json.format(json_line(value), indent=2) + b"\n"


def ascii_line(value: Any) -> str:
    """Return ``value`` as ASCII JSON, without line breaks or terminal control characters."""
    line = json_line(value)[:-1]
    if line.isascii():
        return line.decode()
    return json.dumps(msgspec.json.decode(line), separators=(",", ":"))


def renew_after_fork(renew: Callable[[], None]) -> None:
    """Call a method in every child process, as long as its object exists.

    Locks that a thread of the parent held at that moment are never released in the child.
    """
    method = weakref.WeakMethod(renew)

    def call() -> None:
        bound = method()
        if bound is not None:
            bound()

    os.register_at_fork(after_in_child=call)


class LineFile:
    """A file that is appended to, one line per write; a torn last line is terminated first."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, OWNER_FILE)
        self.size = os.fstat(self._descriptor).st_size
        self._torn = self.size > 0 and os.pread(self._descriptor, 1, self.size - 1) != b"\n"

    def append(self, line: bytes) -> None:
        """Append one line, which ends in a newline."""
        body = b"\n" + line if self._torn else line
        written = 0
        try:
            while written < len(body):
                written += os.write(self._descriptor, body[written:])
        finally:
            self.size += written
            self._torn = body[written - 1 : written] != b"\n" if written else self._torn

    def lines_backwards(self) -> Iterator[bytes]:
        """Yield the complete lines, last one first, without a torn end."""
        end, window = self.size, WINDOW_BYTES
        while end > 0:
            start = max(0, end - window)
            body = os.pread(self._descriptor, end - start, start)
            # The text before the first newline may have begun outside the window.
            first = 0 if start == 0 else body.find(b"\n") + 1
            whole = body[first : body.rfind(b"\n") + 1]
            if start and not whole:
                window *= 2
                continue
            yield from reversed(whole.splitlines())
            end, window = start + first, WINDOW_BYTES

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


File = TypeVar("File", bound=LineFile)


class OpenFiles(Generic[File]):
    """A pool of open files; the least recently used is closed first."""

    def __init__(self, make: Callable[[Path], File]) -> None:
        self._make = make
        self._files: OrderedDict[Path, File] = OrderedDict()

    def at(self, path: Path) -> File:
        """Return the file at ``path``, opened or created if necessary."""
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._make(path)
            if len(self._files) > FILES_OPEN_MAX:
                self._files.popitem(last=False)[1].close()
        else:
            self._files.move_to_end(path)
        return file

    def drop(self, path: Path) -> None:
        """Close the file at ``path``, if it is open."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files; they are opened again when needed."""
        while self._files:
            self._files.popitem()[1].close()
