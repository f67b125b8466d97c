"""``treering facts list``, ``show`` and ``history``: what is known, and the events that say so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.clock import now_ms
from treering.errors import InvalidInput, NotFound
from treering.model.memories import CATEGORIES, FACT_STATES, Fact, FactChange, LearnResult
from treering.model.queries import Page
from treering.model.scopes import Scope
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import (
    argument,
    choice,
    clamp,
    command,
    cursor_option,
    limit_option,
    option,
)
from treering.surfaces.cli.finding import ShortIds, find_fact, short_events, short_facts
from treering.surfaces.cli.ledgers import asking, location_of, open_to_ask, show_page
from treering.surfaces.cli.output import painted, say, say_painted
from treering.surfaces.cli.tables import NONE, TIME, Column, print_filled, print_table
from treering.surfaces.shared.session_commands import scope_flag, show_command
from treering.surfaces.shared.texts import Mask, counted, one_line, printable
from treering.surfaces.shared.times import ago, clock, moment, parse_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger

LIST_ITEMS: Final = 50
ALL: Final = "all"
CURRENT: Final = ("current",)
_TRAITS: Final = (Column("", is_dim=True), Column("", is_prose=True))
_EVIDENCE: Final = (Column(""), Column(""), Column("", leaves=1), Column("", is_prose=True))
_NEXT: Final = {
    "quarantined": ("accept", "reject"),
    "refused": ("accept",),
    "archived": ("accept", "reject"),
    "current": ("reject",),
}
"""What may be done with a fact, by its state."""
_DEEDS: Final = {"accept": "believe it", "reject": "never recall it again"}
STATE_COLOURS: Final = {
    "current": "green",
    "superseded": "bright_black",
    "archived": "bright_black",
    "forgotten": "bright_black",
    "quarantined": "yellow",
    "refused": "red",
}
OUTCOME_COLOURS: Final = {
    "stored": "green",
    "revised": "green",
    "superseding": "cyan",
    "known": "bright_black",
    "refused": "red",
    "quarantined": "yellow",
}
_STANDING: Final = (Column("state", colours=STATE_COLOURS), Column("why", leaves=1))
_FACTS: Final = (
    Column("fact"),
    Column("user", leaves=5),
    Column("category", leaves=4),
    Column("importance", leaves=2),
    Column("learned", leaves=3),
    Column("says", is_prose=True),
)
_CHANGES: Final = (
    Column(TIME),
    Column("what", colours=STATE_COLOURS),
    Column("why", leaves=2),
    Column("event", leaves=1, is_dim=True),
    Column("says", is_prose=True),
)
_LEARNED: Final = (
    Column("outcome", colours=OUTCOME_COLOURS),
    Column("why", leaves=2),
    Column("fact", leaves=1),
    Column("says", is_prose=True),
)


@command(
    scope="project",
    short_help="List the facts of a scope.",
    examples="""
    treering facts list --scope acme/app
    treering facts list --scope acme/app --user jo --category preference
    treering facts list --scope acme/app --as-of 2026-03-05 --json
    """,
)
def list_(
    *,
    scope: Scope,
    user: str | None = option("USER", "Only facts about this person."),
    states: Sequence[str] = choice(
        [*FACT_STATES, ALL],
        "Only this state; repeatable. Default: current.",
        "--state",
        multiple=True,
    ),
    category: str | None = choice(CATEGORIES, "Only this category."),
    as_of: str | None = option(
        "WHEN", "State of knowledge at this time: 3d, a date, or milliseconds."
    ),
    valid_at: str | None = option("WHEN", "Facts that were true at this time."),
    limit: int = limit_option(LIST_ITEMS),
    cursor: str | None = cursor_option,
) -> None:
    """List the facts of a scope, the newest first.

    --as-of asks what was believed at a time, --valid-at what was true at a time: a fact may be
    learned long after it became true.
    """
    if states and valid_at is not None:
        raise InvalidInput(
            "--valid-at and --state exclude each other", hint="drop --state, or --valid-at"
        )
    chosen = FACT_STATES if ALL in states else tuple(dict.fromkeys(states)) or CURRENT
    now = now_ms()
    filters: dict[str, Any] = {
        "user": user,
        "states": chosen,
        "category": category,
        "as_of_ms": parse_moment(as_of, now_ms=now, flag="--as-of"),
        "valid_at_ms": parse_moment(valid_at, now_ms=now, flag="--valid-at"),
    }
    page: Page[Fact] = Page(items=[], has_more=False, next_cursor=None)
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            asked = {
                "state" if name == "states" else name: given for name, given in filters.items()
            }
            page = ledger.memory(scope).facts(**asked, limit=clamp(limit), after=cursor)
            short = short_facts(ledger.memory(scope))
            page = msgspec.structs.replace(
                page, items=[short.within(item, "id") for item in page.items]
            )
        location = location_of(ledger)
    mask = Mask()
    page = msgspec.structs.replace(page, items=[masked(fact, mask) for fact in page.items])
    # There may be facts that are not asked for, beside those that are not current.
    is_narrow = any(given is not None for name, given in filters.items() if name != "states")
    show_page(
        page,
        "fact",
        scope=scope,
        location=location,
        filters={**filters, "limit": clamp(limit)},
        table=partial(print_facts, with_state=chosen != CURRENT or valid_at is not None),
        nothing=lambda: _say_nothing(scope, chosen, is_narrow=is_narrow, is_first=cursor is None),
        fields={"masked": mask.masked},
    )


def _say_nothing(scope: Scope, states: Sequence[str], *, is_narrow: bool, is_first: bool) -> None:
    flag = scope_flag(scope)
    named = "" if states == FACT_STATES else f"{' or '.join(states)} "
    is_filtered = is_narrow or not is_first
    say(f"no {named}facts of scope {scope} {'match' if is_filtered else 'are remembered'}")
    if is_filtered:
        say("  drop a filter, or check the names")
    if states != FACT_STATES:
        say(f"  in any state: treering facts list {flag} --state all")
    if not is_narrow:
        say(f'  add one: treering facts add "Prefers tabs over spaces" {flag} --user jo')
        say(f"  learn from conversations: treering facts extract {flag}")


@command(
    "show",
    scope="project",
    short_help="Show one fact and its evidence.",
    examples="""
    treering facts show 01a1e1c6-f07f-731c-b08f-92f6b6dd58de --scope acme/app
    treering facts show 01a1e1c6-f07f --scope acme/app --json
    """,
)
def show_fact(*, scope: Scope, fact: str = argument()) -> None:
    """Show FACT: what it says, about whom, its state, since when, and its evidence.

    FACT is an id or a short id.
    """
    with open_to_ask() as ledger:
        known_fact = find_fact(ledger.memory(scope), fact)
        sheet = sheet_of(ledger, scope, known_fact, mask=Mask())
        short = short_facts(ledger.memory(scope))
        events = short_events(ledger, scope)
        evidence = [events.within(witness, "event_id") for witness in sheet.evidence]
        sheet = msgspec.structs.replace(sheet, evidence=evidence)
    show(sheet, page=lambda: print_sheet(sheet, short))


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
    if sheet.signs:
        yield "because", " and ".join(sheet.signs)


def _used(fact: Fact) -> str:
    if not fact.access_count:
        return "not used yet"
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
    for line in dict.fromkeys(witness.show for witness in evidence if witness.show is not None):
        say_painted(f"  → {printable(line)}")


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
    signs: tuple[str, ...] = ()
    """The signs by which that was decided, or why it may have ended another fact."""
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
        signs=next(
            (each.signs for each in reversed(ledger.memory(scope).history(fact.id)) if each.signs),
            (),
        ),
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


@command(
    scope="project",
    short_help="Show the history of a fact.",
    examples="""
    treering facts history 01a1e1c6-f07f --scope acme/app
    """,
)
def history(*, scope: Scope, fact: str = argument()) -> None:
    """Show every change of FACT, in order: each is an event of the ledger.

    Erased changes are not shown.
    """
    mask = Mask()
    with open_to_ask() as ledger:
        memory = ledger.memory(scope)
        current = find_fact(memory, fact)
        changes = [
            msgspec.structs.replace(
                change, text=mask.text(change.text), reason=mask.text(change.reason)
            )
            for change in memory.history(current.id)
        ]
        short = short_events(ledger, scope)
        changes = [short.within(change, "event_id") for change in changes]
    show(
        {
            "scope": scope,
            "fact_id": current.id,
            "state": current.state,
            "count": len(changes),
            "changes": changes,
            "masked": mask.masked,
        },
        f"{counted(len(changes), 'change')} of fact {current.id}, which is {current.state} now",
        page=lambda: print_changes(changes),
    )


def print_facts(facts: Sequence[Fact], *, with_state: bool) -> None:
    """Print ``facts``, one per row; all of them are current unless ``with_state``."""
    now = now_ms()
    rows = [
        [
            printable(fact.id),
            *([fact.state, one_line(fact.reason or NONE)] if with_state else []),
            printable(fact.user or NONE),
            fact.category,
            f"{fact.importance}/10",
            ago(fact.recorded_ms, now_ms=now),
            one_line(fact.text),
        ]
        for fact in facts
    ]
    print_filled((_FACTS[0], *(_STANDING if with_state else ()), *_FACTS[1:]), rows)


def print_changes(changes: Sequence[FactChange]) -> None:
    """Print what happened to a fact, one change a row."""
    rows = [
        [
            clock(change.recorded_ms),
            change.state
            if change.kind == "memory.refused"
            else change.kind.removeprefix("memory."),
            one_line(change.reason or NONE),
            printable(change.event_id),
            one_line(change.text or NONE),
        ]
        for change in changes
    ]
    print_filled(_CHANGES, rows)


def print_learned(learned: Sequence[LearnResult]) -> None:
    """Print what became of facts that were to be learned, one a row."""
    rows = [
        [
            result.outcome,
            one_line(result.reason or NONE),
            printable(result.fact_id),
            one_line(result.text),
        ]
        for result in learned
    ]
    print_filled(_LEARNED, rows)


def masked(fact: Fact, mask: Mask) -> Fact:
    """Return a fact with the secrets in its texts masked."""
    return msgspec.structs.replace(
        fact, text=mask.text(fact.text) or "", reason=mask.text(fact.reason)
    )
