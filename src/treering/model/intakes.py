"""What taking in logs came to: every line accounted for, file by file and in all."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FAULTS_MAX: Final = 100
"""Faults that a receipt names; all are counted."""
OTHERS_MAX: Final = 100
"""Files that a receipt names because they are no logs; all are counted."""

SourceState = Literal["read", "grown", "unchanged", "refused"]
"""read: from its beginning; grown: from where it was left; refused: nothing of it was taken."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a file that could not be taken in, and where."""

    file: str
    line: int
    offset: int
    """The byte where it begins."""
    reason: str


class SourceReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file: ``imported + duplicates + skipped + errors = lines``.

    A line is a record: two that are welded together count as two, and one that is spread over
    several lines counts once.
    """

    file: str
    format: str | None
    state: SourceState
    reason: str | None = None
    """Why it was refused."""
    bytes: int = 0
    """How much of it was read."""
    lines: int = 0
    imported: int = 0
    """Lines that held something new."""
    duplicates: int = 0
    """Lines that held nothing new."""
    skipped: dict[str, int] = {}
    """Lines that tell nothing of their own, by the reason why."""
    errors: int = 0
    mended: dict[str, int] = {}
    """Lines that had to be put right before they could be read, by what was amiss."""
    events: int = 0
    """Events that were recorded."""
    sessions: list[str] = []
    """The sessions in the file."""
    faults: list[Fault] = []


class IntakeReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all files: ``imported + duplicates + skipped + errors = lines``."""

    dry_run: bool
    """Nothing was written; the numbers are what would have been."""
    files: int
    files_unchanged: int
    files_refused: int
    bytes: int
    lines: int
    imported: int
    duplicates: int
    skipped: dict[str, int]
    errors: int
    mended: dict[str, int]
    events: int
    sessions: int
    """Sessions in the files, without those of subagents."""
    sessions_new: int
    subagents: int
    by_scope: dict[str, int]
    """Events that were recorded, by scope."""
    by_format: dict[str, int]
    """Files by what they hold."""
    faults: list[Fault]
    """The first things that could not be imported."""
    sources: list[SourceReceipt]
    """File by file, those that held something or were refused."""
    others: dict[str, int] = {}
    """Files in the folders that were not looked into, being no logs by their names: by ending."""
    others_named: list[str] = []
    """The first of them."""
    unreadable: list[str] = []
    """Files and folders of which nothing could be read: damaged, or not allowed."""
