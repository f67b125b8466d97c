"""``treering users merge`` and ``unmerge``: two users who are one person, or are not."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, TypeVar

import click

from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.search_commands import scope_flag

if TYPE_CHECKING:
    from collections.abc import Callable

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


def _of_two(command: Decorated) -> Decorated:
    """Add USER and OTHER, and what every command takes."""
    shared = project_scope_options(keys_option(json_option(db_option(command))))
    return click.argument("user")(click.argument("other")(shared))


@click.command(
    "merge",
    cls=Command,
    short_help="Merge two users who are one person.",
    examples="""
    treering users merge jo 01a1e1c6-f0aa-749e-8cac-e760ec9864b2 --scope acme/app
    """,
    if_stopped="see treering users list for who is who",
)
@_of_two
def merge(*, user: str, other: str, scope: str | None, is_global: bool) -> None:
    """Merge USER and OTHER: facts about one are then about both.

    Nothing is rewritten, so you can undo it.
    """
    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        receipt = ledger.memory(name).users.merge(user, other)
    pair = f"{shlex.quote(user)} {shlex.quote(other)}"
    show(
        receipt,
        f"{user} and {other} are the same person in scope {name} from now on:"
        f" {counted(receipt.facts, 'fact')} of {other} count as {user}'s",
        f"to undo it: treering users unmerge {pair} {scope_flag(name)}",
        done="the users were merged",
    )


@click.command(
    "unmerge",
    cls=Command,
    short_help="Undo a merge.",
    examples="""
    treering users unmerge jo 01a1e1c6-f0aa-749e-8cac-e760ec9864b2
    """,
    if_stopped="see treering users list for who is who",
)
@_of_two
def unmerge(*, user: str, other: str, scope: str | None, is_global: bool) -> None:
    """Undo a merge; name USER and OTHER in the same order as then."""
    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        receipt = ledger.memory(name).users.unmerge(user, other)
    show(
        receipt,
        f"{user} and {other} are two people again in scope {name}: each has their own facts",
        done="the merge was undone",
    )
