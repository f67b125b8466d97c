"""An export on its way in: of the scope that was named, or not taken."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Final, cast

import msgspec

from treering.errors import InvalidInput, InvalidScope
from treering.ledger.jsonl import OpeningLine, decode_line
from treering.model.scopes import GLOBAL, parse_scope

if TYPE_CHECKING:
    from treering.model.scopes import Scope

OPENING_BYTES_MAX: Final = 16_384
"""A longer first line opens no export."""


def of_scope(stream: IO[bytes], scope: Scope) -> IO[bytes]:
    """Return the export in ``stream``, line by line; its first line is read and checked now.

    Raises InvalidScope where it opens another scope, now or later, and InvalidInput if it is no
    export or cannot be restored.
    """
    first = stream.readline(OPENING_BYTES_MAX)
    opening = _opening(first)
    if opening is None:
        raise InvalidInput(
            "the file does not start like an export",
            hint="import what treering episodes export --include-payload wrote",
        )
    if opening.scope != scope:
        raise InvalidScope(
            f"the export is not of scope {scope}", hint=f"pass {_flag(opening.scope)}"
        )
    if opening.payloads == "withheld":
        raise InvalidInput(
            "this export has no payloads and cannot be restored",
            hint="export again with --include-payload",
        )
    return cast("IO[bytes]", _ScopedLines(first, stream, scope))


class _ScopedLines(io.BufferedIOBase):
    """The lines of an export, as long as they are of one scope."""

    def __init__(self, first: bytes, stream: IO[bytes], scope: Scope) -> None:
        super().__init__()
        self._first = first
        self._stream = stream
        self._scope = scope

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line. Raises InvalidScope if it opens another scope."""
        if self._first:
            line, self._first = self._first, b""
            return line
        line = self._stream.readline(-1 if size is None else size)
        # Every line that opens an export has this word, if only in escapes.
        opening = _opening(line) if b"export" in line or b"\\u" in line else None
        if opening is not None and opening.scope != self._scope:
            raise InvalidScope(
                f"a second export, not of scope {self._scope}, follows in the same file",
                hint=f"what came before it is kept; import it alone with {_flag(opening.scope)}",
            )
        return line


def _opening(line: bytes) -> OpeningLine | None:
    try:
        entry = decode_line(line)
    except (msgspec.MsgspecError, ValueError):
        return None
    return entry if isinstance(entry, OpeningLine) else None


def _flag(scope: str) -> str:
    """Return how the command line names ``scope``. Raise InvalidScope if it is not one."""
    if parse_scope(scope) != scope:
        raise InvalidScope("the export names no scope", hint="import the file as it was exported")
    return "--global" if scope == GLOBAL else f"--scope {scope}"
