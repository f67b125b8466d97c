"""From a parsed event to the event that the ledger records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.capture.intake.ledger_buffer import WaitingEvent
from treering.capture.intake.matcher import NO_TIME_MS
from treering.formats.parsed import is_content_key
from treering.model.events import NewEvent
from treering.model.fields import MILLISECONDS_MIN, TIME_MS_MAX, looks_like_seconds

if TYPE_CHECKING:
    from treering.capture.intake.ledger_buffer import Item
    from treering.capture.intake.matcher import EventMatcher
    from treering.capture.intake.sessions import Sessions
    from treering.formats.parsed import ParsedEvent, SessionSource
    from treering.model.scopes import Scope

AIMED_KINDS: Final = frozenset({"session.undone", "context.compacted"})
"""Kinds that refer to earlier events by their seqs."""


class EventBuilder:
    """Makes the events of one file."""

    def __init__(
        self,
        source: SessionSource,
        sessions: Sessions,
        matcher: EventMatcher,
        *,
        file: str,
        format_name: str,
        written_ms: int,
    ) -> None:
        self._source = source
        self._sessions = sessions
        self._matcher = matcher
        self._file = file
        self._format = format_name
        self._written_ms = written_ms

    def event(self, scope: Scope, item: Item) -> WaitingEvent:
        """Return the event of ``item``, which its record waits for from now on."""
        parsed, sessions = item.event, self._sessions
        kind, refs, payload = parsed.kind, parsed.refs, parsed.payload
        if kind in AIMED_KINDS:
            kind, refs, payload = self._aim(scope, parsed)
        if refs and _names_words(refs):
            refs, payload = sessions.ids.hidden(refs), sessions.ids.hidden(payload)
        ts_ms = parsed.ts_ms
        if not MILLISECONDS_MIN <= ts_ms <= TIME_MS_MAX:
            if looks_like_seconds(ts_ms):
                refs = {**(refs or {}), "stated_seconds": ts_ms}
            ts_ms = self._time(ts_ms)
        event = NewEvent(
            scope=scope,
            session_id=sessions.name(parsed.session),
            kind=kind,
            agent_id=sessions.agent(self._source.sessions.get(parsed.session))
            if parsed.agent is None
            else sessions.actor(parsed.agent),
            summary=parsed.summary,
            payload=payload,
            refs=refs,
            event_id=item.ids[0],
            ts_ms=ts_ms,
            source=parsed.source,
            origin=self._format,
        )
        item.record.waiting += 1
        return WaitingEvent(event, parsed.session, item)

    def opening(self, scope: Scope, parsed: ParsedEvent) -> list[WaitingEvent]:
        """Return the events that open the session of an event."""
        after = None
        if parsed.after is not None and self._source.keys_are_global:
            after = self._matcher.id("", parsed.after)
        return self._sessions.open(
            scope,
            parsed.session,
            self._source.sessions.get(parsed.session),
            ts_ms=self._time(parsed.ts_ms),
            after=after,
            file=self._file,
        )

    def _aim(self, scope: Scope, event: ParsedEvent) -> tuple[str, Any, Any]:
        """Return kind, refs and payload of an event with the seqs of those that it refers to."""
        location = (
            None if event.first is None else self._matcher.find(scope, event.session, event.first)
        )
        refs = dict(event.refs or {})
        if event.kind == "session.undone":
            if location is None:
                rewind = {"record": "rewind", "rewinds_to": self._sessions.ids.hidden(event.first)}
                return "ops.observation", {"observed": "rewind"}, rewind
            return event.kind, {"turns": 1, **refs, "from_seq": location.seq}, None
        payload = dict(event.payload or {})
        # A summary that names no event which is kept replaces all events before it.
        through = self._sessions.head_seq(scope, event.session)
        through = through if location is None else location.seq - 1
        if through > 0:
            payload["through_seq"] = refs["through_seq"] = through
        return event.kind, refs or None, payload

    def _time(self, ts_ms: int) -> int:
        # A log without times is as old as its file.
        if ts_ms <= NO_TIME_MS:
            return self._written_ms
        return ts_ms * 1_000 if looks_like_seconds(ts_ms) else min(ts_ms, TIME_MS_MAX)


def _names_words(refs: dict[str, Any]) -> bool:
    """Whether a name among ``refs`` is made of words of the log."""
    for name in refs.values():  # noqa: SIM110  (every event passes here: a generator costs)
        if type(name) is str and is_content_key(name):
            return True
    return False
