"""Tool records as numbers, the same in every database.

The tables hold hashes where the events hold texts. What is shown is read from the events.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.tool_calls import CallState, settle
from treering.derive.tool_facts import TOOL_KINDS, ToolFact, read_fact
from treering.model.codec import decode
from treering.model.parts import PARTS, SafePart, safe_part
from treering.model.tools import REASONS, STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.model.views import RunState
    from treering.storage.encoding import Row

COLUMNS: Final = (
    "position", "session", "call", "tool", "run", "status", "reason", "at_ms", "started_ms",
    "ended_ms", "duration_ms", "output_bytes", "call_seq", "result_seq", "late_seq",
)  # fmt: skip
_PARTS: Final = {kind: msgspec.json.Decoder(PARTS[kind]) for kind in TOOL_KINDS}
_BLOCK: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_FIRST: Final = Struct(">q24x").unpack
RUN_STATES: Final[tuple[RunState, ...]] = ("open", "ended", "failed", "interrupted")
"""By the number that the tables of runs have."""


Placed = tuple[int, ToolFact]
"""A session, and what one of its events says."""


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
Facts = dict[Any, list[Placed]]
"""What events say, by scope as the tables have it: a number, or a name."""


def number(key: bytes, text: str) -> int:
    """Return the number that ``text`` is stored as; it is never 0."""
    return _Numbers(key)[text]


def read_facts(rows: Iterable[Row], key_of: Callable[[Any], bytes]) -> Facts:
    """Return what tool events say, by scope, with numbers in the place of names.

    The rows have scope, session, position, seq, time, kind, run and refs; ``key_of`` returns the
    key of a scope.
    """
    facts: Facts = {}
    numbers: dict[Any, _Numbers] = {}
    for scope, session, position, seq, ts_ms, kind, run, refs in rows:
        if scope not in facts:
            numbers[scope], facts[scope] = _Numbers(key_of(scope)), []
        fact = read_fact((position, seq, ts_ms), run, _part(kind, refs), numbers[scope])
        facts[scope].append((session, fact))
    return facts


def _part(kind: str, refs: bytes | None) -> SafePart:
    """Return the safe part of a tool event, as safe_part has it, without a value in between."""
    if refs is not None:
        try:
            return _PARTS[kind].decode(refs)
        except msgspec.ValidationError:
            return safe_part(kind, decode(refs))
    return safe_part(kind, None)


class _Numbers(dict[str, int]):
    """The numbers of names under one key; a call and its result ask for the same ones."""

    def __init__(self, key: bytes) -> None:
        # Together they compute HMAC-SHA-256, as name_key does, but hash the key only once.
        block = (key if len(key) <= _BLOCK else sha256(key).digest()).ljust(_BLOCK, b"\0")
        self._inner = sha256(block.translate(_INNER)).copy
        self._outer = sha256(block.translate(_OUTER)).copy

    def __missing__(self, name: str) -> int:
        inner, outer = self._inner(), self._outer()
        inner.update(name.encode())
        outer.update(inner.digest())
        self[name] = value = _FIRST(outer.digest())[0] or 1
        return value


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
    changed = changes.calls
    for session, fact in facts:
        if fact.call_id is None:
            call = settle([], fact)
        else:
            group: Group = (session, fact.call_id)  # type: ignore[assignment]
            if fact.seq <= seen.get(group, 0):
                continue
            if group not in groups:
                groups[group] = []
            call = settle(groups[group], fact)
            if call is None:
                changes.extras.append((*group, fact.seq))
        if call is not None:
            changed[call.position] = (session, call)
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
