"""``treering sessions list``: the sessions of a scope, the last written to first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.model.queries import Page
from treering.model.sessions import SESSION_STATES
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import Span, asking, location_of, nothing_found, read_span
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
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.model.sessions import SessionOutline

LIST_ITEMS: Final = 20


class ListFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions are listed, besides those of a time."""

    agent: str | None
    states: Sequence[Any]
    text: str | None
    subagents: bool


@click.command(
    "list",
    cls=Command,
    short_help="List the sessions of a scope.",
    examples="""
    treering sessions list --scope acme/app
    treering sessions list --scope acme/app --state open --agent lyria --since 7d
    treering sessions list --scope acme/app --text "nightly build" --json
    """,
)
@project_scope_options
@click.option("--agent", metavar="NAME", help="Only sessions of this agent.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(SESSION_STATES),
    help="Only this state; repeatable. Default: all except pruned.",
)
@click.option(
    "--since", metavar="WHEN", help="Last written since then: 3d, a date, or milliseconds."
)
@click.option("--until", metavar="WHEN", help="Last written until then, inclusive.")
@click.option("--text", metavar="WORDS", help="Only sessions with this in the title or id.")
@click.option("--subagents", is_flag=True, help="Include subagent sessions.")
@limit_option(LIST_ITEMS)
@cursor_option
@keys_option
@json_option
@db_option
def list_(
    *,
    scope: str | None,
    is_global: bool,
    since: str | None,
    until: str | None,
    limit: int,
    cursor: str | None,
    **options: Any,
) -> None:
    """List the sessions of a scope, the one written to last first.

    A title is the one that was given, or else the beginning of the first prompt.
    """
    from treering.surfaces.cli.sessions.search import short_sessions  # noqa: PLC0415  (not for --help)

    asked = ListFilters(**options)
    name = find_scope(scope, is_global=is_global)
    span = read_span(since, until)
    page: Page[SessionOutline] = Page(items=[], has_more=False, next_cursor=None)
    with asking(open_existing) as ledger:
        if ledger is not None:
            page = ledger.sessions(
                name, agent=asked.agent, since_ms=span.since_ms, until_ms=span.until_ms,
                state=asked.states, text=asked.text, subagents=asked.subagents,
                limit=clamp(limit), after=cursor,
            )  # fmt: skip
            short = short_sessions(ledger, name)
            items = [short.within(outline, "session_id", "parent") for outline in page.items]
            page = msgspec.structs.replace(page, items=items)
        location = location_of(ledger)
    mask = Mask()
    page = msgspec.structs.replace(page, items=[masked(outline, mask) for outline in page.items])
    filters = {
        "agent": asked.agent, "states": asked.states, **msgspec.structs.asdict(span),
        "text": asked.text, "subagents": asked.subagents,
    }  # fmt: skip
    if invocation().as_json:
        show({"scope": name, "ledger": location, "filters": {**filters, "limit": clamp(limit)},
              "count": len(page.items), "sessions": page.items, "has_more": page.has_more,
              "next_cursor": page.next_cursor})  # fmt: skip
        return
    with writing_output():
        if page.items:
            _print_page(name, page, span)
        else:
            is_filtered = any(filters.values()) or bool(cursor)
            _say_nothing(name, ledger, is_filtered=is_filtered, has_states=bool(asked.states))


def masked(outline: SessionOutline, mask: Mask) -> SessionOutline:
    """Return a session at a glance, with secrets in its title masked."""
    return msgspec.structs.replace(outline, title=mask.text(outline.title))


def _print_page(scope: Scope, page: Page[SessionOutline], span: Span) -> None:
    from treering.surfaces.cli.sessions.tables import print_sessions  # noqa: PLC0415  (for people)

    print_sessions(page.items)
    say(f"{counted(len(page.items), 'session')} of scope {scope}{_more(page, span)}")


def _more(page: Page[SessionOutline], span: Span) -> str:
    """Return how to go on; an age would be another time by then."""
    if not page.has_more:
        return ""
    times = (("--since", span.since_ms), ("--until", span.until_ms))
    stated = "".join(f"{flag} {ms} " for flag, ms in times if ms is not None)
    return f", and more: run it again with {stated}--cursor {page.next_cursor}"


def _say_nothing(
    scope: Scope, ledger: Ledger | None, *, is_filtered: bool, has_states: bool
) -> None:
    is_there = ledger is not None
    remark = "" if has_states else " (pruned ones are left out)"
    say(nothing_found("sessions", scope, is_filtered=is_filtered, is_there=is_there, remark=remark))
    if not is_filtered:
        say(f'an agent starts one by recording in it: ledger.session("s1", scope="{scope}", …)')
