"""``treering users list``: the people of a scope, and what they are called."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.model.memories import UserHandle
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.opening import asking, location_of, open_to_ask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted, printable, say
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.search_commands import scope_flag
from treering.surfaces.cli.sessions.tables import NONE, print_filled
from treering.surfaces.cli.streams import writing_output
from treering.surfaces.cli.tables import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.memory.memory import Memory
    from treering.model.scopes import Scope

_COLUMNS: Final = (
    Column("user"),
    Column("facts", leaves=2, noun="fact"),
    Column("also known as", leaves=1),
    Column("handles", is_prose=True),
)


class ListedUser(msgspec.Struct, frozen=True, kw_only=True):
    """One person, under all names that they have in a scope."""

    user: str
    also: list[str]
    """Other ids of the same person as a user."""
    handles: list[UserHandle]
    facts: int
    """Current facts about them."""


@click.command(
    "list",
    cls=Command,
    short_help="List the people of a scope.",
    examples="""
    treering users list --scope acme/app
    treering users list --scope acme/app --user jo --json
    """,
)
@project_scope_options
@click.option("--user", metavar="USER", help="Only this person.")
@keys_option
@json_option
@db_option
def list_(*, scope: str | None, is_global: bool, user: str | None) -> None:
    """List the people of a scope who have a handle or about whom there are facts."""
    name = find_scope(scope, is_global=is_global)
    people: list[ListedUser] = []
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            people = _people(ledger.memory(name), user)
        location = location_of(ledger)
    if invocation().as_json:
        show({"scope": name, "ledger": location, "filters": {"user": user}, "count": len(people),
              "users": people})  # fmt: skip
        return

    with writing_output():
        if people:
            print_people(name, people)
        else:
            print_nobody(name, user)


def _people(memory: Memory, user: str | None) -> list[ListedUser]:
    from treering.surfaces.cli.facts.search import every_fact  # noqa: PLC0415  (not for --help)

    facts = Counter(
        fact.user for fact in every_fact(memory) if fact.user and fact.state == "current"
    )
    handles = memory.users.handles(user)
    named = [one.user for one in handles] + ([*facts] if user is None else [user])
    people: list[ListedUser] = []
    seen: set[str] = set()
    for one in sorted(dict.fromkeys(named)):
        if one in seen:
            continue
        names = memory.users.ids_of(one)
        seen.update(names)
        # Any of the names will do; the one that most is known of is likely the familiar one.
        best = user if user in names else max(names, key=lambda each: facts[each])
        person = ListedUser(
            user=best,
            also=[each for each in names if each != best],
            handles=[handle for handle in handles if handle.user in names],
            facts=sum(facts[name] for name in names),
        )
        if person.also or person.handles or person.facts:
            people.append(person)
    return people


def print_people(scope: Scope, people: Sequence[ListedUser]) -> None:
    """Print who is known, one person a row."""
    rows = [
        [
            printable(one.user),
            f"{one.facts:,}",
            printable(", ".join(one.also)) or NONE,
            printable(", ".join(f"{each.handle} on {each.channel}" for each in one.handles))
            or NONE,
        ]
        for one in people
    ]
    print_filled(_COLUMNS, rows)
    say(f"{counted(len(people), 'user')} of scope {scope}")


def print_nobody(scope: Scope, user: str | None) -> None:
    """Say that there are no users, and what may help."""
    flag = scope_flag(scope)
    if user is not None:
        say(f"nothing is known about user {printable(user)} in scope {scope}")
        say(f"  all users: treering users list {flag}")
        return
    say(f"no users in scope {scope}")
    say(f"  link a handle: treering users link jo telegram @jo {flag}")
    say(f'  or add a fact: treering facts add "Lives in Porto" --user jo {flag}')
