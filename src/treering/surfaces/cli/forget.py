"""``treering forget``: one person erased from a scope, with all that they were called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.ledgers import open_existing, physically
from treering.surfaces.cli.options import db_option, json_option, keys_option, require
from treering.surfaces.cli.output import counted, say
from treering.surfaces.cli.progress import counting
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.receipts import ForgetReceipt


@click.command(
    "forget",
    cls=Command,
    short_help="Erase one person from a scope.",
    examples="""
    treering forget --scope acme/app --user u1 --dry-run
    treering forget --scope acme/app --user u1 --yes
    """,
    if_stopped="what was erased stays erased; run it again for the rest",
)
@click.option("--user", required=True, metavar="USER", help="The person, by their user id.")
@project_scope_options
@click.option("--dry-run", is_flag=True, help="Show what would be erased, and erase nothing.")
@click.option("--yes", is_flag=True, help="Erase without asking. You cannot undo it.")
@keys_option
@json_option
@db_option
def forget(*, user: str, scope: str | None, is_global: bool, dry_run: bool, yes: bool) -> None:
    """Erase everything a scope holds of one person: sessions, messages and names.

    Facts learned from it are erased, too. Numbers and digests stay, so that verify still proves
    the rest. It cannot reach exports, backups, logs that agents keep, lines that could not be
    recorded (treering doctor names their files), or data that was passed on to others.
    """
    person = require(user, "user")
    name = find_scope(scope, is_global=is_global)
    if dry_run or not yes:
        with open_existing() as ledger:
            plan = ledger.forget(name, user=person, dry_run=True)
        if dry_run:
            show(plan, *_lines(plan))
            return
        _confirm(plan, person)
    with open_existing("change") as ledger, counting("erased", "events") as advance:
        receipt = ledger.forget(name, user=person, progress=advance)
    show(receipt, *_lines(receipt), done="the user was forgotten")


def _confirm(plan: ForgetReceipt, person: str) -> None:
    """Ask for the user's name again. Raise InvalidInput if it is not confirmed."""
    if invocation().as_json or not sys.stdin.isatty():
        events = counted(plan.events_erased, "event")
        raise InvalidInput(
            f"this erases {events} of scope {plan.scope}, for good",
            hint="add --yes to do it, or --dry-run to see what would go",
        )
    with writing_output():
        for line in _lines(plan):
            say(line)
    asked = "Type the user's name to confirm"
    typed = click.prompt(asked, default="", show_default=False, err=True)
    if typed.strip() != person:
        raise InvalidInput(
            "that is another name: nothing was erased", hint=f"type {person}, or add --yes"
        )


def _lines(receipt: ForgetReceipt) -> Iterator[str]:
    verb = "would erase" if receipt.dry_run else "erased"
    done = "" if receipt.dry_run else f"; {physically(receipt.physical)}"
    events = counted(receipt.events_erased, "event")
    sessions = counted(receipt.sessions_erased, "whole session")
    yield f"{verb} {events} of scope {receipt.scope}, among them {sessions}{done}"
    width = max(map(len, receipt.events_by_kind), default=0)
    yield from (f"  {kind:<{width}}  {n:,}" for kind, n in receipt.events_by_kind.items())
    gone = [
        counted(count, noun)
        for count, noun in (
            (receipt.facts_erased, "fact"),
            (receipt.episodes_erased, "episode"),
            (receipt.handles_erased, "handle"),
        )
        if count
    ]
    if gone:
        yield f"also erased from memory: {', '.join(gone)}"
    touched = [f"{name.replace('_', ' ')} {n:,}" for name, n in receipt.projections.items() if n]
    if touched and not receipt.dry_run:
        yield f"removed from: {', '.join(touched)}"
    if receipt.retellings_erased:
        yield f"{receipt.retellings_erased:,} of these were in the sessions of others"
    if receipt.blobs_shared:
        yield f"{counted(receipt.blobs_shared, 'large payload')} kept: other events hold the same"
