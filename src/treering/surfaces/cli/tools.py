"""``treering tools``: what was called, how it ended, how long it took."""

from __future__ import annotations

import contextlib
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import NotFound
from treering.model.codec import encode
from treering.model.queries import Page
from treering.model.tools import REASONS, STATUSES, ToolRecord, ToolStatistics
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.completing import complete_run
from treering.surfaces.cli.declare import (
    Options,
    argument,
    choice,
    clamp,
    command,
    cursor_option,
    flag,
    group,
    limit_option,
    option,
    require,
    session_option,
    session_option_that,
    since_option,
    together,
    until_option,
)
from treering.surfaces.cli.finding import (
    find_calls,
    narrow_to_session,
    run_named,
    short_calls,
    short_events,
    short_sessions,
)
from treering.surfaces.cli.ledgers import (
    asking,
    catching_up,
    location_of,
    open_to_ask,
    read_span,
    say_nothing_found,
    show_page,
)
from treering.surfaces.cli.output import painted, say_painted, writing_output
from treering.surfaces.cli.tables import TIME, Column, print_table, say_folded
from treering.surfaces.shared.texts import Mask, counted, one_line, printable
from treering.surfaces.shared.times import clock, duration, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event
    from treering.model.scopes import Scope

LIST_ITEMS: Final = 50
FAILURE_CHARACTERS_MAX: Final = 120
"""Characters of what a failed call was to do, and of what went wrong."""
_LABEL: Final = re.compile(r"^\S+?(?::| called| failed:?)(?: |$)")
"""What summaries of calls and results begin with: the name of the tool, which is shown anyway."""
_COLOURS: Final = {"ok": "green", "failed": "red", "synthetic": "yellow", "open": "cyan"}
_UNNAMED: Final = "(unnamed)"
_NONE: Final = "-"
_TOOL: Final = Column("tool")
_STATUS: Final = Column("status", colours=_COLOURS)
_CALL: Final = Column("call id")
_WHY: Final = Column("why", leaves=4, is_prose=True)
_COLUMNS: Final = (
    Column(TIME, leaves=3),
    _TOOL,
    _STATUS,
    Column("took", leaves=2),
    _CALL,
    Column("session", leaves=1),
    _WHY,
)
_OF_A_RUN: Final = (
    Column("  tool"),
    _STATUS,
    Column("took", leaves=2),
    _CALL,
    Column("bytes", leaves=1),
    _WHY,
)
_STATISTICS: Final = (
    _TOOL,
    Column("calls"),
    Column("ok", leaves=7),
    Column("failed"),
    Column("synth.", leaves=6),
    Column("open", leaves=5),
    Column("p50", leaves=4),
    Column("p90", leaves=1),
    Column("p99", leaves=2),
    Column("max", leaves=3),
)


@group(
    "tools",
    commands="list_ stats show=show_call",
    examples="""
    treering tools list --scope acme/app --failing --since 1d
    treering tools stats --scope acme/app
    treering tools show call-1 --scope acme/app
    """,
)
def tools() -> None:
    """List tool calls, show one, and measure tools.

    There is one record per call of every run, including failed runs. Inputs and outputs are
    private: shown only on request.
    """


class _ChosenCalls(Options, frozen=True, kw_only=True):
    """Which calls are meant."""

    session_id: str | None = session_option
    tool: str | None = option("NAME", "Only this tool.")
    since: str | None = since_option
    until: str | None = until_option

    def asked(self) -> dict[str, Any]:
        """Return them as the ledger and receipts name them."""
        return {
            "session_id": self.session_id,
            "tool": self.tool,
            **read_span(self.since, self.until),
        }


@command(
    scope="project",
    keys=False,
    short_help="List the latest tool calls of a scope.",
    examples="""
    treering tools list --scope acme/app
    treering tools list --scope acme/app --tool git_log --slowest --limit 10
    treering tools list --scope acme/app --status synthetic --reason crashed
    """,
)
def list_(
    *,
    scope: Scope,
    calls: _ChosenCalls = together(_ChosenCalls),
    statuses: Sequence[str] = choice(
        STATUSES, "Only this outcome; repeatable.", "--status", multiple=True
    ),
    failing: bool = flag("Short for --status failed --status synthetic."),
    reason: str | None = choice(REASONS, "Only synthetic results with this reason."),
    run_id: str | None = option("ID", "Only this run.", "--run", shell_complete=complete_run),
    slowest: bool = flag("The slowest calls first."),
    limit: int = limit_option(LIST_ITEMS),
    cursor: str | None = cursor_option,
) -> None:
    """List the latest tool calls of a scope, in order; --cursor continues with earlier ones.

    --slowest lists the slowest calls first, of those whose duration is known.
    """
    asked: dict[str, Any] = {
        **calls.asked(),
        "status": [*statuses, *(["failing"] if failing else [])],
        "reason": reason,
        "run_id": None if run_id is None else require(run_id, "run").strip(),
    }
    page: Page[ToolRecord] = Page(items=[], has_more=False, next_cursor=None)
    failures: dict[int, str] = {}
    with asking(open_to_ask) as ledger, catching_up() as progress:
        if ledger is not None:
            session = asked["session_id"] = narrow_to_session(ledger, scope, calls.session_id)
            asked["run_id"] = asked["run_id"] and run_named(
                ledger, scope, asked["run_id"], session_id=session, progress=progress
            )
            order = _order(clamp(limit), slowest=slowest)
            page = ledger.tool_calls(scope, **asked, **order, after=cursor, progress=progress)
            short = short_calls(ledger, scope, progress=progress)
            sessions = short_sessions(ledger, scope)
            items = [
                sessions.within(short.within(record, "call_id"), "session_id")
                for record in page.items
            ]
            mask = Mask()
            failures = {
                record.position: _failure(ledger, record, mask)
                for record in page.items
                if record.status == "failed"
            }
            page = msgspec.structs.replace(page, items=items)
        location = location_of(ledger)
    is_filtered = any(asked.values()) or bool(cursor)
    show_page(
        page,
        "call",
        scope=scope,
        location=location,
        filters={**asked, "slowest": slowest, "limit": clamp(limit)},
        table=partial(print_calls, failures=failures, with_session=asked["session_id"] is None),
        nothing=lambda: _say_nothing(scope, is_filtered=is_filtered, is_there=bool(location)),
    )


def _failure(ledger: Ledger, record: ToolRecord, mask: Mask) -> str:
    """Return what a failed call was to do, and what went wrong, if its events say so."""
    texts = []
    for event_id in filter(None, (record.call_event_id, record.result_event_id)):
        with contextlib.suppress(NotFound):
            event = ledger.event(record.scope, event_id)
            summary = "" if event.summary == event.kind else mask.text(event.summary)
            text = _LABEL.sub("", one_line(summary or ""), count=1)
            is_long = len(text) > FAILURE_CHARACTERS_MAX
            texts.append(f"{text[: FAILURE_CHARACTERS_MAX - 1]}…" if is_long else text)
    return " → ".join(filter(None, texts))


def _order(limit: int, *, slowest: bool) -> dict[str, Any]:
    """Return which calls are taken, and in what order, as the ledger calls it."""
    return {"order": "slowest", "first": limit} if slowest else {"order": "time", "last": limit}


@command(
    scope="project",
    keys=False,
    short_help="Measure each tool: calls, outcomes, durations.",
    examples="""
    treering tools stats --scope acme/app
    treering tools stats --scope acme/app --since 7d --tool git_log --json
    """,
)
def stats(*, scope: Scope, calls: _ChosenCalls = together(_ChosenCalls)) -> None:
    """Show for each tool how often it was called, the outcomes and the durations.

    Percentiles are exact (nearest rank), of calls that the tool itself ended.
    """
    asked = calls.asked()
    statistics: list[ToolStatistics] = []
    with asking(open_to_ask) as ledger, catching_up() as progress:
        if ledger is not None:
            asked["session_id"] = narrow_to_session(ledger, scope, calls.session_id)
            statistics = ledger.tool_statistics(scope, **asked, progress=progress)
        location = location_of(ledger)
    body = {
        "scope": scope,
        "ledger": location,
        "filters": asked,
        "count": len(statistics),
        "tools": statistics,
    }
    if statistics:
        total = f"{counted(len(statistics), 'tool')} of scope {scope}"
        show(body, total, page=lambda: print_statistics(statistics))
        return
    is_there, is_filtered = bool(location), any(asked.values())
    show(body, page=lambda: _say_nothing(scope, is_filtered=is_filtered, is_there=is_there))


def _say_nothing(scope: Scope, *, is_filtered: bool, is_there: bool) -> None:
    remark = " (redacted calls are not counted)"
    with writing_output():
        say_nothing_found(
            "tool calls", scope, is_filtered=is_filtered, is_there=is_there, remark=remark
        )


@command(
    "show",
    scope="project",
    short_help="Show one tool call.",
    examples="""
    treering tools show call-1 --scope acme/app
    treering tools show call-1 --scope acme/app --session s1 --payload --json
    """,
)
def show_call(
    *,
    scope: Scope,
    call: str = argument(),
    session_id: str | None = session_option_that(
        "The session of the call, if several have the id.", "--session"
    ),
    payload: bool = flag("Include private input and output, as stored."),
) -> None:
    """Show how the tool call CALL went; all of them, if its session reuses the id.

    CALL is an id or a short id.
    """
    text = require(call, "call", hint="name the call before the options").strip()
    with open_to_ask() as ledger, catching_up() as progress:
        session = narrow_to_session(ledger, scope, session_id)
        records = find_calls(ledger, scope, text, session_id=session, progress=progress)
        events = [_events(ledger, record) if payload else [] for record in records]
        sessions, short = short_sessions(ledger, scope), short_events(ledger, scope)
        shown = [
            sessions.within(short.within(record, "call_event_id", "result_event_id"), "session_id")
            for record in records
        ]
    calls = [
        {**msgspec.structs.asdict(record), **{part: event.payload for part, event in parts}}
        for record, parts in zip(records, events, strict=True)
    ]
    body = {
        "scope": scope,
        "session_id": records[0].session_id,
        "call_id": records[0].call_id,
        "include_payload": payload,
        "count": len(calls),
        "calls": calls,
    }
    show(body, page=lambda: [*map(print_call, shown, events)])


def _events(ledger: Ledger, record: ToolRecord) -> list[tuple[str, Event]]:
    """Return the events of a call, each under the name of what its payload holds."""
    parts = (
        ("input", record.call_event_id),
        ("output", record.result_event_id),
        ("late_output", record.late_event_id),
    )
    return [(name, ledger.event(record.scope, event_id)) for name, event_id in parts if event_id]


def print_calls(
    records: Sequence[ToolRecord], *, failures: Mapping[int, str], with_session: bool
) -> None:
    """Print ``records``, one a row; ``failures`` say what failed, by position."""
    rows = [
        [
            clock(record.at_ms),
            printable(record.tool or _UNNAMED),
            record.status,
            duration(record.duration_ms),
            printable(record.call_id or _NONE),
            *([printable(record.session_id)] if with_session else []),
            ": ".join(filter(None, (_remarks(record), failures.get(record.position)))),
        ]
        for record in records
    ]
    print_table(
        [column for column in _COLUMNS if with_session or column.heading != "session"], rows
    )


def print_calls_of_run(records: Sequence[ToolRecord]) -> None:
    """Print the calls of one run, one a row."""
    rows = [
        [
            f"  {printable(record.tool or _UNNAMED)}",
            record.status,
            duration(record.duration_ms),
            printable(record.call_id or _NONE),
            _sizes(record),
            _remarks(record, with_run=False),
        ]
        for record in records
    ]
    print_table(_OF_A_RUN, rows)


def print_statistics(tools: Sequence[ToolStatistics]) -> None:
    """Print ``tools``, one a row."""
    rows = [
        [
            printable(tool.tool or _UNNAMED),
            *(
                f"{count:,}"
                for count in (tool.calls, tool.ok, tool.failed, tool.synthetic, tool.open)
            ),
            *(duration(time) for time in (tool.p50_ms, tool.p90_ms, tool.p99_ms, tool.max_ms)),
        ]
        for tool in tools
    ]
    print_table(_STATISTICS, rows, is_titled=True)


def print_call(record: ToolRecord, events: Sequence[tuple[str, Event]]) -> None:
    """Print one record in full; ``events`` are those whose payloads were asked for."""
    status = painted(record.status, _COLOURS[record.status])
    why = _remarks(record, with_run=False)
    took = "" if record.duration_ms is None else f" after {duration(record.duration_ms)}"
    say_painted(f"{printable(record.tool or _UNNAMED)} {status}{took}{f' ({why})' if why else ''}")
    ids = (("call", record.call_id), ("session", record.session_id), ("agent", record.agent_id))
    where = ", ".join(f"{name} {printable(value or _NONE)}" for name, value in ids)
    say_folded(where, lead="  ", indent="  ")
    if record.run_id is not None:
        say_painted(f"  run {printable(record.run_id)} {record.run_state or ''}".rstrip())
    for name, at_ms, event_id, size in (
        ("started", record.started_ms, record.call_event_id, record.input_bytes),
        ("ended", record.ended_ms, record.result_event_id, record.output_bytes),
    ):
        if at_ms is not None:
            size_text = "" if size is None else f", {counted(size, 'byte')}"
            event = f", event {printable(event_id or '')}"
            say_painted(f"  {name} {moment(at_ms)}{size_text}{event}")
    for name, recorded in events:
        say_painted(f"  {name} {printable(encode(recorded.payload).decode())}")


def _sizes(record: ToolRecord) -> str:
    sizes = (("in", record.input_bytes), ("out", record.output_bytes))
    return ", ".join(f"{name} {size:,} B" for name, size in sizes if size is not None)


def _remarks(record: ToolRecord, *, with_run: bool = True) -> str:
    """Return what is out of the ordinary, in a few words, each thing once."""
    late = f"later {record.late_status}" if record.late_status else None
    # That a call was interrupted, crashed or aborted says what became of its run.
    tells = with_run and record.reason not in {"interrupted", "crashed", "aborted"}
    run = f"run {record.run_state}" if record.run_state in {"failed", "interrupted"} else None
    parts = (record.reason, record.error_class, late, run if tells else None)
    return ", ".join(printable(part) for part in dict.fromkeys(parts) if part)
