"""Days of a period, in the time zone of the machine that serves."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.surfaces.shared.times import clock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.derive.periods import Period

DAYS_MAX: Final = 92
"""Bars that a chart shows; a longer period is shown by weeks, a much longer one by months."""
_WEEKS_MAX_DAYS: Final = 370


class ChartSpan(NamedTuple):
    """One bar of a chart over time: a day, a week or a month."""

    first: date
    last: date
    label: str

    @property
    def query(self) -> dict[str, str]:
        """Return the part of an address that names it."""
        return {"since": self.first.isoformat(), "until": self.last.isoformat()}


def day_of(ts_ms: int) -> date:
    """Return the day of a time."""
    return date.fromisoformat(clock(ts_ms)[:10])


def spans_of(period: Period, times: Iterable[int]) -> list[ChartSpan]:
    """Return the days of a period, or its weeks or months; from the first of ``times`` on."""
    first = day_of(max(period.since_ms, min(times, default=period.since_ms)))
    last = day_of(period.until_ms)
    days = (last - first).days + 1
    if days <= DAYS_MAX:
        return [ChartSpan(day, day, f"{day:%d %b}") for day in _steps(first, last, 1)]
    if days <= _WEEKS_MAX_DAYS:
        monday = first - timedelta(days=first.weekday())
        return [
            ChartSpan(day, day + timedelta(6), f"{day:%d %b}") for day in _steps(monday, last, 7)
        ]
    spans: list[ChartSpan] = []
    month = first.replace(day=1)
    while month <= last:
        following = (month + timedelta(days=32)).replace(day=1)
        spans.append(ChartSpan(month, following - timedelta(days=1), f"{month:%b %Y}"))
        month = following
    return spans


def span_index(spans: list[ChartSpan]) -> dict[date, int]:
    """Return the index of each day in ``spans``."""
    return {
        span.first + timedelta(days=at): index
        for index, span in enumerate(spans)
        for at in range((span.last - span.first).days + 1)
    }


def _steps(first: date, last: date, days: int) -> list[date]:
    count = (last - first).days // days + 1
    return [first + timedelta(days=at * days) for at in range(count)]
