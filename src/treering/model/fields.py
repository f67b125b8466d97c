"""Checks for the fields of an event that its author supplies, and times as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Final, TypeVar

from treering.errors import InvalidInput, TooLarge
from treering.model.events import NAME_CHARACTERS_MAX, SUMMARY_CHARACTERS_MAX, NewEvent

Item = TypeVar("Item")

TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""
SECONDS_MIN: Final = 1_400_000_000
MILLISECONDS_MIN: Final = 2_100_000_000
"""Values between them are seconds of 2014 to 2036; as milliseconds, a week of January 1970."""
_STEM_CHARACTERS: Final = 150
"""The characters kept of a name that is too long."""
COUNT_MAX: Final = 2**63 - 1
"""The largest integer of a database."""
_EVENTS: Final = frozenset({NewEvent})


def check_name(text: str, field: str) -> str:
    """Return ``text`` if it is a valid name. Raises InvalidInput otherwise."""
    if type(text) is not str:
        raise InvalidInput(f"{field} is a {type(text).__name__}, not text", hint="pass plain text")
    if not text.strip():
        raise InvalidInput(f"{field} is required", hint="pass one")
    if len(text) > NAME_CHARACTERS_MAX:
        raise TooLarge(
            f"{field} has {len(text)} characters, {NAME_CHARACTERS_MAX} are allowed",
            hint="shorten it",
        )
    if not text.isprintable():
        raise InvalidInput(
            f"{field} {text!r} holds a control character or lone surrogate", hint="remove it"
        )
    return text


def fit_name(text: str, field: str) -> tuple[str, bool]:
    """Return ``text`` as a valid name, and whether it had to be changed.

    A name that is too long or not printable keeps its beginning and gets a hash, so that different
    names stay different. Raises InvalidInput if it is not text, or empty.
    """
    if isinstance(text, str) and text.strip() and not _is_name(text):
        digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
        start = "".join(
            character if character.isprintable() else " " for character in text[:_STEM_CHARACTERS]
        )
        return f"{start.strip()}~{digest}", True
    # A member of a string enum is a name, too.
    return check_name(str.__str__(text) if isinstance(text, str) else text, field), False


def _is_name(text: str) -> bool:
    return len(text) <= NAME_CHARACTERS_MAX and text.isprintable()


def check_id(text: str) -> str:
    """Return ``text`` if it is a valid event id. Raises InvalidInput otherwise."""
    # Nearly all are valid, and an import checks each id three times.
    if (
        type(text) is str
        and 0 < len(text) <= NAME_CHARACTERS_MAX
        and text.isprintable()
        and not text.isspace()
    ):
        return text
    return check_name(text, "event_id")


def check_time(ts_ms: int) -> int:
    """Return ``ts_ms`` if it is a valid time in milliseconds. Raises InvalidInput otherwise.

    Small numbers are valid: tests and replays count 1, 2, 3.
    """
    if type(ts_ms) is not int:
        raise InvalidInput(f"invalid ts_ms: {ts_ms!r}", hint="give whole milliseconds since 1970")
    if looks_like_seconds(ts_ms):
        raise InvalidInput(
            f"ts_ms {ts_ms} looks like seconds: milliseconds expected",
            hint=f"multiply by 1,000: {ts_ms * 1_000}",
        )
    if not 0 < ts_ms <= TIME_MS_MAX:
        raise InvalidInput(
            "ts_ms must be > 0" if ts_ms <= 0 else f"ts_ms {ts_ms} is beyond the year 9999",
            hint="give milliseconds since 1970",
        )
    return ts_ms


def looks_like_seconds(ts_ms: int) -> bool:
    """Return whether a time was probably meant in seconds: as milliseconds it is in early 1970."""
    return SECONDS_MIN <= ts_ms < MILLISECONDS_MIN


def bounded_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """Return ``clock`` limited to the range of times that can be recorded.

    A wrong clock must not keep an agent's actions from being recorded.
    """

    def bounded() -> int:
        now_ms = clock()
        if MILLISECONDS_MIN <= now_ms <= TIME_MS_MAX:
            return now_ms
        return min(max(now_ms, 1), TIME_MS_MAX)

    return bounded


def check_count(value: int, field: str) -> int:
    """Return ``value`` if it is an integer, 0 or more. Raises InvalidInput otherwise."""
    if type(value) is not int or not 0 <= value <= COUNT_MAX:
        raise InvalidInput(f"invalid {field}: {value!r}", hint="give a whole number, 0 or more")
    return value


def check_text(text: str, field: str) -> str:
    """Return ``text`` if it is valid text of any length. Raises InvalidInput otherwise."""
    if not isinstance(text, str):
        raise InvalidInput(f"{field} is a {type(text).__name__}, not text", hint="give plain text")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInput(f"{field} holds a lone surrogate", hint="remove it")
    return text


def check_list(items: Iterable[Item], field: str) -> tuple[Item, ...]:
    """Return ``items`` as a tuple. Raises InvalidInput for a single text or a non-iterable."""
    if type(items) is list or type(items) is tuple:
        return tuple(items)
    if isinstance(items, str):
        raise InvalidInput(f"{field} is a single text", hint=f"give a list: {field}=[{items!r}]")
    if isinstance(items, bytes | Mapping) or not isinstance(items, Iterable):
        raise InvalidInput(f"{field} is a {type(items).__name__}, not a list", hint="give a list")
    return tuple(items)


def check_events(events: Iterable[NewEvent]) -> tuple[NewEvent, ...]:
    """Return ``events`` as a tuple. Raises InvalidInput if one is not an event to append."""
    if isinstance(events, NewEvent):
        raise InvalidInput("append takes a list of events", hint="write append([event])")
    listed = tuple(events) if type(events) is list else check_list(events, "events")
    if not _EVENTS.issuperset(map(type, listed)):
        for event in listed:
            if not isinstance(event, NewEvent):
                raise InvalidInput(
                    f"a {type(event).__name__} is not an event",
                    hint="make one with session.new_event",
                )
    return listed


def check_summary(text: str) -> str:
    """Return ``text`` if it is a valid summary. Raises InvalidInput otherwise."""
    if not text.strip():
        raise InvalidInput("summary is required", hint="say in a few words what happened")
    if len(text) > SUMMARY_CHARACTERS_MAX:
        raise TooLarge(
            f"summary exceeds cap ({len(text)} > {SUMMARY_CHARACTERS_MAX} characters)",
            hint="put the long text into the payload",
        )
    if "\0" in text:
        raise InvalidInput("summary holds a NUL character", hint="remove it")
    return text


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
