"""Tool records of all headers at once: what the tables have to agree with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.derive.tool_calls import CallState, links, record_of, settle
from treering.derive.tool_facts import Name, fact_of
from treering.model.kinds import RUN_ENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from treering.model.events import Header
    from treering.model.tools import ToolRecord
    from treering.model.views import RunState


def tool_calls(
    headers: Iterable[Header], *, runs: Mapping[tuple[str, str], RunState] | None = None
) -> list[ToolRecord]:
    """Return the records of all tool calls in ``headers``, in order of their first event.

    ``runs`` maps session and run to a state; by default the states follow from the headers. The
    headers of each session come in its order. Redacted and expired events are ignored.
    """
    headers_by_seq: dict[tuple[str, int], Header] = {}
    states: dict[tuple[str, str], RunState] = {}
    groups: dict[tuple[str, Name | None], list[CallState]] = {}
    calls: list[tuple[str, CallState]] = []
    for header in headers:
        _follow_run(states, header)
        fact = fact_of(header)
        if fact is None:
            continue
        session = header.session_id
        group = groups.setdefault((session, fact.call_id), []) if fact.call_id else []
        headers_by_seq[session, fact.seq] = header
        before = len(group)
        settle(group, fact)
        calls.extend((session, call) for call in group[before:])
    return [
        record_of(
            call,
            *(headers_by_seq.get((session, seq or 0)) for seq in links(call)),
            states=states if runs is None else runs,
        )
        for session, call in calls
    ]


def _follow_run(states: dict[tuple[str, str], RunState], header: Header) -> None:
    if header.run_id is None:
        return
    run = header.session_id, header.run_id
    states[run] = RUN_ENDS.get(header.kind, states.get(run, "open"))
