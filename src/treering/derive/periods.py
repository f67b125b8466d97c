"""Periods of time, and how what was counted in one differs from the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time, both ends included."""

    since_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """Return how long it is."""
        return self.until_ms - self.since_ms + 1

    def before(self) -> Period | None:
        """Return the one of the same length right before it; None if that is before all time."""
        since = self.since_ms - self.length_ms
        return Period(since_ms=since, until_ms=self.since_ms - 1) if since > 0 else None


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """A number, and what it was the period before."""

    name: str
    now: float | None
    """None where nothing was there to be measured."""
    before: float | None
    change: float | None
    """By what part it grew: 0.5 is half as much again. None where that cannot be said."""


def drifts(now: Mapping[str, float | None], before: Mapping[str, float | None]) -> list[Drift]:
    """Return how each number of either period differs, in the order of their names as given."""
    names = dict.fromkeys((*now, *before))
    return [_drift(name, now.get(name), before.get(name)) for name in names]


def _drift(name: str, now: float | None, before: float | None) -> Drift:
    change = (now - before) / before if before and now is not None else None
    return Drift(name=name, now=now, before=before, change=change)
