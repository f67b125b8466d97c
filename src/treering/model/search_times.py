"""Times in search queries: a date, a date and time, or an age."""

from __future__ import annotations

import re
from typing import Final

from treering.errors import InvalidInput
from treering.model.fields import TIME_MS_MAX

_AGE: Final = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DATE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3})\d*)?)?)?"
    r"(Z|[+-]\d\d:?\d\d)?",
    re.ASCII | re.IGNORECASE,
)
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH_DAYS: Final = 719_162
"""Days from the first day of the year 1 to 1970."""


def parse_time(text: str, *, name: str, now_ms: int) -> int:
    """Return milliseconds since 1970; a time without a zone is UTC. Raises InvalidInput.

    ``name`` is the operator of the time, for the error.
    """
    age = _AGE.fullmatch(text.lower())
    ts_ms = _instant(text) if age is None else now_ms - int(age[1]) * _UNITS_MS[age[2]]
    if ts_ms is None:
        raise InvalidInput(
            f"{name}:{text[:40]} is not a time",
            hint="write a date as 2026-03-05, a time as 2026-03-05T14:00, or an age as 3d",
        )
    return min(max(ts_ms, 1), TIME_MS_MAX)


def _instant(text: str) -> int | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:6])
    days = _days_before(year, month, day)
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    milliseconds = int((match[7] or "0").ljust(3, "0"))
    in_day = ((hours * 60 + minutes) * 60 + seconds) * 1_000 + milliseconds
    return days * 86_400_000 + in_day - _offset_ms(match[8])


def _days_before(year: int, month: int, day: int) -> int | None:
    """Return the days from 1970 to a date; None if the date does not exist."""
    if not (year and 1 <= month <= 12):
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTH_DAYS[month - 1] + (leap and month == 2):
        return None
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400
    days += sum(_MONTH_DAYS[: month - 1]) + (leap and month > 2) + day - 1
    return days - _EPOCH_DAYS


def _offset_ms(zone: str | None) -> int:
    if zone is None or zone in "zZ":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (-minutes if zone[0] == "-" else minutes) * 60_000
