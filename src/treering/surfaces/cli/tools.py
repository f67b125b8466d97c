"""``treering tools``: what was called, how it ended, how long it took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.model.queries import Page
from treering.model.tools import REASONS, STATUSES
from treering.surfaces.cli.commands import Command, LazyGroup, invocation, show
from treering.surfaces.cli.completing import complete_run
from treering.surfaces.cli.opening import (
    Span,
    asking,
    catching_up,
    going_on,
    location_of,
    nothing_found,
    open_to_ask,
    read_span,
    session_option,
    span_options,
)
from treering.surfaces.cli.options import (
    clamp,
    cursor_option,
    db_option,
    json_option,
    keys_option,
    limit_option,
    require,
)
from treering.surfaces.cli.output import counted, say
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.model.tool_records import ToolRecord, ToolStatistics

LIST_ITEMS: Final = 50
_HERE: Final = "treering.surfaces.cli.tools"


def _windowed(command: Callable[..., Any]) -> Callable[..., Any]:
    tool = click.option("--tool", metavar="NAME", help="Only this tool.")
    return session_option(tool(span_options(command)))


@click.group(
    name="tools",
    cls=LazyGroup,
    lazy={
        "list": f"{_HERE}:list_",
        "stats": f"{_HERE}:stats",
        "show": f"{_HERE}_show:show_call",
    },
    invoke_without_command=True,
    examples="""
    treering tools list --scope acme/app --failing --since 1d
    treering tools stats --scope acme/app
    treering tools show call-1 --scope acme/app
    """,
)
@keys_option
@db_option
@click.pass_context
def tools(context: click.Context) -> None:
    """List tool calls, show one, and measure tools.

    There is one record per call of every run, failed runs too. Inputs and outputs are private:
    shown only on request.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command(
    "list",
    cls=Command,
    short_help="List the latest tool calls of a scope.",
    examples="""
    treering tools list --scope acme/app
    treering tools list --scope acme/app --tool git_log --slowest --limit 10
    treering tools list --scope acme/app --status synthetic --reason crashed
    """,
)
@project_scope_options
@_windowed
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(STATUSES),
    help="Only this outcome; repeatable.",
)
@click.option("--failing", is_flag=True, help="Short for --status failed --status synthetic.")
@click.option(
    "--reason", type=click.Choice(REASONS), help="Only synthetic results with this reason."
)
@click.option("--run", "run_id", metavar="ID", shell_complete=complete_run, help="Only this run.")
@click.option("--slowest", is_flag=True, help="The slowest calls first.")
@limit_option(LIST_ITEMS)
@cursor_option
@json_option
@db_option
def list_(
    *,
    scope: str | None,
    is_global: bool,
    slowest: bool,
    limit: int,
    cursor: str | None,
    **narrowing: Any,
) -> None:
    """List the latest tool calls of a scope, in order; --cursor continues with earlier ones.

    --slowest lists the slowest calls first, of those whose duration is known.
    """
    from treering.surfaces.cli.call_search import short_calls  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.sessions.search import short_sessions  # noqa: PLC0415

    name = find_scope(scope, is_global=is_global)
    asked = read_filters(**narrowing)
    page: Page[ToolRecord] = Page(items=[], has_more=False, next_cursor=None)
    with asking(open_to_ask) as ledger, catching_up() as progress:
        if ledger is not None:
            asked = _with_whole_ids(ledger, name, asked, progress)
            order = _order(clamp(limit), slowest=slowest)
            page = ledger.tool_calls(
                name, **asked.arguments(), **order, after=cursor, progress=progress
            )
            calls, sessions = (
                short_calls(ledger, name, progress=progress),
                short_sessions(ledger, name),
            )
            items = [
                sessions.within(calls.within(record, "call_id"), "session_id")
                for record in page.items
            ]
            page = msgspec.structs.replace(page, items=items)
        location = location_of(ledger)
    if invocation().as_json:
        filters = {**asked.filters(), "slowest": slowest, "limit": clamp(limit)}
        show({"scope": name, "ledger": location, "filters": filters, **_fields(page)})
    elif page.items:
        _print_page(name, page, asked.span, with_session=asked.session_id is None)
    else:
        _say_nothing(name, is_filtered=asked.is_narrow or bool(cursor), is_there=bool(location))


def _order(limit: int, *, slowest: bool) -> dict[str, Any]:
    """Return which calls are taken, and in what order, as the ledger calls it."""
    return {"order": "slowest", "first": limit} if slowest else {"order": "time", "last": limit}


def _fields(page: Page[ToolRecord]) -> dict[str, Any]:
    """Return what the receipt of a page has."""
    more = {"has_more": page.has_more, "next_cursor": page.next_cursor}
    return {"count": len(page.items), "calls": page.items, **more}


def _print_page(scope: Scope, page: Page[ToolRecord], span: Span, *, with_session: bool) -> None:
    from treering.surfaces.cli.calls import print_calls  # noqa: PLC0415  (for people)

    more = f", and more: {going_on(span, page.next_cursor)}" if page.has_more else ""
    with writing_output():
        print_calls(page.items, with_session=with_session)
        say(f"{counted(len(page.items), 'call')} of scope {scope}{more}")


@click.command(
    "stats",
    cls=Command,
    short_help="Measure each tool: calls, outcomes, durations.",
    examples="""
    treering tools stats --scope acme/app
    treering tools stats --scope acme/app --since 7d --tool git_log --json
    """,
)
@project_scope_options
@_windowed
@json_option
@db_option
def stats(*, scope: str | None, is_global: bool, **narrowing: Any) -> None:
    """Show for each tool how often it was called, the outcomes and the durations.

    Percentiles are exact (nearest rank), of calls that the tool itself ended.
    """
    name = find_scope(scope, is_global=is_global)
    asked = read_filters(**narrowing)
    with asking(open_to_ask) as ledger, catching_up() as progress:
        statistics: list[ToolStatistics] = []
        if ledger is not None:
            asked = _with_whole_ids(ledger, name, asked, progress)
            statistics = ledger.tool_statistics(name, **asked.window(), progress=progress)
        location = location_of(ledger)
    if invocation().as_json:
        show({"scope": name, "ledger": location, "filters": asked.window_filters(),
              "count": len(statistics), "tools": statistics})  # fmt: skip
        return
    if not statistics:
        _say_nothing(name, is_filtered=asked.is_narrow, is_there=bool(location))
        return
    from treering.surfaces.cli.calls import print_statistics  # noqa: PLC0415  (for people)

    with writing_output():
        print_statistics(statistics)
        say(f"{counted(len(statistics), 'tool')} of scope {name}")


def _with_whole_ids(
    ledger: Ledger, scope: Scope, asked: CallFilters, progress: Callable[[int], None] | None
) -> CallFilters:
    """Return the filters with the whole ids of their session and run."""
    from treering.surfaces.cli.call_search import run_named  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.sessions.search import narrow_to_session  # noqa: PLC0415

    session = narrow_to_session(ledger, scope, asked.session_id)
    run = asked.run_id and run_named(
        ledger, scope, asked.run_id, session_id=session, progress=progress
    )
    return msgspec.structs.replace(asked, session_id=session, run_id=run)


def _say_nothing(scope: Scope, *, is_filtered: bool, is_there: bool) -> None:
    remark = " (redacted calls are not counted)"
    text = nothing_found(
        "tool calls", scope, is_filtered=is_filtered, is_there=is_there, remark=remark
    )
    with writing_output():
        say(text)


class CallFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls to show: of which session, tool and time, with which outcome."""

    session_id: str | None
    tool: str | None
    span: Span
    status: list[str] = []
    reason: str | None = None
    run_id: str | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether it narrows them down at all."""
        return any(self.filters().values())

    def window(self) -> dict[str, Any]:
        """Return what statistics take, as the ledger calls it."""
        return {
            "session_id": self.session_id,
            "tool": self.tool,
            "since_ms": self.span.since_ms,
            "until_ms": self.span.until_ms,
        }

    def arguments(self) -> dict[str, Any]:
        """Return all of it, as the ledger calls it."""
        more = {"status": self.status, "reason": self.reason, "run_id": self.run_id}
        return {**self.window(), **more}

    def window_filters(self) -> dict[str, Any]:
        """Return what statistics take, as receipts call it."""
        named = {"session_id": self.session_id, "tool": self.tool}
        return {**named, **msgspec.structs.asdict(self.span)}

    def filters(self) -> dict[str, Any]:
        """Return all of it, as receipts call it."""
        more = {"status": self.status, "reason": self.reason, "run_id": self.run_id}
        return {**self.window_filters(), **more}


def read_filters(
    *,
    session_id: str | None,
    tool: str | None,
    since: str | None,
    until: str | None,
    statuses: Sequence[str] = (),
    failing: bool = False,
    reason: str | None = None,
    run_id: str | None = None,
) -> CallFilters:
    """Return the filters that a command line gives. Raises InvalidInput if one makes no sense."""
    return CallFilters(
        session_id=session_id,
        tool=tool,
        span=read_span(since, until),
        status=[*statuses, *(["failing"] if failing else [])],
        reason=reason,
        run_id=None if run_id is None else require(run_id, "run").strip(),
    )
