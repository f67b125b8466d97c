"""The reader of OpenCode's sessions: a SQLite database, or folders of JSON before.

    ~/.local/share/opencode/opencode.db             tables session, message, part, …
    ~/.local/share/opencode/storage/session/PROJECT/SESSION.json
    ~/.local/share/opencode/storage/message/SESSION/MESSAGE.json
    ~/.local/share/opencode/storage/part/MESSAGE/PART.json

Both hold the same objects with the same ids, so that a session is recognized after OpenCode has
moved it to its database. Its rows as lines of JSON are read as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.blocks import first_name
from treering.formats.codex.drafts import PendingEvent, observed, short_id
from treering.formats.format import Format, LogPlace
from treering.formats.loose import fields_of, text_of, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.opencode import stores
from treering.formats.opencode.parts import (
    MessageHead,
    is_unfinished,
    message_events,
    message_head,
    part_events,
)
from treering.formats.parsed import ParsedRecord, SessionHeader
from treering.formats.whole import NOTHING, UNFINISHED, WholeReader, json_of, titled, version_key
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import PurePath

    from treering.formats.parsed import LogRecord

NAME: Final = "opencode"
_ABOUT: Final = ("version", "slug", "agent", "share_url", "workspace_id")
_REPEATS: Final = frozenset({"user", "assistant", "synthetic", "system"})
"""Kinds of a session's newer messages that repeat the older ones."""


class OpenCodeReader(WholeReader):
    """Reads rows of any number of sessions: a session before its messages, these before parts."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._messages: dict[str, MessageHead] = {}
        self._firsts: dict[str, str] = {}
        """The key of the first event of each message."""
        self._tails: dict[str, str] = {}
        """The first message that a compaction keeps, by session."""
        self._starters: dict[str, str] = {}
        """The calls that began subagents, by their sessions."""

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        row = stores.as_row(fields_of(record.value))
        parsed = self._read_row(record, row)
        first = self._firsts.get(str(row.get("reverts")))
        if first is None:
            return [parsed]
        undone = PendingEvent(
            key=f"reverted.{short_id(row['reverts'])}",
            kind="session.undone",
            summary="reverted",
            payload=None,
            refs={},
            first=first,
        )
        events = [
            *parsed.events,
            *self._events(self._known(name_of(row.get("session_id"))), [undone]),
        ]
        return [ParsedRecord(record=record, events=events)]

    def _read_row(self, record: LogRecord, row: dict[str, Any]) -> ParsedRecord:
        match row.get("table"):
            case "session":
                return self._session_row(record, row)
            case "message":
                return self._message_row(record, row)
            case "part":
                return self._part_row(record, row)
            case "session_message":
                return self._note_row(record, row)
            case "todo":
                session = self._known(name_of(row.get("session_id")))
                todo = {
                    at: value
                    for at, value in row.items()
                    if at not in stores.OURS and value is not None
                }
                key = version_key(f"todo.{row.get('position', 0)}", todo)
                return self._outcome(record, session, [observed(key, "todo", todo)], NOTHING)
            case table:
                reason = "an object of another kind" if table is None else f"the table {table}"
                return ParsedRecord(record=record, skipped=reason)

    # Rows.

    def _session_row(self, record: LogRecord, row: dict[str, Any]) -> ParsedRecord:
        session = name_of(row.get("id")) or NAME
        span = fields_of(row.get("time"))
        ts_ms = time_ms(row.get("time_created")) or time_ms(span.get("created"))
        self._is_at(session, ts_ms)
        title, model = word(row.get("title")), fields_of(json_of(row.get("model")))
        about = {at: row[at] for at in _ABOUT if row.get(at)}
        about |= {"project": row["project_id"]} if word(row.get("project_id")) else {}
        about |= {"model": model["id"]} if name_of(model.get("id")) else {}
        about |= {"branch": row["branch"]} if word(row.get("branch")) else {}
        parent = name_of(row.get("parent_id"))
        self._open(
            SessionHeader(
                session=session,
                agent=f"{self.agent}:{name_of(row.get('agent')) or 'subagent'}"
                if parent
                else self.agent,
                cwd=word(row.get("directory")),
                title=title and shorten(title),
                parent=parent,
                call_id=self._starters.get(session),
                about=about,
            )
        )
        drafts = [observed("session", "session", {**about, "directory": row.get("directory")})]
        if title is not None:
            drafts.append(titled(title))
        return self._outcome(record, session, drafts, NOTHING)

    def _message_row(self, record: LogRecord, row: dict[str, Any]) -> ParsedRecord:
        session = self._known(name_of(row.get("session_id")))
        value = fields_of(json_of(row.get("data")))
        message_id = name_of(row.get("id")) or self._key(session, value)
        info = self._message(session, message_id, value, row)
        parts = value.get("parts")
        inside = (
            [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        )
        drafts = [
            draft
            for number, part in enumerate(inside)
            for draft in part_events(
                part, name_of(part.get("id")) or f"{message_id}.{number}", info
            )
        ]
        has_parts = bool(inside) or row.get("parts") != 0
        is_counted = row.get("is_counted") is not False
        drafts += message_events(value, info, has_parts=has_parts, is_counted=is_counted)
        if drafts:
            self._firsts.setdefault(message_id, drafts[0].key)
        return self._outcome(record, session, drafts, "a message; its parts are read")

    def _message(
        self, session: str, message_id: str, value: dict[str, Any], row: dict[str, Any]
    ) -> MessageHead:
        """Return what the parts of a message have in common, when it is first seen."""
        info = self._messages.get(message_id)
        if info is not None:
            return info
        info = message_head(message_id, value)
        if info.is_summary and (tail := self._tails.pop(session, None)):
            info = msgspec.structs.replace(info, kept=self._firsts.get(tail))
        self._messages[message_id] = info
        header, cwd = self.sessions[session], word(fields_of(value.get("path")).get("cwd"))
        if header.cwd is None and cwd is not None:
            self._open(msgspec.structs.replace(header, cwd=cwd))
        span = fields_of(value.get("time"))
        begun_ms = time_ms(span.get("created")) or time_ms(row.get("time_created"))
        self._is_at(session, begun_ms, is_about=True)
        return info

    def _part_row(self, record: LogRecord, row: dict[str, Any]) -> ParsedRecord:
        part = fields_of(json_of(row.get("data")))
        session = self._known(name_of(row.get("session_id")))
        message_id = name_of(row.get("message_id")) or ""
        role = {"role": word(row.get("message_role")) or "assistant"}
        value = fields_of(json_of(row.get("message"))) or role
        info = self._message(session, message_id, value, row)
        part_id = name_of(row.get("id")) or self._key(session, part)
        if self.is_live and "message" in row and is_unfinished(part, value):
            return ParsedRecord(record=record, skipped=UNFINISHED)
        self._is_at(session, time_ms(row.get("time_created")))
        drafts = part_events(part, part_id, info)
        if drafts:
            self._firsts.setdefault(message_id, drafts[0].key)
        if part.get("type") == "compaction" and (tail := name_of(part.get("tail_start_id"))):
            self._tails[session] = tail
        details = fields_of(fields_of(part.get("state")).get("metadata"))
        child = first_name(details, "sessionId", "sessionID", "session_id")
        if child is not None and (call_id := name_of(part.get("callID"))):
            self._starters[child] = call_id
        return self._outcome(record, session, drafts, "marks a step, or is empty so far")

    def _note_row(self, record: LogRecord, row: dict[str, Any]) -> ParsedRecord:
        """Read a row of the newer list of messages, which older versions do not have."""
        session = self._known(name_of(row.get("session_id")))
        value, kind = fields_of(json_of(row.get("data"))), word(row.get("type")) or "note"
        note_id = name_of(row.get("id")) or self._key(session, value)
        self._is_at(session, time_ms(row.get("time_created")))
        if kind in _REPEATS and row.get("repeats", True):
            return ParsedRecord(record=record, skipped="repeats a message")
        drafts: list[PendingEvent]
        if kind in {"user", "assistant", "synthetic"}:
            drafts = _note_events(kind, value, note_id)
        elif kind == "compaction" and word(value.get("summary")):
            info = MessageHead(message_id=note_id, role="assistant", is_summary=True)
            part = {"type": "text", "text": value["summary"]}
            drafts = part_events(part, note_id, info)
        else:
            drafts = [observed(short_id(note_id), kind, value)]
        return self._outcome(record, session, drafts, NOTHING)

    # Sessions.

    def _known(self, session: str | None) -> str:
        """Return a session that is open: one that has no row of its own is opened here."""
        session = session or NAME
        if session not in self.sessions:
            self._open(SessionHeader(session=session, agent=self.agent))
        return session


def _note_events(kind: str, value: dict[str, Any], note_id: str) -> list[PendingEvent]:
    """Return the events of a message that only the newer list has."""
    info = message_head(note_id, {**value, "role": "user" if kind == "synthetic" else kind})
    content = value.get("content")
    if not isinstance(content, list):
        text = {"type": "text", "text": value.get("text"), "synthetic": kind == "synthetic"}
        content = [text] if word(value.get("text")) else []
    drafts = [
        draft
        for number, part in enumerate(content)
        if isinstance(part, dict)
        for draft in part_events(
            _part_of(part), name_of(part.get("id")) or f"{note_id}.{number}", info
        )
    ]
    return [*drafts, *message_events(value, info, has_parts=True, is_counted=False)]


def _part_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of the newer list as the older one has it."""
    if part.get("type") != "tool":
        return part
    state, span = fields_of(part.get("state")), fields_of(part.get("time"))
    output = state.get("output", text_of(state.get("content")) or state.get("structured"))
    error = fields_of(state.get("error")).get("message", state.get("error"))
    time = {"start": span.get("created"), "end": span.get("completed")}
    return {
        "type": "tool",
        "callID": part.get("callID") or part.get("id"),
        "tool": part.get("name") or part.get("tool"),
        "state": {**state, "output": output, "error": error, "time": time},
    }


_HOME: Final = ".local/share"
FORMAT: Final = (
    Format(
        name=NAME,
        score=stores.score,
        reader=OpenCodeReader,
        records=stores.folder_rows,
        files=stores.session_files,
        left_out=stores.left_out,
        places=(
            LogPlace(_HOME, "opencode/storage/session", "XDG_DATA_HOME"),
            LogPlace(_HOME, "opencode/project/*/storage/session/info", "XDG_DATA_HOME"),
        ),
    ),
    Format(
        name=NAME,
        content="sqlite",
        score=stores.score_tables,
        reader=OpenCodeReader,
        records=stores.database_rows,
        places=(
            LogPlace(_HOME, "opencode/opencode*.db", "XDG_DATA_HOME"),
            LogPlace("AppData/Local/opencode", "opencode*.db"),
        ),
    ),
)
