"""``treering trace``: the runs of a scope, how one of them went, and its trace as a file."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import InvalidInput
from treering.model.queries import Page
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.completing import complete_run
from treering.surfaces.cli.declare import (
    argument,
    clamp,
    command,
    cursor_option,
    flag,
    group,
    limit_option,
    out_option,
    require,
    session_option,
    since_option,
    until_option,
)
from treering.surfaces.cli.finding import (
    find_run_id,
    narrow_to_session,
    short_calls,
    short_runs,
    short_sessions,
)
from treering.surfaces.cli.ledgers import (
    asking,
    catching_up,
    database_path,
    location_of,
    open_existing,
    open_to_ask,
    read_span,
    say_nothing_found,
    show_page,
)
from treering.surfaces.cli.output import (
    STANDARD,
    output_stream,
    painted,
    refuse_folder,
    say,
    say_painted,
)
from treering.surfaces.cli.tables import TIME, Column, print_table
from treering.surfaces.cli.tools import print_calls_of_run
from treering.surfaces.shared.texts import counted, one_line, printable
from treering.surfaces.shared.times import clock, duration, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.runs import RunOutline, RunView
    from treering.model.scopes import Scope
    from treering.model.sessions import SessionOutline
    from treering.sinks.bundle_files import MemoryFiles
    from treering.sinks.trace import RunTrace

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
_EXAMPLE: Final = "trace.zip"


@group(
    "trace",
    commands="list_ show=show_run export",
    examples="""
    treering trace list --scope acme/app --failing
    treering trace show 01a1dea1-d82d --scope acme/app
    treering trace export 01a1dea1-d82d --scope acme/app --out trace.zip
    """,
)
def trace() -> None:
    """List runs, show how one went, export it as a file.

    Every run is in the ledger, so each can be traced. Private content is exported only on
    request.
    """


@command(
    scope="project",
    short_help="List the newest runs of a scope.",
    examples="""
    treering trace list --scope acme/app
    treering trace list --scope acme/app --session s1 --failing --since 7d
    """,
)
def list_(
    *,
    scope: Scope,
    session_id: str | None = session_option,
    failing: bool = flag("Only runs that failed or were interrupted."),
    since: str | None = since_option,
    until: str | None = until_option,
    limit: int = limit_option(LIST_ITEMS),
    cursor: str | None = cursor_option,
) -> None:
    """List the runs of a scope, the newest first; --cursor continues with earlier ones."""
    span = read_span(since, until)
    session = session_id
    latest: list[SessionOutline] = []
    with asking(open_existing) as ledger:
        page: Page[RunOutline] = Page(items=[], has_more=False, next_cursor=None)
        if ledger is not None:
            session = narrow_to_session(ledger, scope, session_id)
            page = ledger.runs(
                scope, session_id=session, **span, failing=failing, limit=clamp(limit), after=cursor
            )
            runs, sessions = short_runs(ledger, scope), short_sessions(ledger, scope)
            outlines = [
                sessions.within(runs.within(run, "run_id"), "session_id") for run in page.items
            ]
            page = msgspec.structs.replace(page, items=outlines)
            latest = ledger.sessions(scope, limit=1).items
        location = location_of(ledger)
    filters = {"session_id": session, **span, "failing": failing}
    show_page(
        page,
        "run",
        scope=scope,
        location=location,
        filters={**filters, "limit": clamp(limit)},
        table=partial(print_runs, with_session=session is None),
        nothing=lambda: _say_no_runs(
            scope,
            latest,
            is_filtered=any(filters.values()) or bool(cursor),
            is_there=bool(location),
        ),
    )


def _say_no_runs(
    scope: Scope, latest: list[SessionOutline], *, is_filtered: bool, is_there: bool
) -> None:
    if latest and not is_filtered:
        say(f"no runs are recorded in scope {scope}: its sessions have turns, as imported ones do")
        say(f"  treering sessions show {latest[0].session_id} --scope {scope} lists them")
        return
    say_nothing_found("runs", scope, is_filtered=is_filtered, is_there=is_there)


@command(
    "show",
    scope="project",
    short_help="Show how one run went.",
    examples="""
    treering trace show 01a1dea1-d82d-777b-b5a5-310511386cf7 --scope acme/app
    treering trace show 01a1dea1-d82d --scope acme/app --json
    """,
)
def show_run(
    *,
    scope: Scope,
    run: str = argument(shell_complete=complete_run),
    session_id: str | None = session_option,
    limit: int = limit_option(SHOW_ITEMS),
) -> None:
    """Show what happened in RUN and when, and how its tools did.

    RUN is an id or a short id. A long run is shown by its first and last events. Payloads are
    left out.
    """
    with open_to_ask() as ledger, catching_up() as progress:
        run_id, session = find_named_run(ledger, scope, run, session_id)
        shown = ledger.run_view(
            scope, run_id, session_id=session, events_max=clamp(limit), progress=progress
        )
        short = short_calls(ledger, scope, progress=progress)
        calls = [short.within(call, "call_id") for call in shown.calls]
        shown = msgspec.structs.replace(shown, calls=calls)
    show(shown, page=lambda: print_run(shown))


def find_named_run(
    ledger: Ledger, scope: Scope, run: str, session_id: str | None
) -> tuple[str, str | None]:
    """Return the id of the run that a command line names, and that of its session if it does."""
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
    remark = f" ({counted(deltas, 'delta')} not kept)" if deltas > 0 else ""
    events = f"{counted(run.events, 'event')}{remark}, {counted(run.tool_calls, 'tool call')}"
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


class TraceReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported."""

    scope: str
    run_id: str
    session_id: str
    out: str
    visibility: str
    complete: bool
    """Whether the run is over."""
    truncated: bool
    kept: int
    """How many events of the run the ledger has."""
    events: int
    """Those of them that the event envelope has a kind for: they are in the trace."""
    tool_calls: int
    files: dict[str, int]
    """How many bytes each of them has."""


@command(
    scope="project",
    short_help="Write the trace of one run to a zip file.",
    examples="""
    treering trace export 01a1dea1-d82d --scope acme/app --out trace.zip
    treering trace export 01a1dea1-d82d --scope acme/app --out t.zip --payload
    """,
    if_stopped="a file appears when it is complete; run it again",
)
def export(
    *,
    scope: Scope,
    run: str = argument(shell_complete=complete_run),
    session_id: str | None = session_option,
    out: str = out_option("The zip file to write, readable by you alone."),
    private: bool = flag(
        "Include private content: messages, tool inputs and outputs.", "--payload"
    ),
    force: bool = flag("Overwrite an existing file."),
) -> None:
    """Write the trace of RUN to a zip of five files; the same run makes the same bytes.

    It holds sizes, times, names and codes, but nothing that anybody said. --payload includes
    that, with secrets masked.
    """
    _check_target(out, force=force)
    with open_existing() as ledger:
        run_id, session = find_named_run(ledger, scope, run, session_id)
        session = ledger.run(scope, run_id, session_id=session).session_id
        trace, files = _write_trace(ledger, scope, session, run_id, private=private)
    with output_stream(out, database=database_path(), example=_EXAMPLE) as stream:
        files.write_zip(stream)
    bundle = trace.bundle
    receipt = TraceReceipt(
        scope=scope,
        run_id=run_id,
        session_id=session,
        out=out,
        visibility=bundle.visibility,
        complete=bundle.is_over,
        truncated=bundle.is_truncated,
        kept=trace.kept,
        events=bundle.counts["events"],
        tool_calls=bundle.counts["toolCalls"],
        files=files.sizes(),
    )
    show(receipt, *_report(receipt), done=f"the trace was written to {out}")


def _check_target(out: str, *, force: bool) -> None:
    if out == STANDARD:
        raise InvalidInput("a trace is written to a file", hint=f"name it, as in --out {_EXAMPLE}")
    refuse_folder(out, example=_EXAMPLE)
    if os.path.lexists(out) and not force:
        raise InvalidInput(
            f"{out} already exists", hint="name another file, or pass --force to overwrite it"
        )


def _report(receipt: TraceReceipt) -> list[str]:
    """Return the lines for people about an export."""
    left_out = receipt.kept - receipt.events
    of_all = f"{receipt.events:,} of " if left_out else ""
    counts = f"{counted(receipt.kept, 'event')}, {counted(receipt.tool_calls, 'tool call')}"
    lines = [f"exported run {receipt.run_id} to {receipt.out}: {of_all}{counts}"]
    if left_out:
        lines.append(
            "a trace has no place for some kinds, such as user messages; the ledger keeps them"
        )
    if receipt.visibility == "private":
        lines.append("it holds private content, secrets masked: be careful whom you give it to")
    else:
        lines.append("private content is left out; --payload includes it")
    if not receipt.complete:
        lines.append("the run is still open: export it again for the rest")
    if receipt.truncated:
        lines.append("it was too large: redactions.json lists what was cut")
    return lines


def _write_trace(
    ledger: Ledger, scope: Scope, session_id: str, run_id: str, *, private: bool
) -> tuple[RunTrace, MemoryFiles]:
    from treering.sinks.bundle_files import MemoryFiles  # noqa: PLC0415  (not for --help)
    from treering.sinks.trace import write_private_trace, write_safe_trace  # noqa: PLC0415

    files = MemoryFiles()
    if not private:
        return write_safe_trace(ledger, scope, session_id, run_id, files), files
    from treering.app import new_guard  # noqa: PLC0415  (only for private content)

    return write_private_trace(ledger, scope, session_id, run_id, files, new_guard()), files
