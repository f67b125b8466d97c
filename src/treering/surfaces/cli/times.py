"""Times as people write and read them on a command line: an age, a date, or milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from treering.errors import InvalidInput
from treering.model.fields import TIME_MS_MAX
from treering.surfaces.cli.output import iso_time

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGE: Final = re.compile(r"([0-9]{1,6})([smhdw])")
_MILLISECONDS: Final = re.compile(r"[0-9]{1,20}")
_ECHO_CHARACTERS_MAX: Final = 60
_DAYS_AGO_MAX: Final = 31
_HINT: Final = (
    "give an age such as 30m, 2h or 7d, a date such as 2026-03-05, or milliseconds since 1970"
)


def parse_moment(text: str | None, *, now_ms: int, flag: str) -> int | None:
    """Return milliseconds since 1970 for ``30m``, ``7d``, ``2026-03-05``, a date and time, or them.

    A time without a zone is UTC. Raises InvalidInput, which names ``flag``, for anything else.
    """
    if text is None:
        return None
    found = _milliseconds(text.strip(), now_ms=now_ms)
    if found is None:
        raise InvalidInput(f"{flag} {_echo(text)} is no time", hint=_HINT)
    if not 0 < found <= TIME_MS_MAX:
        side = "not after the beginning of 1970" if found <= 0 else "beyond the year 9999"
        raise InvalidInput(f"{flag} {_echo(text)} is {side}", hint=f"leave {flag} out, or {_HINT}")
    return found


def parse_age(text: str, *, flag: str) -> int:
    """Return the milliseconds of ``30m``, ``2h`` or ``90d``. Raises InvalidInput otherwise."""
    age = _AGE.fullmatch(text.strip().lower())
    if age is None:
        raise InvalidInput(
            f"{flag} {_echo(text)} is no age", hint="give one such as 30m, 2h, 90d or 12w"
        )
    return int(age[1]) * _UNITS_MS[age[2]]


def ago(ts_ms: int, *, now_ms: int) -> str:
    """Return how long ago a time is, as people say it; the day, if it is more than a month."""
    seconds = (now_ms - ts_ms) // 1_000
    if seconds < 0 or seconds >= _DAYS_AGO_MAX * 86_400:
        return iso_time(ts_ms)[:10]
    for unit, noun in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            number = seconds // unit
            return f"{number} {noun}{'s' if noun == 'day' and number > 1 else ''} ago"
    return "just now"


def check_order(since: tuple[str | None, int | None], until: tuple[str | None, int | None]) -> None:
    """Raise InvalidInput if ``since`` is after ``until``: what was written, and the time."""
    if since[1] is not None and until[1] is not None and since[1] > until[1]:
        raise InvalidInput(
            f"--since {_echo(since[0] or '')} is after --until {_echo(until[0] or '')}",
            hint="swap the two times",
        )


def _milliseconds(told: str, *, now_ms: int) -> int | None:
    if age := _AGE.fullmatch(told.lower()):
        return now_ms - int(age[1]) * _UNITS_MS[age[2]]
    if _MILLISECONDS.fullmatch(told):
        return int(told)
    try:
        moment = datetime.fromisoformat(told)
    except ValueError:
        return None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1_000)


def _echo(text: str) -> str:
    return text.strip()[:_ECHO_CHARACTERS_MAX] or "<empty>"
