"""``treering facts``: list, add, accept and reject the facts of a scope."""

from __future__ import annotations

from typing import Final

import click

from treering.surfaces.cli.commands import LazyGroup
from treering.surfaces.cli.options import db_option, keys_option

_HERE: Final = "treering.surfaces.cli.facts"


@click.group(
    name="facts",
    cls=LazyGroup,
    lazy={
        "list": f"{_HERE}.list:list_",
        "show": f"{_HERE}.show:show_fact",
        "add": f"{_HERE}.add:add",
        "accept": f"{_HERE}.decide:accept",
        "reject": f"{_HERE}.decide:reject",
        "history": f"{_HERE}.history:history",
        "audit": f"{_HERE}.audit:audit",
        "extract": f"{_HERE}.extract:extract",
    },
    invoke_without_command=True,
    short_help="List, add, accept and reject facts.",
    examples="""
    treering facts list --scope acme/app --user jo
    treering facts add "Prefers tabs over spaces" --scope acme/app --user jo
    treering facts audit --scope acme/app
    """,
)
@keys_option
@db_option
@click.pass_context
def facts(context: click.Context) -> None:
    """List, add, accept and reject facts.

    FACT is an id or a short id. Every change of a fact is an event. treering recall answers
    questions from facts and episodes.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
