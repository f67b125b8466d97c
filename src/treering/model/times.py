"""Times as text, by arithmetic alone: the core uses no clock and no calendar of the machine."""

from __future__ import annotations

from typing import Final

_DAY_MS: Final = 86_400_000
_ERA_DAYS: Final = 146_097
"""400 years, after which the calendar repeats."""
_EPOCH_DAYS: Final = 719_468
"""From 1 March of the year 0 to 1970: years that begin in March end with the leap day."""


def instant(ts_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond."""
    days, in_day = divmod(ts_ms, _DAY_MS)
    era, day_of_era = divmod(days + _EPOCH_DAYS, _ERA_DAYS)
    leaps = day_of_era // 1_460 - day_of_era // 36_524 + day_of_era // 146_096
    year_of_era = (day_of_era - leaps) // 365
    before = 365 * year_of_era + year_of_era // 4 - year_of_era // 100
    day_of_year = day_of_era - before
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    hours, rest = divmod(in_day, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, milliseconds = divmod(rest, 1_000)
    return f"{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}Z"
