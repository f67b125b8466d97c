"""Entrances: what the records of a log tell is recorded in a ledger, each event once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.capture.intake.event_matcher import NO_TIME_MS, EventMatcher, Fresh, UnwrittenRecord
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import Conflict, DuplicateEvent
from treering.formats.parsed import is_of_words
from treering.model.events import NewEvent
from treering.model.fields import TIME_MS_MAX, looks_like_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.capture.intake.ledger_view import LedgerView
    from treering.capture.intake.line_counter import LineCounter
    from treering.capture.intake.sessions import Sessions
    from treering.formats.parsed import ParsedEvent, ParsedRecord, SessionSource
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

BATCH_EVENTS: Final = 1_000
"""Events that are recorded at once."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a log whose events are recorded at once, if they are fewer."""
ATTEMPTS_MAX: Final = 3
"""How often a batch is tried while somebody else takes in the same."""
_AIMED: Final = frozenset({"session.undone", "context.compacted"})
"""Kinds that speak of earlier events by their seqs."""


class EventWriter:
    """Enters what one file tells in a ledger, a batch at a time."""

    def __init__(
        self,
        ledger: Ledger,
        pasts: LedgerView,
        teller: SessionSource,
        sessions: Sessions,
        tally: LineCounter,
    ) -> None:
        self._ledger = ledger
        self._ledger_view = pasts
        self._teller = teller
        self._sessions = sessions
        self._tally = tally
        self._form = tally.format or ""
        self._identities = EventMatcher(pasts, teller, sessions, self._form)
        self._waiting: list[UnwrittenRecord] = []
        self._events = 0
        self._bytes = 0

    def add(self, outcome: ParsedRecord) -> None:
        """Take what became of one record; it is recorded with others, later."""
        if not outcome.events:
            self._tally.skip(outcome.skipped or "tells nothing")
            return
        if any(told.kind in _AIMED for told in outcome.events):
            self.flush()  # It speaks of earlier events, which have to have their seqs.
        self._waiting.append(UnwrittenRecord(outcome))
        self._events += len(outcome.events)
        self._bytes += outcome.record.end - outcome.record.offset
        if self._events >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Record what waits."""
        waiting, self._waiting = self._waiting, []
        self._events = self._bytes = 0
        by_scope: dict[Scope, list[tuple[UnwrittenRecord, ParsedEvent]]] = {}
        of_sessions: dict[str, list[tuple[UnwrittenRecord, ParsedEvent]]] = {}
        for one in waiting:
            for told in one.outcome.events:
                pairs = of_sessions.get(told.session)
                if pairs is None:
                    opening = self._teller.sessions.get(told.session)
                    try:
                        scope = self._sessions.see(told.session, opening)
                    except line_faults() as error:
                        one.failed = _refusal(error)
                        continue
                    pairs = of_sessions[told.session] = by_scope.setdefault(scope, [])
                    self._tally.sessions[self._sessions.ids.hidden(told.session)] = None
                pairs.append((one, told))
        for scope, pairs in by_scope.items():
            self._enter(scope, pairs)
        for one in waiting:
            if one.failed is not None:
                self._tally.fail(one.outcome.record, one.failed)
            elif one.fresh:
                self._tally.imported += 1
                if one.is_apart:
                    self._tally.mended["an id that something else has"] += 1
            else:
                self._tally.duplicates += 1

    def finish(self) -> None:
        """Record what waits, and open what was waited for, even if it has nothing of its own."""
        self.flush()
        for scope, told in self._sessions.awaited():
            self._open(scope, told)

    def _enter(self, scope: Scope, pairs: Sequence[tuple[UnwrittenRecord, ParsedEvent]]) -> None:
        for _ in range(ATTEMPTS_MAX):
            try:
                self._record(scope, self._identities.unknown(scope, pairs))
            except (DuplicateEvent, Conflict):
                continue  # Another takes in the same log, and was faster.
            except line_faults():
                break
            return
        self._record_singly(scope, pairs)

    # Recording.

    def _record(self, scope: Scope, fresh: Sequence[Fresh]) -> None:
        ready: list[tuple[Fresh, NewEvent]] = []
        for one in fresh:
            if not self._sessions.is_open(scope, one.told.session):
                self._append(ready)
                ready = []
                self._open(scope, one.told)
            ready.append((one, self._stated(scope, one)))
        self._append(ready)

    def _record_singly(
        self, scope: Scope, pairs: Sequence[tuple[UnwrittenRecord, ParsedEvent]]
    ) -> None:
        """Record what can be, where one of many cannot."""
        for waiting, told in pairs:
            try:
                self._record(scope, self._identities.unknown(scope, [(waiting, told)]))
            except (DuplicateEvent, Conflict):
                continue
            except line_faults() as error:
                waiting.failed = _refusal(error)

    def _append(self, ready: Sequence[tuple[Fresh, NewEvent]]) -> None:
        if not ready:
            return
        # Whoever takes in the same meanwhile counts what he was faster with.
        new = self._recorded([event for _, event in ready])
        for one, event in ready:
            if one.event_id in new:
                one.waiting.fresh += 1
                self._sessions.events[event.scope] += 1
        self._tally.events += len(new)
        for one, event in ready:
            if one.told.is_redacted and one.event_id in new and not self._ledger_view.dry_run:
                self._ledger.redact(event.scope, event_id=one.event_id, replacement="null")

    def _recorded(self, events: Sequence[NewEvent]) -> set[str | None]:
        """Record events, or in a dry run remember them; return the ids of those that are new."""
        if not self._ledger_view.dry_run:
            return {one.event_id for one in self._ledger.append_missing(events)}
        for one in events:
            self._ledger_view.foresee(one)
        return {one.event_id for one in events}

    def _open(self, scope: Scope, told: ParsedEvent) -> None:
        opening = self._teller.sessions.get(told.session)
        after = None
        if told.after is not None and self._teller.keys_are_global:
            after = self._identities.id("", told.after)
        self._sessions.open(
            scope,
            told.session,
            opening,
            ts_ms=self._time(told.ts_ms),
            after=after,
            file=self._tally.file,
        )

    def _stated(self, scope: Scope, one: Fresh) -> NewEvent:
        told = one.told
        kind, refs, payload = told.kind, told.refs, told.payload
        if kind in _AIMED:
            kind, refs, payload = self._aimed(scope, told)
        sessions = self._sessions
        if refs and _names_words(refs):
            refs, payload = sessions.ids.hidden(refs), sessions.ids.hidden(payload)
        if looks_like_seconds(told.ts_ms):
            refs = {**(refs or {}), "stated_seconds": told.ts_ms}
        return NewEvent(
            scope=scope,
            session_id=sessions.name(told.session),
            kind=kind,
            agent_id=sessions.agent(self._teller.sessions.get(told.session))
            if told.agent is None
            else sessions.actor(told.agent),
            summary=told.summary,
            payload=payload,
            refs=refs,
            event_id=one.event_id,
            ts_ms=self._time(told.ts_ms),
            source=told.source,
            origin=self._form,
        )

    def _aimed(self, scope: Scope, told: ParsedEvent) -> tuple[str, Any, Any]:
        """Return an event that speaks of earlier ones, with their seqs in it."""
        place = (
            None if told.first is None else self._identities.place(scope, told.session, told.first)
        )
        refs = dict(told.refs or {})
        if told.kind == "session.undone":
            if place is None:
                told_of = {"record": "rewind", "rewinds_to": self._sessions.ids.hidden(told.first)}
                return "ops.observation", {"observed": "rewind"}, told_of
            return told.kind, {"turns": 1, **refs, "from_seq": place.seq}, None
        payload = dict(told.payload or {})
        # A summary that names nothing that is kept stands for all that came before it.
        through = self._sessions.head_seq(scope, told.session)
        through = through if place is None else place.seq - 1
        if through > 0:
            payload["through_seq"] = refs["through_seq"] = through
        return told.kind, refs or None, payload

    def _time(self, ts_ms: int) -> int:
        # A log that tells no times is as old as its file.
        if ts_ms <= NO_TIME_MS:
            return self._tally.written_ms
        return ts_ms * 1_000 if looks_like_seconds(ts_ms) else min(ts_ms, TIME_MS_MAX)


def _names_words(refs: dict[str, Any]) -> bool:
    """Whether a name among ``refs`` is made of what was said."""
    for one in refs.values():  # noqa: SIM110  (every event passes here: a generator costs)
        if type(one) is str and is_of_words(one):
            return True
    return False


def _refusal(error: Exception) -> str:
    return f"cannot be recorded: {reason_of(error)}"
