"""The content of a line: texts, thoughts, calls, results, and what they used."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from treering.formats.claude_code.lines import (
    NAME,
    LineEvent,
    blocks_of,
    brief,
    name_in,
    observed,
    spelt,
    text_of,
)
from treering.formats.claude_code.results import (
    INTERRUPTED,
    TASK_TOOLS,
    call_in,
    called,
    interrupted,
    returned,
)
from treering.formats.claude_code.state import CALLS_MAX, MESSAGES_MAX, PendingCompaction, Task
from treering.formats.claude_code.usage import used
from treering.formats.loose import keep, says_beyond, says_something
from treering.spine.words import shorten

if TYPE_CHECKING:
    from treering.formats.claude_code.lines import LogLine
    from treering.formats.claude_code.state import ClaudeCodeState

LOCAL: Final = frozenset({
    "/agents", "/clear", "/compact", "/config", "/context", "/cost", "/doctor", "/exit", "/help",
    "/hooks", "/ide", "/login", "/logout", "/mcp", "/memory", "/model", "/permissions", "/resume",
    "/status", "/terminal-setup", "/upgrade", "/vim",
})  # fmt: skip
"""Commands for the program itself: no model sees them."""
OUTPUT: Final = "<local-command-stdout>"
"""Comes with a command that the program answered itself."""
_NAME: Final = re.compile(r"<command-name>\s*(/?[^<>\s]+)\s*</command-name>")
_ARGUMENTS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)

NOBODY: Final = "<synthetic>"
"""The model of answers that Claude Code wrote itself."""
NO_CONTENT: Final = "(no content)"
"""Written where an answer is empty."""

_ENVELOPE: Final = frozenset({
    "content", "context_management", "diagnostics", "container", "id", "model", "role",
    "stop_details", "stop_reason", "stop_sequence", "type", "usage",
})  # fmt: skip
"""Fields of a message that say nothing without its content."""

_WRAPPED: Final = re.compile(
    r"\s*<(?:(?P<command>command-(?:name|message|args))"
    r"|(?P<output>(?:local-command|bash)-(?:stdout|stderr|input|caveat))"
    r"|(?P<notice>task-notification|user-memory-input)"
    r"|(?P<aside>system-reminder|ide_opened_file|ide_selection|ide_diagnostics))>"
)
"""Texts in the user's place that are not messages of the user."""


def said_by_user(line: LogLine, past: ClaudeCodeState) -> list[LineEvent]:
    """Return the events of a user line: a prompt, results, or neither."""
    content = line.message.get("content")
    if line.value.get("isCompactSummary") is True:
        return [_summarised(line, past)]
    blocks = blocks_of(content)
    if _is_injected(line) and not any(map(_is_result, blocks)):
        return [observed(line, "injected")]
    pieces: list[LineEvent] = []
    words: list[str] = []
    attached: list[dict[str, Any]] = []
    detail = line.value.get("toolUseResult")
    answered = any(OUTPUT in str(block.get("text")) for block in blocks)
    for block in blocks:
        sort, text = block.get("type"), block.get("text")
        if _is_result(block):
            pieces += returned(block, line, past.calls, detail)
            past.tasks.pop(str(block.get("tool_use_id")), None)
            detail = None
        elif sort != "text" or not isinstance(text, str):
            attached.append(block)
        elif text.strip():
            aside = _aside(line, text)
            typed = typed_in(text) if aside == "command" and not answered else None
            if text.startswith(INTERRUPTED):
                pieces.append(interrupted("interrupted by the user", text))
            elif typed is not None:
                pieces.append(_prompt(typed, [], raw=text))
            elif aside is not None:
                pieces.append(_set_aside(line, text, aside))
            else:
                words.append(text)
    return [*pieces, _prompt("\n".join(words), attached)] if words or attached else pieces


def said_by_assistant(line: LogLine, past: ClaudeCodeState) -> tuple[list[LineEvent], str | None]:
    """Return the events of an assistant's line, and the key of the part that it repeats."""
    if line.value.get("isApiErrorMessage") is True:
        return [_error(line)], None
    model = name_in(line.message, "model")
    if model == NOBODY:
        return [observed(line, "synthetic answer")], None
    pieces: list[LineEvent] = []
    repeated: str | None = None
    for block in blocks_of(line.message.get("content")):
        before = _said_before(block, line, past, len(pieces))
        if before is not None:
            repeated = before
        else:
            pieces += _answered(block, line, past)
    return [*pieces, *used(line, past)], repeated


def is_unheard(line: LogLine) -> bool:
    """Whether a line without events says something after all, in an unknown shape."""
    message = line.message
    if not isinstance(message.get("content"), str | list):
        return bool(message)
    if says_beyond(message, _ENVELOPE) or says_something(line.value.get("toolUseResult")):
        return True
    return any(not _is_empty(block) for block in blocks_of(message["content"]))


def _is_empty(block: dict[str, Any]) -> bool:
    values = [value for name, value in block.items() if name != "type"]
    return all(value in (None, "", [], {}) or _is_blank(value) for value in values)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and value.strip() in {"", NO_CONTENT}


def call_of_task(line: LogLine, past: ClaudeCodeState) -> tuple[str | None, str | None]:
    """Return the call that started a subagent, by its first line, and the sort of agent."""
    asked = _digest(text_of(line.message.get("content")))
    call_ids = [call_id for call_id, task in past.tasks.items() if task.prompt == asked]
    if not call_ids and len(past.tasks) == 1:
        call_ids = list(past.tasks)
    if not call_ids:
        return None, None
    return call_ids[0], past.tasks.pop(call_ids[0]).sort


def _is_result(block: dict[str, Any]) -> bool:
    return str(block.get("type")).endswith("tool_result")


# The user's.


def _is_injected(line: LogLine) -> bool:
    """Whether a line is in the user's place, but not by the user."""
    return any(line.value.get(mark) is True for mark in ("isMeta", "isVisibleInTranscriptOnly"))


def _prompt(text: str, attached: list[dict[str, Any]], **more: str) -> LineEvent:
    sorts = ", ".join(str(block.get("type") or "attachment") for block in attached)
    words = text or f"({sorts})"
    return LineEvent(
        kind="conversation.user",
        summary=brief(words),
        payload={"text": words, **more} | ({"attachments": attached} if attached else {}),
        refs={"characters": len(text)},
    )


def _aside(line: LogLine, text: str) -> str | None:
    """Return what a text is that is not a message of the user; None if it is one."""
    origin = line.value.get("origin")
    if isinstance(origin, dict) and origin.get("kind") == "task-notification":
        return "task-notification"
    wrapper = _WRAPPED.match(text)
    if wrapper is None:
        return None
    if wrapper["command"]:
        return "command"
    if wrapper["aside"]:
        # A reminder may come before the words of the user.
        return "injected" if text.rstrip().endswith(f"</{wrapper['aside']}>") else None
    return "command output" if wrapper["output"] else wrapper["notice"]


def _set_aside(line: LogLine, text: str, what: str) -> LineEvent:
    content = line.message.get("content")
    if isinstance(content, str) or len(blocks_of(content)) == 1:
        return observed(line, what)
    return LineEvent(
        kind="ops.observation",
        summary=shorten(what),
        payload={"record": line.sort, "text": text},
        refs={"observed": what},
    )


def _summarised(line: LogLine, past: ClaudeCodeState) -> LineEvent:
    pending = past.compactions.pop(line.session, None) or PendingCompaction()
    text = text_of(line.message.get("content"))
    tokens = {} if pending.tokens is None else {"from_tokens": pending.tokens}
    return LineEvent(
        kind="context.compacted",
        summary=brief(text),
        payload={"summary": text, "by": NAME, **tokens},
        refs={"by": NAME, **tokens},
        first=pending.first,
    )


# The assistant's.


def _answered(block: dict[str, Any], line: LogLine, past: ClaudeCodeState) -> list[LineEvent]:
    sort, text = str(block.get("type")), block.get("text")
    if sort == "text" and isinstance(text, str):
        return [_answer(text, line)] if text.strip() not in {"", NO_CONTENT} else []
    if sort.endswith("tool_use"):
        call_id, tool = call_in(block)
        if call_id and tool:
            keep(past.calls, call_id, tool, CALLS_MAX)
            if tool in TASK_TOOLS:
                _remember_task(call_id, block.get("input"), past)
        return [called(block, line)]
    if _is_result(block):
        return returned(block, line, past.calls, None)
    message_id = name_in(line.message, "id")
    shared = {"message_id": message_id} if message_id else {}
    if sort in {"thinking", "redacted_thinking"}:
        thought = {name: value for name, value in block.items() if name != "type"}
        if not any(thought.values()):
            return []
        payload = {"thinking": "", **thought}
        model = name_in(line.message, "model")
        refs = {"observed": "thinking", **shared} | ({"model": model} if model else {})
        return [LineEvent(kind="ops.observation", summary="thinking", payload=payload, refs=refs)]
    payload = {**block, "record": sort}
    refs = {"observed": shorten(sort, 100), **shared}
    return [LineEvent(kind="ops.observation", summary=shorten(sort), payload=payload, refs=refs)]


def _answer(text: str, line: LogLine) -> LineEvent:
    named = {
        "model": name_in(line.message, "model"),
        "stop_reason": name_in(line.message, "stop_reason"),
        "message_id": name_in(line.message, "id"),
    }
    about = {name: value for name, value in named.items() if value is not None}
    return LineEvent(
        kind="conversation.assistant",
        summary=brief(text),
        payload={"text": text, **about},
        refs={"characters": len(text), **about},
    )


def _error(line: LogLine) -> LineEvent:
    words = text_of(line.message.get("content"))
    status = line.value.get("apiErrorStatus")
    code = name_in(line.value, "error") or (status if type(status) is int else None)
    return LineEvent(
        kind="ops.error",
        summary=brief(words),
        payload={**line.value, "record": line.sort, "text": words},
        refs={} if code is None else {"code": str(code)},
    )


def _said_before(
    block: dict[str, Any], line: LogLine, past: ClaudeCodeState, number: int
) -> str | None:
    """Return the key of the same part of the same message, if it was read before."""
    if (asked := _asked_before(block, line, past, number)) is not None:
        return asked
    message_id = name_in(line.message, "id")
    if message_id is None:
        return None
    of = f"{past.number(line.session)}:{message_id}"
    keys = past.blocks.get(of)
    if keys is None:
        keep(past.blocks, of, keys := {}, MESSAGES_MAX)
    digest = _digest(block)
    if digest in keys:
        return keys[digest]
    keys[digest] = numbered(line.key, number)
    return None


def _asked_before(
    block: dict[str, Any], line: LogLine, past: ClaudeCodeState, number: int
) -> str | None:
    """Return the key of a call that another message asks for again."""
    if not str(block.get("type")).endswith("tool_use"):
        return None
    call_id, _ = call_in(block)
    if call_id is None:
        return None
    of, mark = f"{past.number(line.session)}:{call_id}", _digest(block)
    earlier_mark, key = past.asked.get(of, ("", ""))
    if earlier_mark == mark:
        return key
    keep(past.asked, of, (mark, numbered(line.key, number)), CALLS_MAX)
    return None


def numbered(key: str, number: int) -> str:
    """Return the key of one of the events of a line."""
    return f"{key}.{number}" if number else key


def _remember_task(call_id: str, given: Any, past: ClaudeCodeState) -> None:
    fields = given if isinstance(given, dict) else {}
    task = Task(_digest(str(fields.get("prompt") or "")), name_in(fields, "subagent_type"))
    keep(past.tasks, call_id, task, CALLS_MAX)


def _digest(value: Any) -> str:
    return sha256(spelt(value)).hexdigest()[:12]


def typed_in(text: str) -> str | None:
    """Return a command as the user typed it; None if there is none, or it is for the program."""
    named = _NAME.search(text)
    if named is None or OUTPUT in text:
        return None
    name = f"/{named[1].removeprefix('/')}"
    given = _ARGUMENTS.search(text)
    words = given[1].strip() if given is not None else ""
    return None if name in LOCAL else f"{name} {words}".rstrip()
