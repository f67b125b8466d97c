"""``treering trace``: the runs of a scope, how one of them went, and its trace as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.surfaces.cli.calls import duration, print_calls_of_run
from treering.surfaces.cli.commands import Command, LazyGroup, invocation, show
from treering.surfaces.cli.completing import complete_run
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.opening import (
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
from treering.surfaces.cli.output import counted, one_line, painted, printable, say, say_painted
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output
from treering.surfaces.cli.tables import TIME, Column, print_table
from treering.surfaces.cli.times import clock, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.runs import RunOutline, RunView
    from treering.model.queries import Page
    from treering.model.scopes import Scope
    from treering.surfaces.cli.opening import Span

_COLOURS: Final = {"ended": "green", "failed": "red", "interrupted": "yellow", "open": "cyan"}
_COLUMNS: Final = (
    Column(TIME, leaves=6),
    Column("run"),
    Column("state", colours=_COLOURS),
    Column("agent", leaves=2),
    Column("session", leaves=5),
    Column("entry", leaves=1),
    Column("took", leaves=7),
    Column("events", leaves=3, noun="event"),
    Column("tools", leaves=4, noun="tool call"),
)
_MOMENTS: Final = (Column(""), Column(""), Column("", is_prose=True))

LIST_ITEMS: Final = 20
SHOW_ITEMS: Final = 200
_HERE: Final = "treering.surfaces.cli.trace"


@click.group(
    name="trace",
    cls=LazyGroup,
    lazy={
        "list": f"{_HERE}:list_",
        "show": f"{_HERE}:show_run",
        "export": f"{_HERE}_export:export",
    },
    invoke_without_command=True,
    examples="""
    treering trace list --scope acme/app --failing
    treering trace show 01a1dea1-d82d --scope acme/app
    treering trace export 01a1dea1-d82d --scope acme/app --out trace.zip
    """,
)
@keys_option
@db_option
@click.pass_context
def trace(context: click.Context) -> None:
    """List runs, show how one went, export it as a file.

    Every run is in the ledger, so each can be traced. Private content is exported only on
    request.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command(
    "list",
    cls=Command,
    short_help="List the newest runs of a scope.",
    examples="""
    treering trace list --scope acme/app
    treering trace list --scope acme/app --session s1 --failing --since 7d
    """,
)
@project_scope_options
@session_option
@click.option("--failing", is_flag=True, help="Only runs that failed or were interrupted.")
@span_options
@limit_option(LIST_ITEMS)
@cursor_option
@keys_option
@json_option
@db_option
def list_(
    *,
    scope: str | None,
    is_global: bool,
    session_id: str | None,
    failing: bool,
    since: str | None,
    until: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List the runs of a scope, the newest first; --cursor continues with earlier ones."""
    from treering.model.queries import Page  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.run_search import short_runs  # noqa: PLC0415
    from treering.surfaces.cli.sessions.search import (  # noqa: PLC0415
        narrow_to_session,
        short_sessions,
    )

    name = find_scope(scope, is_global=is_global)
    span = read_span(since, until)
    session = session_id
    with asking(open_existing) as ledger:
        page: Page[RunOutline] = Page(items=[], has_more=False, next_cursor=None)
        if ledger is not None:
            session = narrow_to_session(ledger, name, session_id)
            page = ledger.runs(
                name,
                session_id=session,
                since_ms=span.since_ms,
                until_ms=span.until_ms,
                failing=failing,
                limit=clamp(limit),
                after=cursor,
            )
            runs, sessions = short_runs(ledger, name), short_sessions(ledger, name)
            outlines = [
                sessions.within(runs.within(run, "run_id"), "session_id") for run in page.items
            ]
            page = msgspec.structs.replace(page, items=outlines)
        location = location_of(ledger)
    filters = {"session_id": session, **msgspec.structs.asdict(span), "failing": failing}
    if invocation().as_json:
        show({"scope": name, "ledger": location, "filters": {**filters, "limit": clamp(limit)},
              "count": len(page.items), "runs": page.items, "has_more": page.has_more,
              "next_cursor": page.next_cursor})  # fmt: skip
        return
    with writing_output():
        if page.items or page.has_more:
            _print_list(name, span, page, with_session=session is None)
        else:
            is_filtered = any(filters.values()) or bool(cursor)
            say(_nothing(name, is_filtered=is_filtered, is_there=bool(location)))


def _nothing(scope: Scope, *, is_filtered: bool, is_there: bool) -> str:
    remark = " (imported sessions have none)"
    return nothing_found("runs", scope, is_filtered=is_filtered, is_there=is_there, remark=remark)


def _print_list(scope: Scope, span: Span, page: Page[RunOutline], *, with_session: bool) -> None:

    if page.items:
        print_runs(page.items, with_session=with_session)
    more = f", and more: {going_on(span, page.next_cursor)}" if page.has_more else ""
    say(f"{counted(len(page.items), 'run')} of scope {scope}{more}")


@click.command(
    "show",
    cls=Command,
    short_help="Show how one run went.",
    examples="""
    treering trace show 01a1dea1-d82d-777b-b5a5-310511386cf7 --scope acme/app
    treering trace show 01a1dea1-d82d --scope acme/app --json
    """,
)
@click.argument("run", shell_complete=complete_run)
@project_scope_options
@session_option
@limit_option(SHOW_ITEMS)
@keys_option
@json_option
@db_option
def show_run(
    *, run: str, scope: str | None, is_global: bool, session_id: str | None, limit: int
) -> None:
    """Show what happened in RUN and when, and how its tools did.

    RUN is an id or a short id. A long run is shown by its first and last events. Payloads are
    left out.
    """
    from treering.surfaces.cli.call_search import short_calls  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    with open_to_ask() as ledger, catching_up() as progress:
        run_id, session = find_named_run(ledger, name, run, session_id)
        shown = ledger.run_view(
            name, run_id, session_id=session, events_max=clamp(limit), progress=progress
        )
        short = short_calls(ledger, name, progress=progress)
        calls = [short.within(call, "call_id") for call in shown.calls]
        shown = msgspec.structs.replace(shown, calls=calls)
    if invocation().as_json:
        show(shown)
        return

    with writing_output():
        print_run(shown)


def find_named_run(
    ledger: Ledger, scope: Scope, run: str, session_id: str | None
) -> tuple[str, str | None]:
    """Return the id of the run that a command line names, and that of its session if it does."""
    from treering.surfaces.cli.run_search import find_run_id  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.sessions.search import narrow_to_session  # noqa: PLC0415

    text = require(run, "run", hint="name the run before the options").strip()
    session = narrow_to_session(ledger, scope, session_id)
    return find_run_id(ledger, scope, text, session_id=session), session


def print_runs(runs: Sequence[RunOutline], *, with_session: bool) -> None:
    """Print ``runs``, one a row."""
    rows = [
        [
            clock(run.started_ms),
            printable(run.run_id),
            run.state,
            printable(run.agent_id),
            *([printable(run.session_id)] if with_session else []),
            printable(run.entry_point or "-"),
            duration(run.duration_ms),
            f"{run.events:,}",
            f"{run.tool_calls:,}",
        ]
        for run in runs
    ]
    print_table(
        [column for column in _COLUMNS if with_session or column.heading != "session"], rows
    )


def print_run(shown: RunView) -> None:
    """Print one run: what it was, what happened when, how its tools did."""
    run = shown.run
    state = painted(run.state, _COLOURS.get(run.state))
    reasons = (run.reason if run.reason != run.state else None, run.error_class)
    why = ", ".join(printable(text) for text in reasons if text)
    took = "" if run.duration_ms is None else f" after {duration(run.duration_ms)}"
    say_painted(f"run {printable(run.run_id)} {state}{took}{f' ({why})' if why else ''}")
    say(f"agent {run.agent_id}, session {run.session_id}{_made_by(run)}")
    deltas = run.events - shown.kept
    kept = f" ({counted(deltas, 'delta')} not kept)" if deltas > 0 else ""
    events = f"{counted(run.events, 'event')}{kept}, {counted(run.tool_calls, 'tool call')}"
    say(f"started {moment(run.started_ms)}: {events}")
    say("")
    _print_moments(shown)
    if shown.calls:
        say("")
        print_calls_of_run(shown.calls)
    if shown.calls_left_out:
        more = f"{shown.calls_left_out:,} more {'call' if shown.calls_left_out == 1 else 'calls'}"
        listing = f"treering tools list --scope {shown.scope} --run {run.run_id}"
        say(f"  … {more}: raise --limit, or run {listing}")


def _print_moments(shown: RunView) -> None:
    rows = [
        [f"{moment.offset_ms / 1_000:+11.3f} s", printable(moment.kind), one_line(moment.summary)]
        for moment in shown.events
    ]
    gap = f"  … {counted(shown.left_out, 'event')} left out: raise --limit, or export the run"
    if shown.left_out and not shown.head:
        say(gap)
    print_table(_MOMENTS, rows, below={shown.head - 1: gap} if shown.left_out else None)


def _made_by(run: RunOutline) -> str:
    parts = (
        ("entry point", run.entry_point),
        ("runtime", run.runtime),
        ("model", run.model),
        ("provider", run.provider),
    )
    return "".join(f", {name} {value}" for name, value in parts if value)
