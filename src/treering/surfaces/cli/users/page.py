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
    Column("facts", leaves=2),
    Column("also known as", leaves=1),
    Column("handles", is_prose=True),
)


def print_people(scope: Scope, people: Sequence[ListedUser]) -> None:
    """Print who is known, one person a row."""
    rows = [
        [
            printable(one.user),
            counted(one.facts, "fact"),
            printable(", ".join(one.also)) or NONE,
            printable(", ".join(f"{each.handle} on {each.channel}" for each in one.handles))
            or NONE,
        ]
        for one in people
    ]
    print_filled(_COLUMNS, rows)
    say(f"{counted(len(people), 'user')} of scope {scope}")


def print_nobody(scope: Scope, user: str | None) -> None:
    """Say that nobody is known, and what may help."""
    flag = scope_flag(scope)
    if user is not None:
        say(f"nothing is known of a user {printable(user)} in scope {scope}")
        say(f"  who is known: treering users list {flag}")
        return
    say(f"nobody is known in scope {scope}")
    say(f"  name somebody: treering users link jo telegram @jo {flag}")
    say(f'  or tell something of them: treering facts add "Lives in Porto" --user jo {flag}')
