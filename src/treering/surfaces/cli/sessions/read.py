"""``treering sessions list`` and ``tree``: the sessions of a scope, and how they were forked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.model.queries import PAGE_ITEMS_MAX, Page
from treering.model.scopes import Scope
from treering.model.sessions import SESSION_STATES, SessionOutline
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.finding import find_session, short_sessions
from treering.surfaces.cli.ledgers import (
    asking,
    location_of,
    nothing_found,
    open_existing,
    read_span,
    show_page,
)
from treering.surfaces.cli.options import clamp, cursor_option, limit_option
from treering.surfaces.cli.output import is_terminal, painted, say, say_painted
from treering.surfaces.cli.projects import known_or_all
from treering.surfaces.cli.tables import NONE, Column, print_filled
from treering.surfaces.shared.texts import Mask, counted, one_line, printable
from treering.surfaces.shared.times import ago

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from treering.ledger.families import Family
    from treering.ledger.ledger import Ledger


LIST_ITEMS: Final = 20
STATE_COLOURS: Final = {
    "running": "green",
    "open": "cyan",
    "idle": "yellow",
    "closed": "bright_black",
    "pruned": "bright_black",
}
_COLUMNS: Final = (
    Column("session"),
    Column("state", colours=STATE_COLOURS),
    Column("written to", leaves=5),
    Column("agent", leaves=4),
    Column("model", leaves=1),
    Column("events", leaves=2, noun="event"),
    Column("forked from", leaves=3),
    Column("title", is_prose=True),
)
FAMILIES_MAX: Final = 1_000
"""Families of a scope that are drawn: those that were last written to."""
SESSIONS_MAX: Final = 10_000
"""Sessions that are searched for subagents: those that were last written to."""
DEPTH_DRAWN_MAX: Final = 12
"""Forks of forks beyond this are drawn no deeper, and numbered."""
_DRAWN: Final = ("├── ", "└── ", "│   ", "    ")
_PLAIN: Final = ("|-- ", "`-- ", "|   ", "    ")
Subagents = dict[str, list["Family"]]
"""The subagents of each session."""


class ListFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions are listed, besides those of a time."""

    agent: str | None
    states: Sequence[Any]
    text: str | None
    subagents: bool


@command(
    "list",
    scope="wide",
    all_scopes="List the sessions of all scopes.",
    short_help="List the sessions of a scope.",
    examples="""
    treering sessions list --scope acme/app
    treering sessions list --scope acme/app --state open --agent lyria --since 7d
    treering sessions list --scope acme/app --text "nightly build" --json
    """,
)
@click.option("--agent", metavar="NAME", help="Only sessions of this agent.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(SESSION_STATES),
    help="Only this state; repeatable. Default: all except pruned.",
)
@click.option(
    "--since", metavar="WHEN", help="Last written since then: 3d, a date, or milliseconds."
)
@click.option("--until", metavar="WHEN", help="Last written until then, inclusive.")
@click.option("--text", metavar="WORDS", help="Only sessions with this in the title or id.")
@click.option("--subagents", is_flag=True, help="Include subagent sessions.")
@limit_option(LIST_ITEMS)
@cursor_option
def list_(
    *,
    scope: Scope | None,
    since: str | None,
    until: str | None,
    limit: int,
    cursor: str | None,
    **options: Any,
) -> None:
    """List the sessions of a scope, the last written first.

    The title is the one you gave it, or the beginning of the first prompt.
    """
    asked = ListFilters(**options)
    span = read_span(since, until)
    page: Page[SessionOutline] = Page(items=[], has_more=False, next_cursor=None)
    with asking(open_existing) as ledger:
        if ledger is not None:
            scope = known_or_all(ledger, scope)
            page = ledger.sessions(
                scope, all_scopes=scope is None, agent=asked.agent,
                since_ms=span.since_ms, until_ms=span.until_ms,
                state=asked.states, text=asked.text, subagents=asked.subagents,
                limit=clamp(limit), after=cursor,
            )  # fmt: skip
            scopes = {outline.scope for outline in page.items}
            short = {name: short_sessions(ledger, Scope(name)) for name in scopes}
            items = [
                short[outline.scope].within(outline, "session_id", "parent")
                for outline in page.items
            ]
            page = msgspec.structs.replace(page, items=items)
        location = location_of(ledger)
    mask = Mask()
    page = msgspec.structs.replace(page, items=[masked(outline, mask) for outline in page.items])
    filters = {
        "agent": asked.agent, "states": asked.states, **msgspec.structs.asdict(span),
        "text": asked.text, "subagents": asked.subagents,
    }  # fmt: skip
    is_filtered = any(filters.values()) or bool(cursor)
    show_page(
        page,
        "session",
        scope=scope,
        location=location,
        filters={**filters, "limit": clamp(limit)},
        table=partial(print_sessions, is_scope_shown=scope is None),
        nothing=lambda: _say_nothing(
            scope, ledger, is_filtered=is_filtered, has_states=bool(asked.states)
        ),
        times=span.times(),
    )


def masked(outline: SessionOutline, mask: Mask) -> SessionOutline:
    """Return a session at a glance, with secrets in its title masked."""
    return msgspec.structs.replace(outline, title=mask.text(outline.title))


def _say_nothing(
    scope: Scope | None, ledger: Ledger | None, *, is_filtered: bool, has_states: bool
) -> None:
    is_there = ledger is not None
    remark = "" if has_states else " (pruned ones are left out)"
    say(nothing_found("sessions", scope, is_filtered=is_filtered, is_there=is_there, remark=remark))
    if not is_filtered and scope is not None:
        say(f'an agent starts one by recording in it: ledger.session("s1", scope="{scope}", …)')


def print_sessions(sessions: Sequence[SessionOutline], *, is_scope_shown: bool = False) -> None:
    """Print ``sessions``, one a row; with their scopes if they are of several."""
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)

    now = now_ms()
    rows = [
        [
            printable(session.session_id),
            *([printable(session.scope)] if is_scope_shown else []),
            session.state,
            ago(session.updated_ms, now_ms=now),
            printable(session.agent or NONE),
            printable(session.model or NONE),
            f"{session.event_count:,}",
            forked_from(session) or NONE,
            title_of(session) or NONE,
        ]
        for session in sessions
    ]
    columns = (_COLUMNS[0], Column("scope"), *_COLUMNS[1:]) if is_scope_shown else _COLUMNS
    print_filled(columns, rows)


def forked_from(outline: SessionOutline) -> str:
    """Return where a session comes from, if it is a fork."""
    if outline.parent is None:
        return ""
    return f"{printable(outline.parent)} at {outline.forked_seq}"


def title_of(outline: SessionOutline) -> str:
    """Return the title of a session on one line."""
    return one_line(outline.title or "")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A session and its place in its family."""

    depth: int
    """0 for the one that the family began with."""
    is_last: bool
    """Whether it is the last fork of its parent."""
    session: SessionOutline


@command(
    "tree",
    scope="project",
    short_help="Show forks and subagents of sessions.",
    examples="""
    treering sessions tree --scope acme/app
    treering sessions tree main:telegram:jo --scope acme/app --json
    """,
)
@click.argument("session", required=False, shell_complete=complete_session)
def tree(*, session: str | None, scope: Scope) -> None:
    """Show all forks and subagents of the family of SESSION, or every family of the scope.

    SESSION is an id or a short id.
    """
    members: list[Member] = []
    is_cut = False
    opening: AbstractContextManager[Ledger | None]
    # Naming a session implies that the ledger exists.
    opening = asking(open_existing) if session is None else open_existing()
    with opening as ledger:
        if ledger is not None:
            members, is_cut = _asked(ledger, scope, session)
            short = short_sessions(ledger, scope)
            members = [
                msgspec.structs.replace(member, session=short.within(member.session, "session_id"))
                for member in members
            ]
        location = location_of(ledger)
    mask = Mask()
    members = [
        msgspec.structs.replace(member, session=masked(member.session, mask)) for member in members
    ]
    listed = [
        {"depth": member.depth, **msgspec.structs.asdict(member.session)} for member in members
    ]
    show(
        {
            "scope": scope,
            "ledger": location,
            "count": len(listed),
            "is_cut": is_cut,
            "sessions": listed,
        },
        page=lambda: _print(scope, members, is_cut=is_cut),
    )


def members_of(family: Family, subagents: Subagents) -> Iterator[Member]:
    """Return a family in the order in which it is drawn: forks, then subagents of each session."""
    waiting: list[tuple[int, bool, Family]] = [(0, True, family)]
    while waiting:
        depth, is_last, member = waiting.pop()
        yield Member(depth=depth, is_last=is_last, session=member.session)
        below = [*member.forks, *subagents.pop(member.session.session_id, ())]
        waiting += [(depth + 1, number == 0, child) for number, child in enumerate(reversed(below))]


def _asked(ledger: Ledger, scope: Scope, session: str | None) -> tuple[list[Member], bool]:
    """Return the families to show, and whether there are more."""
    from treering.ledger.families import Family  # noqa: PLC0415  (not for --help)

    page = ledger.families(scope, limit=FAMILIES_MAX)
    outlines, is_cut = _outlines(ledger, scope)
    forked = {family.session.session_id: family for family in page.items}
    subagents: Subagents = {}
    for outline in outlines.values():
        if outline.spawned_by in outlines:
            agent = forked.pop(outline.session_id, Family(session=outline))
            subagents.setdefault(outline.spawned_by or "", []).append(agent)
    if session is not None:
        name = find_session(ledger, scope, session)
        while name in outlines and (above := outlines[name].spawned_by) in outlines:
            name = above or ""
        return list(members_of(ledger.family(scope, name), subagents)), False
    members = [member for family in forked.values() for member in members_of(family, subagents)]
    for name in list(subagents):
        parent = outlines[name]
        if name in subagents and parent.spawned_by not in outlines:
            members += members_of(Family(session=parent), subagents)
    return members, page.has_more or is_cut


def _outlines(ledger: Ledger, scope: Scope) -> tuple[dict[str, SessionOutline], bool]:
    """Return the sessions of a scope by id, the oldest first, and whether there are more."""
    outlines: list[SessionOutline] = []
    states: Any = SESSION_STATES
    cursor = None
    while len(outlines) < SESSIONS_MAX:
        page = ledger.sessions(
            scope, state=states, subagents=True, limit=PAGE_ITEMS_MAX, after=cursor
        )
        outlines += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return {outline.session_id: outline for outline in reversed(outlines)}, cursor is not None


def _print(scope: Scope, members: Sequence[Member], *, is_cut: bool) -> None:
    if not members:
        say(f"scope {scope} has no forks or subagents; treering sessions fork SESSION makes a fork")
        return
    branch, corner, line, blank = _DRAWN if is_terminal() else _PLAIN
    rails: list[str] = []
    for member in members:
        drawn = min(member.depth, DEPTH_DRAWN_MAX)
        del rails[max(drawn - 1, 0) :]
        lead = "".join(rails) + ((corner if member.is_last else branch) if drawn else "")
        say_painted((painted(lead, dim=True) if lead else "") + _drawn(member))
        if drawn:
            rails.append(blank if member.is_last else line)
    families = sum(member.depth == 0 for member in members)
    nouns = "family" if families == 1 else "families"
    say(f"{counted(len(members), 'session')} of {families:,} {nouns} of scope {scope}")
    if is_cut:
        say("only the families written to last are shown: name a session to see its own")


def _drawn(member: Member) -> str:
    outline = member.session
    state = painted(outline.state, STATE_COLOURS.get(outline.state))
    depth = f" depth {member.depth}" if member.depth > DEPTH_DRAWN_MAX else ""
    at = "" if outline.forked_seq is None else f" forked at {outline.forked_seq}"
    if outline.spawned_by is not None:
        at += f" subagent {printable(outline.agent or '')}".rstrip()
    title = title_of(outline)
    return f"{printable(outline.session_id)} {state}{depth}{at}{f'  {title}' if title else ''}"
