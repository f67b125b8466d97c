"""``treering facts review``: facts that may have ended others, and the decision about each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.finding import find_fact, short_facts
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.output import say
from treering.surfaces.shared.session_commands import scope_flag
from treering.surfaces.shared.texts import Mask, counted, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.memories import DoubtfulChange
    from treering.model.scopes import Scope
    from treering.surfaces.cli.finding import ShortIds


@command(
    "review",
    scope="project",
    short_help="Decide which facts ended others.",
    examples="""
    treering facts review --scope acme/app
    treering facts review 01a1e1c6-f097 --scope acme/app --accept
    treering facts review 01a1e1c6-f097 --scope acme/app --reject
    """,
    if_stopped="see treering facts review for what is left",
)
@click.argument("fact", required=False)
@click.option("--accept", is_flag=True, help="It ended the earlier fact, which is superseded.")
@click.option("--reject", is_flag=True, help="It did not: both hold.")
def review(*, fact: str | None, scope: Scope, accept: bool, reject: bool) -> None:
    """List the facts that may have ended an earlier one, or decide about FACT.

    Both hold until somebody decides.
    """
    if (fact is None and (accept or reject)) or (fact is not None and accept == reject):
        raise InvalidInput(
            "nothing is decided", hint="name a fact with --accept or with --reject, or neither"
        )
    with open_existing("change" if fact else "read") as ledger:
        memory, mask = ledger.memory(scope), Mask()
        short = short_facts(memory)
        if fact is not None:
            named = find_fact(memory, fact).id
            earlier = memory.settle(named, ended=accept)
            text = mask.text(earlier.text) or ""
            said = "is superseded" if accept else "still holds"
            show(
                {"scope": scope, "fact_id": named, "ended": accept, "earlier": earlier.id},
                f"fact {short.shown(earlier.id)} {said}: {one_line(text)}",
                done=f"it was decided about fact {named}",
            )
            return
        doubts = [_masked(each, mask) for each in memory.doubts()]
    show(
        {"scope": scope, "count": len(doubts), "doubts": doubts},
        f"{counted(len(doubts), 'fact')} of scope {scope} may have ended another",
        page=lambda: _print_doubts(doubts, short, scope),
    )


def _masked(doubt: DoubtfulChange, mask: Mask) -> DoubtfulChange:
    fact, earlier = (
        msgspec.structs.replace(each, text=mask.text(each.text) or "")
        for each in (doubt.fact, doubt.earlier)
    )
    return msgspec.structs.replace(doubt, fact=fact, earlier=earlier)


def _print_doubts(doubts: Sequence[DoubtfulChange], short: ShortIds, scope: Scope) -> None:
    for doubt in doubts:
        say(f"{printable(short.shown(doubt.fact.id))}  {one_line(doubt.fact.text)}")
        say(f"  may have ended  {one_line(doubt.earlier.text)}")
        say(f"  because         {' and '.join(doubt.signs)}")
    if doubts:
        say(f"decide: treering facts review FACT {scope_flag(scope)} --accept (or --reject)")
