"""``treering facts audit``: how sound what is remembered is, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import asking, open_to_ask, place_of
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import say
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from treering.memory.memory import Memory
    from treering.model.memories import FactAudit


@click.command(
    "audit",
    cls=Command,
    short_help="Find doubtful facts.",
    examples="""
    treering facts audit --scope acme/app
    treering facts audit --scope acme/app --json
    """,
)
@project_scope_options
@keys_option
@json_option
@db_option
def audit(*, scope: str | None, is_global: bool) -> None:
    """Count the facts, list the doubtful ones, and say what to do about each.

    A fact is doubtful if it has no evidence, if its evidence is gone, or if it nearly repeats
    another. Nothing is changed.
    """
    import msgspec  # noqa: PLC0415  (not for --help)

    from treering.surfaces.cli.facts.search import short_facts  # noqa: PLC0415
    from treering.surfaces.cli.short_ids import ShortIds  # noqa: PLC0415

    name = find_scope(scope, is_global=is_global)
    found: FactAudit | None = None
    texts: dict[str, str] = {}
    short = ShortIds(())
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            memory = ledger.memory(name)
            found = memory.audit()
            texts = {} if invocation().as_json else _texts(memory, found)
            short = short_facts(memory)
        place = place_of(ledger)
    if invocation().as_json:
        fields = {} if found is None else msgspec.structs.asdict(found)
        show({"scope": name, "ledger": place, **fields})
        return
    from treering.surfaces.cli.facts.audit_page import print_audit  # noqa: PLC0415  (for people)

    with writing_output():
        if found is None:
            say(f"no facts in scope {name}")
        else:
            print_audit(found, texts, short)


def _texts(memory: Memory, found: FactAudit) -> dict[str, str]:
    """Return the texts of the facts that are named."""
    from treering.surfaces.cli.facts.audit_page import named_in  # noqa: PLC0415  (for people)

    mask = Mask()
    return {one: mask.text(memory.fact(one).text) or "" for one in named_in(found)}
