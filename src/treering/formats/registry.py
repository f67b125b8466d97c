"""The formats that logs come in, and which one a file is, by what is in it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import PurePath
    from types import ModuleType

    from treering.formats.telling import Reader

NATIVE: Final = "treering"
"""Our own export: it is restored, not retold."""


class Format(Protocol):
    """One format: what each of its modules offers."""

    NAME: str
    READER: Callable[[PurePath | None], Reader]
    """Makes a reader for one file; its path is a hint, for the ids that are in names."""

    def recognises(self, values: Sequence[Any]) -> bool:
        """Whether the first values of a file are of this format."""


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
"""Modules of this package, those first that are told apart by more."""


def formats() -> list[Format]:
    """Return every format."""
    return [named_format(name) for name in FORMATS]


def named_format(name: str) -> Format:
    """Return the format of one of the modules."""
    return cast("Format", import_module(f"treering.formats.{name}"))


def find_format(values: Sequence[Any]) -> Format | None:
    """Return the format of a file that begins with ``values``; None if nobody knows it.

    Of a file with other things in it, one value that is known will do.
    """
    every = formats()
    found = next((one for one in every if one.recognises(values)), None)
    if found is None:
        singly = ([value] for value in values)
        found = next((one for few in singly for one in every if one.recognises(few)), None)
    return found


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
