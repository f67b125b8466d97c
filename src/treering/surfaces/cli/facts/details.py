"""Everything about one fact: what it says, its state, and its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.errors import NotFound
from treering.model.memories import Fact
from treering.surfaces.cli.facts.masking import masked
from treering.surfaces.cli.search_commands import show_command

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.surfaces.cli.masking import Mask


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a fact cites."""

    event_id: str
    is_gone: bool
    """Whether its content was erased or has expired."""
    session_id: str | None = None
    ts_ms: int | None = None
    kind: str | None = None
    summary: str | None = None
    show: str | None = None
    """The command that shows its session."""


class FactSheet(msgspec.Struct, frozen=True, kw_only=True):
    """One fact, with its evidence."""

    scope: str
    fact: Fact
    evidence: list[Witness]
    superseded_by: Fact | None
    """The fact that holds instead."""
    masked: int
    """How many of the texts held a secret, which is masked here."""


def sheet_of(ledger: Ledger, scope: Scope, fact: Fact, *, mask: Mask) -> FactSheet:
    """Return a fact with the events that it cites, one line each."""
    witnesses = [_witness(ledger, scope, one, mask) for one in fact.evidence]
    return FactSheet(
        scope=scope,
        fact=masked(fact, mask),
        evidence=witnesses,
        superseded_by=_successor(ledger, scope, fact, mask),
        masked=mask.masked,
    )


def _witness(ledger: Ledger, scope: Scope, event_id: str, mask: Mask) -> Witness:
    try:
        event = ledger.event(scope, event_id)
    except NotFound:
        return Witness(event_id=event_id, is_gone=True)
    return Witness(
        event_id=event_id,
        is_gone=event.redacted,
        session_id=event.session_id,
        ts_ms=event.ts_ms,
        kind=event.kind,
        summary=None if event.redacted else mask.text(event.summary),
        show=show_command(scope, event.session_id),
    )


def _successor(ledger: Ledger, scope: Scope, fact: Fact, mask: Mask) -> Fact | None:
    if fact.superseded_by is None:
        return None
    try:
        return masked(ledger.memory(scope).fact(fact.superseded_by), mask)
    except NotFound:
        return None
