"""The words in which events are told: summaries of texts, errors as values, fresh ids."""

from __future__ import annotations

from typing import Any, Final

import uuid_utils

from treering.errors import InvalidInput
from treering.spine.conversion import described, to_text, type_name

SUMMARY_CHARACTERS: Final = 200

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


def describe(error: Any) -> dict[str, str]:
    """Return an error as values, whatever it is and whatever its text is like."""
    if isinstance(error, BaseException):
        return described(error)
    name = "Error" if isinstance(error, str) else type_name(error)
    return {"class": name, "message": to_text(error)[0]}
