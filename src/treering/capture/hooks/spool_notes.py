"""Record decisions from the spool in their sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.capture.intake import BOOKMARK_SCOPE
from treering.capture.intake.ledger_buffer import LedgerBuffer, NoteBuffer
from treering.capture.intake.record_import import ATTEMPTS_MAX
from treering.capture.intake.sessions import Sessions
from treering.errors import Conflict, DuplicateEvent
from treering.formats.parsed import content_key
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from treering.capture.hooks.spool_lines import PermissionDecision
    from treering.ledger.ledger import Ledger


def note_decision(
    ledger: Ledger, decision: PermissionDecision, *, scope: str | None = None
) -> None:
    """Record a decision once, however often it is passed in."""
    opening, event = decision.opening, decision.event
    chosen = None if scope is None else parse_scope(scope)
    log_format = opening.agent
    # The notes know the scope of the session: a hook may run in another folder than its session.
    notes = NoteBuffer(ledger.importing.bookmarks(chosen or BOOKMARK_SCOPE))
    sessions = Sessions(
        LedgerBuffer(ledger, notes, dry_run=False), scope=chosen, format_name=log_format
    )
    where = sessions.scopes.find(event.session, opening)
    for _ in range(ATTEMPTS_MAX):
        events = sessions.open(
            where,
            event.session,
            opening,
            ts_ms=event.ts_ms,
            after=None,
            file=decision.transcript or "",
        )
        notes.write()
        try:
            ledger.importing.append_missing([waiting.event for waiting in events])
            break
        except (Conflict, DuplicateEvent):  # An import has opened it meanwhile.
            sessions.close(where, event.session)
    handle = ledger.session(
        sessions.name(event.session), scope=where, agent=sessions.agent(opening)
    )
    try:
        handle.record(
            event.kind,
            event.summary,
            payload=event.payload,
            refs=event.refs,
            event_id=sessions.ids.named(event.session, content_key(event.key)),
            ts_ms=event.ts_ms,
            origin=log_format,
        )
    except DuplicateEvent:
        return
