"""``treering users``: who is who in a scope, whatever they are called on each channel."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from treering.model.memories import UserHandle
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import argument, command, group, option
from treering.surfaces.cli.finding import every_fact
from treering.surfaces.cli.ledgers import (
    asking,
    location_of,
    open_existing,
    open_to_ask,
    open_to_write,
)
from treering.surfaces.cli.output import note, say
from treering.surfaces.cli.tables import NONE, Column, print_filled
from treering.surfaces.shared.session_commands import scope_flag
from treering.surfaces.shared.texts import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.memory import Memory
    from treering.model.scopes import Scope

_COLUMNS: Final = (
    Column("user"),
    Column("facts", leaves=2, noun="fact"),
    Column("also known as", leaves=1),
    Column("handles", is_prose=True),
)
Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


@group(
    "users",
    commands="list_ resolve link unlink merge unmerge",
    examples="""
    treering users list --scope acme/app
    treering users link jo telegram @jo_lisbon --scope acme/app
    treering users merge jo 01a1e1c6-f0aa-749e-8cac-e760ec9864b2 --scope acme/app
    """,
)
def users() -> None:
    """Link handles on channels to users, and merge users who are one person.

    What is known about a user is recalled on every channel, within one scope. Every change is an
    event, and can be undone.
    """


class ListedUser(msgspec.Struct, frozen=True, kw_only=True):
    """One person, under all names that they have in a scope."""

    user: str
    also: list[str]
    """Other ids of the same person as a user."""
    handles: list[UserHandle]
    facts: int
    """Current facts about them."""


@command(
    scope="project",
    short_help="List the people of a scope.",
    examples="""
    treering users list --scope acme/app
    treering users list --scope acme/app --user jo --json
    """,
)
def list_(*, scope: Scope, user: str | None = option("USER", "Only this person.")) -> None:
    """List the people of a scope who have a handle or about whom there are facts."""
    people: list[ListedUser] = []
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            people = _people(ledger.memory(scope), user)
        location = location_of(ledger)
    show(
        {
            "scope": scope,
            "ledger": location,
            "filters": {"user": user},
            "count": len(people),
            "users": people,
        },
        page=lambda: print_people(scope, people) if people else print_nobody(scope, user),
    )


def _people(memory: Memory, user: str | None) -> list[ListedUser]:
    facts = Counter(
        fact.user for fact in every_fact(memory) if fact.user and fact.state == "current"
    )
    handles = memory.users.handles(user)
    named = [handle.user for handle in handles] + ([*facts] if user is None else [user])
    people: list[ListedUser] = []
    seen: set[str] = set()
    for name in sorted(dict.fromkeys(named)):
        if name in seen:
            continue
        names = memory.users.ids_of(name)
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
            printable(person.user),
            f"{person.facts:,}",
            printable(", ".join(person.also)) or NONE,
            printable(", ".join(f"{each.handle} on {each.channel}" for each in person.handles))
            or NONE,
        ]
        for person in people
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


@command(
    scope="project",
    short_help="Print the user of a handle.",
    examples="""
    treering users resolve telegram @jo_lisbon --scope acme/app
    treering recall --user "$(treering users resolve telegram @jo_lisbon)" --block
    """,
    if_stopped="see treering users list for whether they are known",
)
def resolve(*, scope: Scope, channel: str = argument(), handle: str = argument()) -> None:
    """Print the user of HANDLE on CHANNEL; a new user if there is none yet.

    For merged users it prints the one that was kept.
    """
    with open_to_write() as ledger:
        memory = ledger.memory(scope)
        before = {(link.channel, link.handle) for link in memory.users.handles()}
        user = memory.users.resolve(channel, handle)
        linked = {(link.channel, link.handle) for link in memory.users.handles()}
    is_new = (channel, handle) in linked - before
    if is_new and not invocation().as_json:
        note(f"nobody in scope {scope} was called {handle} on {channel}: this is somebody new")
    show(
        {"scope": scope, "user": user, "channel": channel, "handle": handle, "is_new": is_new},
        user,
        done=f"the user is {user}",
    )


@command(
    scope="project",
    short_help="Link a handle to a user.",
    examples="""
    treering users link jo telegram @jo_lisbon --scope acme/app
    """,
    if_stopped="see treering users list for whose it is",
)
def link(
    *, scope: Scope, user: str = argument(), channel: str = argument(), handle: str = argument()
) -> None:
    """Link HANDLE on CHANNEL to USER. Refused if it belongs to somebody else."""
    with open_to_write() as ledger:
        linked = ledger.memory(scope).users.link(user, channel, handle)
    pair = f"{shlex.quote(channel)} {shlex.quote(handle)}"
    show(
        {"scope": scope, "user": linked.user, "channel": linked.channel, "handle": linked.handle},
        f"{linked.handle} on {linked.channel} is {linked.user} in scope {scope}",
        f"to undo it: treering users unlink {pair} {scope_flag(scope)}",
        done="the handle was linked",
    )


@command(
    scope="project",
    short_help="Unlink a handle from its user.",
    examples="""
    treering users unlink telegram @jo_lisbon --scope acme/app
    """,
    if_stopped="see treering users list for whose it is",
)
def unlink(*, scope: Scope, channel: str = argument(), handle: str = argument()) -> None:
    """Unlink HANDLE on CHANNEL from its user; facts about them stay."""
    with open_existing("change") as ledger:
        user = ledger.memory(scope).users.unlink(channel, handle)
    show(
        {"scope": scope, "user": user, "channel": channel, "handle": handle},
        f"{handle} on {channel} is no longer {user} in scope {scope};"
        f" what is known of {user} stays",
        done="the handle was unlinked",
    )


@command(
    scope="project",
    short_help="Merge two users who are one person.",
    examples="""
    treering users merge jo 01a1e1c6-f0aa-749e-8cac-e760ec9864b2 --scope acme/app
    """,
    if_stopped="see treering users list for who is who",
)
def merge(*, scope: Scope, user: str = argument(), other: str = argument()) -> None:
    """Merge USER and OTHER: facts about one are then about both.

    Nothing is rewritten, so you can undo it.
    """
    with open_existing("change") as ledger:
        receipt = ledger.memory(scope).users.merge(user, other)
    pair = f"{shlex.quote(user)} {shlex.quote(other)}"
    show(
        receipt,
        f"{user} and {other} are the same person in scope {scope} from now on:"
        f" {counted(receipt.facts, 'fact')} of {other} count as {user}'s",
        f"to undo it: treering users unmerge {pair} {scope_flag(scope)}",
        done="the users were merged",
    )


@command(
    scope="project",
    short_help="Undo a merge.",
    examples="""
    treering users unmerge jo 01a1e1c6-f0aa-749e-8cac-e760ec9864b2
    """,
    if_stopped="see treering users list for who is who",
)
def unmerge(*, scope: Scope, user: str = argument(), other: str = argument()) -> None:
    """Undo a merge; name USER and OTHER in the same order as then."""
    with open_existing("change") as ledger:
        receipt = ledger.memory(scope).users.unmerge(user, other)
    show(
        receipt,
        f"{user} and {other} are two people again in scope {scope}: each has their own facts",
        done="the merge was undone",
    )
