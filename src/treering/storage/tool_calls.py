"""Tool records as numbers, the same in every database.

The tables hold hashes where the events hold texts. What is shown is read from the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from treering.derive.tool_calls import CallState, settle
from treering.model.tools import REASONS, STATUSES
from treering.storage.encoding import name_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.derive.tool_facts import ToolFact
    from treering.model.runs import RunState
    from treering.storage.encoding import Row

COLUMNS: Final = (
    "position", "session", "call", "tool", "run", "status", "reason", "at_ms", "started_ms",
    "ended_ms", "duration_ms", "output_bytes", "call_seq", "result_seq", "late_seq",
)  # fmt: skip
RUN_STATES: Final[tuple[RunState, ...]] = ("open", "ended", "failed", "interrupted")
"""By the number that the tables of runs have."""


class Placed(NamedTuple):
    """What an event says, in the session that it says it in."""

    session: int
    fact: ToolFact


class Changes(msgspec.Struct, kw_only=True):
    """What is to be written."""

    calls: dict[int, tuple[int, CallState]] = msgspec.field(default_factory=dict)
    """Those that are new or have changed, by position, with their sessions."""
    extras: list[tuple[int, int, int]] = msgspec.field(default_factory=list)
    """Session, call and seq of results that change nothing."""

    def rows(self) -> list[Row]:
        """Return the calls as rows, in the order of COLUMNS."""
        return [_row(session, call) for session, call in self.calls.values()]


Group = tuple[int, int]
"""Session and call: records among which a result finds its own."""


def number(key: bytes, text: str) -> int:
    """Return the number that ``text`` is stored as; it is never 0."""
    return int.from_bytes(name_key(key, text)[:8], "big", signed=True) or 1


def hashed(fact: ToolFact, key: bytes) -> ToolFact:
    """Return ``fact`` with numbers in the place of its names."""

    def named(name: str | int | None) -> int | None:
        return number(key, name) if isinstance(name, str) else name

    return msgspec.structs.replace(
        fact, call_id=named(fact.call_id), tool=named(fact.tool), run=named(fact.run)
    )


def groups_of(facts: Iterable[Placed]) -> set[Group]:
    """Return the groups that ``facts`` belong to."""
    return {(session, int(fact.call_id)) for session, fact in facts if fact.call_id is not None}


def take_in(
    facts: Iterable[Placed], groups: dict[Group, list[CallState]], seen: dict[Group, int]
) -> Changes:
    """Return what ``facts`` change in ``groups``, which hold the latest records of each.

    ``seen`` is the last seq of each group: events up to it change nothing.
    """
    changes = Changes()
    for session, fact in facts:
        if fact.call_id is None:
            call = settle([], fact)
        else:
            group = session, int(fact.call_id)
            if fact.seq <= seen.get(group, 0):
                continue
            call = settle(groups.setdefault(group, []), fact)
            if call is None:
                changes.extras.append((*group, fact.seq))
        if call is not None:
            changes.calls[call.position] = (session, call)
    return changes


def call_of(row: Row) -> CallState:
    """Return the record that a row of COLUMNS holds."""
    (
        position, _, call_id, tool, run, status, reason, _, started, ended, duration, output,
        call_seq, result_seq, late_seq,
    ) = row  # fmt: skip
    return CallState(
        position=position,
        call_id=call_id,
        tool=tool or None,
        run=run,
        status=STATUSES[status],  # type: ignore[arg-type]
        reason=None if reason is None else REASONS[reason],  # type: ignore[arg-type]
        started_ms=started,
        ended_ms=ended,
        duration_ms=duration,
        output_bytes=output,
        call_seq=call_seq,
        result_seq=result_seq,
        late_seq=late_seq,
    )


def record_places(rows: Iterable[Row]) -> list[tuple[int, int]]:
    """Return session and seq of every event that ``rows`` are made of."""
    return [(row[1], seq) for row in rows for seq in row[-3:] if seq is not None]


def last_seq(calls: Iterable[CallState]) -> int:
    """Return the last seq that any of ``calls`` is made of."""
    return max((max(c.call_seq or 0, c.result_seq or 0, c.late_seq or 0) for c in calls), default=0)


def _row(session: int, call: CallState) -> Row:
    return (
        call.position,
        session,
        call.call_id,
        call.tool or 0,
        call.run,
        STATUSES.index(call.status),
        None if call.reason is None else REASONS.index(call.reason),
        call.at_ms,
        call.started_ms,
        call.ended_ms,
        call.duration_ms,
        call.output_bytes,
        call.call_seq,
        call.result_seq,
        call.late_seq,
    )
