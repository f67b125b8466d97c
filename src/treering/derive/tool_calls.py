"""Tool records from events: each call with the outcome that counts.

This is what tool records are. The tables that answer questions about them hold the same, found
event by event with the same ``settle``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.kinds import RUN_ENDS
from treering.model.parts import ToolCalled, ToolReturned, safe_part
from treering.model.tool_records import RunState, ToolRecord
from treering.model.tools import Reason, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from treering.model.events import Header

TOOL_KINDS: Final = ("tool.call", "tool.result")
SAME_ID_MAX: Final = 64
"""A result finds its call among so many latest records of its call id in the session."""
COUNT_MAX: Final = 2**40
"""A size or a duration beyond this is taken for unknown: nobody has measured it."""

Name = str | int
"""A text, or a number that stands for it."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one event says of a tool call."""

    position: int
    seq: int
    ts_ms: int
    is_call: bool
    call_id: Name | None
    tool: Name | None
    run: Name | None
    status: Status
    """Of a result: how it ended. Of a call: open."""
    reason: Reason | None = None
    duration_ms: int | None = None
    output_bytes: int | None = None


class Entry(msgspec.Struct, kw_only=True, gc=False):
    """What has become of one call so far; it changes as facts come in."""

    position: int
    """Of the first event that is known of it."""
    call_id: Name | None
    tool: Name | None
    run: Name | None
    status: Status
    reason: Reason | None
    started_ms: int | None
    ended_ms: int | None
    duration_ms: int | None
    output_bytes: int | None
    call_seq: int | None
    result_seq: int | None
    late_seq: int | None

    @property
    def at_ms(self) -> int:
        """Return its place in the order of time: its start, else its end."""
        return self.started_ms or self.ended_ms or 0


def tool_calls(
    headers: Iterable[Header], *, runs: Mapping[tuple[str, str], RunState] | None = None
) -> list[ToolRecord]:
    """Return the records of all tool calls in ``headers``, in the order they were first heard of.

    ``runs`` are states by session and run; those that the headers tell, if none are given. Each
    session's headers come in its order. What was redacted or has expired takes no part.
    """
    kept: dict[tuple[str, int], Header] = {}
    states: dict[tuple[str, str], RunState] = {}
    groups: dict[tuple[str, Name | None], list[Entry]] = {}
    found: list[tuple[str, Entry]] = []
    for header in headers:
        _follow_run(states, header)
        fact = fact_of(header)
        if fact is None:
            continue
        session = header.session_id
        group = groups.setdefault((session, fact.call_id), []) if fact.call_id else []
        kept[session, fact.seq] = header
        before = len(group)
        settle(group, fact)
        found.extend((session, entry) for entry in group[before:])
    return [
        record_of(
            entry,
            *(kept.get((session, seq or 0)) for seq in links(entry)),
            states=states if runs is None else runs,
        )
        for session, entry in found
    ]


def settle(group: list[Entry], fact: Fact) -> Entry | None:
    """Take ``fact`` into the records of its call id; return the one that is new or has changed.

    None is returned for a result that changes nothing: the call had its outcome already.
    """
    latest = group[-SAME_ID_MAX:]
    entry = _without_call(latest, fact) if fact.is_call else _without_result(latest, fact)
    if entry is None:
        entry = _opened(fact)
        group.append(entry)
    elif fact.is_call:
        _take_call(entry, fact)
    elif entry.result_seq is None:
        _take_result(entry, fact)
    elif entry.late_seq is None and _is_late(entry, fact):
        entry.late_seq = fact.seq
    else:
        return None
    return entry


def fact_of(header: Header) -> Fact | None:
    """Return what ``header`` says of a tool call; None if it says nothing of one."""
    if header.kind not in TOOL_KINDS or header.redacted:
        return None
    place = (header.position, header.seq, header.ts_ms)
    return read_fact(place, header.kind, header.run_id, header.refs)


def read_fact(place: tuple[int, int, int], kind: str, run_id: str | None, refs: object) -> Fact:
    """Return what a tool event says; ``place`` is its position, its seq and its time."""
    position, seq, ts_ms = place
    part = safe_part(kind, refs)
    if isinstance(part, ToolReturned):
        status = _status_of(part)
        return Fact(
            position=position,
            seq=seq,
            ts_ms=ts_ms,
            is_call=False,
            call_id=part.call_id or None,
            tool=part.tool or None,
            run=run_id or part.run,
            status=status,
            reason=part.reason if status == "synthetic" else None,
            duration_ms=_sound(part.duration_ms),
            output_bytes=_sound(part.output_bytes),
        )
    called = part if isinstance(part, ToolCalled) else ToolCalled()
    return Fact(
        position=position,
        seq=seq,
        ts_ms=ts_ms,
        is_call=True,
        call_id=called.call_id or None,
        tool=called.tool or None,
        run=run_id,
        status="open",
    )


def record_of(
    entry: Entry,
    call: Header | None,
    result: Header | None,
    late: Header | None,
    *,
    states: Mapping[tuple[str, str], RunState],
) -> ToolRecord:
    """Return the record of ``entry``, with the texts that its events hold."""
    first = call or result
    if first is None:
        raise LookupError("a tool record has lost its events")
    called, returned = _called(call), _returned(result)
    run_id = (call and call.run_id) or (result and (result.run_id or returned.run)) or None
    late_fact = late and fact_of(late)
    return ToolRecord(
        position=entry.position,
        scope=first.scope,
        session_id=first.session_id,
        run_id=run_id,
        turn_id=first.turn_id,
        agent_id=first.agent_id,
        call_id=called.call_id or returned.call_id or None,
        tool=called.tool or returned.tool or None,
        status=entry.status,
        is_synthetic=entry.status == "synthetic",
        reason=entry.reason,
        error_class=returned.error_class,
        started_ms=entry.started_ms,
        ended_ms=entry.ended_ms,
        duration_ms=entry.duration_ms,
        input_bytes=_sound(called.input_bytes),
        output_bytes=entry.output_bytes,
        input_shape=called.input_shape,
        call_event_id=call.event_id if call else None,
        result_event_id=result.event_id if result else None,
        late_status=late_fact.status if late_fact else None,
        late_event_id=late.event_id if late else None,
        run_state=states.get((first.session_id, run_id)) if run_id else None,
    )


def runs_of(header: Header) -> set[str]:
    """Return the runs that a tool event names: its own, and that of the call it is late for."""
    return {run for run in (header.run_id, _returned(header).run) if run}


def links(entry: Entry) -> tuple[int | None, int | None, int | None]:
    """Return the seqs of the events that a record is made of: call, result, late result."""
    return entry.call_seq, entry.result_seq, entry.late_seq


def percentile_rank(percent: int, count: int) -> int:
    """Return which of ``count`` sorted values is the percentile, from 1: the nearest rank."""
    return (percent * count + 99) // 100


def _without_call(latest: Sequence[Entry], call: Fact) -> Entry | None:
    """Return the record of a result that was recorded before its call, as imports may have it."""
    for entry in reversed(latest):
        if (
            entry.call_seq is None
            and entry.ended_ms is not None
            and call.ts_ms <= entry.ended_ms
            and (call.run is None or entry.run is None or call.run == entry.run)
        ):
            return entry
    return None


def _without_result(latest: Sequence[Entry], result: Fact) -> Entry | None:
    """Return the record that a result belongs to: the latest open one, else the latest.

    Those of its own run go before all others.
    """
    own = [entry for entry in latest if result.run is not None and entry.run == result.run]
    among = own or latest
    return next((entry for entry in reversed(among) if entry.result_seq is None), None) or (
        among[-1] if among else None
    )


def _is_late(entry: Entry, result: Fact) -> bool:
    """Whether ``result`` is the real one, after another was put in its place."""
    return entry.status == "synthetic" and result.status != "synthetic"


def _opened(fact: Fact) -> Entry:
    entry = Entry(
        position=fact.position,
        call_id=fact.call_id,
        tool=None,
        run=None,
        status="open",
        reason=None,
        started_ms=None,
        ended_ms=None,
        duration_ms=None,
        output_bytes=None,
        call_seq=None,
        result_seq=None,
        late_seq=None,
    )
    (_take_call if fact.is_call else _take_result)(entry, fact)
    return entry


def _take_call(entry: Entry, call: Fact) -> None:
    entry.call_seq, entry.started_ms = call.seq, call.ts_ms
    entry.tool, entry.run = call.tool or entry.tool, call.run or entry.run
    _measure(entry)


def _take_result(entry: Entry, result: Fact) -> None:
    entry.result_seq, entry.ended_ms = result.seq, result.ts_ms
    entry.status, entry.reason = result.status, result.reason
    entry.output_bytes, entry.duration_ms = result.output_bytes, result.duration_ms
    entry.tool, entry.run = entry.tool or result.tool, entry.run or result.run
    _measure(entry)


def _measure(entry: Entry) -> None:
    """Find out how long it took, if nobody has said."""
    if entry.duration_ms is None and entry.started_ms is not None and entry.ended_ms is not None:
        entry.duration_ms = _sound(max(entry.ended_ms - entry.started_ms, 0))


def _status_of(part: ToolReturned) -> Status:
    if part.is_synthetic or part.status == "synthetic":
        return "synthetic"
    if part.status in {"ok", "failed"}:
        return part.status
    return "failed" if part.error_class else "ok"


def _sound(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= COUNT_MAX else None


def _called(header: Header | None) -> ToolCalled:
    part = safe_part(header.kind, header.refs) if header else None
    return part if isinstance(part, ToolCalled) else ToolCalled()


def _returned(header: Header | None) -> ToolReturned:
    part = safe_part(header.kind, header.refs) if header else None
    return part if isinstance(part, ToolReturned) else ToolReturned()


def _follow_run(states: dict[tuple[str, str], RunState], header: Header) -> None:
    if header.run_id is None:
        return
    run = header.session_id, header.run_id
    states[run] = RUN_ENDS.get(header.kind, states.get(run, "open"))  # type: ignore[assignment]
