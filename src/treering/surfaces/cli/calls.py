"""Tool calls and their statistics as people read them: a table, or one of them in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.model.codec import encode
from treering.surfaces.cli.output import counted, painted, printable, say_painted
from treering.surfaces.cli.tables import TIME, Column, print_table, say_folded
from treering.surfaces.cli.times import clock, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.events import Event
    from treering.model.tool_records import ToolRecord, ToolStatistics

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


def print_calls(records: Sequence[ToolRecord], *, with_session: bool) -> None:
    """Print ``records``, one a row."""
    rows = [
        [
            clock(record.at_ms),
            printable(record.tool or _UNNAMED),
            record.status,
            duration(record.duration_ms),
            printable(record.call_id or _NONE),
            *([printable(record.session_id)] if with_session else []),
            _remarks(record),
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
    for name, one in events:
        say_painted(f"  {name} {printable(encode(one.payload).decode())}")


def duration(milliseconds: int | None) -> str:
    """Return a duration as people say it."""
    if milliseconds is None:
        return _NONE
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f} s"
    minutes, seconds = divmod(milliseconds // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


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
