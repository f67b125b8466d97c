"""Lines that cannot be recorded are set aside with a reason, so that later lines are recorded.

One line never stops a reader. Whatever it does to a parser, a masked excerpt is kept here, and
``treering doctor`` shows it. Errors of the disk or the database do not concern a line: they are
raised, and the line is read again.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from treering.clock import now_ms
from treering.errors import InvalidInput, TreeringError
from treering.formats.records.values import Unreadable, read_value
from treering.hook import state_folder
from treering.model.fields import instant
from treering.spine.conversion import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.capture.secrets import SecretGuard
    from treering.model.intakes import SourceReceipt

EXCERPT_CHARACTERS: Final = 2_048
EXCERPTS_MAX: Final = 100
"""Lines of one pass that are kept with an excerpt; others are counted."""
FILE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger file only gets counts."""
REASON_CHARACTERS: Final = 200
_MARGIN: Final = 2_048
"""Masked together with an excerpt, so that a secret at its end is not cut in half first."""
_SUFFIX: Final = ".log"
_ESCAPE: Final = re.compile(r'\\(?:u00([0-7][0-9a-fA-F])|(["\\/]))')


class QuarantineEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line that was set aside, or several with the same reason."""

    reason: str
    at: str | None = None
    source: str | None = None
    """The file that contains it."""
    place: int | None = None
    """Its offset in that file."""
    lines: int = 1
    line: str | None = None
    """Its text, masked and cut."""


class Quarantine:
    """Keeps the lines of one source that could not be recorded, in a file for its owner only."""

    def __init__(self, path: Path, *, guard: SecretGuard, source: str | None = None) -> None:
        self.path = path
        self._guard = guard
        self._source = source
        self._entries: list[QuarantineEntry] = []
        self._more: Counter[str] = Counter()

    def add(
        self,
        reason: str,
        line: bytes = b"",
        *,
        offset: int | None = None,
        source: str | None = None,
    ) -> None:
        """Set a line aside; ``flush`` writes it."""
        masked = _masked(self._guard, reason)[:REASON_CHARACTERS]
        if len(self._entries) >= EXCERPTS_MAX:
            is_counted = masked in self._more or len(self._more) < EXCERPTS_MAX
            self._more[masked if is_counted else "other reasons"] += 1
            return
        self._entries.append(
            QuarantineEntry(
                reason=masked,
                at=_now(),
                source=source or self._source,
                place=offset,
                line=excerpt(self._guard, line) if line else None,
            )
        )

    def count(self, reason: str, lines: int) -> None:
        """Count lines without keeping them."""
        self._more[reason] += lines

    def flush(self) -> None:
        """Write the lines that were set aside. Raises OSError."""
        entries, more = self._entries, self._more
        self._entries, self._more = [], Counter()
        at = _now()
        entries += [
            QuarantineEntry(reason=reason, at=at, source=self._source, lines=lines)
            for reason, lines in more.items()
            if lines > 0
        ]
        if not entries:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(descriptor, "ab") as stream:
            if os.fstat(descriptor).st_size > FILE_BYTES_MAX:
                entries = [
                    QuarantineEntry(reason="the file is full", at=at, lines=_counted(entries))
                ]
            stream.writelines(msgspec.json.encode(entry) + b"\n" for entry in entries)

    def clear(self) -> None:
        """Forget all lines: their source is read again from the beginning."""
        self._entries, self._more = [], Counter()
        self.path.unlink(missing_ok=True)


def quarantine_of(source: Path, guard: SecretGuard) -> Quarantine:
    """Return the quarantine of a file in the user's state folder."""
    real = os.path.realpath(source)
    name = sha256(os.fsencode(real)).hexdigest()[:16]
    return Quarantine(quarantine_folder() / f"{name}{_SUFFIX}", guard=guard, source=plain(real))


def note_faults(source: SourceReceipt, guard: SecretGuard) -> None:
    """Set aside the positions of lines in an imported log that could not be recorded."""
    if source.state not in {"read", "grown"}:
        return
    quarantine = quarantine_of(Path(source.file), guard)
    known: set[int | None] = set()
    if source.state == "read":
        quarantine.clear()  # It was read from the start, so remaining faults are added again.
    elif source.faults:
        # An import that was interrupted may have set them aside, and not noted how far it came.
        known = {entry.place for entry in read_quarantine(quarantine.path)}
    for fault in source.faults:
        if fault.offset not in known:
            quarantine.add(fault.reason, offset=fault.offset)
    quarantine.count("other reasons", source.errors - len(source.faults))
    quarantine.flush()


def quarantine_folder() -> Path:
    """Return the folder for lines that could not be recorded."""
    return Path(state_folder()) / "quarantine"


def quarantined(folder: Path) -> Iterator[tuple[Path, list[QuarantineEntry]]]:
    """Yield each quarantine file in ``folder`` with its entries."""
    try:
        paths = sorted(folder.glob(f"*{_SUFFIX}"))
    except OSError:
        return
    for path in paths:
        entries = read_quarantine(path)
        if entries:
            yield path, entries


def read_quarantine(path: Path) -> list[QuarantineEntry]:
    """Return the entries in ``path``; an invalid line counts as one entry."""
    try:
        with path.open("rb") as stream:
            lines = stream.read(2 * FILE_BYTES_MAX).splitlines()
    except OSError:
        return []
    decode = msgspec.json.Decoder(QuarantineEntry).decode
    entries = []
    for line in lines:
        try:
            entries.append(decode(line))
        except ValueError:
            entries.append(QuarantineEntry(reason="written by another program"))
    return entries


@cache
def line_faults() -> tuple[type[Exception], ...]:
    """Return the errors that a line's content may cause: no database errors."""
    # Imported late: the guard's rules take long to load and are not needed without new lines.
    from treering.capture.secrets import GuardFailed  # noqa: PLC0415

    return (
        InvalidInput,
        ValueError,
        TypeError,
        ArithmeticError,
        LookupError,
        AttributeError,
        RecursionError,
        GuardFailed,
    )


def is_line_fault(error: Exception) -> bool:
    """Return whether recording failed because of the line's content, and would fail again."""
    is_ours = isinstance(error, TreeringError | OSError | MemoryError)
    return isinstance(error, line_faults()) or not is_ours


def reason_of(error: BaseException) -> str:
    """Return why a line could not be recorded."""
    # The text of an unexpected error may quote the line.
    is_expected = isinstance(error, TreeringError | Unreadable)
    return str(error)[:REASON_CHARACTERS] if is_expected else f"unexpected {type(error).__name__}"


def excerpt(guard: SecretGuard, line: bytes) -> str:
    """Return the beginning of a line with its secrets masked."""
    if len(line) <= EXCERPT_CHARACTERS:
        # A line that breaks a parser may break this one, too.
        with contextlib.suppress(Exception):
            value, _ = read_value(line)
            # Field names reveal secrets that their text alone does not.
            return msgspec.json.encode(guard.mask_value(value)).decode()
    text = _unescaped(line[: EXCERPT_CHARACTERS + _MARGIN].decode(errors="replace"))
    return _masked(guard, text)[:EXCERPT_CHARACTERS]


def _masked(guard: SecretGuard, text: str) -> str:
    try:
        return guard.mask_text(text)
    except Exception:  # noqa: BLE001  (what cannot be masked is not kept)
        return "(cannot be masked)"


def _unescaped(text: str) -> str:
    r"""Return ``text`` with JSON escapes decoded: ``\u0041KIA`` hides a key from the rules."""
    return _ESCAPE.sub(lambda match: match[2] or chr(int(match[1], 16)), text)


def _counted(entries: list[QuarantineEntry]) -> int:
    return sum(entry.lines for entry in entries)


def _now() -> str:
    return instant(now_ms())
