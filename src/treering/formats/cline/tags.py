"""Calls by tags: how these agents let models call tools that have no tool calling of their own.

<read_file><path>tides.py</path></read_file>        in an answer
[read_file for 'tides.py'] Result:                  and after it, in the next message
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from treering.formats.blocks import WaitingCalls, failure_of
from treering.formats.codex.drafts import called, returned
from treering.formats.parsed import content_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.formats.codex.drafts import PendingEvent

_CALL: Final = re.compile(r"<([a-z][a-z0-9]*(?:_[a-z0-9]+)+)>\s*(<[a-z_]+>.*?|\s*)</\1>", re.DOTALL)
"""A tool has a name of several words, and its arguments in tags of their own."""
_ARGUMENT: Final = re.compile(r"<([a-zA-Z_]+)>(.*?)</\1>", re.DOTALL)
_THOUGHT: Final = re.compile(r"\s*<thinking>(.*?)</thinking>\s*", re.DOTALL)
_RESULT: Final = re.compile(
    r"\[([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?: for .*?| in .*?|)\] Result:\s*", re.DOTALL
)
_NO_TOOLS: Final = frozenset({"environment_details", "user_message"})


def calls_in(
    blocks: Sequence[dict[str, Any]], calls: WaitingCalls, key_of: Callable[[Any], str]
) -> tuple[list[dict[str, Any]], list[PendingEvent]]:
    """Return an answer's blocks without calls and thoughts in tags, and these calls."""
    rest: list[dict[str, Any]] = []
    events: list[PendingEvent] = []
    for block in blocks:
        text = block.get("text")
        if block.get("type") != "text" or not isinstance(text, str) or "<" not in text:
            rest.append(block)
            continue
        rest += [{"type": "thinking", "thinking": match[1]} for match in _THOUGHT.finditer(text)]
        text = _THOUGHT.sub("", text)
        found_calls = [match for match in _CALL.finditer(text) if match[1] not in _NO_TOOLS]
        for call in found_calls:
            key = key_of(["call", call[0]])
            call_id = content_key(f"call.{key}")
            given = {name: value.strip("\n") for name, value in _ARGUMENT.findall(call[2])}
            calls.add(call_id, call[1])
            events.append(called(f"call:{call_id}", call_id, call[1], given))
        for call in found_calls:
            text = text.replace(call[0], "", 1)
        rest.append({**block, "text": text.strip("\n") if found_calls else text})
    return rest, events


def results_in(
    blocks: Sequence[dict[str, Any]], calls: WaitingCalls, key_of: Callable[[Any], str]
) -> tuple[list[PendingEvent], list[dict[str, Any]]]:
    """Return the results of calls by tags among a user's blocks, and the other blocks."""
    events: list[PendingEvent] = []
    rest: list[dict[str, Any]] = []
    ahead = [*blocks]
    while ahead:
        block = ahead.pop(0)
        text = str(block.get("text"))
        match = _RESULT.match(text)
        if match is None or block.get("type") != "text":
            rest.append(block)
            continue
        output: Any = text[match.end() :]
        if (
            not output.strip()
            and ahead
            and "<environment_details>" not in str(ahead[0].get("text"))
        ):
            following = ahead.pop(0)
            given = following.get("text")
            output = given if isinstance(given, str) else [following]
        call_id, tool = calls.take(None, match[1])
        key = key_of(["result", match[1], output])
        call_id = call_id or content_key(f"call.{key}")
        events.append(returned(f"result:{call_id}", call_id, tool, output, failure_of(output)))
    return events, rest
