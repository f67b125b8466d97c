"""``treering facts accept`` and ``reject``: decide about a fact."""

from __future__ import annotations

import click

from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.facts.masking import masked
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import one_line
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.search_commands import scope_flag


@click.command(
    "accept",
    cls=Command,
    short_help="Accept a fact.",
    examples="""
    treering facts list --scope acme/app --state quarantined
    treering facts accept 01a1e1c6-f097 --scope acme/app
    """,
    if_stopped="see treering facts show for its state",
)
@click.argument("fact")
@project_scope_options
@keys_option
@json_option
@db_option
def accept(*, fact: str, scope: str | None, is_global: bool) -> None:
    """Accept FACT if it was quarantined, refused or archived; confirm it if it is current."""
    from treering.surfaces.cli.facts.search import find_fact  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        memory = ledger.memory(name)
        before = find_fact(memory, fact)
        after = masked(memory.accept(before.id), Mask())
    known = before.state == "current"
    how = "is confirmed" if known else f"was {before.state}, and is current now"
    show(
        {"scope": name, "before": before.state, "fact": after},
        f"fact {after.id} {how}: {one_line(after.text)}",
        done=f"fact {after.id} was accepted",
    )


@click.command(
    "reject",
    cls=Command,
    short_help="Never recall a fact again.",
    examples="""
    treering facts reject 01a1e1c6-f097 --scope acme/app
    treering facts reject 01a1e1c6-f097 --scope acme/app --reason "moved away"
    """,
    if_stopped="see treering facts show for its state",
)
@click.argument("fact")
@project_scope_options
@click.option("--reason", metavar="TEXT", help="Why, in a few words.")
@keys_option
@json_option
@db_option
def reject(*, fact: str, scope: str | None, is_global: bool, reason: str | None) -> None:
    """Never recall FACT again; its events stay in the ledger.

    To erase it, run treering redact with the id of its event: facts history shows it.
    """
    from treering.surfaces.cli.facts.search import find_fact  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        memory = ledger.memory(name)
        before = find_fact(memory, fact)
        after = masked(memory.reject(before.id, reason=reason), Mask())
    flag = scope_flag(name)
    erase = (
        f"treering facts history {after.id} {flag} names its events, for treering redact"
        if after.revisions
        else f"treering redact --event {after.event_id} {flag}"
    )
    show(
        {"scope": name, "before": before.state, "fact": after},
        f"fact {after.id} will not be recalled again: {one_line(after.text)}",
        f"its events stay; to erase them, too: {erase}",
        done=f"fact {after.id} was rejected",
    )
