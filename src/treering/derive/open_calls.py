"""The tool calls of a run that have no outcome yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.model.parts import ToolCalled, ToolReturned, safe_part
from treering.model.runs import OpenCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.model.events import Header


def open_calls(headers: Iterable[Header]) -> tuple[list[OpenCall], int]:
    """Return the open calls of a run, in order, and its last ``run_seq``.

    Calls whose refs were erased are left out: they cannot be identified.
    """
    calls: dict[str, OpenCall] = {}
    last = 0
    for header in headers:
        last = max(last, header.run_seq or 0)
        if header.kind not in {"tool.call", "tool.result"}:
            continue
        part = safe_part(header.kind, header.refs)
        if isinstance(part, ToolCalled) and part.call_id is not None:
            calls[part.call_id] = OpenCall(
                call_id=part.call_id,
                tool=part.tool or "tool",
                event_id=header.event_id,
                ts_ms=header.ts_ms,
            )
        elif isinstance(part, ToolReturned) and part.call_id is not None:
            calls.pop(part.call_id, None)
    return list(calls.values()), last
