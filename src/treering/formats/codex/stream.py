"""The streams of ``codex exec --json``: items of a thread, without times and without the prompt."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.formats.event_content import (
    EventContent,
    called,
    observation,
    outcome,
    said,
    thought,
    trouble,
    used,
)
from treering.formats.format import Format, OwnShare
from treering.formats.loose import count, digest, fields_of, name, text_of, word
from treering.formats.record_reader import ReaderState, RecordReader

NAME: Final = "codex-exec"
AGENT: Final = "codex"
_TYPES: Final = frozenset({
    "thread.started", "turn.started", "turn.completed", "turn.failed", "item.started",
    "item.updated", "item.completed",
})  # fmt: skip
_FAILED: Final = frozenset({"failed", "error", "declined"})
_OF_A_CALL: Final = frozenset(
    {"id", "type", "item_type", "status", "aggregated_output", "exit_code", "result", "error"}
)


class ThreadState(ReaderState, kw_only=True):
    """The state of a thread."""

    turn: int = 0
    begun: dict[str, str] = msgspec.field(default_factory=dict)
    """Calls that have begun, by the ids of their items."""


class CodexExecReader(RecordReader):
    """Reads one stream."""

    agent = AGENT
    state_type = ThreadState

    def session_of(self, record: dict[str, Any]) -> str | None:
        """Return the thread."""
        return name(record.get("thread_id"))

    def id_of(self, record: dict[str, Any]) -> str | None:
        """Return the item's id, which is unique in its turn, and what has become of it."""
        item_id = name(fields_of(record.get("item")).get("id"))
        return None if item_id is None else f"{self.now.turn}.{item_id}.{record.get('type')}"

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a line."""
        match record.get("type"):
            case "thread.started":
                return "opens the session"
            case "turn.started":
                self.now.turn += 1
                return "opens a turn"
            case "turn.completed":
                return self._usage(fields_of(record.get("usage")))
            case "turn.failed":
                error = record.get("error")
                message = text_of(fields_of(error).get("message", error))
                return [trouble(message, code="turn.failed")] if message.strip() else []
            case "error" if reason := word(record.get("message")):
                return [trouble(reason, code="error")]
            case "item.started" | "item.updated" | "item.completed":
                item = fields_of(record.get("item"))
                return self._item(item, str(record["type"])) if item else []
        return []

    def _usage(self, usage: dict[str, Any]) -> list[EventContent] | str:
        spent = used(
            input_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=count(usage.get("cached_input_tokens")),
            stated=usage,
        )
        return [spent] if spent else "closes a turn"

    def _item(self, item: dict[str, Any], state: str) -> list[EventContent] | str:
        sort = word(item.get("type")) or word(item.get("item_type")) or "item"
        is_done = state == "item.completed"
        text = text_of(item.get("text", item.get("content")))
        if sort in {"agent_message", "assistant_message", "message", "reasoning"}:
            if not is_done:
                return "completed later"
            make = thought if sort == "reasoning" else _answer
            return [make(text)] if text.strip() else []
        if sort == "error" and (message := word(item.get("message"))):
            return [trouble(message, code="item")]
        if sort in _CALLS:
            return self._call(item, sort, is_done=is_done)
        return [observation(sort, item)]

    def _call(self, item: dict[str, Any], sort: str, *, is_done: bool) -> list[EventContent] | str:
        item_id = name(item.get("id"))
        item_key = f"{self.now.turn}.{item_id or digest(item)}"
        tool, given = _call_of(item, sort)
        # Other turns have items with the same ids.
        call_id = name(f"{self.now.session}:{item_key}") or item_key
        began = [] if item_key in self.now.begun else [called(call_id, tool, given)]
        self.now.begun[item_key] = ""
        if not is_done:
            return began or "completed later"
        self.now.begun.pop(item_key, None)
        error, code = item.get("error"), item.get("exit_code")
        output = item.get("aggregated_output", item.get("result"))
        if output is None:
            output = fields_of(error).get("message", error) if error else item.get("status")
        failed = (
            bool(error) or (type(code) is int and code != 0) or word(item.get("status")) in _FAILED
        )
        details = {"exit_code": code} if code is not None else {}
        return [*began, outcome(call_id, tool, output, failed=failed, details=details)]


def _answer(text: str) -> EventContent:
    return said("assistant", text)


def _call_of(item: dict[str, Any], sort: str) -> tuple[str, Any]:
    rest = {at: value for at, value in item.items() if at not in _OF_A_CALL}
    if sort == "mcp_tool_call":
        tool = name(item.get("tool")) or "tool"
        server = name(item.get("server"))
        return (f"{server}.{tool}" if server else tool), item.get("arguments", rest)
    return _CALLS[sort], rest


_CALLS: Final = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "mcp_tool_call": "mcp",
    "web_search": "web_search",
    "collab_tool_call": "collab",
}
"""Items that are calls, and their tools."""


def _is_own(value: dict[str, Any]) -> bool | None:
    sort = word(value.get("type"))
    if sort == "error":
        return None
    if sort not in _TYPES:
        return False
    match sort:
        case "thread.started":
            return "thread_id" in value
        case "turn.started":
            return None
        case "turn.completed":
            return isinstance(value.get("usage"), dict)
        case "turn.failed":
            return "error" in value
    return isinstance(value.get("item"), dict)


score: Final = OwnShare(_is_own)
"""Returns the share of values that are events of a thread."""

FORMAT: Final = Format(name=NAME, score=score, reader=CodexExecReader)
