"""The activity of a scope in a period, compared with the period before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.activity import Activity, ActivityCounter
from treering.derive.periods import MetricChange, Period, metric_changes
from treering.model.queries import items_of
from treering.model.scopes import Scope
from treering.surfaces.shared.texts import scope_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event, Header
    from treering.model.tools import ToolRecord

DAYS: Final = 7
DAYS_MAX: Final = 3_660
_PAGE: Final = 1_000
_USAGE: Final = "usage.reported"


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The activity of a scope, or of one session of it."""

    scope: str | None
    """None: all scopes."""
    session_id: str | None
    period: Period
    activity: Activity
    before: Period | None
    """The period of the same length right before it."""
    drift: list[MetricChange]
    """How numbers differ from then."""


def statistics(
    ledger: Ledger,
    scope: Scope | None,
    session_id: str | None,
    period: Period,
    *,
    progress: Callable[[int], None] | None = None,
) -> Statistics:
    """Return the activity of a period, read a page at a time, next to the one before it."""
    now = activity_in(ledger, scope, session_id, period, progress)
    before = period.previous()
    then = None if before is None else activity_in(ledger, scope, session_id, before, progress)
    return Statistics(
        scope=scope,
        session_id=session_id,
        period=period,
        activity=now,
        before=before,
        drift=[] if then is None else metric_changes(now.numbers(), then.numbers()),
    )


def activity_in(
    ledger: Ledger,
    scope: Scope | None,
    session_id: str | None,
    period: Period,
    progress: Callable[[int], None] | None,
) -> Activity:
    """Return the activity of a period, in one scope or in all."""
    counter = ActivityCounter()
    for counted_scope in counted_scopes(ledger, scope):
        _count(counter, ledger, counted_scope, session_id, period, progress)
    return counter.activity()


def counted_scopes(ledger: Ledger, scope: Scope | None) -> list[Scope]:
    """Return the scopes that are counted: the one given, or all."""
    return [Scope(name) for name in scope_names(ledger)] if scope is None else [scope]


def _count(
    counter: ActivityCounter,
    ledger: Ledger,
    scope: Scope,
    session_id: str | None,
    period: Period,
    progress: Callable[[int], None] | None,
) -> None:
    from treering.memory.records import MEMORY_SESSION  # noqa: PLC0415  (not for --help)

    which: dict[str, Any] = {
        "session_id": session_id,
        "since_ms": period.since_ms,
        "until_ms": period.until_ms,
    }
    reports = items_of(lambda after: ledger.events(
        scope, kinds=[_USAGE], first=_PAGE, after=after, **which))  # fmt: skip
    coming: Event | None = next(reports, None)
    headers: Iterator[Header] = items_of(
        lambda after: ledger.headers(scope, first=_PAGE, after=after, **which)
    )
    for header in headers:
        if session_id is None and header.session_id.startswith(MEMORY_SESSION):
            continue  # What memory notes for itself is nobody's session.
        if header.kind != _USAGE:
            counter.take(header)
            continue
        # Both are in the order of time, so the report with its payload is the next one.
        while coming is not None and _place(coming) < _place(header):
            coming = next(reports, None)
        is_same = coming is not None and coming.event_id == header.event_id
        counter.take(coming if is_same and coming is not None else header)
    records: Iterator[ToolRecord] = items_of(
        lambda after: ledger.tool_calls(scope, first=_PAGE, after=after, progress=progress, **which)
    )
    for record in records:
        counter.take_call(record)


def _place(header: Header) -> tuple[int, int]:
    return header.ts_ms, header.position
