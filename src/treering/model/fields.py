"""The fields of an event that an author gives: what each may hold."""

from __future__ import annotations

from typing import Final

from treering.errors import InvalidInput, TooLarge
from treering.model.events import NAME_CHARACTERS_MAX, SUMMARY_CHARACTERS_MAX

TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def check_name(text: str, field: str) -> str:
    """Return ``text`` if it can name something. Raises InvalidInput otherwise."""
    if type(text) is not str:
        raise InvalidInput(f"{field} is a {type(text).__name__}, not text", hint="give plain text")
    if not text.strip():
        raise InvalidInput(f"{field} is required", hint="give one")
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


def check_id(text: str) -> str:
    """Return ``text`` if it can be an event id. Raises InvalidInput otherwise."""
    return check_name(text, "event_id")


def check_time(ts_ms: int) -> int:
    """Return ``ts_ms`` if it is a time after 1970. Raises InvalidInput otherwise."""
    if type(ts_ms) is not int:
        raise InvalidInput(f"invalid ts_ms: {ts_ms!r}", hint="give whole milliseconds since 1970")
    if not 0 < ts_ms <= TIME_MS_MAX:
        raise InvalidInput(
            "ts_ms must be > 0" if ts_ms <= 0 else f"ts_ms {ts_ms} is beyond the year 9999",
            hint="give milliseconds since 1970",
        )
    return ts_ms


def check_summary(text: str) -> str:
    """Return ``text`` if it can be a summary. Raises InvalidInput otherwise."""
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
