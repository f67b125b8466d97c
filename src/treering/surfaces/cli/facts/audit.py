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
    short_help="Show how sound what is remembered is.",
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
    """Show how many facts there are, which of them are doubtful, and what to do about each.

    Doubtful are those without evidence, those whose evidence is gone, and those that say nearly the
    same as another. Nothing is changed.
    """
    import msgspec  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    found: FactAudit | None = None
    texts: dict[str, str] = {}
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            memory = ledger.memory(name)
            found = memory.audit()
            texts = {} if invocation().as_json else _texts(memory, found)
        place = place_of(ledger)
    if invocation().as_json:
        told = {} if found is None else msgspec.structs.asdict(found)
        show({"scope": name, "ledger": place, **told})
        return
    from treering.surfaces.cli.facts.audit_page import print_audit  # noqa: PLC0415  (for people)

    with writing_output():
        if found is None:
            say(f"nothing is remembered in scope {name}")
        else:
            print_audit(found, texts)


def _texts(memory: Memory, found: FactAudit) -> dict[str, str]:
    """Return what the facts say that are to be named."""
    from treering.surfaces.cli.facts.audit_page import named_in  # noqa: PLC0415  (for people)

    mask = Mask()
    return {one: mask.text(memory.fact(one).text) or "" for one in named_in(found)}
