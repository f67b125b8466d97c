"""The usage of messages, as Claude Code reports it: on every line of a message, and growing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.derive.tool_facts import COUNT_MAX
from treering.formats.claude_code.lines import LineEvent, name_in
from treering.formats.claude_code.state import MESSAGES_MAX
from treering.formats.loose import keep

if TYPE_CHECKING:
    from treering.formats.claude_code.lines import LogLine
    from treering.formats.claude_code.state import ClaudeCodeState

USED: Final = "usage.reported"
_COUNTS: Final = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cached_tokens",
    "cache_creation_input_tokens": "cache_creation_tokens",
}


def used(line: LogLine, past: ClaudeCodeState) -> list[LineEvent]:
    """Return the usage of the message of a line, if it is more than was reported before."""
    given = line.message.get("usage")
    given = given if isinstance(given, dict) else {}
    counts = {ours: count(given.get(theirs)) for theirs, ours in _COUNTS.items()}
    total = sum(counts.values())
    message_id, request_id = _call(line, past)
    call = f"{message_id or ''}:{request_id or ''}"
    most, received = past.usage.get(call, (0, -1)) if message_id else (0, -1)
    if total <= most:
        return []
    key = f"{line.key}.usage"
    if message_id:
        keep(past.usage, call, (total, counts["output_tokens"]), MESSAGES_MAX)
        key = f"usage:{call}:{counts['output_tokens']}"
        key += f":{total}" if received == counts["output_tokens"] else ""
    # Tokens from a cache, or into one, are counted separately from the rest of the input.
    written = counts.pop("cache_creation_tokens")
    counts["input_tokens"] += counts["cached_tokens"] + written
    named = {
        "model": name_in(line.message, "model"),
        "provider": "anthropic",
        "message_id": message_id,
        "request_id": request_id,
    }
    refs: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    refs |= counts | {"cache_creation_tokens": written, "total_tokens": total}
    return [
        LineEvent(
            kind=USED,
            summary=f"{total} tokens used",
            payload={"usage": given, **_cost(line)},
            refs=refs,
            key=key,
        )
    ]


def _cost(line: LogLine) -> dict[str, float]:
    """Return what the message cost, where the log says so."""
    cost = line.value.get("costUSD")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0:
        return {"cost_usd": cost}
    return {}


def _call(line: LogLine, past: ClaudeCodeState) -> tuple[str | None, str | None]:
    """Return the ids of message and request; a copy may have lost the latter."""
    message_id, request_id = name_in(line.message, "id"), name_in(line.value, "requestId")
    if message_id is None or request_id is not None:
        return message_id, request_id
    earlier = next((call for call in past.usage if call.startswith(f"{message_id}:")), "")
    return message_id, earlier.removeprefix(f"{message_id}:") or None


def count(value: Any) -> int:
    """Return a number of tokens; 0 if ``value`` is not one."""
    return value if type(value) is int and 0 <= value <= COUNT_MAX else 0
