"""``treering sessions``: list, show, fork, undo, close and prune the sessions of a scope."""

from __future__ import annotations

from typing import Final

import click

from treering.surfaces.cli.commands import LazyGroup
from treering.surfaces.cli.options import db_option, keys_option

_HERE: Final = "treering.surfaces.cli.sessions"


@click.group(
    name="sessions",
    cls=LazyGroup,
    lazy={
        "list": f"{_HERE}.list:list_",
        "show": f"{_HERE}.show:show_session",
        "tree": f"{_HERE}.tree:tree",
        "fork": f"{_HERE}.turn:fork",
        "undo": f"{_HERE}.turn:undo",
        "redo": f"{_HERE}.turn:redo",
        "rename": f"{_HERE}.mark:rename",
        "close": f"{_HERE}.mark:close",
        "prune": f"{_HERE}.sweep:prune",
        "sweep": f"{_HERE}.sweep:sweep",
    },
    invoke_without_command=True,
    examples="""
    treering sessions list --scope acme/app --since 7d
    treering sessions show main:telegram:jo --scope acme/app
    treering sessions undo main:telegram:jo --scope acme/app
    """,
)
@keys_option
@db_option
@click.pass_context
def sessions(context: click.Context) -> None:
    """List, show, fork, undo, close and prune sessions.

    SESSION is an id or a short id. No command rewrites the past of a session: a fork, an undo
    and a title are events as well.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
