"""Follow a spool: ingest it as it grows, until nobody writes to it."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, Final

import msgspec

from treering.capture.episodes.ingest_receipts import (
    Aggregate,
    FollowReceipt,
    FollowReport,
    IdleRotation,
    LineCounts,
)
from treering.errors import Busy, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.capture.episodes.ingest import Ingest
    from treering.capture.episodes.ingest_receipts import IngestReceipt

POLL_MS: Final = 1_000
POLL_MS_MIN: Final = 100
ROTATE_BYTES_MIN: Final = 1024 * 1024
_Look = tuple[int, int, int, int] | None


class FollowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How to follow a spool. 0 seconds means never."""

    poll_ms: int = POLL_MS
    idle_exit_s: float = 0.0
    rotate_idle_s: float = 0.0
    rotate_bytes_min: int = ROTATE_BYTES_MIN


class Follow:
    """A spool that is being followed. ``receipt`` returns the progress at any time."""

    def __init__(
        self, ingest: Ingest, plan: FollowPlan, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._ingest = ingest
        self._plan = plan
        self._pause = pause
        self._last: IngestReceipt | None = None
        self._aggregate = Aggregate(lines=LineCounts())
        self._rotation = IdleRotation(enabled=plan.rotate_idle_s > 0)
        self._following = FollowReport(
            poll_interval_ms=max(POLL_MS_MIN, plan.poll_ms), idle_exit_seconds=plan.idle_exit_s
        )

    def run(self) -> None:
        """Ingest lines as they come; return after ``idle_exit_s`` without any, if it is set."""
        idle_since = time.monotonic()
        before: _Look = None
        try:
            while True:
                look = self._look()
                if look is not None and look != before:
                    has_lines = self._pass()
                    before = None if has_lines is None else look
                    if has_lines:
                        idle_since = time.monotonic()
                idle_s = time.monotonic() - idle_since
                if 0 < self._plan.rotate_idle_s <= idle_s:
                    self._rotate(look)
                if 0 < self._plan.idle_exit_s <= idle_s:
                    self._following.stop_reason = "idle_timeout"
                    return
                self._pause(self._following.poll_interval_ms / 1_000)
        except KeyboardInterrupt:
            self._following.stop_reason = "interrupted"

    def receipt(self) -> FollowReceipt:
        """Return the receipt of the last pass, and the totals."""
        last = self._last or self._ingest.blank()
        return FollowReceipt(
            **{name: getattr(last, name) for name in last.__struct_fields__},
            follow=self._following,
            aggregate=self._aggregate,
            rotate_on_idle=self._rotation,
        )

    def _look(self) -> _Look:
        try:
            status = self._ingest.spool.stat()
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENOTDIR}:
                return None
            raise
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def _pass(self) -> bool | None:
        """Ingest once; return whether there were any lines, or None if it has to wait."""
        try:
            receipt = self._ingest.once()
        except (NotFound, Busy):
            return None
        self._last = receipt
        self._aggregate.add(receipt)
        return receipt.lines.total + receipt.lines.blank > 0

    def _rotate(self, look: _Look) -> None:
        if look is None or look[2] < self._plan.rotate_bytes_min or not self._ingest.is_settled():
            return
        self._rotation.attempts += 1
        try:
            receipt = self._ingest.once("rotate", suffix="idle-rotated")
        except Busy:
            return
        self._aggregate.add(receipt)
        if receipt.maintenance.rotated_to is not None:
            self._rotation.rotated += 1
            self._rotation.rotated_to.append(receipt.maintenance.rotated_to)
