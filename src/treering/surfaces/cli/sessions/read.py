"""``treering sessions list``, ``tree`` and ``show``: the sessions of a scope, and one of them."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.clock import now_ms
from treering.model import queries
from treering.model.codec import encode
from treering.model.parts import SessionOpened, safe_part
from treering.model.queries import items_of
from treering.model.scopes import Scope
from treering.model.sessions import SESSION_STATES, SessionOutline
from treering.model.views import Counts, Goal, MemoryRecord, Schedule, Spent, TurnView, Usage
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.declare import (
    PAGE_ITEMS_MAX,
    argument,
    choice,
    clamp,
    command,
    cursor_option,
    flag,
    known_or_all,
    limit_option,
    option,
    session_argument,
)
from treering.surfaces.cli.finding import open_to_read, short_sessions
from treering.surfaces.cli.ledgers import (
    asking,
    is_unknown,
    location_of,
    open_existing,
    read_span,
    say_nothing_found,
    say_unknown,
    show_page,
)
from treering.surfaces.cli.output import is_terminal, painted, say, say_painted, say_price_hint
from treering.surfaces.cli.tables import NONE, TIME, Column, print_filled, say_folded
from treering.surfaces.shared.texts import Mask, counted, one_line, printable
from treering.surfaces.shared.times import ago, clock, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from treering.ledger.families import Family
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.views import ModelUsage

LIST_ITEMS: Final = 20
STATE_COLOURS: Final = {
    "running": "green",
    "open": "cyan",
    "idle": "yellow",
    "closed": "bright_black",
    "pruned": "bright_black",
}
_COLUMNS: Final = (
    Column("session"),
    Column("state", colours=STATE_COLOURS),
    Column("written to", leaves=5),
    Column("agent", leaves=4),
    Column("model", leaves=1),
    Column("events", leaves=2, noun="event"),
    Column("forked from", leaves=3),
    Column("title", is_prose=True),
)
FAMILIES_MAX: Final = 1_000
"""Families of a scope that are drawn: those that were last written to."""
SESSIONS_MAX: Final = 10_000
"""Sessions that are searched for subagents: those that were last written to."""
DEPTH_DRAWN_MAX: Final = 12
"""Forks of forks beyond this are drawn no deeper, and numbered."""
_DRAWN: Final = ("├── ", "└── ", "│   ", "    ")
_PLAIN: Final = ("|-- ", "`-- ", "|   ", "    ")
Subagents = dict[str, list["Family"]]
"""The subagents of each session."""


@command(
    scope="wide",
    all_scopes="List the sessions of all scopes.",
    short_help="List the sessions of a scope.",
    examples="""
    treering sessions list --scope acme/app
    treering sessions list --scope acme/app --state open --agent lyria --since 7d
    treering sessions list --scope acme/app --text "nightly build" --json
    """,
)
def list_(
    *,
    scope: Scope | None,
    agent: str | None = option("NAME", "Only sessions of this agent."),
    states: Sequence[str] = choice(
        SESSION_STATES,
        "Only this state; repeatable. Default: all except pruned.",
        "--state",
        multiple=True,
    ),
    since: str | None = option("WHEN", "Last written since then: 3d, a date, or milliseconds."),
    until: str | None = option("WHEN", "Last written until then, inclusive."),
    text: str | None = option("WORDS", "Only sessions with this in the title or id."),
    subagents: bool = flag("Include subagent sessions."),
    limit: int = limit_option(LIST_ITEMS),
    cursor: str | None = cursor_option,
) -> None:
    """List the sessions of a scope, the last written first.

    The title is the one you gave it, or the beginning of the first prompt.
    """
    filters = {
        "agent": agent, "states": states, **read_span(since, until), "text": text,
        "subagents": subagents,
    }  # fmt: skip
    page: queries.Page[SessionOutline] = queries.Page(items=[], has_more=False, next_cursor=None)
    with asking(open_existing) as ledger:
        if ledger is not None:
            scope = known_or_all(ledger, scope)
            asked: dict[str, Any] = {
                "state" if name == "states" else name: given for name, given in filters.items()
            }
            page = ledger.sessions(
                scope, all_scopes=scope is None, **asked, limit=clamp(limit), after=cursor
            )
            scopes = {outline.scope for outline in page.items}
            short = {name: short_sessions(ledger, Scope(name)) for name in scopes}
            items = [
                short[outline.scope].within(outline, "session_id", "parent")
                for outline in page.items
            ]
            page = msgspec.structs.replace(page, items=items)
        location = location_of(ledger)
    mask = Mask()
    page = msgspec.structs.replace(page, items=[masked(outline, mask) for outline in page.items])
    is_filtered = any(filters.values()) or bool(cursor)
    show_page(
        page,
        "session",
        scope=scope,
        location=location,
        filters={**filters, "limit": clamp(limit)},
        table=partial(print_sessions, is_scope_shown=scope is None),
        nothing=lambda: _say_nothing(
            scope, ledger, is_filtered=is_filtered, has_states=bool(states)
        ),
    )


def masked(outline: SessionOutline, mask: Mask) -> SessionOutline:
    """Return a session at a glance, with secrets in its title masked."""
    return msgspec.structs.replace(outline, title=mask.text(outline.title))


def _say_nothing(
    scope: Scope | None, ledger: Ledger | None, *, is_filtered: bool, has_states: bool
) -> None:
    is_there = ledger is not None
    remark = "" if has_states else " (pruned ones are left out)"
    say_nothing_found("sessions", scope, is_filtered=is_filtered, is_there=is_there, remark=remark)
    if not is_filtered and scope is not None:
        say(f'an agent starts one by recording in it: ledger.session("s1", scope="{scope}", …)')


def print_sessions(sessions: Sequence[SessionOutline], *, is_scope_shown: bool = False) -> None:
    """Print ``sessions``, one a row; with their scopes if they are of several."""
    now = now_ms()
    rows = [
        [
            printable(session.session_id),
            *([printable(session.scope)] if is_scope_shown else []),
            session.state,
            ago(session.updated_ms, now_ms=now),
            printable(session.agent or NONE),
            printable(session.model or NONE),
            f"{session.event_count:,}",
            forked_from(session) or NONE,
            title_of(session) or NONE,
        ]
        for session in sessions
    ]
    columns = (_COLUMNS[0], Column("scope"), *_COLUMNS[1:]) if is_scope_shown else _COLUMNS
    print_filled(columns, rows)


def forked_from(outline: SessionOutline) -> str:
    """Return where a session comes from, if it is a fork."""
    if outline.parent is None:
        return ""
    return f"{printable(outline.parent)} at {outline.forked_seq}"


def title_of(outline: SessionOutline) -> str:
    """Return the title of a session on one line."""
    return one_line(outline.title or "")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A session and its place in its family."""

    depth: int
    """0 for the one that the family began with."""
    is_last: bool
    """Whether it is the last fork of its parent."""
    session: SessionOutline


@command(
    scope="project",
    short_help="Show forks and subagents of sessions.",
    examples="""
    treering sessions tree --scope acme/app
    treering sessions tree main:telegram:jo --scope acme/app --json
    """,
)
def tree(
    *, scope: Scope, session: str | None = argument(required=False, shell_complete=complete_session)
) -> None:
    """Show all forks and subagents of the family of SESSION, or every family of the scope.

    SESSION is an id or a short id.
    """
    members: list[Member] = []
    is_cut = False
    is_new = False
    opening: AbstractContextManager[Ledger | None]
    # Naming a session implies that the ledger exists.
    opening = asking(open_existing) if session is None else open_existing()
    with opening as ledger:
        if ledger is not None:
            if session is not None:
                opened = open_to_read(ledger, scope, session)
                scope, session = opened.scope, opened.session_id
            members, is_cut = _asked(ledger, scope, session)
            is_new = not members and is_unknown(ledger, scope)
            short = short_sessions(ledger, scope)
            members = [
                msgspec.structs.replace(member, session=short.within(member.session, "session_id"))
                for member in members
            ]
        location = location_of(ledger)
    mask = Mask()
    members = [
        msgspec.structs.replace(member, session=masked(member.session, mask)) for member in members
    ]
    listed = [
        {"depth": member.depth, **msgspec.structs.asdict(member.session)} for member in members
    ]
    show(
        {
            "scope": scope,
            "ledger": location,
            "count": len(listed),
            "is_cut": is_cut,
            "sessions": listed,
        },
        page=lambda: say_unknown(scope) if is_new else _print(scope, members, is_cut=is_cut),
    )


def members_of(family: Family, subagents: Subagents) -> Iterator[Member]:
    """Return a family in the order in which it is drawn: forks, then subagents of each session."""
    waiting: list[tuple[int, bool, Family]] = [(0, True, family)]
    while waiting:
        depth, is_last, member = waiting.pop()
        yield Member(depth=depth, is_last=is_last, session=member.session)
        below = [*member.forks, *subagents.pop(member.session.session_id, ())]
        waiting += [(depth + 1, number == 0, child) for number, child in enumerate(reversed(below))]


def _asked(ledger: Ledger, scope: Scope, session: str | None) -> tuple[list[Member], bool]:
    """Return the families to show, and whether there are more."""
    from treering.ledger.families import Family  # noqa: PLC0415  (not for --help)

    page = ledger.families(scope, limit=FAMILIES_MAX)
    outlines, is_cut = _outlines(ledger, scope)
    forked = {family.session.session_id: family for family in page.items}
    subagents: Subagents = {}
    for outline in outlines.values():
        if outline.spawned_by in outlines:
            agent = forked.pop(outline.session_id, Family(session=outline))
            subagents.setdefault(outline.spawned_by or "", []).append(agent)
    if session is not None:
        name = session
        while name in outlines and (above := outlines[name].spawned_by) in outlines:
            name = above or ""
        return list(members_of(ledger.family(scope, name), subagents)), False
    members = [member for family in forked.values() for member in members_of(family, subagents)]
    for name in list(subagents):
        parent = outlines[name]
        if name in subagents and parent.spawned_by not in outlines:
            members += members_of(Family(session=parent), subagents)
    return members, page.has_more or is_cut


def _outlines(ledger: Ledger, scope: Scope) -> tuple[dict[str, SessionOutline], bool]:
    """Return the sessions of a scope by id, the oldest first, and whether there are more."""
    outlines: list[SessionOutline] = []
    states: Any = SESSION_STATES
    cursor = None
    while len(outlines) < SESSIONS_MAX:
        page = ledger.sessions(
            scope, state=states, subagents=True, limit=queries.PAGE_ITEMS_MAX, after=cursor
        )
        outlines += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return {outline.session_id: outline for outline in reversed(outlines)}, cursor is not None


def _print(scope: Scope, members: Sequence[Member], *, is_cut: bool) -> None:
    if not members:
        say(f"scope {scope} has no forks or subagents; treering sessions fork SESSION makes a fork")
        return
    branch, corner, line, blank = _DRAWN if is_terminal() else _PLAIN
    rails: list[str] = []
    for member in members:
        drawn = min(member.depth, DEPTH_DRAWN_MAX)
        del rails[max(drawn - 1, 0) :]
        lead = "".join(rails) + ((corner if member.is_last else branch) if drawn else "")
        say_painted((painted(lead, dim=True) if lead else "") + _drawn(member))
        if drawn:
            rails.append(blank if member.is_last else line)
    families = sum(member.depth == 0 for member in members)
    nouns = "family" if families == 1 else "families"
    say(f"{counted(len(members), 'session')} of {families:,} {nouns} of scope {scope}")
    if is_cut:
        say("only the families written to last are shown: name a session to see its own")


def _drawn(member: Member) -> str:
    outline = member.session
    state = painted(outline.state, STATE_COLOURS.get(outline.state))
    depth = f" depth {member.depth}" if member.depth > DEPTH_DRAWN_MAX else ""
    at = "" if outline.forked_seq is None else f" forked at {outline.forked_seq}"
    if outline.spawned_by is not None:
        at += f" subagent {printable(outline.agent or '')}".rstrip()
    title = title_of(outline)
    return f"{printable(outline.session_id)} {state}{depth}{at}{f'  {title}' if title else ''}"


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
_GOALS: Final = (Column("  goal"), Column("state", leaves=1), Column("what", is_prose=True))
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
    scope="wide",
    short_help="Show one session.",
    examples="""
    treering sessions show main:telegram:jo --scope acme/app
    treering sessions show main:tele --scope acme/app --last 20 --json
    """,
)
def show_session(
    *,
    scope: Scope | None,
    session: str = session_argument,
    last: int = option(
        "N",
        f"The last N turns, up to {PAGE_ITEMS_MAX}. Default: {LAST_TURNS}.",
        type=click.IntRange(0, PAGE_ITEMS_MAX),
        default=LAST_TURNS,
    ),
) -> None:
    """Show an overview of SESSION: state, last turns, goals, schedules, cost and forks.

    Turns are shortened: treering show reads them in full, treering context shows what a model
    sees. Failed and undone turns are marked; the model does not see them.
    """
    with open_existing() as ledger:
        opened = open_to_read(ledger, scope, session)
        sheet = sheet_of(ledger, opened, last=last, mask=Mask())
        short = short_sessions(ledger, opened.scope)
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
            "undone" if turn.turn.is_undone else turn.turn.state or NONE,
            clock(turn.turn.started_ms),
            f"{turn.turn.tool_calls:,}" if turn.turn.tool_calls else "",
            _tokens(turn.turn),
            one_line(turn.turn.prompt),
        ]
        for turn in turns
    ]
    print_filled(_TURNS, rows)


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
            session.scope, kinds=["session.opened"], first=queries.PAGE_ITEMS_MAX, after=after
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
