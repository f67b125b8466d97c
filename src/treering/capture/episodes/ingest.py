"""Taking in a spool: what other programs wrote line by line becomes events, once.

The spool is read from where the last pass ended, in pages, each one transaction. What is in the
ledger already is counted and passed over, so that nothing is lost or doubled whenever it stops.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from typing import IO, TYPE_CHECKING, Final

from treering.capture.episodes.files import (
    WholeLines,
    load_state,
    locked,
    open_plain,
    save_state,
)
from treering.capture.episodes.ingest_receipts import (
    OTHER_LEDGER,
    Bounds,
    IngestReceipt,
    LineCounts,
    Maintenance,
    SpoolSource,
)
from treering.capture.episodes.ingest_state import IngestState
from treering.capture.episodes.ingest_upkeep import keep_up, refusal
from treering.capture.episodes.lines import LineReader, NotJsonObject
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import DuplicateEvent, NotFound, TreeringError

if TYPE_CHECKING:
    from pathlib import Path

    from treering.capture.episodes.bounds import EventLimits
    from treering.capture.episodes.files import FileLine
    from treering.capture.episodes.ingest_receipts import Upkeep
    from treering.capture.episodes.lines import EventOfLine
    from treering.capture.quarantine import Quarantine
    from treering.capture.secrets import SecretGuard
    from treering.ledger.ledger import Ledger
    from treering.model.events import NewEvent
    from treering.model.scopes import Scope

BATCH_EVENTS_MAX: Final = 500
LOCK_PATIENCE_S: Final = 5.0
_BLANK_MS: Final = 1_000_000


class Ingest:
    """Takes one spool into one ledger. ``place`` names the ledger in the state."""

    def __init__(
        self,
        ledger: Ledger,
        spool: Path,
        state: Path,
        *,
        guard: SecretGuard,
        caps: EventLimits,
        place: str,
        scope: Scope | None = None,
        allows_markers: bool = False,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._ledger = ledger
        self.spool = spool
        self._state = state
        self._guard = guard
        self._caps = caps
        self._place = place
        self._quarantine = quarantine
        self._reader = LineReader(
            guard=guard,
            caps=caps,
            scope=scope,
            id_key=ledger.importing.id_key,
            allows_markers=allows_markers,
        )

    def once(self, upkeep: Upkeep = "none", *, suffix: str = "ingested") -> IngestReceipt:
        """Take in what is there, then empty or put aside the spool if asked for.

        Raises NotFound if there is no spool and never was, and Busy if another pass goes on.
        """
        if not self.spool.exists() and not self._state.exists():
            raise NotFound(f"there is no spool at {self.spool}", hint="name it with --file")
        with locked(self.spool, patience_s=LOCK_PATIENCE_S):
            known = load_state(self._state, IngestState)
            state = known or IngestState()
            state.file = str(self.spool)
            receipt = self.blank(upkeep)
            try:
                with open_plain(self.spool) as stream:
                    self._take_in(stream, state, receipt)
            except FileNotFoundError:
                # Put aside, and nobody has written since.
                return receipt
            if upkeep != "none":
                self._keep_up(state, receipt, upkeep, suffix)
        return receipt

    def is_settled(self) -> bool:
        """Whether the whole spool is in the ledger, to its last byte."""
        state = load_state(self._state, IngestState)
        return state is not None and refusal(self.spool, state) is None

    def _keep_up(
        self, state: IngestState, receipt: IngestReceipt, upkeep: Upkeep, suffix: str
    ) -> None:
        done = receipt.maintenance
        done.reason = refusal(self.spool, state, strictly=upkeep == "truncate")
        if done.reason is not None:
            return
        aside = keep_up(self.spool, upkeep, suffix=suffix)
        done.applied = "truncated" if upkeep == "truncate" else "rotated"
        if aside is not None:
            done.rotated_to = str(aside)
            self._drain(aside, state, receipt)
        state.begin_anew(another=True)
        save_state(self._state, state)
        receipt.source.next_offset = 0

    def _drain(self, aside: Path, state: IngestState, receipt: IngestReceipt) -> None:
        """Take in what was written before the spool's name was gone, by whoever had it open."""
        source = receipt.source
        with aside.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > state.offset:
                self._read(stream, state, receipt)
                whole = WholeLines(stream, source.start_offset, source.next_offset)
                deque(whole, maxlen=0)
                source.processed_sha256 = whole.sha256

    def _take_in(self, stream: IO[bytes], state: IngestState, receipt: IngestReceipt) -> None:
        source = receipt.source
        source.offset_recovery = state.settle(
            stream, ledger=self._place, key=self._ledger.importing.id_key
        )
        if self._quarantine is not None and source.offset_recovery == OTHER_LEDGER:
            self._quarantine.clear()  # The same lines are read again.
        source.start_offset = state.offset
        self._read(stream, state, receipt)

    def _read(self, stream: IO[bytes], state: IngestState, receipt: IngestReceipt) -> None:
        """Read on to the end of the file as it is now."""
        source, status = receipt.source, os.fstat(stream.fileno())
        source.snapshot_size = status.st_size
        lines = WholeLines(stream, state.offset, status.st_size)
        batch: list[tuple[FileLine, EventOfLine]] = []
        # A spool that has told no time yet was written when its file says so.
        time_ms = state.last_ts_ms or max(1, status.st_mtime_ns // _BLANK_MS)
        for line in lines:
            taken = self._taken(line, state, receipt, time_ms)
            if taken is None:
                continue
            time_ms = state.last_ts_ms = taken.event.ts_ms or time_ms
            batch.append((line, taken))
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
        # Before the state: a line that was rejected is told of, whenever the process dies.
        if self._quarantine is not None:
            self._quarantine.flush()
        state.reached(stream, offset, key=self._ledger.importing.id_key())
        save_state(self._state, state)

    def _taken(
        self, line: FileLine, state: IngestState, receipt: IngestReceipt, ts_ms: int
    ) -> EventOfLine | None:
        counts = receipt.lines
        if not line.too_long and not line.body.strip():
            counts.blank += 1
            return None
        counts.total += 1
        try:
            taken = self._reader.read(line, generation=state.generation, ts_ms=ts_ms)
        except NotJsonObject as error:
            counts.invalid_json += 1
            self._reject(line, state, receipt, str(error))
        except (OSError, MemoryError):
            raise
        except Exception as error:  # (one line must not hold up those behind it)
            if isinstance(error, TreeringError) and not isinstance(error, line_faults()):
                raise  # It is about the ledger or its keys, and not about the line.
            counts.invalid_event += 1
            self._reject(line, state, receipt, reason_of(error))
        else:
            counts.mended += taken.mended
            return taken
        return None

    def _reject(
        self, line: FileLine, state: IngestState, receipt: IngestReceipt, reason: str
    ) -> None:
        receipt.fault(line.start, self._guard.mask_text(reason))
        state.rejected += 1
        if self._quarantine is not None:
            self._quarantine.add(reason, line.body, place=line.start)

    def _record(
        self, batch: list[tuple[FileLine, EventOfLine]], state: IngestState, receipt: IngestReceipt
    ) -> None:
        """Record what is new of ``batch``: all at once, or each by itself if one is refused."""
        if not batch:
            return
        try:
            self._record_new(batch, receipt)
        except line_faults() as error:
            if len(batch) > 1:
                for one in batch:
                    self._record([one], state, receipt)
                return
            receipt.lines.invalid_event += 1
            self._reject(batch[0][0], state, receipt, reason_of(error))

    def _record_new(
        self, batch: list[tuple[FileLine, EventOfLine]], receipt: IngestReceipt
    ) -> None:
        fresh = self._fresh(batch)
        try:
            self._ledger.append([taken.event for taken in fresh])
        except DuplicateEvent:
            # Another way in was faster.
            fresh = self._fresh(batch)
            self._ledger.append([taken.event for taken in fresh])
        receipt.inserted += len(fresh)
        receipt.lines.duplicates += len(batch) - len(fresh)
        bounds = receipt.bounded
        bounds.payload_truncated += sum(taken.payload_cut for taken in fresh)
        bounds.refs_truncated += sum(taken.refs_cut for taken in fresh)
        bounds.summary_truncated += sum(taken.summary_cut for taken in fresh)
        bounds.redacted_late += sum(taken.redacted for taken in fresh)

    def _fresh(self, batch: list[tuple[FileLine, EventOfLine]]) -> list[EventOfLine]:
        """Return what of ``batch`` is not in the ledger, each event once."""
        by_scope: dict[str, dict[str, EventOfLine]] = defaultdict(dict)
        for _, taken in batch:
            by_scope[taken.event.scope].setdefault(_id(taken.event), taken)
        known = {
            scope: self._ledger.find_ids(scope, list(some)) for scope, some in by_scope.items()
        }
        return [
            taken
            for _, taken in batch
            if by_scope[taken.event.scope][_id(taken.event)] is taken
            and _id(taken.event) not in known[taken.event.scope]
        ]

    def blank(self, upkeep: Upkeep = "none") -> IngestReceipt:
        """Return the receipt of a pass that found nothing."""
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


def _id(event: NewEvent) -> str:
    return event.event_id or ""
