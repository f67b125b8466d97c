"""``treering facts show``: one fact, and the events that say so."""

from __future__ import annotations

import click

from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import open_to_ask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output


@click.command(
    "show",
    cls=Command,
    short_help="Show one fact and its evidence.",
    examples="""
    treering facts show 01a1e1c6-f07f-731c-b08f-92f6b6dd58de --scope acme/app
    treering facts show 01a1e1c6-f07f --scope acme/app --json
    """,
)
@click.argument("fact")
@project_scope_options
@keys_option
@json_option
@db_option
def show_fact(*, fact: str, scope: str | None, is_global: bool) -> None:
    """Show FACT: what it says, about whom, its state, since when, and its evidence.

    FACT is an id or a short id.
    """
    name = find_scope(scope, is_global=is_global)
    with open_to_ask() as ledger:
        from treering.surfaces.cli.facts.details import sheet_of  # noqa: PLC0415
        from treering.surfaces.cli.facts.search import find_fact, short_facts  # noqa: PLC0415

        found = find_fact(ledger.memory(name), fact)
        sheet = sheet_of(ledger, name, found, mask=Mask())
        short = short_facts(ledger.memory(name))
    if invocation().as_json:
        show(sheet)
        return
    from treering.surfaces.cli.facts.page import print_sheet  # noqa: PLC0415  (for people)

    with writing_output():
        print_sheet(sheet, short)
