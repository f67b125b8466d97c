"""``treering episodes verify``: prove one scope, or one session of it."""

from __future__ import annotations

import click

from treering.surfaces.cli.commands import Command
from treering.surfaces.cli.options import (
    anchor_option,
    db_option,
    derived_option,
    json_option,
    keys_option,
    require,
    resolve_scope,
    scope_options,
    session_id_option,
)
from treering.surfaces.cli.verify import prove


@click.command(
    "verify",
    cls=Command,
    short_help="Prove that no event of a scope was changed.",
    examples="""
    treering episodes verify --scope acme/app
    treering episodes verify --scope acme/app --session-id s1 --json
    treering episodes verify --scope acme/app --anchor monday.anchor
    """,
)
@scope_options
@session_id_option
@anchor_option
@derived_option
@keys_option
@json_option
@db_option
def verify(
    *,
    scope: str | None,
    is_global: bool,
    session_id: str | None,
    anchor_file: str | None,
    derived: bool,
) -> None:
    """Prove that no event of a scope was changed, removed, inserted or reordered.

    Only an anchor that was kept elsewhere shows that the newest events were cut off; only the
    sessions of the scope are compared with it. The exit status is 1 if the proof fails.
    treering verify proves the whole ledger.
    """
    prove(
        resolve_scope(scope, is_global=is_global),
        None if session_id is None else require(session_id, "session_id"),
        anchor_file=anchor_file,
        derived=derived,
    )
