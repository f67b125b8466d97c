"""Messages in blocks, as Anthropic and the AI SDK write them, as events.

Several agents keep their conversations in them: ``text``, ``thinking``, ``tool_use`` and
``tool_result``, or ``reasoning``, ``tool-call`` and ``tool-result``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from treering.formats.codex.drafts import (
    PendingEvent,
    called,
    input_of,
    observed,
    returned,
    said,
    text_of,
)
from treering.formats.loose import blocks_of, fields_of, without_none, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import content_key, is_content_key
from treering.spine.conversion import plain
from treering.spine.words import shorten

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "redacted-reasoning"})
CALLS: Final = frozenset({"tool_use", "tool_call", "tool-call", "toolCall", "server_tool_use"})
RESULTS: Final = frozenset({"tool_result", "tool-result", "toolResult"})
_FAILURE: Final = re.compile(
    r"\s*(?:error\b|<error>|exit code:? (?!0\b)-?\d|command failed|the tool execution failed"
    r"|the user (?:denied|rejected)|permission denied)",
    re.IGNORECASE,
)
"""How the output of a failed tool begins, where no flag marks it."""
_DENIED: Final = re.compile(r"\s*the user (?:denied|rejected)|\s*permission denied", re.IGNORECASE)


class WaitingCalls:
    """Calls without results so far, the oldest first: ids may be missing on either side."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}
        """The tools, by call ids."""

    def state(self) -> list[tuple[str, str]]:
        """Return the calls that wait, to resume with."""
        return [*self._waiting.items()]

    def add(self, call_id: str, tool: str) -> None:
        """Note a call."""
        self._waiting[call_id] = tool

    def take(self, call_id: str | None, tool: str | None = None) -> tuple[str | None, str | None]:
        """Return the id and the tool of the call that a result belongs to.

        A result whose id is missing or unknown is that of the oldest call, of its tool if it names
        one.
        """
        if call_id is None or call_id not in self._waiting:
            made = (
                waiting_id
                for waiting_id, called_tool in self._waiting.items()
                if is_content_key(waiting_id) and tool in {None, called_tool}
            )
            call_id = next(made, call_id)
        known_tool = self._waiting.pop(call_id, None) if call_id is not None else None
        return call_id, known_tool or tool


def block_events(
    role: str,
    content: Any,
    key_of: Callable[[Any], str],
    calls: WaitingCalls,
    *,
    model: str | None = None,
) -> list[PendingEvent]:
    """Return the events of a message that ``model`` wrote, or a person.

    ``key_of`` returns the key of a block. A call without an id is given one.
    """
    events: list[PendingEvent] = []
    for block in blocks_of([content] if isinstance(content, dict) else content):
        sort = word(block.get("type"))
        if sort == "text" and isinstance(block.get("text"), str):
            if block["text"].strip():
                events.append(_text(role, block, key_of([role, block]), model))
        elif sort in THOUGHTS:
            events.append(thought(block, key_of([role, block]), model=model))
        elif sort in CALLS:
            events.append(_call(block, key_of([role, block]), calls))
        elif sort in RESULTS:
            events.append(_result(block, key_of([role, block]), calls))
        else:
            events.append(observed(key_of([role, block]), str(sort or "block"), block))
    return events


def thought(block: dict[str, Any], key: str, **more: Any) -> PendingEvent:
    """Return what the model thought; what is encrypted stays as it is."""
    text = next((block[at] for at in ("thinking", "text", "reasoning") if word(block.get(at))), "")
    rest = {
        at: value
        for at, value in block.items()
        if at not in {"type", "thinking", "text", "reasoning"} and value
    }
    return said("thinking", key, text if isinstance(text, str) else "", **{**more, **rest})


def failure_of(output: Any) -> dict[str, str] | None:
    """Return the error that the first words of an output report; None if it succeeded."""
    text = text_of(output)
    if _FAILURE.match(text) is None:
        return None
    return {"class": "Denied" if _DENIED.match(text) else "Failed", "message": shorten(plain(text))}


def _text(role: str, block: dict[str, Any], key: str, model: str | None) -> PendingEvent:
    rest = {at: value for at, value in block.items() if at not in {"type", "text"} and value}
    beside = {"beside": rest} if rest else {}
    if role not in {"user", "assistant"}:
        return observed(key, role, {**without_none(model=model), **beside, "text": block["text"]})
    return said(role, key, block["text"], model=model, **beside)


def call_in(block: dict[str, Any]) -> tuple[str | None, str, Any]:
    """Return the id of the call in a block, if it has one, its tool and its input."""
    tool = first_name(block, "name", "toolName", "tool") or "unnamed"
    given = next((block[at] for at in ("input", "args", "arguments") if at in block), None)
    return first_name(block, "id", "toolCallId", "tool_use_id"), tool, given


def result_in(block: dict[str, Any]) -> tuple[str | None, str | None, Any, dict[str, str] | None]:
    """Return the id of the call that a block answers and its tool, the output and the error."""
    output = next((block[at] for at in ("content", "result", "output") if at in block), None)
    shown = fields_of(output)
    if isinstance(shown.get("value"), str) and word(shown.get("type")):
        output = shown["value"]  # The AI SDK wraps a text: {"type": "text", "value": …}.
    texts = blocks_of(output) if isinstance(output, list) else []
    if texts and all(set(block) == {"type", "text"} for block in texts):
        output = text_of(output)
    stated = block.get("is_error", block.get("isError"))
    error = failure_of(output) if stated is None else None
    has_failed = any(fields.get("success") is False for fields in (shown, *texts))
    if stated is True or has_failed or str(shown.get("type")).startswith("error"):
        error = {"class": "Failed", "message": shorten(plain(text_of(output))) or "failed"}
    call_id = first_name(block, "tool_use_id", "toolCallId", "tool_call_id", "id")
    return call_id, first_name(block, "name", "toolName"), output, error


def _call(block: dict[str, Any], key: str, calls: WaitingCalls) -> PendingEvent:
    stated_id, tool, given = call_in(block)
    call_id = stated_id or content_key(f"call.{key}")
    calls.add(call_id, tool)
    return called(f"call:{call_id}", call_id, tool, input_of(given, "input"))


def _result(block: dict[str, Any], key: str, calls: WaitingCalls) -> PendingEvent:
    stated_id, stated_tool, output, error = result_in(block)
    call_id, tool = calls.take(stated_id, stated_tool)
    made_key = f"result:{call_id}" if call_id else key
    return returned(made_key, call_id or content_key(f"call.{key}"), tool, output, error)


def first_name(fields: dict[str, Any], *names: str) -> str | None:
    """Return the first of these fields that is a name."""
    return next((text for at in names if (text := name_of(fields.get(at)))), None)
