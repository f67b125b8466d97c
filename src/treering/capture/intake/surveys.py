"""A first look at a log: what it is, whether it changed, and which logs come before it."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from treering.capture.intake.bookmarks import Bookmark, read_bookmark
from treering.errors import InvalidInput
from treering.formats.registry import NATIVE, find_format, is_native, named_format
from treering.formats.sources import Source, is_sqlite, sniff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.formats.registry import Format

Sort = Literal["log", "native", "database"]


class Survey:
    """What is known of a file before it is read."""

    def __init__(
        self,
        source: Source,
        *,
        sort: Sort,
        form: Format | None,
        bookmark: Bookmark | None,
        values: Sequence[Any],
    ) -> None:
        self.source = source
        self.sort = sort
        self.format = form
        self.bookmark = bookmark
        self.folder = _folder(values)
        # A session that goes on from another repeats its first line, and was written to later.
        self.order = (_first_ms(values), source.mtime_ns, str(source.path))

    @property
    def name(self) -> str:
        """Return what the format is called."""
        return NATIVE if self.format is None else self.format.NAME


def survey(source: Source, note: Any) -> Survey | None:
    """Return what a file is; None if nothing was written to it since it was left.

    Raises InvalidInput if nobody knows how it is written.
    """
    bookmark = read_bookmark(note)
    if bookmark is not None and bookmark.is_current(source):
        return None
    if is_sqlite(source.path):
        return Survey(
            source, sort="database", form=named_format("openclaw_mem"), bookmark=None, values=()
        )
    values = sniff(source.path)
    if is_native(values):
        return Survey(source, sort="native", form=None, bookmark=bookmark, values=())
    form = find_format(values)
    if form is None:
        raise InvalidInput(
            "it is no log that Treering knows" if values else "there is nothing to read in it",
            hint="see docs/importing.md for the formats",
        )
    return Survey(source, sort="log", form=form, bookmark=bookmark, values=values)


def _folder(values: Sequence[Any]) -> str | None:
    """Return the folder that a log says it was written in, at its beginning."""
    for value in values:
        for place in (value, value.get("payload") if isinstance(value, dict) else None):
            folder = place.get("cwd") if isinstance(place, dict) else None
            if isinstance(folder, str) and folder:
                return folder
    return None


def _first_ms(values: Sequence[Any]) -> float:
    for value in values:
        told = value if isinstance(value, dict) else {}
        for name in ("timestamp", "startTime", "ts_ms", "ts", "date"):
            time = _time(told.get(name))
            if time is not None:
                return time
    return float("inf")


def _time(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            found = datetime.fromisoformat(value)
            stamped = found if found.tzinfo else found.replace(tzinfo=UTC)
            return stamped.timestamp() * 1_000
    return None
