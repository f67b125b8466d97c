"""Summaries of texts, errors as values, fresh ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import uuid_utils

from treering.errors import InvalidInput
from treering.lazy import LazyModule

if TYPE_CHECKING:
    from treering.spine import conversion
else:
    conversion = LazyModule("treering.spine.conversion")

SUMMARY_CHARACTERS: Final = 200

_AHEAD: Final = (40, 600)
"""How much more than its length is looked at to find the words of a summary: mostly, the first."""
_CONTROLS: Final = dict.fromkeys((*range(32), 127), " ")
"""What no summary holds, as a blank."""


def new_id() -> str:
    """Return a fresh UUIDv7: unique, and sorted by time."""
    return str(uuid_utils.uuid7())


def shorten(text: str, characters: int = SUMMARY_CHARACTERS) -> str:
    """Return ``text`` as one line that fits a summary. Raises InvalidInput if it is not a text."""
    if not isinstance(text, str):
        raise InvalidInput(f"the text is a {type(text).__name__}", hint="give plain text")
    head = text[: characters + 2]
    # No white space but single blanks: most texts are one line as they are, or begin with one.
    if head.isprintable() and "  " not in head and not head.startswith(" "):
        if len(head) > characters + 1:
            return head[: characters - 1] + "…"
        if head and len(head) <= characters and not head.endswith(" "):
            return head
    for ahead in _AHEAD:
        # The line that a longer beginning makes begins with the line that a shorter one makes.
        if len(text) > characters + ahead:
            line = _one_line(text[: characters + ahead])
            if len(line) > characters:
                return line[: characters - 1] + "…"
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
        return conversion.described(error)
    name = "Error" if isinstance(error, str) else conversion.type_name(error)
    return {"class": name, "message": conversion.to_text(error)[0]}
