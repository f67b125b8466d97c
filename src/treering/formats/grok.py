"""Grok Build: a history of messages without times; files beside it have the session's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.beside import read_beside
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
from treering.formats.format import Format, LogPlace
from treering.formats.grammar import share
from treering.formats.loose import (
    blocks_of,
    count,
    digest,
    failed_by_words,
    fields_of,
    name,
    text_of,
    time_ms,
    without_none,
    word,
)
from treering.formats.parsed import SessionHeader
from treering.formats.record_reader import RecordReader
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path, PurePath

NAME: Final = "grok"
LOG: Final = "chat_history.jsonl"
_BESIDE: Final = frozenset({"summary.json", "signals.json", "prompt_context.json"})
_REPEATS: Final = frozenset({"updates.jsonl", "events.jsonl"})
_ROLES: Final = frozenset(
    {"system", "user", "assistant", "reasoning", "tool_result", "backend_tool_call"}
)
_TOKENS: Final = {
    "input_tokens": ("inputTokens", "totalInputTokens", "input_tokens"),
    "output_tokens": ("outputTokens", "totalOutputTokens", "output_tokens"),
    "cached_tokens": ("cachedReadTokens", "cacheReadTokens", "cached_tokens"),
}


def score(values: Sequence[Any]) -> float:
    """Return the share of values that are Grok's messages."""
    return share(_is_own(fields_of(value)) for value in values)


class GrokReader(RecordReader):
    """Reads one history, with the files beside it."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._summary = read_beside(path, "summary.json")
        self._is_new = True
        self.now.ts_ms = time_ms(self._summary.get("created_at")) or 1

    def session_of(self, record: dict[str, Any]) -> SessionHeader | str | None:
        """Return the session of the file, from its summary or its folder."""
        del record
        if self.now.session:
            return None
        about = self._summary
        stated = fields_of(about.get("info"))
        parent = name(about.get("parent_session_id")) or name(about.get("parentSessionId"))
        is_child = about.get("session_kind") == "subagent"
        kind = name(about.get("agent_name"))
        remotes = about.get("git_remotes")
        remote = remotes[0] if isinstance(remotes, list) and remotes else None
        title = word(about.get("generated_title")) or word(about.get("session_summary"))
        session = name(stated.get("id")) or self.own_session()
        return SessionHeader(
            session=session,
            agent=f"{self.agent}:{kind or 'subagent'}" if is_child else self.agent,
            cwd=word(stated.get("cwd")) or word(about.get("git_root_dir")),
            title=shorten(title) if title else None,
            parent=parent if is_child and parent != session else None,
            forked_from=None if is_child or parent == session else parent,
            about=without_none(
                branch=name(about.get("head_branch")),
                commit=name(about.get("head_commit")),
                repository=name(remote),
                model=name(about.get("current_model_id")),
            ),
        )

    def own_session(self) -> str:
        """Return the name of the session's folder."""
        if self.path is not None and self.path.name.startswith(LOG):
            return name(self.path.parent.name) or super().own_session()
        return super().own_session()

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a message; with the first one, also those of the files beside it."""
        contents = self._parse_message(record)
        if not self._is_new or isinstance(contents, str) or not contents:
            return contents
        self._is_new = False
        return [*contents, *self._beside()]

    def _parse_message(self, record: dict[str, Any]) -> list[EventContent] | str:
        match record.get("type"):
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
        blocks = blocks_of(record.get("content"))
        attached = [block for block in blocks if block.get("type") != "text"]
        text = text_of(blocks)
        if not text.strip() and not attached:
            return []
        spoken = said("user", text, attached=attached)
        broken = word(record.get("prior_turn_interrupt"))
        return [spoken] if broken is None else [interrupted(broken), spoken]

    def _assistant(self, record: dict[str, Any]) -> list[EventContent] | str:
        model = name(record.get("model_id"))
        contents: list[EventContent] = []
        if text := _reasoning(fields_of(record.get("reasoning"))):
            contents.append(thought(text, model=model))
        answer = text_of(record.get("content"))
        if answer.strip():
            contents.append(said("assistant", answer, model=model))
        calls = record.get("tool_calls")
        for at, one in enumerate(calls if isinstance(calls, list) else []):
            call = fields_of(one)
            function = fields_of(call.get("function")) or call
            call_id = name(call.get("id")) or f"{digest(record)}:{at}"
            tool = name(function.get("name")) or "tool"
            self.name_call(call_id, tool)
            contents.append(called(call_id, tool, function.get("arguments")))
        return contents or "empty"

    def _result(self, record: dict[str, Any]) -> EventContent:
        call_id, output = name(record.get("tool_call_id")), record.get("content")
        stated = record.get("is_error")
        failed = stated is True or (stated is None and failed_by_words(output))
        return outcome(call_id, self.tool_of(call_id), output, failed=failed)

    def _backend(self, call: dict[str, Any]) -> list[EventContent]:
        """Return a call that the provider made and answered itself."""
        tool = name(call.get("tool_type"))
        if tool is None:
            return []
        call_id = name(call.get("id")) or digest(call)
        action = fields_of(call.get("action"))
        given = {at: value for at, value in action.items() if at != "sources"}
        failed = word(call.get("status")) in {"failed", "error", "incomplete"}
        output = call.get("output", action.get("sources", call.get("status")))
        return [called(call_id, tool, given), outcome(call_id, tool, output, failed=failed)]

    def _beside(self) -> list[EventContent]:
        """Return the title and the tokens of the session, as they are now."""
        about, signals = self._summary, read_beside(self.path, "signals.json")
        at_ms = time_ms(about.get("updated_at"))
        title = word(about.get("generated_title")) or word(about.get("session_summary"))
        contents: list[EventContent | None] = [titled(title) if title else None]
        counts = {
            ours: next((number for at in theirs if (number := count(signals.get(at)))), 0)
            for ours, theirs in _TOKENS.items()
        }
        model = name(about.get("current_model_id"))
        if counts["input_tokens"] or counts["output_tokens"]:
            spent = used(**counts, model=model, message_id="session", stated=signals)
            contents.append(spent)
        return [
            msgspec.structs.replace(one, key=f"{one.kind}.{digest(one.payload)}", ts_ms=at_ms)
            for one in contents
            if one is not None
        ]


def _left_out(path: Path) -> str | None:
    if path.name not in _BESIDE | _REPEATS or not path.with_name(LOG).exists():
        return None
    if path.name in _REPEATS:
        return "updates that repeat a history"
    return "what a session is, which is read with its history"


FORMAT: Final = Format(
    name=NAME,
    score=score,
    reader=GrokReader,
    places=(LogPlace(".grok", "sessions", "GROK_HOME"),),
    left_out=_left_out,
)


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
