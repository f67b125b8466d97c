"""``treering fade``: archive facts that nobody has used for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.facts.read import masked
from treering.surfaces.cli.ledgers import asking, location_of, open_existing, open_to_ask
from treering.surfaces.cli.options import parse_time
from treering.surfaces.cli.output import say
from treering.surfaces.shared.masking import Mask
from treering.surfaces.shared.session_commands import scope_flag
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.memories import Fact, FadeReceipt
    from treering.model.scopes import Scope

NAMED_MAX: Final = 20
"""Facts that are named; --json names all of them."""


@command(
    "fade",
    scope="project",
    short_help="Archive facts that nobody has used for long.",
    examples="""
    treering fade --scope acme/app --dry-run
    treering fade --scope acme/app
    """,
    if_stopped="facts are archived one after the other; run it again for the rest",
)
@click.option("--dry-run", is_flag=True, help="Show what would be archived, and archive nothing.")
@click.option("--now-ts-ms", metavar="WHEN", help="Count ages from this time instead of now.")
def fade(*, scope: Scope, dry_run: bool, now_ts_ms: str | None) -> None:
    """Archive the facts that nobody has used for long; for a cron job.

    Important and often used facts fade later. An archived fact is not lost: it comes back when
    somebody asks for it literally, or accepts it.
    """
    receipt: FadeReceipt | None = None
    named: list[Fact] = []
    with asking(open_to_ask if dry_run else _open_to_change) as ledger:
        if ledger is not None:
            memory = ledger.memory(scope)
            receipt = memory.fade(now_ms=parse_time(now_ts_ms), dry_run=dry_run)
            mask = Mask()
            named = [masked(memory.fact(fact_id), mask) for fact_id in receipt.archived[:NAMED_MAX]]
        location = location_of(ledger)
    done = "" if dry_run else "the facts were archived"
    fields = {"dry_run": dry_run} if receipt is None else msgspec.structs.asdict(receipt)
    count = 0 if receipt is None else len(receipt.archived)
    show(
        {"scope": scope, "ledger": location, **fields, "count": count},
        page=lambda: _print(scope, receipt, named),
        done=done,
    )


def _open_to_change() -> Ledger:
    return open_existing("change")


def _print(scope: Scope, receipt: FadeReceipt | None, named: Sequence[Fact]) -> None:
    if receipt is None:
        say(f"no facts in scope {scope}")
        return
    facts = f"{counted(receipt.looked_at, 'current fact')} of scope {scope}"
    if not receipt.archived:
        say(f"nothing has faded: checked {facts}")
        return
    from treering.surfaces.cli.facts.read import print_facts  # noqa: PLC0415  (for people)

    print_facts(named, with_state=False)
    if len(receipt.archived) > len(named):
        say(f"  and {len(receipt.archived) - len(named):,} more: --json names all")
    verb = "would archive" if receipt.dry_run else "archived"
    say(
        f"{verb} {len(receipt.archived):,} of {facts}:"
        f" unused for {counted(receipt.unused_days, 'day')}, and faded"
    )
    flag = scope_flag(scope)
    if not receipt.dry_run:
        say(f"  to restore one: treering facts accept FACT {flag}")
