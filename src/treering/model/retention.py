"""Retention: the number of days that each kind is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from treering.errors import InvalidInput
from treering.model.kinds import KINDS, parse_kind

DAY_MS: Final = 86_400_000
FOREVER: Final = None
DAYS_MAX: Final = 36_500
"""A hundred years; more is forever."""

Retention: TypeAlias = Mapping[str, int | None]
"""Days by kind; None and missing kinds mean forever."""

DEFAULT_RETENTION: Final[Retention] = {
    kind.name: kind.retention_days for kind in KINDS.values() if kind.retention_days is not None
}

_FOREVER_WORDS: Final = frozenset({"forever", "inf", "infinite", "none"})


def check_retention(policy: Retention) -> dict[str, int | None]:
    """Return ``policy`` under stored kind names. Raises InvalidInput for an invalid age."""
    checked: dict[str, int | None] = {}
    for name, days in policy.items():
        kind = parse_kind(name).name
        if days is not None and (not isinstance(days, int) or isinstance(days, bool)):
            raise InvalidInput(
                f"invalid retention days for {kind}: {days!r}", hint="give whole days, or None"
            )
        if days is not None and days > DAYS_MAX:
            raise InvalidInput(
                f"retention days must be <= {DAYS_MAX} for {kind}", hint="write forever"
            )
        if days is not None and days < 0:
            raise InvalidInput(
                f"retention days must be >= 0 for {kind}", hint="write 0 or more, or forever"
            )
        checked[kind] = days
    return checked


def parse_retention_entry(entry: str) -> tuple[str, int | None]:
    """Return the kind and days of one ``KIND=DAYS`` entry; DAYS may be ``forever``."""
    name, equals, days = entry.partition("=")
    if not equals or not name.strip():
        raise InvalidInput(f"invalid --policy entry: {entry}", hint="write it as tool.result=30")
    kind = parse_kind(name).name
    text = days.strip().lower()
    if text in _FOREVER_WORDS:
        return kind, FOREVER
    try:
        number = int(text)
    except ValueError as error:
        raise InvalidInput(
            f"invalid retention days for {kind}: {days.strip()}",
            hint="write whole days, or forever",
        ) from error
    return next(iter(check_retention({kind: number}).items()))


def cutoffs(policy: Retention, now_ms: int) -> dict[str, int]:
    """Return the time before which events expire, for each kind with a limit.

    An event exactly as old as its retention is kept.
    """
    return {kind: now_ms - days * DAY_MS for kind, days in policy.items() if days is not None}
