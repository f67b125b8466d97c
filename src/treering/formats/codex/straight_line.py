"""The fast path through a rollout: calls, results and counts as Codex usually writes them.

Most records of a rollout are a call of a function, its output, or what was used so far, which no
other record repeats. They are read here without the questions that other records need. A record
with anything unusual is left to the reader for all records, and changes nothing here: both ways
give the same events and remember the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex.drafts import call_summary, digest, short_id
from treering.formats.codex.items import read_output
from treering.formats.loose import name as name_of
from treering.formats.loose import storable
from treering.formats.parsed import ParsedEvent
from treering.model.codec import decode
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

_CALL: Final = "function_call"
_RESULT: Final = "function_call_output"


def read_straight(
    item: dict[str, Any], tools: Mapping[str, str], session: str, ts_ms: int
) -> ParsedEvent | None:
    """Return the event of a call or a result; None if it is not as usual.

    ``tools`` are the names of open calls, by id.
    """
    sort, call_id = item.get("type"), name_of(item.get("call_id"))
    if call_id is None or "content" in item:
        return None
    if sort == _CALL:
        return _call(item, call_id, session, ts_ms)
    return _result(item, call_id, tools.get(call_id), session, ts_ms) if sort == _RESULT else None


def _call(item: dict[str, Any], call_id: str, session: str, ts_ms: int) -> ParsedEvent | None:
    tool, arguments = name_of(item.get("name")), item.get("arguments")
    if tool is None or type(arguments) is not str:
        return None
    try:
        stated = decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    if type(stated) is not dict or not storable(stated):
        return None
    return ParsedEvent(
        session=session,
        key=f"call:{short_id(call_id)}",
        kind="tool.call",
        summary=call_summary(tool, stated),
        ts_ms=ts_ms,
        payload={"call_id": call_id, "name": tool, "input": stated},
        refs={"call_id": call_id, "tool": tool},
    )


def _result(
    item: dict[str, Any], call_id: str, tool: str | None, session: str, ts_ms: int
) -> ParsedEvent | None:
    output = item.get("output")
    if type(output) is not str:
        return None
    read = read_output(output)
    if read.error is not None:
        return None
    payload = {"call_id": call_id, "name": tool, "status": "ok", "output": read.output}
    refs: dict[str, Any] = {"call_id": call_id, "status": "ok"}
    if tool is not None:
        refs["tool"] = tool
    if read.exit_code is not None:
        payload["exit_code"] = read.exit_code
    if read.duration_ms is not None:
        payload["duration_ms"] = refs["duration_ms"] = read.duration_ms
    return ParsedEvent(
        session=session,
        key=f"result:{short_id(call_id)}",
        kind="tool.result",
        summary=shorten(f"{tool or 'a tool'} returned"),
        ts_ms=ts_ms,
        payload=payload,
        refs=refs,
    )


def mark_of(event: ParsedEvent) -> str:
    """Return what tells a call or a result from another one of the same id."""
    return f"{event.key}#{digest(event.payload)}"
