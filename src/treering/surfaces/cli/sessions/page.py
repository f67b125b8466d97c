"""One session as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.app import now_ms
from treering.model.codec import encode
from treering.surfaces.cli.output import counted, one_line, painted, printable, say, say_painted
from treering.surfaces.cli.sessions.tables import (
    NONE,
    STATE_COLOURS,
    forked_from,
    print_filled,
    title_of,
)
from treering.surfaces.cli.tables import TIME, Column, say_folded
from treering.surfaces.cli.times import ago, clock, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.views import Goal, ModelUsage, Schedule, Spent, TurnView
    from treering.surfaces.cli.sessions.details import NumberedTurn, SessionSheet

_TURN_COLOURS: Final = {
    "ended": "green",
    "failed": "red",
    "interrupted": "yellow",
    "open": "cyan",
    "undone": "bright_black",
}
_TURNS: Final = (
    Column("  turn"),
    Column("state", colours=_TURN_COLOURS),
    Column(TIME, leaves=1, is_dim=True),
    Column("tools", leaves=2, noun="tool"),
    Column("tokens", leaves=3, noun="token"),
    Column("asked", is_prose=True),
)
_GOALS: Final = (
    Column("  goal"),
    Column("state", leaves=1),
    Column("what", is_prose=True),
)
_SCHEDULES: Final = (
    Column("  schedule"),
    Column("sort", leaves=2),
    Column("fired", leaves=1, noun="time"),
    Column("what", is_prose=True),
)
_USAGE: Final = (
    Column("  model"),
    Column("calls", leaves=1, noun="call"),
    Column("input", leaves=3, suffix="in"),
    Column("cached", leaves=2, suffix="cached"),
    Column("output", leaves=4, suffix="out"),
    Column("cost"),
)
_FORKS: Final = (
    Column("  session"),
    Column("state", colours=STATE_COLOURS),
    Column("at", leaves=1),
    Column("title", is_prose=True),
)


def print_sheet(sheet: SessionSheet) -> None:
    """Print a session: an overview, then its turns, goals, schedules, usage and forks."""
    _print_outline(sheet)
    _print_turns(sheet.turns, sheet.turns_left_out)
    _print_goals(sheet.goals)
    _print_schedules(sheet.schedules)
    _print_usage(sheet)
    if sheet.forks:
        _head("forks")
        rows = [
            [f"  {printable(fork.session_id)}", fork.state, f"at {fork.forked_seq}", title_of(fork)]
            for fork in sheet.forks
        ]
        print_filled(_FORKS, rows)
    if sheet.masked:
        say("")
        say("secrets in what is shown are masked")


def _print_outline(sheet: SessionSheet) -> None:
    outline, counts = sheet.session, sheet.counts
    title = title_of(outline)
    state = painted(outline.state, STATE_COLOURS.get(outline.state))
    say_folded(f"session {printable(outline.session_id)} {state}{f': {title}' if title else ''}")
    about = (
        ("agent", outline.agent),
        ("user", outline.user),
        ("model", outline.model),
        ("mode", outline.mode),
    )
    say(f"scope {sheet.scope}" + "".join(f", {name} {value}" for name, value in about if value))
    if outline.parent is not None:
        say_painted(f"forked from {forked_from(outline)}")
    written = f"{clock(outline.updated_ms)} ({ago(outline.updated_ms, now_ms=now_ms())})"
    say(f"opened {moment(outline.created_ms)}, last written to {written}")
    parts = [counted(counts.turns, "turn"), counted(counts.tool_calls, "tool call")]
    if counts.open_runs:
        parts.append(counted(counts.open_runs, "open run"))
    if kept := sum(memory.state == "kept" for memory in sheet.memories):
        parts.append(f"{kept:,} {'memory' if kept == 1 else 'memories'} kept")
    if counts.erased:
        parts.append(f"{counts.erased:,} of the events erased")
    shared = "" if outline.parent is None else f" ({outline.event_count:,} of its own)"
    say(f"{counted(counts.events, 'event')}{shared}: {', '.join(parts)}")


def _print_turns(turns: Sequence[NumberedTurn], left_out: int) -> None:
    if not turns:
        return
    more = f", {left_out:,} before them: --last shows more" if left_out else ""
    _head(f"last {counted(len(turns), 'turn')}{more}" if left_out else "turns")
    rows = [
        [
            f"  {turn.number:,}",
            _state(turn.turn),
            clock(turn.turn.started_ms),
            f"{turn.turn.tool_calls:,}" if turn.turn.tool_calls else "",
            _tokens(turn.turn),
            one_line(turn.turn.prompt),
        ]
        for turn in turns
    ]
    print_filled(_TURNS, rows)


def _state(turn: TurnView) -> str:
    return "undone" if turn.is_undone else turn.state or NONE


def _tokens(turn: TurnView) -> str:
    total = sum(used.total_tokens for used in turn.usage)
    return f"{total:,}" if total else ""


def _print_goals(goals: Sequence[Goal]) -> None:
    if not goals:
        return
    _head("goals")
    rows = [
        [
            f"  {printable(goal.id)}",
            printable(goal.status),
            one_line(goal.description)
            + (f" (part of {printable(goal.parent)})" if goal.parent else ""),
        ]
        for goal in goals
    ]
    print_filled(_GOALS, rows)


def _print_schedules(schedules: Sequence[Schedule]) -> None:
    if not schedules:
        return
    _head("schedules")
    rows = [
        [
            f"  {printable(schedule.id)}",
            printable(schedule.schedule_type or NONE),
            f"{schedule.fired:,}" if schedule.fired else "",
            _when(schedule),
        ]
        for schedule in schedules
    ]
    print_filled(_SCHEDULES, rows)


def _when(schedule: Schedule) -> str:
    spec = schedule.spec
    details = "" if spec is None else f" ({one_line(encode(spec).decode())})"
    return f"{one_line(schedule.prompt or '')}{details}".strip()


def _print_usage(sheet: SessionSheet) -> None:
    usage = sheet.usage
    if not usage.total.calls:
        return
    _head("usage")
    rows = [_spent(_model(used), used) for used in usage.by_model]
    if len(rows) > 1:
        rows.append(_spent("in all", usage.total))
    if usage.failed.calls:
        rows.append(_spent("of it in failed runs", usage.failed))
    print_filled(_USAGE, rows)


def _spent(name: str, spent: Spent) -> list[str]:
    return [
        f"  {name}",
        f"{spent.calls:,}",
        f"{spent.input_tokens:,}",
        f"{spent.cached_tokens:,}" if spent.cached_tokens else "",
        f"{spent.output_tokens:,}",
        "price not known" if spent.cost_usd is None else f"${spent.cost_usd:,.4f}",
    ]


def _model(used: ModelUsage) -> str:
    provider = f" ({printable(used.provider)})" if used.provider else ""
    return f"{printable(used.model or 'unknown model')}{provider}"


def _head(text: str) -> None:
    say("")
    say_painted(painted(text, bold=True))
