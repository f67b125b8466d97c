"""Periods of time, and how numbers changed from one period to the next."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A period of time, both ends included."""

    since_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """Return its length."""
        return self.until_ms - self.since_ms + 1

    def previous(self) -> Period | None:
        """Return the previous period of the same length; None if it would begin before 1970."""
        since = self.since_ms - self.length_ms
        return Period(since_ms=since, until_ms=self.since_ms - 1) if since > 0 else None


class MetricChange(msgspec.Struct, frozen=True, kw_only=True):
    """A number in two consecutive periods."""

    name: str
    now: float | None
    """None if nothing was measured."""
    before: float | None
    change: float | None
    """Relative growth: 0.5 means half as much again. None if undefined."""


def metric_changes(
    now: Mapping[str, float | None], before: Mapping[str, float | None]
) -> list[MetricChange]:
    """Return the change of every number in either period, in the order given."""
    names = dict.fromkeys((*now, *before))
    return [_drift(name, now.get(name), before.get(name)) for name in names]


def _drift(name: str, now: float | None, before: float | None) -> MetricChange:
    change = (now - before) / before if before and now is not None else None
    return MetricChange(name=name, now=now, before=before, change=change)
