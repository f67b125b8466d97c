"""``treering memory run`` and ``fade``: keep the memory up to date, archive unused facts."""

from __future__ import annotations

import contextlib
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.clock import now_ms
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import command, flag, group, option, parse_time
from treering.surfaces.cli.facts.read import masked, print_facts
from treering.surfaces.cli.facts.write import budget_option, extractor_of, model_option, url_option
from treering.surfaces.cli.ledgers import asking, location_of, open_existing, open_to_ask
from treering.surfaces.cli.output import note, say
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.session_commands import scope_flag
from treering.surfaces.shared.texts import Mask, counted, scope_names
from treering.surfaces.shared.times import clock, parse_age

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ledger import Ledger
    from treering.memory.ports import Extractor
    from treering.model.memories import Fact, FadeReceipt, MaintenanceReceipt
    from treering.model.scopes import Scope

IDLE_MINUTES: Final = 30
"""As of ``Ledger.maintain``."""


@group(
    "memory",
    commands="run",
    examples="""
    treering memory run --scope acme/app
    treering memory run --all-scopes --every 10m
    """,
)
def memory() -> None:
    """Keep the memory up to date.

    treering facts and treering recall read and change it.
    """


@command(
    scope="project",
    all_scopes="Do it in every scope.",
    short_help="Learn facts, write episodes, archive, re-embed.",
    examples="""
    treering memory run --scope acme/app
    treering memory run --all-scopes --every 10m
    treering memory run --model qwen3 --url http://localhost:8080/v1
    """,
    if_stopped="what was done is kept; run it again for the rest",
)
def run(
    *,
    scope: Scope | None,
    every: str | None = option("AGE", "Repeat after this time, as 10m or 2h, until Ctrl-C."),
    idle_minutes: float = option(
        "N",
        f"Write episodes of sessions idle for this long. Default: {IDLE_MINUTES}.",
        type=click.FloatRange(min=0),
        default=IDLE_MINUTES,
    ),
    model: str | None = model_option,
    url: str | None = url_option,
    budget_tokens: int = budget_option,
) -> None:
    """Do the maintenance that is due in the memory of a scope.

    Learn facts from new messages, write episodes of sessions that went quiet, archive facts that
    nobody uses, and compute vectors again after a better embedder was installed. Nothing else
    depends on it, and only one process at a time does it in a scope. Imported sessions are
    included.
    """
    pause_s = None if every is None else parse_age(every, flag="--every") / 1000
    extractor = extractor_of(model, url)
    with open_existing("change") as ledger:
        settings = MemoryMaintenance(extractor, budget_tokens, idle_minutes)
        if pause_s is None:
            receipts = settings.maintain(ledger, scope)
            show(
                {"scopes": receipts},
                page=partial(print_receipts, receipts),
                done="the memory is up to date",
            )
            return
        if not invocation().as_json:
            note(f"doing what is due every {every}; Ctrl-C ends it")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                receipts = settings.maintain(ledger, scope)
                if any(map(has_done, receipts)):
                    show({"scopes": receipts}, page=partial(print_receipts, receipts))
                Event().wait(pause_s)


class MemoryMaintenance:
    """How the memory is maintained."""

    def __init__(
        self, model: Extractor | None, budget_tokens: int, idle_minutes: float = IDLE_MINUTES
    ) -> None:
        self._model = model
        self._budget_tokens = budget_tokens
        self._idle_minutes = idle_minutes

    def maintain(self, ledger: Ledger, scope: Scope | None) -> list[MaintenanceReceipt]:
        """Do what is due in a scope, or in all, and show how far it is."""
        with counting("reading", "messages") as progress:
            return self.run(ledger, scope, progress)

    def run(
        self, ledger: Ledger, scope: Scope | None, progress: Callable[[int], None] | None
    ) -> list[MaintenanceReceipt]:
        """Do what is due in a scope, or in all."""
        return [
            ledger.maintain(
                name,
                model=self._model,
                budget_tokens=self._budget_tokens,
                idle_minutes=self._idle_minutes,
                progress=progress,
            )
            for name in ([scope] if scope is not None else scope_names(ledger))
        ]


def has_done(receipt: MaintenanceReceipt) -> bool:
    """Return whether anything was due."""
    done = (receipt.facts_learned, receipt.facts_to_review, receipt.episodes_written)
    return any((*done, receipt.facts_archived, receipt.embedded))


def print_receipts(receipts: Sequence[MaintenanceReceipt]) -> None:
    """Print what was done in each scope."""
    at = clock(now_ms())[11:]
    for receipt in receipts:
        if receipt.is_busy:
            say(f"{at} {receipt.scope}: another process is at it")
            continue
        parts = [
            counted(receipt.messages_read, "message") + " read",
            counted(receipt.facts_learned, "fact") + " learned",
        ]
        parts += [
            f"{count:,} {what}"
            for count, what in (
                (receipt.facts_to_review, "to review"),
                (receipt.episodes_written, "episodes written"),
                (receipt.facts_archived, "archived"),
                (receipt.embedded, "embedded again"),
            )
            if count
        ]
        stopped = f"; stopped early: {receipt.stopped}" if receipt.stopped else ""
        say(f"{at} {receipt.scope}: {', '.join(parts)}{stopped}")
    to_review = next((receipt for receipt in receipts if receipt.facts_to_review), None)
    if to_review is not None:
        say(f"  to review: treering facts list --state quarantined --scope {to_review.scope}")
    if not receipts:
        say("nothing is recorded yet; start with treering import")


NAMED_MAX: Final = 20
"""Facts that are named; --json names all of them."""


@command(
    scope="project",
    examples="""
    treering fade --scope acme/app --dry-run
    treering fade --scope acme/app
    """,
    if_stopped="facts are archived one after the other; run it again for the rest",
)
def fade(
    *,
    scope: Scope,
    dry_run: bool = flag("Show what would be archived, and archive nothing."),
    now_ts_ms: str | None = option("WHEN", "Count ages from this time instead of now."),
) -> None:
    """Archive the facts that nobody has used for long; for a cron job.

    Important and often used facts fade later. An archived fact is not lost: it comes back when
    somebody asks for it literally, or accepts it.
    """
    receipt: FadeReceipt | None = None
    named: list[Fact] = []
    with asking(open_to_ask if dry_run else partial(open_existing, "change")) as ledger:
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


def _print(scope: Scope, receipt: FadeReceipt | None, named: Sequence[Fact]) -> None:
    if receipt is None:
        say(f"no facts in scope {scope}")
        return
    facts = f"{counted(receipt.looked_at, 'current fact')} of scope {scope}"
    if not receipt.archived:
        say(f"nothing has faded: checked {facts}")
        return
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
