"""Receipts: the stable account of what a command did. Aggregates only, never content."""

from __future__ import annotations

from typing import Literal

import msgspec

Physical = Literal["done", "pending"]
"""pending: an older reader still holds the write-ahead log; it is retried."""
Fault = Literal["content", "link", "missing", "reordered", "inserted", "head", "erasure", "file"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a redaction was aimed at."""

    event_id: str | None
    session_id: str | None
    scope: str


class RedactReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``redact`` did."""

    target: Target
    replacement: str
    redacted_count: int
    blobs_erased: int
    blobs_shared: int
    """Blobs kept because other events of the scope hold the same content."""
    physical: Physical


class ExpireReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``expire`` did, or would do."""

    scope: str
    now_ts_ms: int
    dry_run: bool
    deleted_total: int
    deleted_by_type: dict[str, int]
    policy_days: dict[str, int | None]
    sessions_touched: int
    sessions_kept_open: int
    """Sessions left alone because a run in them has not ended."""
    blobs_erased: int
    blobs_shared: int
    physical: Physical


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing that does not hold."""

    scope: str
    session_id: str
    seq: int
    event_id: str | None
    fault: Fault
    detail: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What ``verify`` found."""

    intact: bool
    sessions: int
    events: int
    redacted: int
    expired: int
    broken_sessions: int
    first_broken: Broken | None
    anchored_sessions: int | None = None
    """Sessions compared with the anchor, if one was given."""


class AnchorReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``anchor`` wrote."""

    root: str
    sessions: int
    events: int
    at_ms: int


class RebuildReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``rebuild`` made anew."""

    events: int
    """Events that stand in the orders of time."""
    runs: int


class ExportReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``export`` wrote."""

    scope: str
    sessions: int
    events: int
    payloads: Literal["included", "withheld"]


class LineError(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be taken, with its place in the file."""

    line: int
    offset: int
    reason: str


class ImportReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ``import`` took in: ``imported + duplicates + other + errors = lines``."""

    lines: int
    imported: int
    duplicates: int
    other: int
    """Lines that frame the events: the opening, the sessions, the end, blanks."""
    errors: int
    sessions: int
    complete: bool
    """Every export in the file had its end, the counts agree, and what came in proves itself."""
    errors_sample: list[LineError]
