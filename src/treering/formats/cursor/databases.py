"""The rows of Cursor's databases in the order of their conversations."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from treering.errors import TreeringError
from treering.formats.cursor.composers import BUBBLE, CHATS, COMPOSER, first_key, folder_of
from treering.formats.loose import fields_of, time_ms
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord
from treering.formats.whole import group, json_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from treering.formats.format import DatabaseReader, LogDatabase
    from treering.formats.parsed import RecordGroup

CONVERSATIONS: Final = "cursorDiskKV"
SETTINGS: Final = "ItemTable"
COMPOSERS: Final = "composer.composerData"
"""The key under which a workspace lists its conversations."""
_ROW: Final = ["key", "value"]


def score(tables: Sequence[Any]) -> float:
    """Return whether these are the tables of a ``state.vscdb`` of Cursor."""
    columns = {
        str(table.get("table")): table.get("columns") or () for table in map(fields_of, tables)
    }
    return float({*_ROW} <= {*columns.get(CONVERSATIONS, ())})


def records(path: Path, databases: DatabaseReader) -> Iterator[Any]:
    """Yield each row once: conversations by time, each with its bubbles; then all others."""
    with databases.open(path) as database:
        tables = database.tables()
        sessions = yield from _conversations(database, path, databases)
        yield from _orphans(database, sessions)
        for kind, count in database.tally(CONVERSATIONS, "key").items():
            if kind not in {COMPOSER, BUBBLE}:
                yield LogRecord({"key": kind}, 0, 0, 0, lines=count)
        if {*_ROW} <= {*tables.get(SETTINGS, ())}:
            yield from _settings(database, path)


def _conversations(
    database: LogDatabase, path: Path, databases: DatabaseReader
) -> Generator[Any, None, set[str]]:
    begun: dict[str, int] = {}
    parents: dict[str, str] = {}
    has_place: set[str] = set()
    for row in database.rows(CONVERSATIONS, _ROW, prefix=("key", COMPOSER)):
        session, stated = row["key"].removeprefix(COMPOSER), fields_of(json_of(row["value"]))
        begun[session] = time_ms(stated.get("createdAt")) or 0
        if stated.get("workspaceIdentifier"):
            has_place.add(session)
        for field in ("subComposerIds", "subagentComposerIds"):
            listed = stated.get(field)
            parents |= dict.fromkeys(
                filter(name_of, listed if isinstance(listed, list) else []), session
            )
    folders = _folders(path, databases) if begun.keys() - has_place else {}
    for session in sorted(begun, key=lambda name: (begun[name], name)):
        about = {"cwd": folders.get(session), "parent": parents.get(session)}
        named = database.rows(CONVERSATIONS, _ROW, where={"key": COMPOSER + session})
        yield _conversation(database, session, [{**row, "known": about} for row in named])
    return set(begun)


def _conversation(
    database: LogDatabase, session: str, composers: list[dict[str, Any]]
) -> RecordGroup:
    """Return a conversation, whose own row is in ``composers`` if there is one."""
    prefix = f"{BUBBLE}{session}:"
    rows = {
        row["key"].removeprefix(prefix): row
        for row in database.rows(CONVERSATIONS, _ROW, prefix=("key", prefix))
    }
    return group([*composers, *rows.values()], _records_of(composers, rows, prefix))


def _records_of(
    composers: list[dict[str, Any]], rows: dict[str, dict[str, Any]], prefix: str
) -> Iterator[Any]:
    yield from composers
    composer = fields_of(json_of(composers[-1]["value"])) if composers else {}
    yield from _bubbles(rows, prefix, composer)


def _bubbles(
    rows: dict[str, dict[str, Any]], prefix: str, composer: dict[str, Any]
) -> Iterator[Any]:
    """Yield the bubbles of a conversation in its order; those it left out where they were said."""
    headers = composer.get("fullConversationHeadersOnly")
    listed = [
        bubble
        for header in (headers if isinstance(headers, list) else [])
        if (bubble := name_of(fields_of(header).get("bubbleId"))) in rows
    ]
    writing = composer.get("generatingBubbleIds") if composer.get("status") == "generating" else []
    unfinished = set(filter(name_of, writing if isinstance(writing, list) else []))
    values = {bubble: fields_of(json_of(row["value"])) for bubble, row in rows.items()}
    times = {bubble: time_ms(value.get("createdAt")) or 0 for bubble, value in values.items()}
    aside = sorted(rows.keys() - set(listed), key=lambda bubble: (times[bubble], bubble))
    if not listed:
        listed, aside = aside, []
    for bubble in [*dict.fromkeys(listed), None]:
        earlier = [
            bubble_id for bubble_id in aside if bubble is None or times[bubble_id] < times[bubble]
        ]
        aside = aside[len(earlier) :]
        keys = {bubble_id: first_key(values[bubble_id], bubble_id) for bubble_id in earlier}
        first = next(filter(None, keys.values()), None)
        last = max((at for at, bubble_id in enumerate(earlier) if keys[bubble_id]), default=None)
        for at, bubble_id in enumerate(earlier):
            yield {
                "key": prefix + bubble_id,
                "value": values[bubble_id],
                "undoes": first if at == last else None,
            }
        if bubble is not None:
            is_open = bubble in unfinished
            yield {"key": prefix + bubble, "value": values[bubble], "unfinished": is_open}


def _orphans(database: LogDatabase, known: set[str]) -> Iterator[Any]:
    """Yield the bubbles of conversations that have no row of their own."""
    keys = (row["key"] for row in database.rows(CONVERSATIONS, ["key"], prefix=("key", BUBBLE)))
    sessions = dict.fromkeys(key.removeprefix(BUBBLE).partition(":")[0] for key in keys)
    for session in sessions:
        if session not in known:
            yield _conversation(database, session, [])


def _settings(database: LogDatabase, path: Path) -> Iterator[Any]:
    """Yield the conversations among the settings, and all the others without their values."""
    chats = [*database.rows(SETTINGS, _ROW, where={"key": CHATS})]
    for row in chats:
        value = fields_of(json_of(row["value"]))
        yield {"key": CHATS, "value": {**value, "cwd": _folder(path.parent)}}
    others = database.count(SETTINGS) - len(chats)
    if others:
        yield LogRecord({"key": SETTINGS}, 0, 0, 0, lines=others)


def _folders(path: Path, databases: DatabaseReader) -> dict[str, str]:
    """Return the folders of conversations, which the databases of workspaces list."""
    folders: dict[str, str] = {}
    for database_path in sorted(path.parent.parent.glob("workspaceStorage/*/state.vscdb")):
        folder = _folder(database_path.parent)
        if folder is None:
            continue
        with contextlib.suppress(TreeringError, OSError), databases.open(database_path) as database:
            for row in database.rows(SETTINGS, _ROW, where={"key": COMPOSERS}):
                listed = fields_of(json_of(row["value"])).get("allComposers")
                for composer in map(fields_of, listed if isinstance(listed, list) else []):
                    if session := name_of(composer.get("composerId")):
                        folders.setdefault(session, folder)
    return folders


def _folder(workspace: Path) -> str | None:
    """Return the folder of a workspace, which a file beside its database names."""
    try:
        stated = fields_of(json_of((workspace / "workspace.json").read_bytes()))
    except OSError:
        return None
    return folder_of(stated.get("folder"))
