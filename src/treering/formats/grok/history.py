"""Grok's history: the messages that the model is sent, and a session by the files of its folder."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from treering.formats.cursor.composers import asked
from treering.formats.event_content import (
    EventContent,
    called,
    interrupted,
    outcome,
    said,
    thought,
    titled,
    used,
)
from treering.formats.format import OwnShare
from treering.formats.loose import (
    blocks_of,
    count,
    digest,
    failed_by_words,
    fields_of,
    name,
    read_beside,
    text_of,
    time_ms,
    without_none,
    word,
)
from treering.formats.parsed import SessionHeader
from treering.formats.record_reader import RecordReader
from treering.formats.whole import json_of
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

    from treering.formats.parsed import ParsedEvent


NAME: Final = "grok"
HISTORY: Final = "chat_history.jsonl"
UPDATES: Final = "updates.jsonl"
SESSION_KEY: Final = "session"
"""The key of the first event of a session whose updates were read."""
SUBAGENTS: Final = frozenset({"subagent", "subagent_fork"})
_START_BYTES: Final = 256 * 1024
_SAID: Final = re.compile(rb'"user_message_chunk"')
_ENDED: Final = re.compile(rb'"turn_completed"')
_SPAWNED: Final = b'"subagent_spawned"'
_TOKENS: Final = {
    "input_tokens": ("inputTokens", "totalInputTokens", "input_tokens"),
    "output_tokens": ("outputTokens", "totalOutputTokens", "output_tokens"),
    "cached_tokens": ("cachedReadTokens", "cacheReadTokens", "cached_tokens"),
}


def tells_all(updates: Path) -> bool:
    """Return whether there are updates that tell what was said, as far as they were written."""
    try:
        with updates.open("rb") as stream:
            start = stream.read(_START_BYTES)
    except OSError:
        return False
    return _SAID.search(start) is not None or _ENDED.search(start) is None


def summary_of(path: PurePath | None) -> dict[str, Any]:
    """Return the summary of the session beside a log; {} if there is none."""
    return read_beside(path, "summary.json")


def title_of(summary: dict[str, Any]) -> str | None:
    """Return the title of a session."""
    return word(summary.get("generated_title")) or word(summary.get("session_summary"))


def session_header(
    summary: dict[str, Any], path: PurePath | None, *, agent: str, otherwise: str
) -> SessionHeader:
    """Return the header of the session in a folder; ``otherwise`` is its name if nothing tells."""
    stated = fields_of(summary.get("info"))
    is_in_place = path is not None and path.name.startswith((HISTORY, UPDATES))
    folder = name(path.parent.name) if path is not None and is_in_place else None
    session = name(stated.get("id")) or folder or otherwise
    parent = name(summary.get("parent_session_id")) or name(summary.get("parentSessionId"))
    is_child = word(summary.get("session_kind")) in SUBAGENTS
    if is_child and parent is None and path is not None:
        parent = _parent(Path(path).parent, session)
    kind = name(summary.get("agent_name"))
    remotes = summary.get("git_remotes")
    remote = remotes[0] if isinstance(remotes, list) and remotes else None
    title = title_of(summary)
    return SessionHeader(
        session=session,
        agent=f"{agent}:{kind or 'subagent'}" if is_child else agent,
        cwd=word(stated.get("cwd"))
        or word(summary.get("git_root_dir"))
        or (_project(path) if path is not None and is_in_place else None),
        title=shorten(title) if title else None,
        parent=parent if is_child and parent != session else None,
        forked_from=None if is_child or parent == session else parent,
        about=without_none(
            branch=name(summary.get("head_branch")),
            commit=name(summary.get("head_commit")),
            repository=name(remote),
            model=name(summary.get("current_model_id")),
        ),
    )


def _project(path: PurePath) -> str | None:
    """Return the project that the folder above that of a session is named after."""
    folder = unquote(path.parent.parent.name)
    is_whole = PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).is_absolute()
    return folder if is_whole else None


def token_counts(stated: dict[str, Any]) -> dict[str, int]:
    """Return the tokens in a report of Grok's; those from a cache are among the input."""
    stated = {**stated, **fields_of(stated.get("tokenUsage")), **fields_of(stated.get("usage"))}
    return {
        ours: next((number for at in theirs if (number := count(stated.get(at)))), 0)
        for ours, theirs in _TOKENS.items()
    }


def _parent(folder: Path, session: str) -> str | None:
    """Return the session that began a subagent: it says so in its updates, in a folder beside."""
    try:
        logs = sorted(folder.parent.glob(f"*/{UPDATES}"))
        begun = [(log, _children(log, log.stat().st_mtime_ns)) for log in logs]
    except OSError:
        return None
    return next((name(log.parent.name) for log, children in begun if session in children), None)


@lru_cache(maxsize=512)
def _children(updates: Path, _mtime_ns: int) -> frozenset[str]:
    """Return the sessions that a session began."""
    try:
        with updates.open("rb") as stream:
            lines = [fields_of(json_of(line)) for line in stream if _SPAWNED in line]
    except OSError:
        return frozenset()
    begun = (fields_of(fields_of(line.get("params")).get("update")) for line in lines)
    return frozenset(child for update in begun if (child := name(update.get("child_session_id"))))


_ROLES: Final = frozenset(
    {"system", "user", "assistant", "reasoning", "tool_result", "backend_tool_call"}
)
_BACKEND: Final = {
    "web_search_call": "web_search",
    "custom_tool_call": "x_search",
    "code_interpreter_call": "code_interpreter",
}
"""Items of an answer that are calls of the provider's own tools."""


class HistoryReader(RecordReader):
    """Reads one history, with the files beside it."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._summary = summary_of(path)
        self._is_new = True
        self.now.ts_ms = time_ms(self._summary.get("created_at")) or 1

    def session_of(self, record: dict[str, Any]) -> SessionHeader | str | None:
        """Return the session of the file, from its summary or its folder."""
        del record
        if self.now.session:
            return None
        return session_header(
            self._summary, self.path, agent=self.agent, otherwise=self.own_session()
        )

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a message; with the first one, also those of the files beside it."""
        contents = self._parse_message(record)
        if not self._is_new or isinstance(contents, str) or not contents:
            return contents
        self._is_new = False
        return [*contents, *self._beside()]

    def _events(
        self, contents: Sequence[EventContent], session: str, key: str
    ) -> list[ParsedEvent]:
        events = super()._events(contents, session, key)
        return [msgspec.structs.replace(event, unless=SESSION_KEY) for event in events]

    def _parse_message(self, record: dict[str, Any]) -> list[EventContent] | str:
        match _sort(record):
            case "user":
                return self._user(record)
            case "assistant":
                return self._assistant(record)
            case "reasoning":
                text = _reasoning(record)
                sealed = record.get("encrypted_content")
                return [thought(text, encrypted_content=sealed)] if text or sealed else []
            case "tool_result":
                return [self._result(record)]
            case "backend_tool_call":
                return self._backend(fields_of(record.get("kind")))
        return []

    def _user(self, record: dict[str, Any]) -> list[EventContent]:
        reason = word(record.get("synthetic_reason"))
        if reason is not None and reason != "interjection":
            return []
        spoken = asking(blocks_of(record.get("content")))
        if spoken is None:
            return []
        broken = word(record.get("prior_turn_interrupt"))
        return [spoken] if broken is None else [interrupted(broken), spoken]

    def _assistant(self, record: dict[str, Any]) -> list[EventContent] | str:
        model = name(record.get("model_id"))
        contents = self._raw_output(record.get("raw_output"), model)
        stated = fields_of(record.get("reasoning")) or {"text": record.get("reasoning_content")}
        if text := _reasoning(stated):
            contents.append(thought(text, model=model))
        answer = text_of(record.get("content"))
        if answer.strip():
            contents.append(said("assistant", answer, model=model))
        calls = record.get("tool_calls")
        for at, entry in enumerate(calls if isinstance(calls, list) else []):
            call = fields_of(entry)
            function = fields_of(call.get("function")) or call
            call_id = name(call.get("id")) or name(call.get("tool_call_id"))
            call_id = call_id or f"{digest(record)}:{at}"
            tool = name(function.get("name")) or "tool"
            self.name_call(call_id, tool)
            given = function.get("arguments", call.get("input"))
            contents.append(called(call_id, tool, given))
        return contents or "empty"

    def _raw_output(self, items: Any, model: str | None) -> list[EventContent]:
        """Return what an answer has beside its words: thoughts, and calls of the provider's."""
        contents: list[EventContent] = []
        for item in map(fields_of, items if isinstance(items, list) else ()):
            sort = word(item.get("type"))
            if sort == "reasoning" and (text := _reasoning(item)):
                contents.append(thought(text, model=model))
            elif sort in _BACKEND:
                contents += self._backend({"tool_type": _BACKEND[sort], **item})
        return contents

    def _result(self, record: dict[str, Any]) -> EventContent:
        call_id, output = name(record.get("tool_call_id")), record.get("content")
        stated = record.get("is_error")
        failed = stated is True or (stated is None and failed_by_words(output))
        tool = self.tool_of(call_id) or name(record.get("name"))
        return outcome(call_id, tool, output, failed=failed)

    def _backend(self, call: dict[str, Any]) -> list[EventContent]:
        """Return a call that the provider made and answered itself."""
        tool = name(call.get("tool_type"))
        if tool is None:
            return []
        call_id = name(call.get("id")) or digest(call)
        action = fields_of(call.get("action"))
        given = {at: value for at, value in action.items() if at != "sources"}
        given = given or {at: call[at] for at in ("input", "code") if at in call}
        failed = word(call.get("status")) in {"failed", "error", "incomplete"}
        output = call.get("output", action.get("sources", call.get("status")))
        return [called(call_id, tool, given), outcome(call_id, tool, output, failed=failed)]

    def _beside(self) -> list[EventContent]:
        """Return the title and the tokens of the session, as they are now."""
        about, signals = self._summary, read_beside(self.path, "signals.json")
        at_ms = time_ms(about.get("updated_at"))
        title = title_of(about)
        contents: list[EventContent | None] = [titled(title) if title else None]
        counts = token_counts(signals)
        model = name(about.get("current_model_id"))
        if counts["input_tokens"] or counts["output_tokens"]:
            spent = used(**counts, model=model, message_id="session", stated=signals)
            contents.append(spent)
        return [
            msgspec.structs.replace(
                content, key=f"{content.kind}.{digest(content.payload)}", ts_ms=at_ms
            )
            for content in contents
            if content is not None
        ]


def asking(blocks: Sequence[dict[str, Any]]) -> EventContent | None:
    """Return what a user asked, without what Grok puts around it; None if that is all."""
    read = [asked(block) for block in blocks]
    texts = [block for block in read if block.get("type") == "text"]
    context = [block.get("text") for block in read if block.get("type") == "context"]
    context += [block["around"] for block in texts if "around" in block]
    attached = [block for block in read if block not in texts and block.get("type") != "context"]
    text = text_of(texts)
    if not text.strip() and not attached:
        return None
    return said("user", text, attached=attached, context=context or None)


def _sort(record: dict[str, Any]) -> str | None:
    """Return what a message is; older versions call it a role."""
    role = word(record.get("type")) or word(record.get("role"))
    return "tool_result" if role == "tool" else role


def _reasoning(record: dict[str, Any]) -> str:
    summary = record.get("summary")
    return text_of(summary) or text_of(record.get("content")) or text_of(record.get("text"))


def _is_own(value: dict[str, Any]) -> bool | None:
    sort = word(value.get("type"))
    if sort not in _ROLES or "message" in value or "uuid" in value or "timestamp" in value:
        return False
    match sort:
        case "assistant":
            return "model_id" in value or "tool_calls" in value
        case "tool_result":
            return "tool_call_id" in value and "content" in value
        case "backend_tool_call":
            return isinstance(value.get("kind"), dict)
        case "user":
            return True if {"prompt_index", "synthetic_reason"} & value.keys() else None
    return None


score: Final = OwnShare(_is_own)
"""Returns the share of values that are Grok's messages."""
