"""Times as people write and read them.

They write an age, a date, or milliseconds. Times are read and shown in the time zone of the
machine, in that of TREERING_TZ, or in UTC with ``--utc``; JSON has milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from treering.errors import InvalidInput
from treering.model.fields import TIME_MS_MAX, instant
from treering.model.parts import is_approximate

ZONE_VARIABLE: Final = "TREERING_TZ"

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGE: Final = re.compile(r"([0-9]{1,6})([smhdw])")
_MILLISECONDS: Final = re.compile(r"[0-9]{1,20}")
_ECHO_CHARACTERS_MAX: Final = 60
_DAYS_AGO_MAX: Final = 31
TIMES_HINT: Final = (
    "give an age such as 30m, 2h or 7d, a date such as 2026-03-05, or milliseconds since 1970"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_in_utc: ContextVar[bool] = ContextVar("in_utc", default=False)


def use_utc() -> None:
    """Read and show times in UTC from here on, until ``usual_zone`` is left."""
    _in_utc.set(True)


@contextlib.contextmanager
def usual_zone() -> Iterator[None]:
    """Read and show times inside in the zone of the machine or of TREERING_TZ, at first."""
    token = _in_utc.set(False)
    try:
        yield
    finally:
        _in_utc.reset(token)


def parse_moment(text: str | None, *, now_ms: int, flag: str) -> int | None:
    """Return milliseconds since 1970 for ``30m``, ``7d``, ``2026-03-05``, a date and time, or them.

    A time without a zone is in that of the command line. Raise InvalidInput, which names ``flag``,
    for anything else.
    """
    if text is None:
        return None
    time_ms = milliseconds(text.strip(), now_ms=now_ms)
    if time_ms is None:
        raise InvalidInput(f"{flag} {_echo(text)} is not a time", hint=TIMES_HINT)
    if not 0 < time_ms <= TIME_MS_MAX:
        side = "not after the beginning of 1970" if time_ms <= 0 else "beyond the year 9999"
        raise InvalidInput(
            f"{flag} {_echo(text)} is {side}", hint=f"leave {flag} out, or {TIMES_HINT}"
        )
    return time_ms


def parse_age(text: str, *, flag: str) -> int:
    """Return the milliseconds of ``30m``, ``2h`` or ``90d``. Raises InvalidInput otherwise."""
    age = _AGE.fullmatch(text.strip().lower())
    if age is None:
        raise InvalidInput(
            f"{flag} {_echo(text)} is not an age", hint="give one such as 30m, 2h, 90d or 12w"
        )
    return int(age[1]) * _UNITS_MS[age[2]]


def ago(ts_ms: int, *, now_ms: int) -> str:
    """Return how long ago a time is, as people say it; the day, if it is more than a month."""
    seconds = (now_ms - ts_ms) // 1_000
    if seconds < 0 or seconds >= _DAYS_AGO_MAX * 86_400:
        return clock(ts_ms)[:10]
    for unit, noun in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            number = seconds // unit
            return f"{number} {noun}{'s' if noun == 'day' and number > 1 else ''} ago"
    return "just now"


def duration(milliseconds: int | None) -> str:
    """Return a duration as people say it."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f} s"
    minutes, seconds = divmod(milliseconds // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def check_order(since: tuple[str | None, int | None], until: tuple[str | None, int | None]) -> None:
    """Raise InvalidInput if ``since`` is after ``until``: what was written, and the time."""
    if since[1] is not None and until[1] is not None and since[1] > until[1]:
        raise InvalidInput(
            f"--since {_echo(since[0] or '')} is after --until {_echo(until[0] or '')}",
            hint="swap the two times",
        )


def milliseconds(text: str, *, now_ms: int) -> int | None:
    """Return the milliseconds since 1970 of an age, a date, or a number; None for anything else."""
    if age := _AGE.fullmatch(text.lower()):
        return now_ms - int(age[1]) * _UNITS_MS[age[2]]
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        # A naive time is read in the zone of the machine, if no other is chosen.
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=_zone())
        return int(zoned.timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        return None


def clock(ts_ms: int) -> str:
    """Return a time to the second, in the zone of the command line."""
    shown = _shown(ts_ms)
    return utc_clock(ts_ms) if shown is None else shown.strftime("%Y-%m-%d %H:%M:%S")


def about(refs: Any) -> str:
    """Return ``~`` before a time that a log did not tell, and that is only approximate."""
    return "~" if is_approximate(refs) else ""


def moment(ts_ms: int) -> str:
    """Return the same, with the name of the zone."""
    shown = _shown(ts_ms)
    return f"{clock(ts_ms)} {'UTC' if shown is None else shown.tzname()}"


def utc_clock(ts_ms: int) -> str:
    """Return a time to the second, in UTC: for files, which are read in other zones."""
    return iso_time(ts_ms)[:19].replace("T", " ")


class LocalZone(tzinfo):
    """The time zone of the machine, with its summer times."""

    def utcoffset(self, at: datetime | None, /) -> timedelta:
        """Return how far local time is ahead of UTC at a local time."""
        try:
            there = datetime.now().astimezone() if at is None else _local(at)
        except (OverflowError, ValueError, OSError):
            return timedelta()  # No clock shows the first and last hours of the calendar.
        return there.utcoffset() or timedelta()

    def dst(self, _at: datetime | None, /) -> timedelta | None:
        """Return None: whether it is summer time is not known apart from the offset."""
        return None

    def tzname(self, _at: datetime | None, /) -> str:
        """Return what the zone is called here."""
        return "local"


def typed_zone() -> tzinfo:
    """Return the zone of times that people type without one."""
    return _zone() or LocalZone()


def _local(at: datetime) -> datetime:
    return at.replace(tzinfo=None).astimezone()


def zone_name() -> str:
    """Return the name of the zone in which times are shown."""
    zone = _zone()
    if zone is not None:
        return str(zone)
    here = datetime.now().astimezone()
    return "UTC" if here.tzname() == "UTC" else "local"


def _shown(ts_ms: int) -> datetime | None:
    """Return a time in the zone of the command line; None if a clock cannot show it there."""
    try:
        return (_EPOCH + timedelta(milliseconds=ts_ms)).astimezone(_zone())
    except (OverflowError, ValueError, OSError):
        return None


def _zone() -> tzinfo | None:
    """Return the zone that was chosen; None for that of the machine."""
    if _in_utc.get():
        return UTC
    name = os.environ.get(ZONE_VARIABLE, "").strip()
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415  (only where one is named)

    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise InvalidInput(
            f"{ZONE_VARIABLE} {_echo(name)} is not a time zone",
            hint="set a name such as Europe/Berlin or UTC, or unset it",
        ) from error


def _echo(text: str) -> str:
    return text.strip()[:_ECHO_CHARACTERS_MAX] or "<empty>"


def iso_time(ms: int) -> str:
    """Return milliseconds since 1970 as UTC in ISO 8601."""
    return instant(ms).replace("Z", "+00:00")
