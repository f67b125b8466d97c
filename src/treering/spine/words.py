"""The words in which events are told: summaries of texts, errors as values, fresh ids."""

from __future__ import annotations

from typing import Final

import uuid_utils

from treering.errors import InvalidInput

SUMMARY_CHARACTERS: Final = 200
CLASS_CHARACTERS_MAX: Final = 200


_AHEAD: Final = 4
"""How many times its length is looked at first to find the words of a summary."""
_CONTROLS: Final = dict.fromkeys((*range(32), 127), " ")
"""What no summary holds, as a blank."""


def new_id() -> str:
    """Return a fresh UUIDv7: unique, and sorted by time."""
    return str(uuid_utils.uuid7())


def shorten(text: str, characters: int = SUMMARY_CHARACTERS) -> str:
    """Return ``text`` as one line that fits a summary. Raises InvalidInput if it is none."""
    if not isinstance(text, str):
        raise InvalidInput(f"the text is a {type(text).__name__}", hint="give plain text")
    # Of a long text, the beginning will mostly do.
    line = _one_line(text[: characters * _AHEAD])
    if len(line) <= characters < len(text):
        line = _one_line(text)
    if not line:
        return "(empty)"
    return line if len(line) <= characters else line[: characters - 1] + "…"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if line.isprintable() else " ".join(line.translate(_CONTROLS).split())


def describe(error: BaseException | str) -> dict[str, str]:
    """Return an exception as values, whatever its text is like."""
    if isinstance(error, str):
        return {"class": "Error", "message": plain(error)}
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001  (an exception that cannot say what it is about)
        message = "(it has no text)"
    return {"class": type(error).__name__[:CLASS_CHARACTERS_MAX], "message": plain(message)}


def plain(text: str) -> str:
    """Return ``text`` with what no encoding can hold written out."""
    return text.encode(errors="backslashreplace").decode()
