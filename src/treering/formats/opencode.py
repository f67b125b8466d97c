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
from treering.formats.codex.drafts import (
    PendingEvent,
    called,
    count_of,
    input_of,
    observed,
    returned,
    said,
    short_id,
)
from treering.formats.format import DatabaseReader, Format, LogDatabase, LogPlace, OwnShare
from treering.formats.loose import fields_of, objects_in, text_of, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord, ParsedRecord, RecordGroup, SessionHeader
from treering.formats.records import read_records
from treering.formats.records.values import Unreadable, read_value
from treering.formats.sources import open_source
from treering.formats.whole import (
    NOTHING,
    UNFINISHED,
    WholeReader,
    compacted,
    failed,
    group,
    has_columns,
    json_of,
    timed,
    titled,
    undone,
    used,
    version_key,
)
from treering.spine.conversion import plain
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path, PurePath

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
        row = as_row(fields_of(record.value))
        parsed = self._read_row(record, row)
        first = self._firsts.get(str(row.get("reverts")))
        if first is None:
            return [parsed]
        taken_back = undone(f"reverted.{short_id(row['reverts'])}", "reverted", first)
        session = self._known(name_of(row.get("session_id")))
        events = [*parsed.events, *self._events(session, [taken_back])]
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
                    at: value for at, value in row.items() if at not in OURS and value is not None
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
        inside = objects_in(value.get("parts"))
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

_RUNNING: Final = frozenset({"pending", "running"})
_FAILED: Final = frozenset({"error", "failed", "aborted"})
_ABORTED: Final = "MessageAbortedError"


class MessageHead(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts of a message have in common."""

    message_id: str
    role: str
    model: str | None = None
    provider: str | None = None
    is_summary: bool = False
    """Whether it sums up the conversation before it."""
    kept: str | None = None
    """Of a summary, the key of the first event that stays beside it."""


def message_head(message_id: str, value: dict[str, Any]) -> MessageHead:
    """Return what a message says of its parts."""
    nested = fields_of(value.get("model"))
    old = fields_of(fields_of(value.get("metadata")).get("assistant"))
    model = (value.get("modelID"), nested.get("modelID"), nested.get("id"), old.get("modelID"))
    provider = (value.get("providerID"), nested.get("providerID"), old.get("providerID"))
    return MessageHead(
        message_id=message_id,
        role=word(value.get("role")) or "assistant",
        model=next(filter(None, map(name_of, model)), None),
        provider=next(filter(None, map(name_of, provider)), None),
        is_summary=value.get("summary") is True or value.get("mode") == "compaction",
    )


def part_events(part: dict[str, Any], part_id: str, message: MessageHead) -> list[PendingEvent]:
    """Return the events of a part; none if it only marks a place."""
    part_id, span = short_id(part_id), fields_of(part.get("time"))
    match part.get("type"):
        case "text":
            drafts = [*_text(part, part_id, message)]
        case "reasoning":
            drafts = [*_thought(part, part_id, message)]
        case "tool":
            drafts = _tool(part, part_id, message)
        case "tool-invocation":
            drafts = _tool(_invocation(fields_of(part.get("toolInvocation"))), part_id, message)
        case "step-start":
            drafts = []
        case "step-finish":
            spent = usage(part, f"{part_id}.usage", message)
            drafts = [spent or observed(part_id, "step-finish", part)]
        case "retry":
            drafts = [_error(part.get("error"), part_id, message)]
        case sort:
            drafts = [observed(part_id, str(sort or "part"), part)]
    return timed(drafts, time_ms(span.get("start")) or time_ms(span.get("created")))


def is_unfinished(part: dict[str, Any], message: dict[str, Any]) -> bool:
    """Return whether a text is still being written, as far as it and its message tell."""
    is_text = part.get("type") in ("text", "reasoning")
    is_done = fields_of(message.get("time")).get("completed") or message.get("finish")
    is_open = not (is_done or message.get("error") or fields_of(part.get("time")).get("end"))
    return is_text and message.get("role") == "assistant" and is_open


def message_events(
    value: dict[str, Any], message: MessageHead, *, has_parts: bool, is_counted: bool
) -> list[PendingEvent]:
    """Return what a message says besides its parts: what it used, if these do not, and errors.

    Messages in folders may be there without their parts, with only their beginning.
    """
    drafts = []
    message_id = short_id(message.message_id)
    summary = fields_of(value.get("summary"))
    body = word(summary.get("body")) or word(summary.get("title"))
    if not has_parts and body is not None and message.role in {"user", "assistant"}:
        model = message.model if message.role == "assistant" else None
        key = version_key(f"{message_id}.summary", body)
        drafts.append(said(message.role, key, body, beside={"from": "summary"}, model=model))
    if value.get("error"):
        drafts.append(_error(value["error"], f"{message_id}.error", message))
    old = fields_of(fields_of(value.get("metadata")).get("assistant"))
    spent = None if is_counted else usage({**old, **value}, f"{message_id}.usage", message)
    drafts += [spent] if spent else []
    stated = fields_of(value.get("time"))
    old_time = fields_of(fields_of(value.get("metadata")).get("time"))
    at = "completed" if has_parts else "created"
    return timed(drafts, time_ms(stated.get(at)) or time_ms(old_time.get(at)))


def usage(fields: dict[str, Any], key: str, message: MessageHead) -> PendingEvent | None:
    """Return what a step used; tokens from a cache, or into one, are part of the input."""
    tokens = fields_of(fields.get("tokens"))
    cache = fields_of(tokens.get("cache"))
    read, written = count_of(cache.get("read")) or 0, count_of(cache.get("write")) or 0
    sent, answered = count_of(tokens.get("input")) or 0, count_of(tokens.get("output")) or 0
    counts = {
        "input_tokens": sent + read + written,
        "output_tokens": answered + (count_of(tokens.get("reasoning")) or 0),
        "cached_tokens": read,
        "cache_creation_tokens": written,
    }
    if not any(counts.values()):
        return None
    cost = fields.get("cost")
    dollars = fields_of(cost).get("usd", cost)
    return used(
        version_key(key, counts),
        counts,
        cost=dollars,
        stated={"tokens": tokens},
        model=message.model,
        provider=message.provider,
        message_id=key.removesuffix(".usage"),
    )


def _text(part: dict[str, Any], part_id: str, message: MessageHead) -> Iterator[PendingEvent]:
    text = part.get("text")
    if not isinstance(text, str) or not text.strip():
        return
    key = version_key(part_id, text)
    more = {at: part[at] for at in ("synthetic", "ignored", "metadata") if part.get(at)}
    if message.is_summary and message.role == "assistant":
        yield compacted(key, text, by=NAME, first=message.kept)
    elif message.role == "user" and more.get("synthetic"):
        # The program put it there: what a command or a file printed.
        yield observed(key, "synthetic", part)
    elif message.role in {"user", "assistant"}:
        model = message.model if message.role == "assistant" else None
        beside = {"beside": more} if more else {}
        yield said(message.role, key, text, model=model, message_id=message.message_id, **beside)
    else:
        yield observed(key, message.role, part)


def _thought(part: dict[str, Any], part_id: str, message: MessageHead) -> Iterator[PendingEvent]:
    text, more = part.get("text"), part.get("metadata") or None
    if (isinstance(text, str) and text.strip()) or more:
        key = version_key(part_id, text)
        shown = text if isinstance(text, str) else ""
        yield said("thinking", key, shown, metadata=more, message_id=message.message_id)


def _tool(part: dict[str, Any], part_id: str, message: MessageHead) -> list[PendingEvent]:
    """Return a call, and its outcome once it has one."""
    call_id = name_of(part.get("callID")) or part_id
    tool, state = name_of(part.get("tool")) or "unnamed", fields_of(part.get("state"))
    status, span = str(state.get("status")), fields_of(state.get("time"))
    if status == "pending" and not state.get("input"):
        return []
    given = input_of(state.get("input"), "input")
    more = {"title": state["title"]} if word(state.get("title")) else {}
    began_ms, ended_ms = time_ms(span.get("start")), time_ms(span.get("end"))
    began = called(f"call:{short_id(call_id)}", call_id, tool, given, **more)
    drafts = timed([began], began_ms)
    if status in _RUNNING:
        return drafts
    output, details = state.get("output"), fields_of(state.get("metadata"))
    words = state.get("error") if state.get("error") is not None else output
    error = None
    code = details.get("exit", details.get("exitCode"))
    if status in _FAILED or state.get("error"):
        shown = words if isinstance(words, str) else "failed"
        error = {"class": "Failed", "message": shorten(plain(shown))}
    elif type(code) is int and code != 0:
        error = {"class": "ExitCode", "message": f"exit code {code}"}
    took = ended_ms - began_ms if began_ms and ended_ms and ended_ms >= began_ms else None
    ended = returned(
        f"result:{short_id(call_id)}",
        call_id,
        tool,
        words,
        error,
        duration_ms=took,
        details=details or None,
        attachments=state.get("attachments") or None,
        message_id=message.message_id,
    )
    return [*drafts, *timed([ended], ended_ms)]


def _invocation(stated: dict[str, Any]) -> dict[str, Any]:
    """Return a call as early versions wrote it, as later ones do."""
    status = {"result": "completed", "call": "running", "partial-call": "pending"}
    state = {
        "status": status.get(str(stated.get("state")), "completed"),
        "input": stated.get("args"),
        "output": stated.get("result"),
    }
    return {"callID": stated.get("toolCallId"), "tool": stated.get("toolName"), "state": state}


def _error(error: Any, key: str, message: MessageHead) -> PendingEvent:
    """Return an error that ended an answer, or that it was broken off."""
    fields = fields_of(error)
    named = word(fields.get("name")) or "error"
    data = fields_of(fields.get("data"))
    text = (
        word(data.get("message"))
        or word(fields.get("message"))
        or (error if word(error) else named)
    )
    shown = shorten(plain(str(text)))
    payload = {"error": error, "message": shown, "message_id": message.message_id}
    if named == _ABORTED:
        return PendingEvent(
            key=key, kind="boundary.interrupt", summary=shown, payload=payload, refs={}
        )
    return failed(key, shown, payload, shorten(named, 100))


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
    return has_columns(tables, {table: [column] for table, column in _TABLES.items()})


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


FORMAT: Final = (
    Format(
        name=NAME,
        score=score,
        reader=OpenCodeReader,
        records=folder_rows,
        files=session_files,
        left_out=left_out,
        places=(
            LogPlace(_HOME, "opencode/storage/session", "XDG_DATA_HOME"),
            LogPlace(_HOME, "opencode/project/*/storage/session/info", "XDG_DATA_HOME"),
        ),
    ),
    Format(
        name=NAME,
        content="sqlite",
        score=score_tables,
        reader=OpenCodeReader,
        records=database_rows,
        places=(
            LogPlace(_HOME, "opencode/opencode*.db", "XDG_DATA_HOME"),
            LogPlace("AppData/Local/opencode", "opencode*.db"),
        ),
    ),
)
