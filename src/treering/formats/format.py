"""The interface of a log format: what a reader plug-in declares.

A single matching value means little: the logs of different agents share words, ids and whole
envelopes. A format claims a file only if most of the distinguishing values are its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from treering.formats.parsed import LogReader

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Content = Literal["json", "text", "sqlite"]
"""What a file holds: JSON values, a line each or not; other text; a SQLite database."""


class LogRetention(msgspec.Struct, frozen=True, kw_only=True):
    """How long an agent keeps its own logs."""

    days: float | None
    """None if they are never deleted automatically."""
    source: str
    """The setting that says so, or that it is the default."""
    remedy: str | None = None
    """How to configure the agent to keep them."""


KEPT: Final = LogRetention(days=None, source="it deletes nothing by itself")


class LogPlace(msgspec.Struct, frozen=True):
    """A folder where an agent keeps its logs."""

    base: str
    """The agent's own folder, below the home folder: ``.acme``. It may be a pattern."""
    logs: str = ""
    """Where the logs are below it: ``sessions``. A part may be a pattern: ``acme*/logs``. It may be
    one file."""
    variable: str | None = None
    """The environment variable that names another base."""
    keeping: Callable[[Path], LogRetention] = lambda _: KEPT
    """Returns how long logs are kept, from the settings in the base."""

    def at(self, home: Path | None = None) -> Path:
        """Return the base, which may not exist, in ``home`` or else for this user."""
        named = os.environ.get(self.variable) if self.variable and home is None else None
        return Path(named).expanduser() if named else (home or Path.home()) / self.base

    def folders(self, home: Path | None = None) -> list[Path]:
        """Return the folders of logs; one that may not exist, if no folder fits a pattern."""
        base = self.at(home)
        root, pattern = base, self.logs
        if "*" in self.base:
            root, pattern = home or Path.home(), f"{self.base}/{self.logs}"
        try:
            folders = _found(root, pattern) if "*" in pattern else []
        except OSError:
            folders = []
        return folders or [base / self.logs]

    def holds(self, path: PurePath) -> bool:
        """Return whether ``path`` is in the base, here or on any machine: by names of folders."""
        base, parts = _parts(self.base), path.parts
        starts = range(len(parts)) if base and base[0] in parts else ()
        if any(parts[at : at + len(base)] == base for at in starts):
            return True
        if self.variable is None:
            return False
        # As strings: pathlib takes five times as long, and every file passes here.
        folder = os.path.join(os.path.realpath(self.at()), "")  # noqa: PTH118
        return os.path.realpath(path).startswith(folder)


@cache
def _parts(base: str) -> tuple[str, ...]:
    return PurePath(base).parts


_LATER: Final[dict[tuple[Path, str], tuple[float, list[Path]]]] = {}
"""The folders found for each pattern, and when to search again."""
SEARCH_REST: Final = 100
"""The most time such searches may take, as a share: a watch asks for places every second."""


def _found(root: Path, pattern: str) -> list[Path]:
    began = time.monotonic()
    until, earlier = _LATER.get((root, pattern), (began, []))
    if began < until:
        return earlier
    folders = sorted(root.glob(pattern))
    if pattern.count("*") > 1:
        now = time.monotonic()
        _LATER[root, pattern] = now + SEARCH_REST * (now - began), folders
    return folders


class LogDatabase(Protocol):
    """What another program's SQLite file held at one moment."""

    def tables(self) -> dict[str, list[str]]:
        """Return the columns of each table."""

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""

    def tally(self, table: str, column: str) -> dict[str, int]:
        """Return how many texts of a column start with each prefix that ends in a colon."""

    def rows(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        prefix: tuple[str, str] | None = None,
        order: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """Yield rows of a table, by the names of their columns, and their ``rowid``.

        Those whose columns have the values in ``where``, and begin with the ``prefix`` that is
        given for a column, in the order of the columns in ``order``. Raises NotFound if there is no
        such table, InvalidInput if there is no such column.
        """


class DatabaseReader(Protocol):
    """Reads other programs' SQLite files from private copies: their owners never wait."""

    def tables(self, path: Path) -> dict[str, list[str]]:
        """Return the columns of each table, as ``open`` would give them."""

    def open(self, path: Path) -> AbstractContextManager[LogDatabase]:
        """Open what a file holds now.

        Raises InvalidInput if it cannot be read, Busy if it is written to faster than it is copied.
        """


def theirs(_: PurePath | None) -> LogReader:
    """Stand in for the family's reader, in a format without its own reader."""
    raise NotImplementedError  # The registry replaces it before a file is read.


def no_score(_: Sequence[Any]) -> float:
    """Return 0: a format without its own grammar is recognized by its place alone."""
    return 0.0


def no_reason(_: Path) -> str | None:
    """Return None: every file of the format is read on its own."""
    return None


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One format of logs: its name, its places, its grammar and its reader."""

    name: str
    """What the agent is called: ``acme``. It is part of the ids of events: never change it."""
    reader: Callable[[PurePath | None], LogReader] = theirs
    """Creates a reader for one file; its path may contain ids."""
    score: Callable[[Sequence[Any]], float] = no_score
    """Returns the confidence that a file has this format, from 0 (not at all) to 1, from the first
    values of the file: JSON values; lines, if it is other text; ``{"table": …, "columns": […]}``
    for each table of a database. See ``share``."""
    version: int = 1
    """Raise it when the reader extracts more than before, or when the format stops claiming some
    files: logs that an earlier version read are then read again from the beginning."""
    places: tuple[LogPlace, ...] = ()
    content: Content = "json"
    patterns: tuple[str, ...] = ()
    """Patterns of the paths of files that are looked at in folders although they do not end in
    ``.jsonl``, ``.json``, ``.ndjson``, ``.sqlite``, ``.sqlite3`` or ``.db``: ``chats/*.md``."""
    left_out: Callable[[Path], str | None] = no_reason
    """Returns why a file is not read on its own, by its path: it repeats another file, or is read
    with it. Otherwise None."""
    records: Callable[[Path, DatabaseReader], Iterable[Any]] | None = None
    """Yields the values to read, if they are not those of the file itself: rows of a database, or
    the documents of a folder. Each counts as one line. A value may be a ``LogRecord``, to say where
    it is, that it is damaged, or how many lines it represents; or a ``RecordGroup``, to be read
    only if something in it has changed."""
    files: Callable[[Path], Iterable[Path]] | None = None
    """Returns the other files whose content ``records`` reads, to notice that they change."""
    family: tuple[str, ...] = ()
    """The formats whose grammar it shares: it owns the files they claim that are in its places."""
    claims: Callable[[PurePath], bool] = lambda _: False
    """Returns whether a file that its family claims is its own though it is in none of its places,
    by its path."""


CLEARLY: Final = 0.1
"""By how much the score of the best format must exceed that of the second."""
OWN_MIN: Final = 3
"""This many own values claim a file even if most of its values are ambiguous."""
_PART: Final = 4


def share(verdicts: Iterable[bool | None]) -> float:
    """Return the share of values that belong to a format, from 0 to 1; 0 without a majority.

    A verdict is True for a value that only this format writes, False for one that it never writes,
    and None for one that is ambiguous.
    """
    listed = list(verdicts)
    own, others = listed.count(True), listed.count(False)
    enough = own >= OWN_MIN or _PART * own >= len(listed)
    return own / (own + others) if enough and own > others else 0.0


class OwnShare:
    """Scores a file by the share of its values that are a format's own."""

    def __init__(
        self,
        verdict: Callable[[dict[str, Any]], bool | None],
        parts: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
    ) -> None:
        """Take what says of an object what ``share`` asks; ``parts`` takes values apart first."""
        self._verdict = verdict
        self._parts = parts

    def __call__(self, values: Sequence[Any]) -> float:
        """Return the score."""
        return self.against(values, 0.0)

    def against(self, values: Sequence[Any], best: float) -> float:
        """Return the score; 0 as soon as it is clearly below ``best``, whatever is still to come.

        Most formats never write any of the values of a file, which the first few tell.
        """
        parts = values if self._parts is None else self._parts(values)
        all_parts, others = len(parts), 0
        verdicts: list[bool | None] = []
        for part in parts:
            verdict = self._verdict(part if isinstance(part, dict) else {})
            verdicts.append(verdict)
            if verdict is False:
                others += 1
                most = all_parts - others
                if most <= others or best - most / all_parts >= CLEARLY:
                    return 0.0
        return share(verdicts)


class ChosenShare(OwnShare):
    """Scores a file by one of several shares: which one, its values as a whole say."""

    def __init__(
        self,
        choose: Callable[[Sequence[Any]], OwnShare],
        needs: Callable[[Sequence[Any]], bool] | None = None,
    ) -> None:
        """Take what chooses the share, and what a file ``needs`` beside it, for any score."""
        self._choose = choose
        self._needs = needs

    def against(self, values: Sequence[Any], best: float) -> float:
        """Return the score as ``OwnShare.against`` does."""
        score = self._choose(values).against(values, best)
        return score if score and (self._needs is None or self._needs(values)) else 0.0
