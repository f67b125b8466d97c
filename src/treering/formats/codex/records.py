"""The records of a rollout: wrapped, or bare as in old versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.formats.grammar import share
from treering.formats.loose import fields_of, word

if TYPE_CHECKING:
    from collections.abc import Sequence

_RECORDS: Final = frozenset(
    {
        *("session_meta", "response_item", "event_msg", "turn_context", "compacted"),
        *("world_state", "inter_agent_communication"),
    }
)
_BARE_ITEMS: Final = frozenset(
    {"function_call", "function_call_output", "reasoning", "local_shell_call", "custom_tool_call",
     "custom_tool_call_output", "web_search_call"}
)  # fmt: skip


def score(values: Sequence[Any]) -> float:
    """Return the share of a file that is records of a rollout, wrapped or bare."""
    return share(_is_own(fields_of(value)) for value in values)


def opened(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the type of a record and what it holds; older ones come without a wrapper."""
    sort, content = value.get("type"), value.get("payload")
    if isinstance(sort, str) and isinstance(content, dict):
        return sort, content
    if _is_bare_opening(value):
        return "session_meta", value
    if _is_bare_item(value):
        return "response_item", value
    return (sort if isinstance(sort, str) and sort else str(value.get("record_type", "record"))), {}


def _is_bare_opening(value: dict[str, Any]) -> bool:
    return {"id", "timestamp", "instructions"} <= value.keys() and "type" not in value


def _is_bare_item(value: dict[str, Any]) -> bool:
    sort, content = word(value.get("type")), value.get("content")
    if sort in {"message", None} and isinstance(value.get("role"), str):
        parts = content if isinstance(content, list) else []
        sorts = {word(fields_of(part).get("type")) for part in parts}
        return bool(sorts & {"input_text", "output_text", "input_image"})
    return sort in _BARE_ITEMS and bool(
        {"call_id", "arguments", "summary", "action"} & value.keys()
    )


def _is_own(value: dict[str, Any]) -> bool | None:
    """Whether a record is Codex's; None if it may be, or if others write the same."""
    sort = word(value.get("type"))
    if sort is not None and isinstance(value.get("payload"), dict):
        return True if sort in _RECORDS else None
    if "record_type" in value:
        return None
    if _is_bare_item(value):
        # Other agents keep the reasoning of the same models in the same shape.
        return None if sort == "reasoning" else True
    return _is_bare_opening(value)


def timeless(value: Any) -> Any:
    """Return ``value`` without the time and the number, which a fork gives again."""
    if not isinstance(value, dict):
        return value
    return {name: field for name, field in value.items() if name not in {"timestamp", "ordinal"}}
