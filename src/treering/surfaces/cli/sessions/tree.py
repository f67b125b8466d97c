"""``treering sessions tree``: sessions that were forked from one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.model.sessions import SessionOutline
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import asking, location_of
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted, is_terminal, painted, printable, say, say_painted
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.sessions.list import masked
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from treering.ledger.families import Family
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

FAMILIES_MAX: Final = 1_000
"""Families of a scope that are drawn: those that were last written to."""
DEPTH_DRAWN_MAX: Final = 12
"""Forks of forks beyond this are drawn no deeper, and numbered."""
_DRAWN: Final = ("├── ", "└── ", "│   ", "    ")
_PLAIN: Final = ("|-- ", "`-- ", "|   ", "    ")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A session and its place in its family."""

    depth: int
    """0 for the one that the family began with."""
    is_last: bool
    """Whether it is the last fork of its parent."""
    session: SessionOutline


@click.command(
    "tree",
    cls=Command,
    short_help="Show which sessions were forked from which.",
    examples="""
    treering sessions tree --scope acme/app
    treering sessions tree main:telegram:jo --scope acme/app --json
    """,
)
@click.argument("session", required=False, shell_complete=complete_session)
@project_scope_options
@keys_option
@json_option
@db_option
def tree(*, session: str | None, scope: str | None, is_global: bool) -> None:
    """Show all forks of the family of SESSION, or every family of the scope with forks.

    SESSION is an id or a short id.
    """
    name = find_scope(scope, is_global=is_global)
    found: list[Member] = []
    is_cut = False
    opening: AbstractContextManager[Ledger | None]
    # Naming a session implies that the ledger exists.
    opening = asking(open_existing) if session is None else open_existing()
    with opening as ledger:
        if ledger is not None:
            from treering.surfaces.cli.sessions.search import short_sessions  # noqa: PLC0415

            found, is_cut = _asked(ledger, name, session)
            short = short_sessions(ledger, name)
            found = [
                msgspec.structs.replace(member, session=short.within(member.session, "session_id"))
                for member in found
            ]
        location = location_of(ledger)
    mask = Mask()
    members = [
        msgspec.structs.replace(member, session=masked(member.session, mask)) for member in found
    ]
    if invocation().as_json:
        listed = [
            {"depth": member.depth, **msgspec.structs.asdict(member.session)} for member in members
        ]
        show({"scope": name, "ledger": location, "count": len(listed), "is_cut": is_cut,
              "sessions": listed})  # fmt: skip
        return
    with writing_output():
        _print(name, members, is_cut=is_cut)


def members_of(family: Family) -> Iterator[Member]:
    """Return a family in the order in which it is drawn."""
    waiting = [(0, True, family)]
    while waiting:
        depth, is_last, one = waiting.pop()
        yield Member(depth=depth, is_last=is_last, session=one.session)
        waiting += [
            (depth + 1, number == 0, fork) for number, fork in enumerate(reversed(one.forks))
        ]


def _asked(ledger: Ledger, scope: Scope, session: str | None) -> tuple[list[Member], bool]:
    """Return the families to show, and whether there are more."""
    if session is None:
        page = ledger.families(scope, limit=FAMILIES_MAX)
        return [member for one in page.items for member in members_of(one)], page.has_more
    from treering.surfaces.cli.sessions.search import find_session  # noqa: PLC0415

    found = ledger.family(scope, find_session(ledger, scope, session))
    return list(members_of(found)), False


def _print(scope: Scope, members: Sequence[Member], *, is_cut: bool) -> None:
    if not members:
        say(f"scope {scope} has no forks; treering sessions fork SESSION makes one")
        return
    branch, corner, line, blank = _DRAWN if is_terminal() else _PLAIN
    rails: list[str] = []
    for member in members:
        drawn = min(member.depth, DEPTH_DRAWN_MAX)
        del rails[max(drawn - 1, 0) :]
        lead = "".join(rails) + ((corner if member.is_last else branch) if drawn else "")
        say_painted((painted(lead, dim=True) if lead else "") + _told(member))
        if drawn:
            rails.append(blank if member.is_last else line)
    families = sum(member.depth == 0 for member in members)
    nouns = "family" if families == 1 else "families"
    say(f"{counted(len(members), 'session')} of {families:,} {nouns} of scope {scope}")
    if is_cut:
        say("only the families written to last are shown: name a session to see its own")


def _told(member: Member) -> str:
    from treering.surfaces.cli.sessions.tables import (  # noqa: PLC0415  (for people)
        STATE_COLOURS,
        title_of,
    )

    outline = member.session
    state = painted(outline.state, STATE_COLOURS.get(outline.state))
    depth = f" depth {member.depth}" if member.depth > DEPTH_DRAWN_MAX else ""
    at = "" if outline.forked_seq is None else f" forked at {outline.forked_seq}"
    title = title_of(outline)
    return f"{printable(outline.session_id)} {state}{depth}{at}{f'  {title}' if title else ''}"
