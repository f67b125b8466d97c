"""Stored values that cannot be what was written."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

UNREADABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
"""What comes up when stored values are not of the sort that they were written as."""


@contextlib.contextmanager
def corrupt_on_error(ledger: str) -> Iterator[None]:
    """Raise Corrupt, with the name of the ledger, where a stored value makes no sense."""
    try:
        yield
    except UNREADABLE as error:
        raise Corrupt(
            f"{ledger} is damaged: an event cannot be read ({error})",
            hint="keep a copy, then run treering verify and restore from an export or a backup",
        ) from error
