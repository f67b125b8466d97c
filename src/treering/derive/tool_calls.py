"""Tool records from events: each call with the outcome that counts.

The tables that answer queries are computed event by event with ``settle``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.tool_facts import Name, ToolFact, fact_of, plausible
from treering.errors import Corrupt
from treering.model.parts import ToolCalled, ToolReturned, safe_part
from treering.model.tools import Reason, Status, ToolRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.events import Header
    from treering.model.views import RunState

SAME_ID_MAX: Final = 64
"""A result finds its call among this many latest records with its call id in the session."""


class CallState(msgspec.Struct, gc=False):
    """The state of one call; it changes as facts arrive."""

    position: int
    """Of its first known event."""
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
        """Return its time for ordering: its start, else its end."""
        return self.started_ms or self.ended_ms or 0


def settle(group: list[CallState], fact: ToolFact) -> CallState | None:
    """Apply ``fact`` to the calls with its call id; return the call that is new or changed.

    Return None for a result that changes nothing, because the call has its outcome.
    """
    call = None
    if group:
        latest = group[-SAME_ID_MAX:]
        call = _without_call(latest, fact) if fact.is_call else _without_result(latest, fact)
    if call is None:
        call = _opened(fact)
        group.append(call)
    elif fact.is_call:
        _take_call(call, fact)
    elif call.result_seq is None:
        _take_result(call, fact)
    elif call.late_seq is None and call.status == "synthetic" != fact.status:
        call.late_seq = fact.seq
    else:
        return None
    return call


def record_of(
    call: CallState,
    intent: Header | None,
    outcome: Header | None,
    late: Header | None,
    *,
    states: Mapping[tuple[str, str], RunState],
) -> ToolRecord:
    """Return the record of ``call``, with the texts of its events."""
    first = _first_of(intent, outcome)
    called, returned = _called(intent), _returned(outcome)
    run_id = (intent and intent.run_id) or (outcome and (outcome.run_id or returned.run)) or None
    late_fact = late and fact_of(late)
    return ToolRecord(
        position=call.position, scope=first.scope, session_id=first.session_id, run_id=run_id,
        turn_id=first.turn_id, agent_id=first.agent_id,
        call_id=called.call_id or returned.call_id or None,
        tool=called.tool or returned.tool or None, status=call.status,
        is_synthetic=call.status == "synthetic", reason=call.reason,
        error_class=returned.error_class, started_ms=call.started_ms, ended_ms=call.ended_ms,
        duration_ms=call.duration_ms, input_bytes=plausible(called.input_bytes),
        output_bytes=call.output_bytes, input_shape=called.input_shape,
        call_event_id=intent.event_id if intent else None,
        result_event_id=outcome.event_id if outcome else None,
        late_status=late_fact.status if late_fact else None,
        late_event_id=late.event_id if late else None,
        run_state=states.get((first.session_id, run_id)) if run_id else None,
    )  # fmt: skip


def runs_of(header: Header) -> set[str]:
    """Return the runs that a tool event names: its own, and that of the call it is late for."""
    return {run for run in (header.run_id, _returned(header).run) if run}


def links(call: CallState) -> tuple[int | None, int | None, int | None]:
    """Return the seqs of the events of a record: call, result, late result."""
    return call.call_seq, call.result_seq, call.late_seq


def percentile_rank(percent: int, count: int) -> int:
    """Return the nearest rank of a percentile among ``count`` sorted values, from 1."""
    return (percent * count + 99) // 100


def _first_of(intent: Header | None, outcome: Header | None) -> Header:
    """Return the event that says where a call belongs. Raise Corrupt if there is none."""
    first = intent or outcome
    if first is None:
        raise Corrupt(
            "a tool record has lost its events", hint="rebuild the records: treering rebuild"
        )
    return first


def _without_call(latest: Sequence[CallState], fact: ToolFact) -> CallState | None:
    """Return the record of a result that was recorded before its call, as imports may do."""
    for call in reversed(latest):
        if (
            call.call_seq is None
            and call.ended_ms is not None
            and fact.ts_ms <= call.ended_ms
            and (fact.run is None or call.run is None or fact.run == call.run)
        ):
            return call
    return None


def _without_result(latest: Sequence[CallState], fact: ToolFact) -> CallState | None:
    """Return the call that a result belongs to: the latest open one, else the latest.

    Calls of its own run come first.
    """
    if len(latest) == 1:
        return latest[0]  # As in nearly every case.
    own = [call for call in latest if fact.run is not None and call.run == fact.run]
    candidates = own or latest
    return next((call for call in reversed(candidates) if call.result_seq is None), None) or (
        candidates[-1] if candidates else None
    )


def _opened(fact: ToolFact) -> CallState:
    is_call = fact.is_call
    return CallState(
        fact.position,
        fact.call_id,
        fact.tool,
        fact.run,
        fact.status,
        fact.reason,
        started_ms=fact.ts_ms if is_call else None,
        ended_ms=None if is_call else fact.ts_ms,
        duration_ms=fact.duration_ms,
        output_bytes=fact.output_bytes,
        call_seq=fact.seq if is_call else None,
        result_seq=None if is_call else fact.seq,
        late_seq=None,
    )


def _take_call(call: CallState, fact: ToolFact) -> None:
    call.call_seq, call.started_ms = fact.seq, fact.ts_ms
    call.tool, call.run = fact.tool or call.tool, fact.run or call.run
    _measure(call)


def _take_result(call: CallState, fact: ToolFact) -> None:
    call.result_seq, call.ended_ms = fact.seq, fact.ts_ms
    call.status, call.reason = fact.status, fact.reason
    call.output_bytes, call.duration_ms = fact.output_bytes, fact.duration_ms
    call.tool, call.run = call.tool or fact.tool, call.run or fact.run
    if fact.is_timed:
        _measure(call)


def _measure(call: CallState) -> None:
    """Compute the duration, if it was not reported and the tool itself ended the call."""
    # A synthetic outcome is recorded by a later check, possibly days after a crash.
    if call.duration_ms is not None or call.status == "synthetic":
        return
    if call.started_ms is not None and call.ended_ms is not None:
        call.duration_ms = plausible(max(call.ended_ms - call.started_ms, 0))


def _called(header: Header | None) -> ToolCalled:
    part = safe_part(header.kind, header.refs) if header else None
    return part if isinstance(part, ToolCalled) else ToolCalled()


def _returned(header: Header | None) -> ToolReturned:
    part = safe_part(header.kind, header.refs) if header else None
    return part if isinstance(part, ToolReturned) else ToolReturned()
