"""``treering episodes verify``: prove one scope, or one session of it."""

from __future__ import annotations

import click

from treering.surfaces.cli.commands import Command
from treering.surfaces.cli.options import (
    db_option,
    json_option,
    require,
    resolve_scope,
    scope_options,
)
from treering.surfaces.cli.verify import prove


@click.command(
    "verify",
    cls=Command,
    short_help="Prove that a scope is as it was recorded.",
    examples="""
    treering episodes verify --scope acme/app
    treering episodes verify --scope acme/app --session-id s1 --json
    """,
)
@scope_options
@click.option("--session-id", metavar="ID", help="This session only.")
@json_option
@db_option
def verify(*, scope: str | None, is_global: bool, session_id: str | None) -> None:
    """Prove that nothing of a scope was changed, removed, inserted or reordered.

    The exit status is 1 if the proof fails. For the whole ledger, see treering verify.
    """
    name = resolve_scope(scope, is_global=is_global)
    prove(name, None if session_id is None else require(session_id, "session_id"))
