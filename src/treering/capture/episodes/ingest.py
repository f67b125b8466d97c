"""Ingest a spool: the lines that other programs wrote become events, once.

The spool is read from where the last pass ended, in pages, each one transaction. Events that are in
the ledger already are counted and skipped, so that nothing is lost or doubled whenever a pass
stops.
"""

from __future__ import annotations

import errno
import os
import time
from collections import defaultdict, deque
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Final, Literal

import msgspec

from treering.capture.episodes.files import (
    Fingerprint,
    WholeLines,
    fingerprint_of,
    load_state,
    locked,
    open_plain,
    save_state,
)
from treering.capture.episodes.lines import BY_FIELD, SPOOL_SCHEMA, LineReader, NotJsonObject
from treering.capture.quarantine import Quarantine, line_faults, reason_of
from treering.clock import now_ms
from treering.errors import Busy, DuplicateEvent, NotFound, TreeringError
from treering.files import OWNER_FILE, sync_folder
from treering.model.codec import PAYLOAD_BYTES_MAX
from treering.model.fields import instant
from treering.spine.conversion import plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treering.capture.episodes.bounds import EventLimits
    from treering.capture.episodes.files import FileLine
    from treering.capture.episodes.lines import EventOfLine, ScopeRule
    from treering.capture.secrets import SecretGuard
    from treering.ledger.ledger import Ledger
    from treering.model.events import NewEvent

STATE_SCHEMA: Final = "treering.episodes.ingest.state.v1"

BATCH_EVENTS_MAX: Final = 500
LOCK_PATIENCE_S: Final = 5.0
_BLANK_MS: Final = 1_000_000


class Ingest:
    """Ingests one spool into one ledger. ``location`` identifies the ledger in the state."""

    def __init__(
        self,
        ledger: Ledger,
        spool: Path,
        state: Path,
        *,
        guard: SecretGuard,
        caps: EventLimits,
        location: str,
        scope_rule: ScopeRule = BY_FIELD,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._ledger = ledger
        self.spool = spool
        self._state = state
        self._guard = guard
        self._caps = caps
        self._location = plain(location)
        self._quarantine = quarantine
        self._reader = LineReader(
            guard=guard, caps=caps, scope_rule=scope_rule, id_key=ledger.importing.id_key
        )

    def once(self, upkeep: Upkeep = "none", *, suffix: str = "ingested") -> IngestReceipt:
        """Ingest everything new, then truncate or rotate the spool if requested.

        Raises NotFound if no spool exists or ever did, and Busy if another pass is running.
        """
        if not self.spool.exists() and not self._state.exists():
            raise NotFound(f"no spool at {self.spool}", hint="set the file with --file")
        with locked(self.spool, patience_s=LOCK_PATIENCE_S):
            state = load_state(self._state, IngestState) or IngestState()
            state.file = plain(str(self.spool))
            receipt = self.blank(upkeep)
            try:
                with open_plain(self.spool) as stream:
                    self._ingest(stream, state, receipt)
            except FileNotFoundError:
                # The spool was rotated, and nobody has written since.
                return receipt
            if upkeep != "none":
                self._maintain(state, receipt, upkeep, suffix)
        return receipt

    def is_settled(self) -> bool:
        """Return whether the whole spool is in the ledger, to its last byte."""
        state = load_state(self._state, IngestState)
        return state is not None and refusal(self.spool, state) is None

    def _maintain(
        self, state: IngestState, receipt: IngestReceipt, upkeep: Upkeep, suffix: str
    ) -> None:
        done = receipt.maintenance
        done.reason = refusal(self.spool, state, strictly=upkeep == "truncate")
        if done.reason is not None:
            return
        rotated = maintain(self.spool, upkeep, suffix=suffix)
        done.applied = "truncated" if upkeep == "truncate" else "rotated"
        if rotated is not None:
            done.rotated_to = str(rotated)
            self._drain(rotated, state, receipt)
        state.restart(another=True)
        save_state(self._state, state)
        receipt.source.next_offset = 0

    def _drain(self, rotated: Path, state: IngestState, receipt: IngestReceipt) -> None:
        """Ingest lines that were written through open handles after the rotation."""
        source = receipt.source
        with rotated.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > state.offset:
                self._read(stream, state, receipt)
                whole = WholeLines(stream, source.start_offset, source.next_offset)
                deque(whole, maxlen=0)
                source.processed_sha256 = whole.sha256

    def _ingest(self, stream: IO[bytes], state: IngestState, receipt: IngestReceipt) -> None:
        source = receipt.source
        source.offset_recovery = state.settle(
            stream, ledger=self._location, key=self._ledger.importing.id_key
        )
        if self._quarantine is not None and source.offset_recovery == OTHER_LEDGER:
            self._quarantine.clear()  # The same lines are read again.
        source.start_offset = state.offset
        self._read(stream, state, receipt)

    def _read(self, stream: IO[bytes], state: IngestState, receipt: IngestReceipt) -> None:
        """Read to the current end of the file."""
        source, status = receipt.source, os.fstat(stream.fileno())
        source.snapshot_size = status.st_size
        lines = WholeLines(stream, state.offset, status.st_size)
        batch: list[tuple[FileLine, EventOfLine]] = []
        # Until a line has a time, use that of the file.
        time_ms = state.last_ts_ms or max(1, status.st_mtime_ns // _BLANK_MS)
        for line in lines:
            event_of_line = self._parse(line, state, receipt, time_ms)
            if event_of_line is None:
                continue
            time_ms = state.last_ts_ms = event_of_line.event.ts_ms or time_ms
            batch.append((line, event_of_line))
            if len(batch) >= BATCH_EVENTS_MAX:
                self._record(batch, state, receipt)
                batch.clear()
                self._reached(stream, lines.offset, state)
        self._record(batch, state, receipt)
        self._reached(stream, lines.offset, state)
        source.next_offset = lines.offset
        source.trailing_partial_bytes = lines.trailing
        source.processed_sha256 = lines.sha256

    def _reached(self, stream: IO[bytes], offset: int, state: IngestState) -> None:
        # Before the state: a rejected line must be reported whenever the process dies.
        if self._quarantine is not None:
            self._quarantine.flush()
        state.reached(stream, offset, key=self._ledger.importing.id_key())
        save_state(self._state, state)

    def _parse(
        self, line: FileLine, state: IngestState, receipt: IngestReceipt, ts_ms: int
    ) -> EventOfLine | None:
        counts = receipt.lines
        if not line.too_long and not line.body.strip():
            counts.blank += 1
            return None
        counts.total += 1
        try:
            event_of_line = self._reader.read(line, generation=state.generation, ts_ms=ts_ms)
        except NotJsonObject as error:
            counts.invalid_json += 1
            self._reject(line, state, receipt, str(error))
        except (OSError, MemoryError):
            raise
        except Exception as error:  # (one line must not hold up later ones)
            if isinstance(error, TreeringError) and not isinstance(error, line_faults()):
                raise  # It concerns the ledger or its keys, not the line.
            counts.invalid_event += 1
            self._reject(line, state, receipt, reason_of(error))
        else:
            counts.mended += event_of_line.mended
            return event_of_line
        return None

    def _reject(
        self, line: FileLine, state: IngestState, receipt: IngestReceipt, reason: str
    ) -> None:
        receipt.fault(line.start, self._guard.mask_text(reason))
        state.rejected += 1
        if self._quarantine is not None:
            self._quarantine.add(reason, line.body, offset=line.start)

    def _record(
        self, batch: list[tuple[FileLine, EventOfLine]], state: IngestState, receipt: IngestReceipt
    ) -> None:
        """Record the new events of ``batch``: all at once, or one by one if one is refused."""
        if not batch:
            return
        try:
            self._record_new(batch, receipt)
        except line_faults() as error:
            if len(batch) > 1:
                for item in batch:
                    self._record([item], state, receipt)
                return
            receipt.lines.invalid_event += 1
            self._reject(batch[0][0], state, receipt, reason_of(error))

    def _record_new(
        self, batch: list[tuple[FileLine, EventOfLine]], receipt: IngestReceipt
    ) -> None:
        fresh = self._fresh(batch)
        try:
            self._ledger.append([new.event for new in fresh])
        except DuplicateEvent:
            # Another process recorded some meanwhile.
            fresh = self._fresh(batch)
            self._ledger.append([new.event for new in fresh])
        receipt.inserted += len(fresh)
        receipt.lines.duplicates += len(batch) - len(fresh)
        bounds = receipt.bounded
        bounds.payload_truncated += sum(new.payload_cut for new in fresh)
        bounds.refs_truncated += sum(new.refs_cut for new in fresh)
        bounds.summary_truncated += sum(new.summary_cut for new in fresh)
        bounds.redacted_late += sum(new.redacted for new in fresh)

    def _fresh(self, batch: list[tuple[FileLine, EventOfLine]]) -> list[EventOfLine]:
        """Return the events of ``batch`` that are not in the ledger, without repeats."""
        by_scope: dict[str, dict[str, EventOfLine]] = defaultdict(dict)
        for _, new in batch:
            by_scope[new.event.scope].setdefault(_id(new.event), new)
        recorded = {
            scope: self._ledger.find_ids(scope, list(events)) for scope, events in by_scope.items()
        }
        return [
            new
            for _, new in batch
            if by_scope[new.event.scope][_id(new.event)] is new
            and _id(new.event) not in recorded[new.event.scope]
        ]

    def blank(self, upkeep: Upkeep = "none") -> IngestReceipt:
        """Return the receipt of a pass without lines."""
        return IngestReceipt(
            source=SpoolSource(file=str(self.spool), state=str(self._state)),
            lines=LineCounts(),
            bounded=Bounds(
                payload_cap_bytes=self._caps.payload,
                conversation_payload_cap_bytes=self._caps.conversation,
                refs_cap_bytes=self._caps.refs,
            ),
            maintenance=Maintenance(requested=upkeep),
        )


def refusal(spool: Path, state: IngestState, *, strictly: bool = False) -> str | None:
    """Return why the spool must stay unchanged, or None if all of it was read.

    With ``strictly``, rejected lines keep it, too, since truncating would lose them.
    """
    try:
        status = spool.stat()
    except FileNotFoundError:
        return "source_missing"
    if (status.st_dev, status.st_ino) != (state.dev, state.inode) or status.st_size != state.size:
        return "source_changed_since_snapshot"
    if state.offset != state.size:
        return "pending_partial_line"
    if not state.size:
        return "source_empty"
    return "invalid_lines" if strictly and state.rejected else None


def maintain(spool: Path, upkeep: Upkeep, *, suffix: str) -> Path | None:
    """Truncate the spool, or rotate it and return its new path.

    Rotating loses nothing that is written meanwhile: a new file takes the name.
    """
    if upkeep == "truncate":
        descriptor = os.open(spool, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return None
    mode = spool.stat().st_mode & 0o777
    rotated = _free_name(spool, suffix)
    spool.rename(rotated)
    os.close(os.open(spool, os.O_CREAT | os.O_WRONLY, mode or OWNER_FILE))
    sync_folder(spool.parent)
    return rotated


def _free_name(spool: Path, suffix: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = spool.with_name(f"{spool.name}.{stamp}.{suffix}")
    tries = 0
    while name.exists():
        tries += 1
        name = spool.with_name(f"{spool.name}.{stamp}.{suffix}.{tries}")
    return name


def _id(event: NewEvent) -> str:
    return event.event_id or ""


class IngestState(msgspec.Struct, kw_only=True):
    """The read position. States of openclaw-mem, which have only the first fields, are accepted."""

    schema: str = STATE_SCHEMA
    file: str = ""
    offset: int = 0
    dev: int | None = None
    inode: int | None = None
    size: int = 0
    updated_at: str | None = None
    ledger: str | None = None
    """The ledger that has everything before the offset."""
    generation: int = 0
    """How often the spool was restarted; the ids of lines without an id include it."""
    last_ts_ms: int | None = None
    """The last time of a line, which lines without a time use."""
    rejected: int = 0
    """Rejected lines of the current file."""
    print: Fingerprint | None = None

    def settle(
        self, stream: IO[bytes], *, ledger: str, key: Callable[[], bytes]
    ) -> Recovery | None:
        """Restart at the beginning if the file was replaced or rewritten; return why."""
        reason = self._restart_reason(stream, ledger, key)
        if reason is not None:
            # Lines without ids are the same events as long as the file begins in the same way.
            is_other = reason != "reset_to_zero_other_ledger" and not self._looks_same(stream, key)
            self.restart(another=is_other)
        status = os.fstat(stream.fileno())
        self.dev, self.inode, self.ledger = status.st_dev, status.st_ino, ledger
        return reason

    def restart(self, *, another: bool) -> None:
        """Forget the position; ``another`` if the coming lines are not those that were there."""
        self.offset = self.size = self.rejected = 0
        self.dev = self.inode = self.print = self.last_ts_ms = None
        self.generation += another

    def reached(self, stream: IO[bytes], offset: int, *, key: bytes) -> None:
        """Note that everything before ``offset`` is in the ledger."""
        self.offset = offset
        self.size = os.fstat(stream.fileno()).st_size
        self.print = fingerprint_of(stream, offset, key)
        self.schema = STATE_SCHEMA
        self.updated_at = instant(now_ms())

    def _restart_reason(
        self, stream: IO[bytes], ledger: str, key: Callable[[], bytes]
    ) -> Recovery | None:
        status = os.fstat(stream.fileno())
        if self.ledger is not None and self.ledger != ledger:
            return "reset_to_zero_other_ledger"
        if self.inode is not None and (self.dev, self.inode) != (status.st_dev, status.st_ino):
            return "reset_to_zero_source_replaced"
        if status.st_size < self.offset:
            return "reset_to_zero_source_shrunk"
        return None if self._looks_same(stream, key) else "reset_to_zero_source_rewritten"

    def _looks_same(self, stream: IO[bytes], key: Callable[[], bytes]) -> bool:
        return self.print is None or self.print.fits(stream, key)


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
