"""Receipts of spool ingestion: counts and offsets, never content."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from treering.capture.episodes.lines import SPOOL_SCHEMA
from treering.model.codec import PAYLOAD_BYTES_MAX

ERRORS_SAMPLE_MAX: Final = 5

Upkeep = Literal["none", "truncate", "rotate"]
"""What to do with a spool that was read to its end."""
Recovery = Literal[
    "reset_to_zero_source_replaced",
    "reset_to_zero_source_shrunk",
    "reset_to_zero_source_rewritten",
    "reset_to_zero_other_ledger",
]
"""Why a spool is read again from its beginning."""
OTHER_LEDGER: Final = "reset_to_zero_other_ledger"


class SpoolSource(msgspec.Struct, kw_only=True):
    """The source, and how far it was read."""

    file: str
    state: str
    start_offset: int = 0
    next_offset: int = 0
    snapshot_size: int = 0
    offset_recovery: Recovery | None = None
    trailing_partial_bytes: int = 0
    """The size of a last line without a newline; it is read again."""
    processed_sha256: str = ""
    spool_schema: str = SPOOL_SCHEMA


class LineCounts(msgspec.Struct, kw_only=True):
    """The outcomes of lines."""

    total: int = 0
    """All except blank lines."""
    blank: int = 0
    invalid_json: int = 0
    invalid_event: int = 0
    duplicates: int = 0
    mended: int = 0
    """Ingested after a repair: invalid UTF-8, lone surrogates, NaN."""


class Bounds(msgspec.Struct, kw_only=True):
    """The limits, and what was cut or withheld because of them."""

    payload_cap_bytes: int
    conversation_payload_cap_bytes: int
    payload_hard_cap_bytes: int = PAYLOAD_BYTES_MAX
    refs_cap_bytes: int
    payload_truncated: int = 0
    refs_truncated: int = 0
    summary_truncated: int = 0
    redacted_late: int = 0


class Maintenance(msgspec.Struct, kw_only=True):
    """What was done to the file."""

    requested: Upkeep = "none"
    applied: Literal["none", "truncated", "rotated"] = "none"
    reason: str | None = None
    """Why it was left unchanged, despite the request."""
    rotated_to: str | None = None


class IngestReceipt(msgspec.Struct, kw_only=True):
    """The result of one pass over a spool: lines are inserted, duplicates or invalid."""

    source: SpoolSource
    lines: LineCounts
    inserted: int = 0
    bounded: Bounds
    maintenance: Maintenance
    errors_sample: list[str] = []

    def fault(self, offset: int, reason: str) -> None:
        """Note why a line was rejected, up to a limit."""
        if len(self.errors_sample) < ERRORS_SAMPLE_MAX:
            self.errors_sample.append(f"line@{offset}: {reason}")


class Aggregate(msgspec.Struct, kw_only=True):
    """The totals of all passes over a followed spool."""

    passes: int = 0
    lines: LineCounts
    inserted: int = 0
    payload_truncated: int = 0
    refs_truncated: int = 0
    summary_truncated: int = 0
    redacted_late: int = 0

    def add(self, receipt: IngestReceipt) -> None:
        """Add one pass to the totals."""
        self.passes += 1
        self.inserted += receipt.inserted
        for name in LineCounts.__struct_fields__:
            setattr(self.lines, name, getattr(self.lines, name) + getattr(receipt.lines, name))
        for name in ("payload_truncated", "refs_truncated", "summary_truncated", "redacted_late"):
            setattr(self, name, getattr(self, name) + getattr(receipt.bounded, name))


class FollowReport(msgspec.Struct, kw_only=True):
    """How a spool was followed."""

    enabled: bool = True
    poll_interval_ms: int
    idle_exit_seconds: float
    stop_reason: Literal["idle_timeout", "interrupted"] | None = None


class IdleRotation(msgspec.Struct, kw_only=True):
    """How often a spool was rotated because nobody wrote to it."""

    enabled: bool
    attempts: int = 0
    rotated: int = 0
    rotated_to: list[str] = []


class FollowReceipt(IngestReceipt, kw_only=True):
    """The last pass over a followed spool, and the totals."""

    follow: FollowReport
    aggregate: Aggregate
    rotate_on_idle: IdleRotation
