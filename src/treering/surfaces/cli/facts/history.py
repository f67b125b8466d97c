"""``treering facts history``: all that happened to one fact."""

from __future__ import annotations

import click
import msgspec

from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import open_to_ask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted, say
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output


@click.command(
    "history",
    cls=Command,
    short_help="Show the history of a fact.",
    examples="""
    treering facts history 01a1e1c6-f07f --scope acme/app
    """,
)
@click.argument("fact")
@project_scope_options
@keys_option
@json_option
@db_option
def history(*, fact: str, scope: str | None, is_global: bool) -> None:
    """Show every change of FACT, in order: each is an event of the ledger.

    Erased changes are not shown.
    """
    from treering.surfaces.cli.facts.search import find_fact  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    mask = Mask()
    with open_to_ask() as ledger:
        memory = ledger.memory(name)
        found = find_fact(memory, fact)
        changes = [
            msgspec.structs.replace(one, text=mask.text(one.text), reason=mask.text(one.reason))
            for one in memory.history(found.id)
        ]
    if invocation().as_json:
        show({"scope": name, "fact_id": found.id, "state": found.state, "count": len(changes),
              "changes": changes, "masked": mask.masked})  # fmt: skip
        return
    from treering.surfaces.cli.facts.tables import print_changes  # noqa: PLC0415  (for people)

    with writing_output():
        print_changes(changes)
        say(f"{counted(len(changes), 'change')} of fact {found.id}, which is {found.state} now")
