"""Times as people write them on a command line: an age, a date, or milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from treering.errors import InvalidInput
from treering.surfaces.cli.options import parse_time

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGE: Final = re.compile(r"(\d{1,6})([smhdw])")
_ECHO_CHARACTERS_MAX: Final = 60


def parse_moment(text: str | None, *, now_ms: int) -> int | None:
    """Return milliseconds since 1970 for ``30m``, ``7d``, ``2026-03-05``, a date and time, or them.

    A time without a zone is UTC. Raises InvalidInput for anything else.
    """
    if text is None:
        return None
    told = text.strip()
    if age := _AGE.fullmatch(told.lower()):
        return max(0, now_ms - int(age[1]) * _UNITS_MS[age[2]])
    if told.isdecimal():
        return parse_time(told)
    try:
        moment = datetime.fromisoformat(told)
    except ValueError as error:
        raise InvalidInput(
            f"invalid time: {text[:_ECHO_CHARACTERS_MAX]}",
            hint="give an age such as 30m, 2h or 7d, a date such as 2026-03-05,"
            " or milliseconds since 1970",
        ) from error
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0, int(zoned.timestamp() * 1_000))
