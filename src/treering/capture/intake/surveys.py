"""A first look at a log: what it is, whether it changed, and which logs come before it."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from treering.capture.intake.bookmarks import Bookmark, read_bookmark
from treering.capture.log_folders import openclaw_home
from treering.errors import InvalidInput
from treering.formats import openclaw, pi
from treering.formats.parsed import LogRecord
from treering.formats.registry import NATIVE, find_format, is_native, named_format
from treering.formats.sources import Source, first_line, is_sqlite, is_torn, sniff
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from treering.capture.secrets import SecretGuard
    from treering.formats.parsed import SessionHeader
    from treering.formats.registry import Format

CUT_OFF: Final = "cut off: not whole JSON"
"""Why nothing can be read of a file that is one JSON value and ends too early."""
FIRST_LINE_CHARACTERS_MAX: Final = 160
"""What is shown of the first line of a file that is not read."""

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
        may_name_scope: bool,
    ) -> None:
        self.source = source
        self.sort = sort
        self.format = form
        self.bookmark = bookmark
        self.folder = _folder(values)
        self.may_name_scope = may_name_scope
        """Whether its own word is taken for the scope that it belongs to."""
        self.header_mark = _header_mark(form, values)
        """What tells the session of a log of OpenClaw's, whatever its file is called."""
        opening = None if form is None else _opening(form, source.path, values)
        self.session = None if opening is None else opening.session
        self.forked_from = None if opening is None else opening.forked_from
        # A session that goes on from another repeats its first line, and was written to later. A
        # database has all that is in the spool beside it, and more.
        first_ms = float("-inf") if sort == "database" else _first_ms(values)
        self.order = (first_ms, source.mtime_ns, str(source.path))

    @property
    def name(self) -> str:
        """Return what the format is called."""
        return NATIVE if self.format is None else self.format.NAME


def parents_first(surveys: Sequence[Survey]) -> list[Survey]:
    """Return all files in their order, each behind that of the session which it goes on from."""
    ordered = sorted(surveys, key=lambda one: one.order)
    by_session: dict[tuple[str, str | None], Survey] = {}
    for one in ordered:
        by_session.setdefault((one.name, one.session), one)
    placed: dict[Survey, None] = {}
    for one in ordered:
        line: dict[Survey, None] = {}
        ahead: Survey | None = one
        while ahead is not None and ahead not in placed and ahead not in line:
            line[ahead] = None
            parent = ahead.forked_from
            ahead = None if parent is None else by_session.get((ahead.name, parent))
        placed |= dict.fromkeys(reversed(line))
    return list(placed)


def survey(source: Source, note: Any, *, is_named: bool) -> Survey | None:
    """Return what a file is; None if nothing was written to it since it was left.

    A file names its scope only if it is named itself, or lies where OpenClaw keeps its own: agents
    write to the folders of logs, and must not reach other scopes by that. Raises InvalidInput if
    nobody knows how it is written.
    """
    bookmark = read_bookmark(note)
    if bookmark is not None and bookmark.is_current(source):
        return None
    is_openclaws = source.path.resolve().is_relative_to(openclaw_home().resolve())
    trusted = is_named or is_openclaws
    if is_sqlite(source.path):
        return Survey(
            source,
            sort="database",
            form=named_format("openclaw_mem"),
            bookmark=None,
            values=(),
            may_name_scope=trusted,
        )
    values = sniff(source.path)
    if is_native(values):
        if not is_named:
            raise InvalidInput(
                "an export of Treering, which is restored only if it is named itself",
                hint=f"treering import {source.path}",
            )
        return Survey(
            source, sort="native", form=None, bookmark=bookmark, values=(), may_name_scope=True
        )
    if not values and is_torn(source.path):
        raise InvalidInput(CUT_OFF, hint="restore it from a copy, if there is one")
    form = find_format(values)
    if form is not None and form.NAME in {pi.NAME, openclaw.NAME}:
        form = _of_family(form, source.path, bookmark, is_openclaws=is_openclaws)
    if form is None:
        raise _unknown(source.path)
    return Survey(
        source,
        sort="log",
        form=form,
        bookmark=bookmark,
        values=values,
        may_name_scope=trusted or form.NAME == openclaw.NAME,
    )


def _unknown(path: Path) -> InvalidInput:
    """Return why a file is not read, with what it begins with: somebody may know whose it is."""
    first = first_line(path)
    reason = "there is nothing to read in it"
    if first is not None:
        shown = shorten(_guard().mask_text(first), FIRST_LINE_CHARACTERS_MAX)
        reason = f"not a log Treering can read; its first line: {shown}"
    return InvalidInput(reason, hint="see docs/importing.md for the formats")


@cache
def _guard() -> SecretGuard:
    # Its rules take long to load, and most files are logs.
    from treering.capture.secrets import SecretGuard  # noqa: PLC0415

    # Nobody compares these masks, so any key will do.
    return SecretGuard(key=os.urandom(32))


def _of_family(
    form: Format, path: Path, bookmark: Bookmark | None, *, is_openclaws: bool
) -> Format:
    """Return pi's format or OpenClaw's, which begins the same: by its place, or as it was read.

    OpenClaw's marks may come later than its first lines: what was read as one stays that.
    """
    if bookmark is not None and bookmark.format in {pi.NAME, openclaw.NAME}:
        return named_format(bookmark.format)
    is_there = is_openclaws or openclaw.lies_there(path)
    return named_format(openclaw.NAME) if is_there else form


def _opening(form: Format, path: Path, values: Sequence[Any]) -> SessionHeader | None:
    """Return what a log says of its first session."""
    reader = form.READER(path)
    for number, value in enumerate(values):
        if reader.sessions:
            break
        with contextlib.suppress(Exception):  # It is told of when the file is read.
            reader.read(LogRecord(value, number, number, number + 1))
    return next(iter(reader.sessions.values()), None)


def _header_mark(form: Format | None, values: Sequence[Any]) -> str | None:
    first = values[0] if values else None
    if form is None or form.NAME != openclaw.NAME or not isinstance(first, dict):
        return None
    return openclaw.mark_of(first) if first.get("type") == pi.HEADER else None


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
        with contextlib.suppress(OverflowError):
            return float(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            found = datetime.fromisoformat(value)
            stamped = found if found.tzinfo else found.replace(tzinfo=UTC)
            return stamped.timestamp() * 1_000
    return None
