"""``treering stats``: what went on in a scope lately, and how that differs from before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.derive.activity import Activity
from treering.derive.periods import MetricChange, Period
from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import catching_up, open_to_ask, session_option
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event, Header
    from treering.model.scopes import Scope
    from treering.model.tool_records import ToolRecord

DAYS: Final = 7
DAYS_MAX: Final = 3_660
_DAY_MS: Final = 86_400_000
_PAGE: Final = 1_000
_USAGE: Final = "usage.reported"


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """What went on in a scope, or in one session of it."""

    scope: str
    session_id: str | None
    period: Period
    activity: Activity
    before: Period | None
    """The period of the same length right before it."""
    drift: list[MetricChange]
    """How numbers differ from then."""


@click.command(
    "stats",
    cls=Command,
    short_help="Show recent activity, and what changed.",
    examples="""
    treering stats --scope acme/app
    treering stats --scope acme/app --days 30 --json
    treering stats --scope acme/app --since 2026-03-01 --until 2026-03-08
    """,
)
@project_scope_options
@session_option
@click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    metavar="N",
    help=f"The last N days. Default: {DAYS}.",
)
@click.option("--since", metavar="WHEN", help="Since then: 3d, a date, or milliseconds.")
@click.option("--until", metavar="WHEN", help="Until then, inclusive. Default: now.")
@keys_option
@json_option
@db_option
def stats(
    *,
    scope: str | None,
    is_global: bool,
    session_id: str | None,
    days: int | None,
    since: str | None,
    until: str | None,
) -> None:
    """Count sessions, turns, tools, tokens, alerts and receipts of a scope in a period.

    Each number is compared with the period of the same length just before.
    """
    from treering.surfaces.cli.sessions.search import narrow_to_session  # noqa: PLC0415

    name = find_scope(scope, is_global=is_global)
    period = _period(days, since, until)
    with open_to_ask() as ledger, catching_up() as progress:
        session = narrow_to_session(ledger, name, session_id)
        figures = statistics(ledger, name, session, period, progress=progress)
        is_empty = not figures.activity.events and not ledger.headers(name, first=1).items
    if invocation().as_json:
        show(_masked(figures))
        return
    from treering.surfaces.cli.stats_page import print_statistics  # noqa: PLC0415  (for people)

    with writing_output():
        print_statistics(_masked(figures), is_empty=is_empty)


def statistics(
    ledger: Ledger,
    scope: Scope,
    session_id: str | None,
    period: Period,
    *,
    progress: Callable[[int], None] | None = None,
) -> Statistics:
    """Return what went on in a period, read a page at a time, beside the one before it."""
    from treering.derive.periods import metric_changes  # noqa: PLC0415  (not for --help)

    now = _activity(ledger, scope, session_id, period, progress)
    before = period.previous()
    then = None if before is None else _activity(ledger, scope, session_id, before, progress)
    return Statistics(
        scope=scope,
        session_id=session_id,
        period=period,
        activity=now,
        before=before,
        drift=[] if then is None else metric_changes(now.numbers(), then.numbers()),
    )


def _activity(
    ledger: Ledger,
    scope: Scope,
    session_id: str | None,
    period: Period,
    progress: Callable[[int], None] | None,
) -> Activity:
    from treering.derive.activity import ActivityCounter  # noqa: PLC0415  (not for --help)

    which: dict[str, Any] = {
        "session_id": session_id,
        "since_ms": period.since_ms,
        "until_ms": period.until_ms,
    }
    tally = ActivityCounter()
    reports = _pages(lambda after: ledger.events(
        scope, kinds=[_USAGE], first=_PAGE, after=after, **which))  # fmt: skip
    coming: Event | None = next(reports, None)
    headers: Iterator[Header] = _pages(
        lambda after: ledger.headers(scope, first=_PAGE, after=after, **which)
    )
    for header in headers:
        if header.kind != _USAGE:
            tally.take(header)
            continue
        # Both are in the order of time, so the report with its payload is the next one.
        while coming is not None and _place(coming) < _place(header):
            coming = next(reports, None)
        is_same = coming is not None and coming.event_id == header.event_id
        tally.take(coming if is_same and coming is not None else header)
    records: Iterator[ToolRecord] = _pages(
        lambda after: ledger.tool_calls(scope, first=_PAGE, after=after, progress=progress, **which)
    )
    for record in records:
        tally.take_call(record)
    return tally.activity()


def _pages(read: Callable[[str | None], Any]) -> Iterator[Any]:
    cursor = None
    while True:
        page = read(cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _place(header: Header) -> tuple[int, int]:
    return header.ts_ms, header.position


def _period(days: int | None, since: str | None, until: str | None) -> Period:
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.times import check_order, parse_moment  # noqa: PLC0415

    if days is not None and since is not None:
        raise InvalidInput("--days and --since exclude each other", hint="drop one of the two")
    now = now_ms()
    end = parse_moment(until, now_ms=now, flag="--until") or now
    begin = parse_moment(since, now_ms=now, flag="--since")
    check_order((since, begin), (until or "now", end))
    if begin is None:
        begin = max(end - (days or DAYS) * _DAY_MS + 1, 1)
    return Period(since_ms=begin, until_ms=end)


def _masked(figures: Statistics) -> Statistics:
    """Return the same with secrets masked in names that agents chose: of tools, models, codes."""
    clean = Mask().value(msgspec.to_builtins(figures))
    return msgspec.convert(clean, Statistics)
