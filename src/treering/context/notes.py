"""Lines about messages, by section, gathered from the newest on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

Section = Literal[
    "Earlier", "Intent", "Decisions", "Files", "Commands", "Errors", "Open", "Outcome"
]
"""What a line is about. Earlier: lines of a summary that was written by somebody else."""
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
"""So many events vouch for one line, the latest ones."""

WRITTEN: Final = " (written)"
"""What follows the name of a file that was written."""

_BULLETS: Final = re.compile(r"^(?:[-*•]\s+(?:\[ \]\s+)?)+")
_LOOKED_AT: Final = 4 * LINE_CHARS_MAX


class SummaryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a summary, and the events that it was taken from."""

    section: Section
    text: str
    event_ids: tuple[str, ...] = ()
    """Empty if the line comes from an earlier summary."""


class SummaryNotes:
    """Lines by section, gathered from the newest on: each once, no more than a section holds."""

    def __init__(self) -> None:
        self._lines: dict[Section, dict[str, list[str]]] = {section: {} for section in SECTIONS}
        self._written: dict[str, list[str]] = {}
        self._finished: set[str] | None = None

    def wants(self, section: Section) -> bool:
        """Whether there is room in ``section``."""
        return len(self._lines[section]) < LINES_MAX[section]

    def wants_written(self) -> bool:
        """Whether there is room for files that were written."""
        return len(self._written) < LINES_MAX["Files"]

    def add(self, section: Section, text: str, event_ids: Sequence[str] = ()) -> None:
        """Note ``text``, if it says something."""
        if section == "Files" and text.endswith(WRITTEN):
            self.add_written(text.removesuffix(WRITTEN), event_ids)
        elif not (section == "Open" and self._finished and one_line(text) in self._finished):
            _vouch(self._lines[section], text, event_ids, lines_max=LINES_MAX[section])

    def add_written(self, path: str, event_ids: Sequence[str]) -> None:
        """Note a file that was written."""
        _vouch(self._written, path, event_ids, lines_max=LINES_MAX["Files"])

    def add_first(self, text: str, event_ids: Sequence[str] = ()) -> None:
        """Note the first request, for which there is always room: it says what all is for."""
        _vouch(self._lines["Intent"], text, event_ids, lines_max=LINES_MAX["Intent"] + 1)

    def add_tasks(self, tasks: Sequence[str], finished: Sequence[str], event_id: str) -> None:
        """Note the open tasks of a list; what it said before is out of date."""
        if self._finished is None:
            for task in reversed(tasks):
                self.add("Open", task, (event_id,))
            self._finished = set(map(one_line, finished))

    def lines(self) -> list[SummaryLine]:
        """Return all lines in the order of sections, the oldest first; written files come last."""
        files = self._lines["Files"]
        named = {path.rpartition("/")[2] for path in (*files, *self._written) if "/" in path}
        written = {f"{path}{WRITTEN}": ids for path, ids in self._written.items()}
        read = {
            path: ids
            for path, ids in files.items()
            if path not in self._written and path not in named
        }
        told = self._lines | {
            "Files": dict([*written.items(), *read.items()][: LINES_MAX["Files"]])
        }
        return [
            SummaryLine(section=section, text=text, event_ids=tuple(reversed(ids)))
            for section in SECTIONS
            for text, ids in reversed(told[section].items())
        ]


def _vouch(
    lines: dict[str, list[str]], text: str, event_ids: Sequence[str], *, lines_max: int
) -> None:
    told = one_line(text)
    if told and (told in lines or len(lines) < lines_max):
        ids = lines.setdefault(told, [])
        ids.extend(
            event_id
            for event_id in reversed(event_ids)
            if event_id not in ids and len(ids) < EVENT_IDS_MAX
        )


def one_line(text: str) -> str:
    """Return the beginning of ``text`` as one line, without a bullet."""
    # More than is kept is looked at, for blanks will go; all of it could be a megabyte.
    start = text.lstrip()[:_LOOKED_AT]
    told = spelled(start)
    return cut(f"{told}…" if len(start) == _LOOKED_AT else told, LINE_CHARS_MAX)


def spelled(text: str) -> str:
    """Return all of ``text`` as one line, without a bullet."""
    return " ".join(_BULLETS.sub("", text.lstrip()).split())


def cut(text: str, chars_max: int) -> str:
    """Return ``text`` in ``chars_max`` characters, if possible up to the end of a word."""
    if len(text) <= chars_max:
        return text
    head = text[: chars_max - 1]
    blank = head.rfind(" ", chars_max // 2)
    return f"{head[:blank] if blank > 0 else head}…"
