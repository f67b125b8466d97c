"""Views: what is told of a long session, against the same of a short one."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

import treering
from conversations import LONG, SMALL, TURN_EVENTS, conversation, talk
from report import Row, Section, against
from treering import NewEvent
from workload import AGENT, SCOPE, START_MS, Effort, in_turns

CALLS: Final = 3
LAST: Final = 20
FOLDED_LIMIT: Final = 2.0
TAIL_LIMIT: Final = 1.3
TAIL_EVENTS: Final = SMALL - TURN_EVENTS
"""Events behind the last snapshot: nearly as many as there ever are."""
SESSIONS: Final = (100, 10_000)
_FOLDING: Final = (
    f"The long session has a snapshot and {TAIL_EVENTS} events behind it, nearly as many as there"
    " can be; the short one is folded from its first event."
)
_FIRST: Final = (
    "Looking for the first time folds all events of a session, or follows all tool calls of a"
    " scope, and keeps what it finds."
)
_Look = Callable[[treering.Session], Any]
_FOLDED: Final[dict[str, _Look]] = {
    "goals()": lambda session: session.goals(),
    "usage()": lambda session: session.usage(),
    "summary()": lambda session: session.summary(),
}
_TAILS: Final[dict[str, _Look]] = {
    f"turns(last={LAST})": lambda session: list(session.turns(last=LAST)),
    f"history(last={LAST})": lambda session: session.history(last=LAST),
    f"tool_calls(last={LAST})": lambda session: list(session.tool_calls(last=LAST)),
    "undo(), and redo()": lambda session: (session.undo(), session.redo()),
}


def run(effort: Effort, folder: Path) -> list[Section]:
    """Measure views of one session, and the list of many."""
    return [
        Section(title="Views", rows=_views(effort, folder), notes=[_FOLDING, _FIRST]),
        Section(title="Lists of sessions", rows=[_lists(effort, folder)]),
    ]


def _views(effort: Effort, folder: Path) -> list[Row]:
    # They are written to, so others keep the ledgers as they were built.
    small, large = (
        shutil.copyfile(conversation(folder.parent, events), folder / f"views-{events}.db")
        for events in (SMALL, effort.large)
    )
    with _opened(small) as few, _opened(large) as many:
        short, long = (one.session(LONG, scope=SCOPE, agent=AGENT) for one in (few, many))
        rows = [
            _first(f"summary() of {effort.large:,} events, the first time", long.summary),
            _first("tool_calls() of all of them, the first time", lambda: long.tool_calls(last=1)),
        ]
        long.append(list(_tail()))
        for looks, limit in ((_FOLDED, FOLDED_LIMIT), (_TAILS, TAIL_LIMIT)):
            for what, look in looks.items():
                rows.append(_compared(effort, what, look, short, long, limit))
    return rows


def _first(what: str, look: Callable[[], object]) -> Row:
    started = time.perf_counter()
    look()
    return Row(what=what, measured=f"{time.perf_counter() - started:.1f} s")


def _tail() -> Iterator[NewEvent]:
    for event in talk("tail", TAIL_EVENTS):
        yield msgspec.structs.replace(event, session_id=LONG)


def _compared(
    effort: Effort,
    what: str,
    look: _Look,
    short: treering.Session,
    long: treering.Session,
    limit: float,
) -> Row:
    walls = in_turns(
        {"long": lambda: look(long), "short": lambda: look(short)},
        rounds=effort.repeats,
        calls=CALLS,
    )
    label = f"{what} of {effort.large:,} events, against {SMALL:,}"
    return against(label, walls["long"], walls["short"], limit)


def _lists(effort: Effort, folder: Path) -> Row:
    few, many = (_many_sessions(folder / f"sessions-{count}.db", count) for count in SESSIONS)
    with _opened(few) as short, _opened(many) as long:
        walls = in_turns(
            {"long": lambda: long.sessions(SCOPE), "short": lambda: short.sessions(SCOPE)},
            rounds=effort.repeats,
            calls=CALLS,
        )
    label = f"the first page of {SESSIONS[1]:,} sessions, against {SESSIONS[0]}"
    return against(label, walls["long"], walls["short"])


def _many_sessions(path: Path, count: int) -> Path:
    """Make a ledger with so many sessions of one turn each."""
    with _opened(path) as ledger:
        for first in range(0, count, 100):
            ledger.append(
                [
                    event
                    for number in range(first, min(first + 100, count))
                    for event in _short_turn(f"session-{number}")
                ]
            )
    return path


def _short_turn(session: str) -> Iterator[NewEvent]:
    kinds = ("run.started", "conversation.user", "conversation.assistant", "run.ended")
    for at, kind in enumerate(kinds):
        yield NewEvent(
            scope=SCOPE,
            session_id=session,
            kind=kind,
            agent_id=AGENT,
            summary=f"{kind} in {session}",
            ts_ms=START_MS + at,
            run_id=f"{session}-run",
            run_seq=at + 1,
        )


def _opened(path: Path) -> treering.Ledger:
    return treering.open(path, durability="normal", guard="off")
