"""``treering users``: who is who in a scope, whatever they are called on each channel."""

from __future__ import annotations

from typing import Final

import click

from treering.surfaces.cli.commands import LazyGroup
from treering.surfaces.cli.options import db_option, keys_option

_HERE: Final = "treering.surfaces.cli.users"


@click.group(
    name="users",
    cls=LazyGroup,
    lazy={
        "list": f"{_HERE}.list:list_",
        "resolve": f"{_HERE}.handles:resolve",
        "link": f"{_HERE}.handles:link",
        "unlink": f"{_HERE}.handles:unlink",
        "merge": f"{_HERE}.merging:merge",
        "unmerge": f"{_HERE}.merging:unmerge",
    },
    invoke_without_command=True,
    short_help="Link handles to people, and merge people.",
    examples="""
    treering users list --scope acme/app
    treering users link jo telegram @jo_lisbon --scope acme/app
    treering users merge jo 01a1e1c6-f0aa-749e-8cac-e760ec9864b2 --scope acme/app
    """,
)
@keys_option
@db_option
@click.pass_context
def users(context: click.Context) -> None:
    """Link handles on channels to users, and merge users who are one person.

    What is known of a user is recalled on every channel, within one scope. Every change is an
    event, and can be undone.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
