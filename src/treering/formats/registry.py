"""The log formats, and the detection of a file's format from its content."""

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
"""Treering's own export, which is restored rather than parsed."""


class Format(Protocol):
    """The interface of a format's module."""

    NAME: str
    READER: Callable[[PurePath | None], LogReader]
    """Creates a reader for one file; its path may contain ids."""

    def score(self, values: Sequence[Any]) -> float:
        """Return the confidence that a file starting with ``values`` has this format.

        From 0 (not at all) to 1; see ``grammar.share``.
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
"""Module names in this package."""

VERSIONS: Final = {
    "claude-code": 2,
    "codex": 2,
    "gemini": 3,
    "openclaw": 2,
    "pi": 2,
}
"""The version of each format's reader, by format name; 1 for others.

Raise it when a reader extracts more than before, or when a format stops claiming some files: logs
that an earlier version read are then read again from the beginning.
"""


@cache
def formats() -> tuple[Format, ...]:
    """Return every format."""
    return tuple(named_format(name) for name in FORMATS)


def named_format(name: str) -> Format:
    """Return the format of a module name."""
    return cast("Format", import_module(f"treering.formats.{name}"))


def find_format(values: Sequence[Any]) -> Format | None:
    """Return the format of a file that starts with ``values``.

    Return None if no format claims it or two claim it equally: an unread log can be read later,
    while one that is read as another agent's is recorded wrongly.
    """
    scores = [(candidate.score(values), candidate) for candidate in formats()]
    best = max(score for score, _ in scores)
    candidates = [candidate for score, candidate in scores if score == best]
    return candidates[0] if best > 0 and len(candidates) == 1 else None


def version_of(name: str | None) -> int:
    """Return the reader version of the format with that name."""
    return VERSIONS.get(name or "", 1)


def is_native(values: Sequence[Any]) -> bool:
    """Return whether a file is Treering's own export."""
    first = values[0] if values else None
    return (
        isinstance(first, dict)
        and first.get("record") == "export"
        and str(first.get("format")).startswith("treering.export.")
    )


def module_of(format_: Format) -> str:
    """Return the module name of a format, for ``named_format``."""
    return cast("ModuleType", format_).__name__.removeprefix("treering.formats.")
