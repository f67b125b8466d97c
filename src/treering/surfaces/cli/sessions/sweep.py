"""``treering sessions prune`` and ``sweep``: summarise and remove old sessions, close idle ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.app import now_ms as clock_ms
from treering.errors import InvalidInput
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.ledgers import open_existing, open_if_there, physically
from treering.surfaces.cli.options import parse_time
from treering.surfaces.cli.output import say
from treering.surfaces.cli.streams import writing_output
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import parse_age

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.receipts import SweepReceipt
    from treering.model.scopes import Scope

NEVER: Final = "never"
NAMED_MAX: Final = 50
"""Sessions of one sort that are named to people; a receipt names all."""
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_WHY: Final = {
    "running": "a turn is under way",
    "written": "somebody wrote to it meanwhile",
    "unread": "messages in its inbox wait to be taken",
    "forked": "a fork that stays shares its past",
    "sealed": "the key of its scope is not here",
    "imported": "it was imported",
}

imported_option = click.option(
    "--include-imported", is_flag=True, help="Include imported sessions; by default they are kept."
)

now_option = click.option(
    "--now-ts-ms", metavar="WHEN", help="Count ages from this time instead of now."
)
trust_option = click.option(
    "--trust-clock", is_flag=True, help="Prune even if nothing was recorded for 90 days."
)


@command(
    "prune",
    scope="project",
    short_help="Remove old sessions; keep what was learned.",
    examples="""
    treering sessions prune --scope acme/app --older-than 90d --dry-run
    treering sessions prune --scope acme/app --older-than 90d --yes
    """,
    if_stopped="sessions are pruned one after the other; run it again for the rest",
)
@click.option(
    "--older-than",
    required=True,
    metavar="AGE",
    help="Prune sessions not written to for this long: 90d, 12w.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be pruned, and prune nothing.")
@click.option("--yes", is_flag=True, help="Prune without asking. You cannot undo it.")
@imported_option
@now_option
@trust_option
def prune(
    *,
    scope: Scope,
    older_than: str,
    dry_run: bool,
    yes: bool,
    include_imported: bool,
    now_ts_ms: str | None,
    trust_clock: bool,
) -> None:
    """Write an episode of every old session, close it, then remove its events.

    It keeps sessions with an open turn or unread messages, imported sessions, and those that a
    remaining session was forked from.

    If the clock is more than 90 days ahead of the last recorded event, or a day earlier,
    nothing is pruned without --trust-clock or --now-ts-ms.
    """
    days = parse_age(older_than, flag="--older-than") / _DAY_MS
    now_ms = _now(now_ts_ms, trust_clock=trust_clock)
    with open_if_there() as ledger:
        plan = ledger.prune(
            scope,
            older_than_days=days,
            include_imported=include_imported,
            now_ms=now_ms,
            dry_run=True,
        )
    if dry_run:
        _show(plan)
        return
    if plan.pruned and not yes:
        if not invocation().as_json:
            with writing_output():
                for line in _lines(plan):
                    say(line)
        raise InvalidInput(
            f"this removes the events of {counted(plan.count, 'session')} of scope {scope},"
            " for good",
            hint="add --yes to do it",
        )
    if not plan.pruned:
        _show(msgspec.structs.replace(plan, dry_run=False))
        return
    with open_existing("change") as ledger:
        receipt = ledger.prune(
            scope, older_than_days=days, include_imported=include_imported, now_ms=now_ms
        )
    _show(receipt)


@command(
    "sweep",
    scope="project",
    short_help="Close idle sessions, and prune old ones.",
    examples="""
    treering sessions sweep --scope acme/app --dry-run
    treering sessions sweep --scope acme/app --idle 30m --prune-after never
    """,
    if_stopped="sessions are swept one after the other; run it again for the rest",
)
@click.option(
    "--idle",
    default="30m",
    metavar="AGE",
    help="Close sessions not written to for this long, or never. Default: 30m.",
)
@click.option(
    "--prune-after",
    default="90d",
    metavar="AGE",
    help="Prune sessions not written to for this long, or never. Default: 90d.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@imported_option
@now_option
@trust_option
def sweep(
    *,
    scope: Scope,
    idle: str,
    prune_after: str,
    dry_run: bool,
    include_imported: bool,
    now_ts_ms: str | None,
    trust_clock: bool,
) -> None:
    """Close idle sessions and prune old ones, without asking; for a cron job.

    --dry-run shows what would be removed.

    If the clock is more than 90 days ahead of the last recorded event, or a day earlier,
    nothing is pruned without --trust-clock or --now-ts-ms.
    """
    idle_ms, prune_ms = _age(idle, "--idle"), _age(prune_after, "--prune-after")
    now_ms = _now(now_ts_ms, trust_clock=trust_clock)
    with open_if_there("read" if dry_run else "change") as ledger:
        receipt = ledger.sweep(
            scope,
            idle_minutes=None if idle_ms is None else idle_ms / _MINUTE_MS,
            prune_days=None if prune_ms is None else prune_ms / _DAY_MS,
            include_imported=include_imported,
            now_ms=now_ms,
            dry_run=dry_run,
        )
    _show(receipt)


def _now(now_ts_ms: str | None, *, trust_clock: bool) -> int | None:
    """Return the time to count ages from; None is what the clock says, if it can be right."""
    stated = parse_time(now_ts_ms)
    return clock_ms() if stated is None and trust_clock else stated


def _age(text: str, flag: str) -> int | None:
    """Return an age in milliseconds; None is never."""
    return None if text.strip().lower() == NEVER else parse_age(text, flag=flag)


def _show(receipt: SweepReceipt) -> None:
    show(receipt, *_lines(receipt), done="" if receipt.dry_run else "the sessions were swept")


def _lines(receipt: SweepReceipt) -> Iterator[str]:
    scope = receipt.scope
    if receipt.closed:
        verb = "would close" if receipt.dry_run else "closed"
        yield f"{verb} {counted(len(receipt.closed), 'idle session')} of scope {scope}"
        yield from _named(receipt.closed)
    if receipt.pruned:
        verb = "would prune" if receipt.dry_run else "pruned"
        gone = "" if receipt.dry_run else f": {counted(receipt.events_expired, 'event')} removed"
        done = "" if receipt.dry_run else f"; {physically(receipt.physical)}"
        yield f"{verb} {counted(len(receipt.pruned), 'old session')} of scope {scope}{gone}{done}"
        yield from _named(receipt.pruned)
    if not receipt.closed and not receipt.pruned:
        yield f"nothing to do: no session of scope {scope} is old enough"
    if receipt.kept:
        yield f"{counted(len(receipt.kept), 'session')} kept"
        yield from _named(
            [f"{session_id}: {_WHY.get(why, why)}" for session_id, why in receipt.kept.items()]
        )


def _named(lines: list[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:NAMED_MAX])
    if len(lines) > NAMED_MAX:
        yield f"  and {len(lines) - NAMED_MAX:,} more: --json names all"
