"""``treering facts show``: one fact, and the events that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.errors import NotFound
from treering.model.memories import Fact
from treering.model.scopes import Scope
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.facts.masking import masked
from treering.surfaces.cli.facts.tables import STATE_COLOURS
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import open_to_ask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted, one_line, painted, printable, say, say_painted
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.search_commands import scope_flag, show_command
from treering.surfaces.cli.sessions.tables import NONE
from treering.surfaces.cli.streams import writing_output
from treering.surfaces.cli.tables import Column, print_table
from treering.surfaces.cli.times import ago, clock, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.surfaces.cli.short_ids import ShortIds

_TRAITS: Final = (Column("", is_dim=True), Column("", is_prose=True))
_EVIDENCE: Final = (
    Column(""),
    Column(""),
    Column("", leaves=1),
    Column("", is_prose=True),
)
_NEXT: Final = {
    "quarantined": ("accept", "reject"),
    "refused": ("accept",),
    "archived": ("accept", "reject"),
    "current": ("reject",),
}
"""What may be done with a fact, by its state."""
_DEEDS: Final = {"accept": "believe it", "reject": "never recall it again"}


@click.command(
    "show",
    cls=Command,
    short_help="Show one fact and its evidence.",
    examples="""
    treering facts show 01a1e1c6-f07f-731c-b08f-92f6b6dd58de --scope acme/app
    treering facts show 01a1e1c6-f07f --scope acme/app --json
    """,
)
@click.argument("fact")
@project_scope_options
@keys_option
@json_option
@db_option
def show_fact(*, fact: str, scope: str | None, is_global: bool) -> None:
    """Show FACT: what it says, about whom, its state, since when, and its evidence.

    FACT is an id or a short id.
    """
    name = find_scope(scope, is_global=is_global)
    with open_to_ask() as ledger:
        from treering.surfaces.cli.facts.search import find_fact, short_facts  # noqa: PLC0415

        found = find_fact(ledger.memory(name), fact)
        sheet = sheet_of(ledger, name, found, mask=Mask())
        short = short_facts(ledger.memory(name))
    if invocation().as_json:
        show(sheet)
        return

    with writing_output():
        print_sheet(sheet, short)


def print_sheet(sheet: FactSheet, short: ShortIds) -> None:
    """Print everything about one fact."""
    fact, scope = sheet.fact, Scope(sheet.scope)
    state = painted(fact.state, STATE_COLOURS.get(fact.state))
    confirmed = ", confirmed" if fact.confirmed and fact.state == "current" else ""
    say_painted(f"fact {printable(fact.id)} {state}{confirmed}")
    say_painted(painted(f"  {one_line(fact.text)}", bold=True))
    say("")
    print_table(_TRAITS, [[f"  {name}", text] for name, text in _traits(sheet)])
    say("")
    _print_evidence(sheet.evidence)
    named = f"{printable(short.shown(fact.id))} {scope_flag(scope)}"
    for deed in _NEXT.get(fact.state, ()):
        say(f"{_DEEDS[deed]}: treering facts {deed} {named}")
    say(f"history: treering facts history {named}")


def _traits(sheet: FactSheet) -> Iterator[tuple[str, str]]:
    fact = sheet.fact
    yield "scope", sheet.scope
    common = "nobody in particular: it is about the whole scope"
    unnamed = "nobody is named: it is recalled only in its session"
    yield "user", printable(fact.user or (unnamed if fact.session_only else common))
    yield "category", fact.category
    yield "importance", f"{fact.importance} of 10"
    yield "confidence", f"{fact.confidence:.2f}, of which {fact.faded:.2f} is left ({_used(fact)})"
    yield "valid", _validity(fact)
    updated = f", updated {counted(fact.revisions, 'time')} since" if fact.revisions else ""
    yield "learned", f"{moment(fact.recorded_ms)}{updated}"
    if fact.source_session is not None:
        walled = ", a group: it stays there" if fact.group else ""
        yield "session", f"{printable(fact.source_session)}{walled}"
    if fact.reason is not None:
        yield "because", one_line(fact.reason)
    if fact.superseded_ms is not None:
        yield "superseded", f"{moment(fact.superseded_ms)}{_by(sheet)}"


def _used(fact: Fact) -> str:
    if not fact.access_count:
        return "not used yet"
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)

    last = ago(fact.last_accessed_ms, now_ms=now_ms())
    return f"used {counted(fact.access_count, 'time')}, last {last}"


def _validity(fact: Fact) -> str:
    until = "" if fact.valid_to_ms is None else f" until {moment(fact.valid_to_ms)}"
    return f"since {moment(fact.valid_from_ms)}{until}"


def _by(sheet: FactSheet) -> str:
    if sheet.superseded_by is None:
        return "" if sheet.fact.superseded_by is None else f" by {sheet.fact.superseded_by}"
    return f" by {sheet.superseded_by.id}: {one_line(sheet.superseded_by.text)}"


def _print_evidence(evidence: Sequence[Witness]) -> None:
    if not evidence:
        say("evidence: none")
        return
    say_painted(painted("evidence", bold=True))
    rows = [
        [
            f"  {NONE if witness.ts_ms is None else clock(witness.ts_ms)}",
            witness.kind or NONE,
            printable(witness.event_id),
            "(gone: erased or expired)" if witness.is_gone else one_line(witness.summary or ""),
        ]
        for witness in evidence
    ]
    print_table(_EVIDENCE, rows)
    for command in dict.fromkeys(witness.show for witness in evidence if witness.show is not None):
        say_painted(f"  → {printable(command)}")


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
    witnesses = [_witness(ledger, scope, event_id, mask) for event_id in fact.evidence]
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
