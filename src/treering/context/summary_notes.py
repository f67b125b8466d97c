"""Lines of a summary by section, collected newest first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

Section = Literal[
    "Earlier", "Intent", "Decisions", "Files", "Commands", "Errors", "Open", "Outcome"
]
"""What a line is about. Earlier: lines of somebody else's summary."""
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)

LINE_CHARS_MAX: Final = 360
LINES_MAX: Final[dict[Section, int]] = {
    "Earlier": 24,
    "Intent": 4,
    "Decisions": 12,
    "Files": 24,
    "Commands": 10,
    "Errors": 8,
    "Open": 8,
    "Outcome": 1,
}
EVENT_IDS_MAX: Final = 8
"""The latest events cited for one line."""

WRITTEN: Final = " (written)"
"""Follows the name of a written file."""

_BULLETS: Final = re.compile(r"^(?:[-*•]\s+(?:\[ \]\s+)?)+")
_READ_CHARS: Final = 4 * LINE_CHARS_MAX


class SummaryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a summary, and its events."""

    section: Section
    text: str
    event_ids: tuple[str, ...] = ()
    """Empty if the line comes from an earlier summary."""


class SummaryNotes:
    """Lines by section, collected newest first, without duplicates, up to a limit per section."""

    def __init__(self) -> None:
        self._lines: dict[Section, dict[str, list[str]]] = {section: {} for section in SECTIONS}
        self._written: dict[str, list[str]] = {}
        self._finished: set[str] | None = None

    def wants(self, section: Section) -> bool:
        """Return whether ``section`` has room."""
        return len(self._lines[section]) < LINES_MAX[section]

    def wants_written(self) -> bool:
        """Return whether there is room for written files."""
        return len(self._written) < LINES_MAX["Files"]

    def add(self, section: Section, text: str, event_ids: Sequence[str] = ()) -> None:
        """Add ``text`` unless it is empty."""
        if section == "Files" and text.endswith(WRITTEN):
            self.add_written(text.removesuffix(WRITTEN), event_ids)
        elif not (section == "Open" and self._finished and one_line(text) in self._finished):
            _add_line(self._lines[section], text, event_ids, lines_max=LINES_MAX[section])

    def add_written(self, path: str, event_ids: Sequence[str]) -> None:
        """Add a written file."""
        _add_line(self._written, path, event_ids, lines_max=LINES_MAX["Files"])

    def add_first(self, text: str, event_ids: Sequence[str] = ()) -> None:
        """Add the first request, which always has room: it states the purpose."""
        _add_line(self._lines["Intent"], text, event_ids, lines_max=LINES_MAX["Intent"] + 1)

    def add_tasks(self, tasks: Sequence[str], finished: Sequence[str], event_id: str) -> None:
        """Add the open tasks of a list; earlier lists are out of date."""
        if self._finished is None:
            for task in reversed(tasks):
                self.add("Open", task, (event_id,))
            self._finished = set(map(one_line, finished))

    def lines(self) -> list[SummaryLine]:
        """Return all lines by section, oldest first; written files come last."""
        files = self._lines["Files"]
        named = {path.rpartition("/")[2] for path in (*files, *self._written) if "/" in path}
        written = {f"{path}{WRITTEN}": ids for path, ids in self._written.items()}
        read = {
            path: ids
            for path, ids in files.items()
            if path not in self._written and path not in named
        }
        sections = self._lines | {
            "Files": dict([*written.items(), *read.items()][: LINES_MAX["Files"]])
        }
        return [
            SummaryLine(section=section, text=text, event_ids=tuple(reversed(ids)))
            for section in SECTIONS
            for text, ids in reversed(sections[section].items())
        ]


def _add_line(
    lines: dict[str, list[str]], text: str, event_ids: Sequence[str], *, lines_max: int
) -> None:
    line = one_line(text)
    if line and (line in lines or len(lines) < lines_max):
        ids = lines.setdefault(line, [])
        ids.extend(
            event_id
            for event_id in reversed(event_ids)
            if event_id not in ids and len(ids) < EVENT_IDS_MAX
        )


def one_line(text: str) -> str:
    """Return the beginning of ``text`` as one line, without a bullet."""
    # Read more than is kept, since blanks are removed, but not all: it may be a megabyte.
    start = text.lstrip()[:_READ_CHARS]
    line = single_line(start)
    return cut(f"{line}…" if len(start) == _READ_CHARS else line, LINE_CHARS_MAX)


def single_line(text: str) -> str:
    """Return all of ``text`` as one line, without a bullet."""
    return " ".join(_BULLETS.sub("", text.lstrip()).split())


def cut(text: str, chars_max: int) -> str:
    """Return ``text`` in ``chars_max`` characters, if possible up to the end of a word."""
    if len(text) <= chars_max:
        return text
    head = text[: chars_max - 1]
    blank = head.rfind(" ", chars_max // 2)
    return f"{head[:blank] if blank > 0 else head}…"
