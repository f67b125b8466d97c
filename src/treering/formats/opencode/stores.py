"""Where OpenCode keeps its sessions, as rows: those of its database, or made of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.formats.format import OwnShare
from treering.formats.loose import fields_of, time_ms
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord
from treering.formats.records import read_records
from treering.formats.records.values import Unreadable, read_value
from treering.formats.sources import open_source
from treering.formats.whole import group, json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from treering.formats.format import DatabaseReader, LogDatabase
    from treering.formats.parsed import RecordGroup

_AS_LINES: Final = "opencode_"
"""How the type of a row begins that was written as a line of JSON."""
OURS: Final = frozenset({"table", "rowid", "session_id", "repeats"})
"""Fields of a row that say nothing by themselves."""
_TABLES: Final = {"session": "directory", "message": "data", "part": "data"}
"""Its tables, each with a column that tells it from others."""
_READ: Final = frozenset({*_TABLES, "session_message", "todo"})
_SESSIONS: Final = "session"
_PARTS: Final = frozenset({"message", "part", "session_diff", "todo"})
"""Folders of files that are read with their sessions."""
_WITH_ITS_SESSION: Final = "a part of a session, which is read with it"


def score_tables(tables: Sequence[Any]) -> float:
    """Return whether these are OpenCode's tables."""
    columns = {str(table.get("table")): table.get("columns") for table in map(fields_of, tables)}
    return float(all(column in (columns.get(table) or ()) for table, column in _TABLES.items()))


def _is_own(value: dict[str, Any]) -> bool:
    if str(value.get("type")).startswith(_AS_LINES):
        return True
    span = fields_of(value.get("time"))
    is_session = {"id", "title"} <= value.keys() and ("directory" in value or "projectID" in value)
    return is_session and "created" in span and "mapping" not in value


score: Final = OwnShare(_is_own)
"""Returns the share of values that are a session in a file of its own, or rows as lines."""


def as_row(value: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its table; a session's file as the row of a session."""
    if "table" in value:
        return value
    sort = str(value.get("type"))
    if sort.startswith(_AS_LINES):
        table = sort.removeprefix(_AS_LINES)
        return {**value, "table": table, "type": value.get("message_type")}
    return {"table": "session", **_session_row(value)} if _is_own(value) else value


def _session_row(value: dict[str, Any]) -> dict[str, Any]:
    names = {"projectID": "project_id", "parentID": "parent_id", "workspaceID": "workspace_id"}
    return {names.get(at, at): item for at, item in value.items()}


# The database.


def database_rows(path: Path, databases: DatabaseReader) -> Iterator[Any]:
    """Yield each row once: sessions by time, each with its messages and their parts."""
    with databases.open(path) as database:
        tables = database.tables()
        seen: set[Any] = set()
        for row in database.rows("session", order=_known(tables["session"], "time_created", "id")):
            seen.add(row["id"])
            yield _session_group(database, tables, row["id"], [{"table": "session", **row}])
        for table in ("message", "part"):
            named = {row["session_id"] for row in database.rows(table, ["session_id"])}
            for session in sorted(named - seen, key=str):
                seen.add(session)
                yield _session_group(database, tables, session, [])
        for table in tables:
            if table not in _READ and (count := database.count(table)):
                yield LogRecord({"table": table}, 0, 0, 0, lines=count)


def _known(columns: Sequence[str], *wanted: str) -> list[str]:
    return [column for column in wanted if column in columns]


def _session_group(
    database: LogDatabase, tables: dict[str, list[str]], session: Any, head: list[dict[str, Any]]
) -> RecordGroup:
    """Return the rows of a session, whose own row is in ``head`` if there is one."""

    def rows(table: str) -> list[dict[str, Any]]:
        if "session_id" not in tables.get(table, ()):
            return []
        order = _known(tables[table], "time_created", "id")
        found = database.rows(table, where={"session_id": session}, order=order)
        return [{"table": table, **row} for row in found]

    messages, parts = rows("message"), rows("part")
    notes = [*rows("session_message"), *rows("todo")]
    records = _in_sequence(head, messages, parts, notes)
    return group([*head, *messages, *parts, *notes], records)


def _in_sequence(
    head: list[dict[str, Any]],
    messages: list[dict[str, Any]],
    parts: list[dict[str, Any]],
    notes: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    yield from head
    by_message: dict[Any, list[dict[str, Any]]] = {}
    for part in parts:
        by_message.setdefault(part["message_id"], []).append(part)
    revert = json_of(head[0].get("revert")) if head else None
    yield from _in_order(messages, by_message, fields_of(revert))
    yield from ({**note, "repeats": bool(messages)} for note in notes)


def _in_order(
    messages: Iterable[dict[str, Any]],
    parts: dict[Any, list[dict[str, Any]]],
    revert: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yield messages, each after its parts, and parts without one; a revert comes last."""
    ordered: list[dict[str, Any]] = []
    for message in messages:
        own = parts.pop(message["id"], [])
        types = [fields_of(json_of(part.get("data"))).get("type") for part in own]
        # Steps tell what they used themselves; without any, the message does.
        is_counted = "step-start" in types or "step-finish" in types
        # After its parts: it tells how they ended.
        ordered += [{**part, "message": message["data"]} for part in own]
        ordered.append({**message, "parts": len(own), "is_counted": is_counted})
    ordered += [part for left in parts.values() for part in left]
    if ordered:
        ordered[-1]["reverts"] = name_of(revert.get("messageID"))
    yield from ordered


# The folders.


def session_files(path: Path) -> list[Path]:
    """Return the other files of a session, whose own file is at ``path``."""
    if path.suffix != ".json" or path.parent.parent.name != _SESSIONS:
        return []
    _, messages, parts = _files(path)
    return [*messages, *(part for listed in parts.values() for part in listed)]


def folder_rows(path: Path, _: DatabaseReader) -> Iterator[Any]:
    """Yield the session in the file at ``path``, its messages and their parts; a file is a row.

    Other files hold rows as lines.
    """
    if path.suffix != ".json":
        with open_source(path) as stream:
            yield from read_records(stream)
        return
    session, message_files, part_files = _files(path)
    value = _value_at(path)
    yield value if isinstance(value, LogRecord) else {"table": "session", **_session_row(value)}
    messages: list[dict[str, Any]] = []
    parts: dict[Any, list[dict[str, Any]]] = {}
    for file in message_files:
        message = _value_at(file)
        if isinstance(message, LogRecord):
            yield message
            continue
        message_id = name_of(message.get("id")) or file.stem
        row = {"table": "message", "id": message_id, "session_id": session, "data": message}
        messages.append(row)
        for part_file in part_files.get(file, ()):
            part = _value_at(part_file)
            if isinstance(part, LogRecord):
                yield part
                continue
            part_id = name_of(part.get("id")) or part_file.stem
            parts.setdefault(message_id, []).append(
                {
                    "table": "part", "id": part_id, "message_id": message_id,
                    "session_id": session, "data": part,
                }
            )  # fmt: skip
    messages.sort(key=_created)
    revert = {} if isinstance(value, LogRecord) else fields_of(value.get("revert"))
    yield from _in_order(messages, parts, revert)


def left_out(path: Path) -> str | None:
    """Return why a file is left out: it is read with its session."""
    for depth, folder in enumerate(path.parents):
        if depth > 2:
            return None
        if folder.name in _PARTS and (folder.parent / _SESSIONS).is_dir():
            return _WITH_ITS_SESSION
    return None


def _created(row: dict[str, Any]) -> tuple[int, str]:
    return time_ms(fields_of(row["data"].get("time")).get("created")) or 0, str(row["id"])


def _files(path: Path) -> tuple[str, list[Path], dict[Path, list[Path]]]:
    """Return the id of a session, the files of its messages, and of these the files of parts."""
    value = _value_at(path)
    stated = None if isinstance(value, LogRecord) else name_of(value.get("id"))
    session = stated or path.stem.removeprefix("ses_")
    for root in path.parents[1:3]:
        folders = [
            root / "message" / folder_name for folder_name in dict.fromkeys((session, path.stem))
        ]
        folder = next((candidate for candidate in folders if candidate.is_dir()), None)
        if folder is not None:
            messages = sorted(folder.glob("*.json"))
            flat = sorted((root / "part").glob("*.json"))
            return (
                session,
                messages,
                {message: _part_files(message, root, folder.name, flat) for message in messages},
            )
    return session, [], {}


def _part_files(message: Path, root: Path, session: str, flat: Sequence[Path]) -> list[Path]:
    """Return the files of a message's parts: in a folder of its own, or all in one."""
    value = _value_at(message)
    stated = None if isinstance(value, LogRecord) else name_of(value.get("id"))
    for message_id in dict.fromkeys((stated or message.stem, message.stem)):
        for folder in (root / "part" / message_id, root / "part" / session / message_id):
            if folder.is_dir():
                return sorted(folder.glob("*.json"))
    values = ((file, _value_at(file)) for file in flat)
    return [
        file
        for file, part in values
        if not isinstance(part, LogRecord) and part.get("messageID") in (stated, message.stem)
    ]


def _value_at(path: Path) -> dict[str, Any] | LogRecord:
    """Return the object in a file; a record with a fault if there is none."""
    try:
        value, _ = read_value(path.read_bytes())
    except (Unreadable, OSError) as error:
        return LogRecord(None, 1, 0, 0, f"{path.name}: {getattr(error, 'strerror', None) or error}")
    if isinstance(value, dict):
        return value
    return LogRecord(None, 1, 0, 0, f"{path.name}: not an object")
