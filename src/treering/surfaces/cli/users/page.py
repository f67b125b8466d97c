"""The people of a scope as people read them: one a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.output import counted, printable, say
from treering.surfaces.cli.search_commands import scope_flag
from treering.surfaces.cli.sessions.tables import NONE, print_filled
from treering.surfaces.cli.tables import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.scopes import Scope
    from treering.surfaces.cli.users.list import ListedUser

_COLUMNS: Final = (
    Column("user"),
    Column("facts", leaves=2, noun="fact"),
    Column("also known as", leaves=1),
    Column("handles", is_prose=True),
)


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
        say(f"nothing is known of a user {printable(user)} in scope {scope}")
        say(f"  all users: treering users list {flag}")
        return
    say(f"no users in scope {scope}")
    say(f"  link a handle: treering users link jo telegram @jo {flag}")
    say(f'  or add a fact: treering facts add "Lives in Porto" --user jo {flag}')
