"""Probing a file: its format, whether it changed, and which files come before it."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal

from treering.capture.intake.bookmarks import Bookmark, read_bookmark
from treering.capture.projects import note_of
from treering.errors import Busy, InvalidInput
from treering.formats import openclaw, pi
from treering.formats.format import theirs
from treering.formats.parsed import LogRecord
from treering.formats.registry import (
    NATIVE,
    find_format,
    is_native,
    named_format,
    others_of,
    relative_at,
)
from treering.formats.sources import (
    Source,
    first_line,
    first_lines,
    is_sqlite,
    is_torn,
    open_source,
    sniff,
    with_others,
)
from treering.model.intakes import NOT_A_LOG
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from treering.capture.secrets import SecretGuard
    from treering.formats.format import Content, DatabaseReader, Format
    from treering.formats.parsed import SessionHeader

CUT_OFF: Final = "cut off: not whole JSON"
"""Why a file that is one JSON value and ends too early cannot be read."""
ASK: Final = (
    "docs/how-to/importing.md lists the agents; to have another one read, open an issue with that"
    " line, or add a reader: docs/how-to/add-a-reader.md"
)
"""What to do about a file that no reader claims."""
GLANCED_MAX: Final = 8
"""Values that are enough if all of them that tell are one format's own: mostly so."""
FIRST_LINE_CHARACTERS_MAX: Final = 160
"""What is shown of the first line of a file that is not read."""

SourceKind = Literal["log", "native", "records"]
"""records: not those of the file itself, but rows of a database or documents of a folder."""


class Probe:
    """What is known of a file before it is read."""

    def __init__(
        self,
        source: Source,
        *,
        real_path: str,
        kind: SourceKind,
        log_format: Format | None,
        bookmark: Bookmark | None,
        values: Sequence[Any],
        is_named: bool,
    ) -> None:
        self.source = source
        self.real_path = real_path
        self.kind = kind
        self.format = log_format
        self.bookmark = bookmark
        self.former: str | None = None
        """The format of an earlier reading whose events are replaced, if it is read again."""
        self._is_named = is_named
        self.header_mark = _header_mark(log_format, values)
        """Identifies the session of an OpenClaw log, whatever its file is called."""
        header = None if log_format is None else _first_header(log_format, source.path, values)
        self.folder = _folder(values) or (None if header is None else header.cwd)
        self.session = None if header is None else header.session
        self.forked_from = None if header is None else header.forked_from
        # A session that continues another repeats its first line, and was written later. A database
        # has all that is in the spool beside it, and more.
        first_ms = float("-inf") if kind == "records" else _first_ms(values)
        self.order = (first_ms, source.mtime_ns, str(source.path))

    @property
    def name(self) -> str:
        """Return the name of the format."""
        return NATIVE if self.format is None else self.format.name

    @property
    def grammar(self) -> str | None:
        """Return the format that its format is a relative of, without a reader of its own."""
        own = None if self.format is None else named_format(self.format.name)
        has_own = own is None or own.reader is not theirs
        return None if has_own or self.format is None else self.format.family[0]

    @property
    def content(self) -> Content:
        """Return what the file holds."""
        return "json" if self.format is None else self.format.content

    def may_name_scope(self) -> bool:
        """Return whether it may name the scope that it belongs to: few files try to.

        Only if the caller named the file, or if it is in OpenClaw's folder: agents write to the
        folders of logs, and must not reach other scopes that way.
        """
        is_trusted = self._is_named or self.name == openclaw.NAME
        return is_trusted or _is_in(self.real_path, openclaw.home())

    @property
    def scope_note(self) -> str | None:
        """Return the name of the note that may keep the scope of its session."""
        return None if self.session is None else note_of(self.name, self.session)


def parents_first(probes: Sequence[Probe]) -> list[Probe]:
    """Return all files by time, each after that of the session which it continues."""
    ordered = sorted(probes, key=lambda probed: probed.order)
    by_session: dict[tuple[str, str | None], Probe] = {}
    for probed in ordered:
        by_session.setdefault((probed.name, probed.session), probed)
    placed: dict[Probe, None] = {}
    for probed in ordered:
        line: dict[Probe, None] = {}
        ahead: Probe | None = probed
        while ahead is not None and ahead not in placed and ahead not in line:
            line[ahead] = None
            parent = ahead.forked_from
            ahead = None if parent is None else by_session.get((ahead.name, parent))
        placed |= dict.fromkeys(reversed(line))
    return list(placed)


def probe(
    source: Source,
    note: Any,
    *,
    is_named: bool,
    real_path: str | None = None,
    databases: DatabaseReader | None = None,
) -> Probe | None:
    """Return what a file is; None if it is as its bookmark left it.

    ``is_named`` says that the caller named the file itself. ``real_path`` is its path without
    links. ``databases`` reads SQLite files. Raises InvalidInput if the format is not known.
    """
    bookmark = read_bookmark(note)
    if bookmark is not None and bookmark.is_current(whole_source(source, bookmark.format)):
        return None
    make = partial(
        Probe,
        real_path=real_path or os.path.realpath(source.path),
        bookmark=bookmark,
        is_named=is_named,
    )
    with open_source(source.path) as stream:
        is_database = is_sqlite(stream)
        values = [] if is_database else sniff(stream, GLANCED_MAX)
        log_format = None if is_database else find_format(values, clearly=1.0)
        if len(values) == GLANCED_MAX and (log_format is None or not _tell_all(values)):
            values, log_format = sniff(stream), None
    if is_database:
        database = _database_format(source.path, databases)
        return make(whole_source(source, database), kind="records", log_format=database, values=())
    if is_native(values):
        if not is_named:
            raise InvalidInput(
                "an export of Treering: import it by its own path to restore it",
                hint=f"treering import {source.path}",
            )
        return make(source, kind="native", log_format=None, values=())
    if not values and is_torn(source.path):
        raise InvalidInput(CUT_OFF, hint="restore it from a copy, if there is one")
    log_format = log_format or find_format(values)
    if log_format is None:
        values = first_lines(source.path)
        log_format = find_format(values, content="text")
    if log_format is None:
        raise _unknown(source.path)
    former = None if bookmark is None else bookmark.format
    log_format = relative_at(log_format, source.path, former)
    if log_format.records is not None:
        whole = whole_source(source, log_format)
        return make(whole, kind="records", log_format=log_format, values=values)
    return make(source, kind="log", log_format=log_format, values=values)


def _tell_all(values: Sequence[Any]) -> bool:
    """Whether values tell all that a probe asks of the first ones of a file."""
    return _folder(values) is not None and _first_ms(values) < float("inf")


def _is_in(real_path: str, folder: Path) -> bool:
    return real_path.startswith(os.path.join(os.path.realpath(folder), ""))  # noqa: PTH118


def _unknown(path: Path) -> InvalidInput:
    """Return why a file is not read, with its first line: a person may recognise it."""
    first = first_line(path)
    reason = "there is nothing to read in it"
    if first is not None:
        shown = shorten(_guard().mask_text(first), FIRST_LINE_CHARACTERS_MAX)
        reason = f"{NOT_A_LOG}; its first line: {shown}"
    return InvalidInput(reason, hint=ASK)


def whole_source(source: Source, log_format: Format | str | None) -> Source:
    """Return a file together with the others that are read with it."""
    named = log_format if isinstance(log_format, str | None) else log_format.name
    return source if named is None else with_others(source, others_of(source.path, named))


def _database_format(path: Path, databases: DatabaseReader | None) -> Format:
    if databases is None:
        raise InvalidInput("this is a database", hint="import it with `treering import`")
    try:
        tables = databases.tables(path)
    except Busy as error:
        raise InvalidInput(str(error), hint=error.hint or "try again") from error
    values = [{"table": table, "columns": columns} for table, columns in tables.items()]
    log_format = find_format(values, content="sqlite")
    if log_format is None:
        shown = shorten(", ".join(tables), FIRST_LINE_CHARACTERS_MAX)
        reason = f"{NOT_A_LOG}: a database of something else; its tables: {shown or 'none'}"
        raise InvalidInput(reason, hint=ASK)
    return relative_at(log_format, path)


@cache
def _guard() -> SecretGuard:
    # Its rules take long to load, and most files are logs.
    from treering.capture.secrets import SecretGuard  # noqa: PLC0415

    # These masks are never compared, so any key will do.
    return SecretGuard(key=os.urandom(32))


def _first_header(log_format: Format, path: Path, values: Sequence[Any]) -> SessionHeader | None:
    """Return the header of the first session of a log."""
    reader = log_format.reader(path)
    for number, value in enumerate(values):
        if reader.sessions:
            break
        with contextlib.suppress(Exception):  # It is reported when the file is read.
            reader.read(LogRecord(value, number, number, number + 1))
    return next(iter(reader.sessions.values()), None)


def _header_mark(log_format: Format | None, values: Sequence[Any]) -> str | None:
    first = values[0] if values else None
    if log_format is None or log_format.name != openclaw.NAME or not isinstance(first, dict):
        return None
    return openclaw.header_digest(first) if first.get("type") == pi.HEADER else None


def _folder(values: Sequence[Any]) -> str | None:
    """Return the folder that the first lines of a log name as their own."""
    for value in values:
        for fields in (value, value.get("payload") if isinstance(value, dict) else None):
            folder = fields.get("cwd") if isinstance(fields, dict) else None
            if isinstance(folder, str) and folder:
                return folder
    return None


def _first_ms(values: Sequence[Any]) -> float:
    for entry in values:
        fields = entry if isinstance(entry, dict) else {}
        for name in ("timestamp", "startTime", "ts_ms", "ts", "date"):
            value = fields.get(name)
            time = None if value is None else _time(value)
            if time is not None:
                return time
    return float("inf")


def _time(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            time = datetime.fromisoformat(value)
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000
    return None
