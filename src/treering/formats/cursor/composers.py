"""Cursor's conversations in ``state.vscdb``: keys and values, a conversation in many of them.

    composerData:CONVERSATION       its name, project, branch, and the order of its bubbles
    bubbleId:CONVERSATION:BUBBLE    what was said, thought or called: ids and times

A bubble that its conversation does not list any more was taken back: it is recorded where it was
said, and undone. Everything else in the file is settings, and copies for the editor.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from treering.errors import TreeringError
from treering.formats.blocks import WaitingCalls, block_events
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
from treering.formats.loose import fields_of, items_of, objects_in, says_something, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord, ParsedRecord, RecordGroup, SessionHeader
from treering.formats.whole import (
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
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path, PurePath

    from treering.formats.format import DatabaseReader, LogDatabase

SESSION_KEY: Final = "session"
"""The key of the first event of a session that comes from a database."""
NAME: Final = "cursor"
COMPOSER: Final = "composerData:"
BUBBLE: Final = "bubbleId:"
CHATS: Final = "workbench.panel.aichat.view.aichat.chatdata"
"""Where versions before 2025 kept the conversations of a workspace."""
USER, MODEL = 1, 2
"""The types of bubbles."""
_ABOUT: Final = (
    "status", "unifiedMode", "agentBackend", "isAgentic", "totalLinesAdded", "totalLinesRemoved",
    "contextUsagePercent", "promptTokenBreakdown", "usageData", "modelConfig", "subtitle",
)  # fmt: skip
"""What is kept of a conversation beside its bubbles."""
_ATTACHED: Final = (
    "images", "attachedCodeChunks", "attachedFolders", "attachedFileCodeChunksMetadataOnly",
    "externalLinks", "webReferences", "commits", "pullRequests", "gitDiffs",
)  # fmt: skip
_RUNNING: Final = frozenset({"pending", "loading", "running", "streaming"})
_ENDS: Final = {
    "error": "Failed",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "rejected": "Denied",
}
"""How a call ends that does not succeed, with the class of the error."""
_NO_MODEL: Final = frozenset({"default", "auto"})


def is_row(value: Any) -> bool:
    """Return whether a value is one of its rows."""
    row = fields_of(value)
    return row.keys() == {"key", "value"} and isinstance(row["key"], str) and ":" in row["key"]


class ComposerReader(WholeReader):
    """Reads the rows of one database; a conversation comes before its bubbles."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._models: dict[str, str] = {}
        self._summaries: dict[str, dict[str, Any]] = {}
        """The summary of each conversation, with the last bubble that was there at that time."""

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        row = fields_of(record.value)
        key, value = str(row.get("key")), json_of(row.get("value"))
        if key == CHATS:
            return [ParsedRecord(record=record, events=[*self._chats(fields_of(value))])]
        if not key.startswith((COMPOSER, BUBBLE)):
            return [ParsedRecord(record=record, skipped=other_row(key))]
        if not isinstance(value, dict):
            reason = (
                "was deleted" if row.get("value") in (None, "", b"") else "its value is not JSON"
            )
            return [ParsedRecord(record=record, skipped=reason)]
        if key.startswith(COMPOSER):
            return [self._composer(record, value, name_of(key.removeprefix(COMPOSER)) or NAME, row)]
        session, _, bubble = key.removeprefix(BUBBLE).partition(":")
        session = self._session(name_of(session) or NAME)
        if row.get("unfinished") and self.is_live:
            return [ParsedRecord(record=record, skipped=UNFINISHED)]
        drafts = bubble_events(value, name_of(bubble) or "bubble", self._models.get(session))
        drafts += timed(self._compaction(session, bubble, drafts), _time(value))
        if first := row.get("undoes"):
            drafts.append(undone(f"undone.{short_id(str(first))}", "taken back", str(first)))
        return [self._outcome(record, session, drafts, "an empty bubble")]

    def _session(self, session: str) -> str:
        return (
            session
            if session in self.sessions
            else self._open(SessionHeader(session=session, agent=self.agent))
        )

    def _composer(
        self, record: LogRecord, value: dict[str, Any], session: str, row: dict[str, Any]
    ) -> ParsedRecord:
        """Read a conversation: its header, and the bubbles that older versions kept in it."""
        listed = fields_of(value.get("conversationMap"))
        inside = value.get("conversation")
        inside = inside if isinstance(inside, list) else [*listed.values()]
        if not value.get("fullConversationHeadersOnly") and not inside:
            return ParsedRecord(record=record, skipped="an empty conversation")
        header = composer_header(value, session, fields_of(row.get("known")))
        agent = f"{self.agent}:subagent" if header.parent else self.agent
        self._open(msgspec.structs.replace(header, agent=agent))
        if model := _model(fields_of(value.get("modelConfig"))):
            self._models[session] = model
        ts_ms = time_ms(value.get("createdAt"))
        about = {at: value[at] for at in _ABOUT if value.get(at)}
        drafts = [observed(SESSION_KEY, "session", about)]
        if title := word(value.get("name")):
            drafts.append(titled(title))
        summary = fields_of(value.get("latestConversationSummary"))
        if word(fields_of(summary.get("summary")).get("summary")):
            self._summaries[session] = {**summary["summary"], "last": summary.get("lastBubbleId")}
        for number, bubble in enumerate(inside):
            if isinstance(bubble, dict):
                bubble_id = name_of(bubble.get("bubbleId")) or f"bubble-{number}"
                drafts += bubble_events(bubble, bubble_id, self._models.get(session))
        return self._outcome(record, session, timed(drafts[:1], ts_ms) + drafts[1:], "")

    def _compaction(
        self, session: str, bubble: str, drafts: Sequence[PendingEvent]
    ) -> list[PendingEvent]:
        """Return the compaction that came after a bubble; note the first that it kept."""
        summary = self._summaries.get(session)
        if summary is None:
            return []
        if summary.get("is_past") and drafts:
            summary.setdefault("kept", drafts[0].key)
        if bubble == summary.get("truncationLastBubbleIdInclusive"):
            summary["is_past"] = True
        if summary["last"] != bubble:
            return []
        text = str(self._summaries.pop(session)["summary"])
        key = version_key(f"{short_id(bubble)}.summary", text)
        return [compacted(key, text, by=NAME, first=summary.get("kept"))]

    def _chats(self, value: dict[str, Any]) -> Iterator[Any]:
        """Yield the events of the conversations that an early version kept in one value."""
        for tab in map(fields_of, items_of(value.get("tabs"))):
            session = name_of(tab.get("tabId")) or NAME
            title = word(tab.get("chatTitle"))
            header = SessionHeader(
                session=session, agent=self.agent, title=title, cwd=word(value.get("cwd"))
            )
            self._open(header)
            self._is_at(session, time_ms(tab.get("lastSendTime")), is_about=True)
            drafts = []
            for bubble in map(fields_of, items_of(tab.get("bubbles"))):
                role = "user" if bubble.get("type") == "user" else "assistant"
                text = next(
                    (bubble[at] for at in ("text", "rawText", "initText") if word(bubble.get(at))),
                    None,
                )
                if text is not None:
                    drafts.append(said(role, self._key(session, [role, text]), text))
                elif says_something(bubble):
                    drafts.append(observed(self._key(session, bubble), "bubble", bubble))
            yield from self._events(session, drafts)


def other_row(key: str) -> str:
    """Return what a row is that belongs to no conversation: by the beginning of its key."""
    kind = key.partition(":")[0]
    return f"{kind}: no part of a conversation" if ":" in key else "a setting of the editor"


def composer_header(value: dict[str, Any], session: str, known: dict[str, Any]) -> SessionHeader:
    """Return the header of a conversation; ``known`` is what other rows and files say of it."""
    workspace = fields_of(value.get("workspaceIdentifier"))
    where = fields_of(workspace.get("uri"))
    cwd = word(where.get("fsPath")) or word(where.get("path")) or folder_of(where.get("external"))
    branch = word(value.get("createdOnBranch")) or word(
        fields_of(value.get("activeBranch")).get("branchName")
    )
    subagent = fields_of(value.get("subagentInfo"))
    parent = name_of(subagent.get("parentComposerId")) or name_of(value.get("parentComposerId"))
    return SessionHeader(
        session=session,
        agent=NAME,
        cwd=cwd or word(known.get("cwd")),
        title=word(value.get("name")) and shorten(value["name"]),
        parent=parent or name_of(known.get("parent")),
        call_id=name_of(_first_line(subagent.get("toolCallId"))),
        about={} if branch is None else {"branch": branch},
    )


def folder_of(address: Any) -> str | None:
    """Return the folder of a file: URL."""
    text = word(address)
    parts = urlsplit(text) if text else None
    return unquote(parts.path) if parts and parts.scheme in {"file", "vscode-remote"} else None


def bubble_events(value: dict[str, Any], bubble_id: str, model: str | None) -> list[PendingEvent]:
    """Return the messages, thoughts, calls and usage of a bubble."""
    bubble_id = short_id(bubble_id)
    model = _model(fields_of(value.get("modelInfo"))) or model
    drafts = [*_thoughts(value, bubble_id)]
    role = "user" if value.get("type") == USER else "assistant"
    text = word(value.get("text")) or (_rich(value.get("richText")) if role == "user" else None)
    attached = {at: value[at] for at in _ATTACHED if value.get(at)}
    if text is not None or attached:
        more = {"attached": attached or None, "message_id": bubble_id}
        more |= {"model": model} if role == "assistant" else {}
        key = version_key(bubble_id, [text, attached])
        drafts.append(said(role, key, text or "", **more))
    tool = fields_of(value.get("toolFormerData"))
    if tool:
        drafts += _tool_events(tool, bubble_id)
    if error := fields_of(value.get("errorDetails")):
        message = shorten(plain(word(error.get("message")) or "an error"))
        payload = {**error, "message": message}
        drafts.append(failed(f"{bubble_id}.error", message, payload, "error"))
    if not drafts and value.get("type") not in (USER, MODEL):
        drafts.append(observed(bubble_id, "bubble", value))
    return timed([*drafts, *_usage(value, bubble_id, model)], _time(value))


def _thoughts(value: dict[str, Any], bubble_id: str) -> Iterator[PendingEvent]:
    stated = value.get("thinking")
    blocks = [stated] if stated else value.get("allThinkingBlocks")
    for number, block in enumerate(items_of(blocks)):
        fields = fields_of(block)
        text = block if isinstance(block, str) else fields.get("text", fields.get("thinking"))
        if isinstance(text, str) and text.strip():
            yield said(
                "thinking",
                version_key(f"{bubble_id}.thinking" + (f".{number}" if number else ""), text),
                text,
                signature=word(fields.get("signature")),
                duration_ms=count_of(value.get("thinkingDurationMs")),
                message_id=bubble_id,
            )


def _tool_events(tool: dict[str, Any], bubble_id: str) -> Iterator[PendingEvent]:
    call_id = name_of(_first_line(tool.get("toolCallId"))) or f"{bubble_id}.call"
    name = name_of(tool.get("name")) or (f"tool {tool['tool']}" if "tool" in tool else "unnamed")
    given = next(
        (arguments for at in ("params", "rawArgs") if (arguments := input_of(tool.get(at), at))), {}
    )
    status = str(tool.get("status"))
    decision = {"decision": tool["userDecision"]} if word(tool.get("userDecision")) else {}
    began = called(
        f"call:{short_id(call_id)}", call_id, name, given, message_id=bubble_id, **decision
    )
    started_ms = time_ms(fields_of(tool.get("additionalData")).get("startedAtMs"))
    yield from timed([began], started_ms)
    if status in _RUNNING and not tool.get("result") and not tool.get("error"):
        return
    result = tool.get("result")
    output = json_of(result) if isinstance(result, str) else result
    output = result if output is None else output
    error = _error(tool, status, fields_of(output))
    if error is not None and output is None:
        output = error["message"]
    yield returned(
        f"result:{short_id(call_id)}", call_id, name, output, error, message_id=bubble_id
    )


def _error(tool: dict[str, Any], status: str, output: dict[str, Any]) -> dict[str, str] | None:
    """Return how a call failed: it says so, the user refused it, or its command exited so."""
    stated = json_of(tool.get("error"))
    fields = fields_of(stated)
    names = ("clientVisibleErrorMessage", "modelVisibleErrorMessage", "message", "error")
    words = next((fields[at] for at in names if word(fields.get(at))), None)
    message = words or (tool["error"] if word(tool.get("error")) else None)
    code = next((output[at] for at in ("exitCodeV2", "exitCode") if type(output.get(at)) is int), 0)
    if output.get("rejected") is True or tool.get("userDecision") == "rejected":
        return {"class": "Denied", "message": message or "rejected by the user"}
    if status in _ENDS or message is not None:
        return {"class": _ENDS.get(status, "Failed"), "message": shorten(plain(message or status))}
    return {"class": "ExitCode", "message": f"exit code {code}"} if code else None


def _usage(value: dict[str, Any], bubble_id: str, model: str | None) -> Iterator[PendingEvent]:
    tokens = fields_of(value.get("tokenCount"))
    counts = {
        "input_tokens": count_of(tokens.get("inputTokens")) or 0,
        "output_tokens": count_of(tokens.get("outputTokens")) or 0,
    }
    if any(counts.values()):
        key = version_key(f"{bubble_id}.usage", counts)
        yield used(key, counts, stated={"tokens": tokens}, model=model, message_id=bubble_id)


def first_key(value: dict[str, Any], bubble_id: str) -> str | None:
    """Return the key of the first event of a bubble; None if it is empty."""
    return next((draft.key for draft in bubble_events(value, bubble_id, None)), None)


def _time(value: dict[str, Any]) -> int | None:
    """Return when a bubble began; older ones tell only when their request was sent."""
    timing = fields_of(value.get("timingInfo"))
    sent = (timing.get(at) for at in ("clientRpcSendTime", "clientStartTime"))
    return time_ms(value.get("createdAt")) or next(
        (sent_ms for sent_ms in map(time_ms, sent) if sent_ms and sent_ms > 10**12), None
    )


def _model(fields: dict[str, Any]) -> str | None:
    named = name_of(fields.get("modelName"))
    return None if named in _NO_MODEL else named


def _rich(text: Any) -> str | None:
    """Return the words of a text in the editor's own form, a tree of nodes."""
    ahead, words = [json_of(text)], []
    while ahead:
        node = ahead.pop()
        if isinstance(node, list):
            ahead += reversed(node)
        elif isinstance(node, dict):
            if isinstance(node.get("text"), str):
                words.append(node["text"])
            ahead += [node[at] for at in ("children", "content", "root") if at in node]
    return word("".join(words))


def _first_line(text: Any) -> str | None:
    return text.partition("\n")[0] if isinstance(text, str) else None


CONVERSATIONS: Final = "cursorDiskKV"
SETTINGS: Final = "ItemTable"
COMPOSERS: Final = "composer.composerData"
"""The key under which a workspace lists its conversations."""
_ROW: Final = ["key", "value"]


def score_tables(tables: Sequence[Any]) -> float:
    """Return whether these are the tables of a ``state.vscdb`` of Cursor."""
    return has_columns(tables, {CONVERSATIONS: _ROW})


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
            parents |= dict.fromkeys(filter(name_of, items_of(stated.get(field))), session)
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
    listed = [
        bubble
        for header in map(fields_of, items_of(composer.get("fullConversationHeadersOnly")))
        if (bubble := name_of(header.get("bubbleId"))) in rows
    ]
    writing = composer.get("generatingBubbleIds") if composer.get("status") == "generating" else []
    unfinished = set(filter(name_of, items_of(writing)))
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
                for composer in objects_in(listed):
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


_ASKED: Final = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_CONTEXT: Final = re.compile(
    r"(?:\s*<(user_info|system[_-]reminder|rules|open_and_recently_viewed_files|git_status"
    r"|agent_skills|mcp_servers)>(?:.*?</\1>|.*))+\s*",
    re.DOTALL,
)
"""Tags at the beginning that these programs add; the last may be cut off."""
_WORKSPACE: Final = re.compile(r"^Workspace Path: (.+)$", re.MULTILINE)


def asked(block: Any) -> Any:
    """Return a user's block without the tags around the question; context is kept as such."""
    text = (
        block if isinstance(block, str) else block.get("text") if isinstance(block, dict) else None
    )
    if not isinstance(text, str):
        return block
    question = _ASKED.search(text)
    if question:
        rest = (text[: question.start()] + text[question.end() :]).strip()
        return {"type": "text", "text": question[1], **({"around": rest} if rest else {})}
    context = _CONTEXT.match(text)
    if context is None:
        return block
    rest = text[context.end() :]
    if not rest:
        return {"type": "context", "text": text}
    return {"type": "text", "text": rest, "around": context[0].strip()}


def message_events(
    role: str, content: Any, key_of: Callable[[Any], str], calls: WaitingCalls, model: str | None
) -> list[PendingEvent]:
    """Return the events of a message in blocks; a user's are read as ``asked`` does."""
    if role == "user":
        content = (
            [asked(block) for block in content] if isinstance(content, list) else asked(content)
        )
    speaker = "user" if role == "tool" else role
    return block_events(
        speaker, content, key_of, calls, model=model if role == "assistant" else None
    )


def workspace_in(text: str) -> str | None:
    """Return the folder that Cursor tells the model it works in."""
    match = _WORKSPACE.search(text)
    return match[1].strip() if match else None
