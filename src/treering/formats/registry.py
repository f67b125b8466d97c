"""The formats that logs come in, and which one a file is, by what is in it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import PurePath
    from types import ModuleType

    from treering.formats.parsed import LogReader

NATIVE: Final = "treering"
"""Our own export: it is restored, not retold."""


class Format(Protocol):
    """One format: what each of its modules offers."""

    NAME: str
    READER: Callable[[PurePath | None], LogReader]
    """Makes a reader for one file; its path is a hint, for the ids that are in names."""

    def score(self, values: Sequence[Any]) -> float:
        """Return how sure it is that a file which begins with ``values`` is of this format.

        From 0, which is not at all, to 1; see ``grammar.share``.
        """


FORMATS: Final = (
    "claude_code",
    "codex",
    "openclaw",
    "pi",
    "gemini",
    "openclaw_mem",
    "openclaw_receipts",
    "apeira.lines",
    "clawser.lines",
    "tape",
)
"""Modules of this package."""

VERSIONS: Final = {
    "claude-code": 2,
    "codex": 2,
    "gemini": 3,
    "openclaw": 2,
    "pi": 2,
}
"""How well each format is read, by its name; 1 for others.

Raise it when a reader tells more than before, or when a format does not claim any more what it
claimed: logs that were read by an earlier one are read again from their beginning.
"""


@cache
def formats() -> tuple[Format, ...]:
    """Return every format."""
    return tuple(named_format(name) for name in FORMATS)


def named_format(name: str) -> Format:
    """Return the format of one of the modules."""
    return cast("Format", import_module(f"treering.formats.{name}"))


def find_format(values: Sequence[Any]) -> Format | None:
    """Return the format of a file that begins with ``values``.

    None if no format claims it, or two with equal right: a log that is not read can be read later,
    one that is read as another agent's is lost in a wrong shape.
    """
    scores = [(one.score(values), one) for one in formats()]
    best = max(score for score, _ in scores)
    found = [one for score, one in scores if score == best]
    return found[0] if best > 0 and len(found) == 1 else None


def version_of(name: str | None) -> int:
    """Return how well the format of that name is read by now."""
    return VERSIONS.get(name or "", 1)


def is_native(values: Sequence[Any]) -> bool:
    """Whether a file is an export of our own."""
    first = values[0] if values else None
    return (
        isinstance(first, dict)
        and first.get("record") == "export"
        and str(first.get("format")).startswith("treering.export.")
    )


def module_of(form: Format) -> str:
    """Return the name of a format's module, for ``named_format``."""
    return cast("ModuleType", form).__name__.removeprefix("treering.formats.")
