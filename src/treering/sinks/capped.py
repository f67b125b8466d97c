"""The lines of a trace, within its limits: whatever is cut or left out is marked and counted."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import InvalidInput
from treering.sinks.bundle_files import EVENTS, PAYLOADS, TOOLS
from treering.sinks.lines import json_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.sinks.bundle_files import BundleFiles

LINE_BYTES_MIN: Final = 8 * 1024
FILE_BYTES_MIN: Final = 64 * 1024
TRUNCATED: Final = "trace_truncated"
"""The code of the warning in place of events that were left out for lack of space."""

_RESERVE_BYTES: Final = 16 * 1024
"""Space reserved for the mark of a cut and for the event that ends the run."""
_MASK: Final = re.compile(rb"\[redacted:([a-z0-9-]+):[0-9a-f]{8}\]")


class TraceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The size limits of a trace."""

    line_bytes_max: int = 256 * 1024
    """A longer line loses its private content, and is marked."""
    file_bytes_max: int = 10 * 1024 * 1024
    """Lines after a file is full are left out, and counted."""

    def __post_init__(self) -> None:
        if self.line_bytes_max < LINE_BYTES_MIN or self.file_bytes_max < FILE_BYTES_MIN:
            raise InvalidInput(
                "the limits of a trace are too small",
                hint=f"allow {LINE_BYTES_MIN} bytes a line and {FILE_BYTES_MIN} a file, or more",
            )


class CappedLines:
    """Adds lines to the files of a trace while there is space."""

    def __init__(self, files: BundleFiles, caps: TraceLimits) -> None:
        self._files = files
        self._caps = caps
        self._full: set[str] = set()
        self._shortened = 0
        self._left_out: Counter[str] = Counter()
        self._masked: Counter[str] = Counter()

    @property
    def is_truncated(self) -> bool:
        """Return whether anything was cut or left out for lack of space."""
        return bool(self._shortened or self._full)

    def add(
        self,
        name: str,
        full: dict[str, Any],
        safe: Callable[[], dict[str, Any]] | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        """Add a line, or only its ``safe`` part, or nothing; the last line is always added."""
        line = json_line(full)
        room = self._caps.file_bytes_max - _RESERVE_BYTES - self._files.size(name)
        if len(line) > min(self._caps.line_bytes_max, room) and safe and (left := safe()) != full:
            self._shortened += 1
            line = json_line(_shortened(left, len(line)))
        if (name in self._full or len(line) > room) and not is_last:
            self._left_out[name] += 1
            if name in self._full:
                return
            self._full.add(name)
            line = json_line(_end_mark(name, full))
        self._files.add(name, line)
        if b"[redacted:" in line:
            self._masked.update(rule.decode() for rule in _MASK.findall(line))

    def mark_full(self, name: str) -> None:
        """Note that a file was full before."""
        self._full.add(name)

    def masked(self) -> dict[str, int]:
        """Return the number of masks written, by rule."""
        return dict(sorted(self._masked.items()))

    def truncated(self) -> dict[str, Any]:
        """Return the number of shortened lines, and of lines left out of each file."""
        left_out = {name: self._left_out[name] for name in (EVENTS, TOOLS, PAYLOADS)}
        return {"lines": self._shortened, "leftOut": left_out}


def _shortened(safe: dict[str, Any], size: int) -> dict[str, Any]:
    """Return the safe part of a line that was too long, with a mark."""
    mark = {"truncated": {"bytes": size}}
    if isinstance(safe.get("payload"), dict):
        return {**safe, "payload": {**safe["payload"], **mark}}
    return {**safe, **mark}


def _end_mark(name: str, line: dict[str, Any]) -> dict[str, Any]:
    """Return the line that marks the cut; among events it is an event itself."""
    if name != EVENTS:
        return {"truncated": True}
    return {
        **line,
        "source": "kernel",
        "visibility": "safe",
        "kind": "warning",
        "payload": {"code": TRUNCATED},
    }
