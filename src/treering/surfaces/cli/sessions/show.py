"""``treering sessions show``: one session with its last turns, goals, schedules and cost."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.app import now_ms
from treering.model.codec import encode
from treering.model.parts import SessionOpened, safe_part
from treering.model.queries import PAGE_ITEMS_MAX as OPENED_ITEMS
from treering.model.sessions import SessionOutline
from treering.model.views import Counts, Goal, MemoryRecord, Schedule, Spent, TurnView, Usage
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.finding import open_session, short_sessions
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.options import PAGE_ITEMS_MAX
from treering.surfaces.cli.output import painted, say, say_painted, say_price_hint
from treering.surfaces.cli.sessions.read import STATE_COLOURS, forked_from, masked, title_of
from treering.surfaces.cli.tables import NONE, TIME, Column, print_filled, say_folded
from treering.surfaces.shared.texts import Mask, counted, items_of, one_line, printable
from treering.surfaces.shared.times import ago, clock, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.families import Family
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope
    from treering.model.views import ModelUsage


OPENED_PAGES_MAX: Final = 20
"""How many sessions are searched for subagents: 20 pages of openings."""
LAST_TURNS: Final = 5
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


@command(
    "show",
    scope="project",
    short_help="Show one session.",
    examples="""
    treering sessions show main:telegram:jo --scope acme/app
    treering sessions show main:tele --scope acme/app --last 20 --json
    """,
)
@click.argument("session", shell_complete=complete_session)
@click.option(
    "--last",
    type=click.IntRange(0, PAGE_ITEMS_MAX),
    default=LAST_TURNS,
    metavar="N",
    help=f"The last N turns, up to {PAGE_ITEMS_MAX}. Default: {LAST_TURNS}.",
)
def show_session(*, session: str, scope: Scope, last: int) -> None:
    """Show an overview of SESSION: state, last turns, goals, schedules, cost and forks.

    Turns are shortened: treering show reads them in full, treering context shows what a model
    sees. Failed and undone turns are marked; the model does not see them.
    """
    with open_existing() as ledger:
        sheet = sheet_of(ledger, open_session(ledger, scope, session), last=last, mask=Mask())
        short = short_sessions(ledger, scope)
        forks = [short.within(fork, "session_id") for fork in sheet.forks]
        sheet = msgspec.structs.replace(sheet, forks=forks)
    turns = [{"number": turn.number, **msgspec.structs.asdict(turn.turn)} for turn in sheet.turns]
    show({**msgspec.structs.asdict(sheet), "turns": turns}, page=lambda: print_sheet(sheet))


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
    written, age = clock(outline.updated_ms), ago(outline.updated_ms, now_ms=now_ms())
    said_ago = "" if written.startswith(age) else f" ({age})"
    say(f"opened {moment(outline.created_ms)}, last written to {written}{said_ago}")
    parts = [counted(counts.turns, "turn"), counted(counts.tool_calls, "tool call")]
    if counts.open_runs:
        parts.append(counted(counts.open_runs, "open run"))
    if memories := sum(memory.state == "kept" for memory in sheet.memories):
        parts.append(f"{memories:,} {'memory' if memories == 1 else 'memories'} kept")
    if counts.erased:
        parts.append(f"{counted(counts.erased, 'event')} erased")
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
    usage, below = sheet.usage, sheet.subagent_usage
    if not (usage.total.calls or below.calls):
        return
    _head("usage")
    rows = [_spent(_model(used), used) for used in usage.by_model]
    if len(rows) > 1:
        rows.append(_spent("in all", usage.total))
    if below.calls:
        rows.append(_spent(counted(sheet.subagents, "subagent"), below))
        rows.append(_spent("with subagents", _added(usage.total, below)))
    if usage.failed.calls:
        rows.append(_spent("of it in failed runs", usage.failed))
    print_filled(_USAGE, rows)
    if None in {usage.total.cost_usd, below.cost_usd}:
        say_price_hint()


def _subagents(ledger: Ledger, session: Session) -> tuple[int, Spent]:
    """Return how many subagents a session has, theirs included, and what they used."""
    opened = items_of(
        lambda after: ledger.headers(
            session.scope, kinds=["session.opened"], first=OPENED_ITEMS, after=after
        ),
        pages_max=OPENED_PAGES_MAX,
    )
    started: dict[str, list[str]] = {}
    for header in opened:
        part = safe_part(header.kind, header.refs)
        if isinstance(part, SessionOpened) and part.spawned_by is not None:
            started.setdefault(part.spawned_by, []).append(header.session_id)
    below, total = [session.session_id], Spent()
    for name in below:
        below += started.pop(name, ())
        if name != session.session_id:
            agent = ledger.session(name, scope=session.scope, agent=session.agent)
            total = _added(total, agent.usage().total)
    return len(below) - 1, total


def _added(one: Spent, other: Spent) -> Spent:
    sums = {
        field: getattr(one, field) + getattr(other, field)
        for field in Spent.__struct_fields__
        if field != "cost_usd"
    }
    costs = one.cost_usd, other.cost_usd
    return Spent(**sums, cost_usd=None if None in costs else sum(filter(None, costs), Decimal(0)))


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


class NumberedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, and its number in the session, from 1 on."""

    number: int
    turn: TurnView


class SessionSheet(msgspec.Struct, frozen=True, kw_only=True):
    """One session, with its last turns."""

    scope: str
    session: SessionOutline
    counts: Counts
    """With what it shares with the session that it was forked from; so are all that follow."""
    turns: list[NumberedTurn]
    turns_left_out: int
    """Earlier ones."""
    goals: list[Goal]
    schedules: list[Schedule]
    memories: list[MemoryRecord]
    usage: Usage
    subagents: int
    """Sessions that it started, and those that they started."""
    subagent_usage: Spent
    """What these used; it is not part of ``usage``."""
    forks: list[SessionOutline]
    """Sessions that were forked from it, not from its forks."""
    masked: int
    """How many of its texts held a secret, which is masked here."""


def sheet_of(ledger: Ledger, session: Session, *, last: int, mask: Mask) -> SessionSheet:
    """Read a session, with its ``last`` turns."""
    counts = session.summary()
    turns = list(session.turns(last=last))
    before = max(counts.turns - len(turns), 0)
    outline = masked(session.outline(), mask)
    forks = _forks(ledger.family(session.scope, session.session_id), session.session_id)
    subagents, subagent_usage = _subagents(ledger, session)
    return SessionSheet(
        scope=session.scope,
        session=outline,
        counts=counts,
        turns=[
            NumberedTurn(
                number=number,
                turn=msgspec.structs.replace(turn, prompt=mask.text(turn.prompt) or ""),
            )
            for number, turn in enumerate(turns, start=before + 1)
        ],
        turns_left_out=before,
        goals=[
            msgspec.structs.replace(
                goal,
                description=mask.text(goal.description) or "",
                progress=mask.value(goal.progress),
            )
            for goal in session.goals()
        ],
        schedules=[
            msgspec.structs.replace(
                schedule, prompt=mask.text(schedule.prompt), spec=mask.value(schedule.spec)
            )
            for schedule in session.schedules()
        ],
        memories=session.memories(),
        usage=session.usage(),
        subagents=subagents,
        subagent_usage=subagent_usage,
        forks=[masked(fork, mask) for fork in forks],
        masked=mask.masked,
    )


def _forks(family: Family, session_id: str) -> list[SessionOutline]:
    """Return the forks of one session of a family."""
    waiting = [family]
    while waiting:
        node = waiting.pop()
        if node.session.session_id == session_id:
            return [fork.session for fork in node.forks]
        waiting += node.forks
    return []
