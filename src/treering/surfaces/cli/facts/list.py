"""``treering facts list``: what is remembered in a scope, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.model.memories import CATEGORIES, FACT_STATES
from treering.model.queries import Page
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.facts.masking import masked
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import asking, location_of, open_to_ask
from treering.surfaces.cli.options import (
    clamp,
    cursor_option,
    db_option,
    json_option,
    keys_option,
    limit_option,
)
from treering.surfaces.cli.output import counted, say
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.search_commands import scope_flag
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.memories import Fact
    from treering.model.scopes import Scope

LIST_ITEMS: Final = 50
ALL: Final = "all"
CURRENT: Final = ("current",)


class FactFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which facts to list."""

    user: str | None
    states: tuple[str, ...]
    category: str | None
    as_of_ms: int | None
    valid_at_ms: int | None

    @property
    def is_narrow(self) -> bool:
        """Whether there may be facts that are not asked for, beside those that are not current."""
        return (self.user, self.category, self.as_of_ms, self.valid_at_ms) != (None,) * 4


@click.command(
    "list",
    cls=Command,
    short_help="List the facts of a scope.",
    examples="""
    treering facts list --scope acme/app
    treering facts list --scope acme/app --user jo --category preference
    treering facts list --scope acme/app --as-of 2026-03-05 --json
    """,
)
@project_scope_options
@click.option("--user", metavar="USER", help="Only facts about this person.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([*FACT_STATES, ALL]),
    help="Only this state; repeatable. Default: current.",
)
@click.option("--category", type=click.Choice(CATEGORIES), help="Only this category.")
@click.option(
    "--as-of", metavar="WHEN", help="State of knowledge at this time: 3d, a date, or milliseconds."
)
@click.option("--valid-at", metavar="WHEN", help="Facts that were true at this time.")
@limit_option(LIST_ITEMS)
@cursor_option
@keys_option
@json_option
@db_option
def list_(
    *, scope: str | None, is_global: bool, limit: int, cursor: str | None, **narrowing: Any
) -> None:
    """List the facts of a scope, the newest first.

    --as-of asks what was believed at a time, --valid-at what was true at a time: a fact may be
    learned long after it became true.
    """
    from treering.surfaces.cli.facts.search import short_facts  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    asked = _asked(**narrowing)
    page: Page[Fact] = Page(items=[], has_more=False, next_cursor=None)
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            states: Any = asked.states
            category: Any = asked.category
            page = ledger.memory(name).facts(
                user=asked.user, state=states, category=category, as_of_ms=asked.as_of_ms,
                valid_at_ms=asked.valid_at_ms, limit=clamp(limit), after=cursor,
            )  # fmt: skip
            short = short_facts(ledger.memory(name))
            page = msgspec.structs.replace(
                page, items=[short.within(one, "id") for one in page.items]
            )
        location = location_of(ledger)
    mask = Mask()
    page = msgspec.structs.replace(page, items=[masked(fact, mask) for fact in page.items])
    if invocation().as_json:
        filters = {**msgspec.structs.asdict(asked), "limit": clamp(limit)}
        show({"scope": name, "ledger": location, "filters": filters, "count": len(page.items),
              "facts": page.items, "has_more": page.has_more, "next_cursor": page.next_cursor,
              "masked": mask.masked})  # fmt: skip
        return
    with writing_output():
        if page.items:
            _print_page(name, page, asked)
        else:
            _say_nothing(name, asked, is_going_on=cursor is not None)


def _asked(
    *,
    user: str | None,
    states: Sequence[str],
    category: str | None,
    as_of: str | None,
    valid_at: str | None,
) -> FactFilter:
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.times import parse_moment  # noqa: PLC0415

    if states and valid_at is not None:
        raise InvalidInput(
            "--valid-at and --state exclude each other",
            hint="drop --state, or --valid-at",
        )
    now = now_ms()
    return FactFilter(
        user=user,
        states=FACT_STATES if ALL in states else tuple(dict.fromkeys(states)) or CURRENT,
        category=category,
        as_of_ms=parse_moment(as_of, now_ms=now, flag="--as-of"),
        valid_at_ms=parse_moment(valid_at, now_ms=now, flag="--valid-at"),
    )


def _print_page(scope: Scope, page: Page[Fact], asked: FactFilter) -> None:
    from treering.surfaces.cli.facts.tables import print_facts  # noqa: PLC0415  (for people)

    print_facts(page.items, with_state=asked.states != CURRENT or asked.valid_at_ms is not None)
    say(f"{counted(len(page.items), 'fact')} of scope {scope}{_more(page, asked)}")


def _more(page: Page[Fact], asked: FactFilter) -> str:
    """Return how to go on; an age would be another time by then."""
    if not page.has_more:
        return ""
    times = (("--as-of", asked.as_of_ms), ("--valid-at", asked.valid_at_ms))
    stated = "".join(f"{flag} {ms} " for flag, ms in times if ms is not None)
    return f", and more: run it again with {stated}--cursor {page.next_cursor}"


def _say_nothing(scope: Scope, asked: FactFilter, *, is_going_on: bool) -> None:
    flag = scope_flag(scope)
    states = "" if asked.states == FACT_STATES else f"{' or '.join(asked.states)} "
    kept = "match" if asked.is_narrow or is_going_on else "are remembered"
    say(f"no {states}facts of scope {scope} {kept}")
    if asked.is_narrow or is_going_on:
        say("  drop a filter, or check the names")
    if asked.states != FACT_STATES:
        say(f"  in any state: treering facts list {flag} --state all")
    if not asked.is_narrow:
        say(f'  add one: treering facts add "Prefers tabs over spaces" {flag} --user jo')
        say(f"  learn from conversations: treering facts extract {flag}")
