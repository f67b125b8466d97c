"""Forks: what one costs in time and in bytes, and what reading through a line of them costs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import treering
from contexts import BUDGET_TOKENS
from conversations import LONG, SMALL, TURN_EVENTS, conversation, turn_ms
from report import Row, Section, against, at_most
from workload import AGENT, SCOPE, Effort, in_turns

CALLS: Final = 5
WEIGHED: Final = 500
"""Forks that are weighed together: a file grows by whole pages."""
DEPTH: Final = 10
PAGE: Final = 100
TIME_LIMIT: Final = 1.5
BYTES_LIMIT: Final = 1.1
"""As many bytes, but for the pages that happen to be full."""
_FORKING: Final = (
    "A fork is one durable event in a session of its own; here commits do not wait for the disk, so"
    " that it does not hide the rest. In the middle, the end of the turn is looked for first."
)
_READING: Final = (
    f"A line of {DEPTH} forks, a turn recorded in each, is read by a handle that has not looked up"
    " its ancestors yet; so is the session that all of them come from."
)


def run(effort: Effort, folder: Path) -> Section:
    """Measure forks of a long session and of a short one, in turns."""
    small = conversation(folder.parent, SMALL)
    large = conversation(folder.parent, effort.large)
    return Section(
        title="Forks",
        rows=[
            *_times(effort, small, large),
            _bytes(effort, small, large),
            *_lines(effort, large),
        ],
        notes=[_FORKING, _READING],
    )


def _times(effort: Effort, small: Path, large: Path) -> list[Row]:
    with _opened(small) as few, _opened(large) as many:
        ways: dict[str, Callable[[], object]] = {}
        for name, ledger, events in (("small", few, SMALL), ("large", many, effort.large)):
            session = ledger.session(LONG, scope=SCOPE, agent=AGENT)
            ways[f"{name} end"] = session.fork
            ways[f"{name} middle"] = partial(session.fork, at=_event_in_the_middle(ledger, events))
        walls = in_turns(ways, rounds=effort.repeats, calls=CALLS)
    what = f"of {effort.large:,} events, against {SMALL:,}"
    return [
        against(f"fork {what}", walls["large end"], walls["small end"], TIME_LIMIT),
        against(
            f"fork in the middle {what}", walls["large middle"], walls["small middle"], TIME_LIMIT
        ),
    ]


def _event_in_the_middle(ledger: treering.Ledger, events: int) -> str:
    """Return the id of an event in the midst of a session."""
    since = turn_ms(events // TURN_EVENTS // 2)
    return ledger.headers(SCOPE, session_id=LONG, since_ms=since, first=1).items[0].event_id


def _bytes(effort: Effort, small: Path, large: Path) -> Row:
    grown = {path: _growth(path) for path in (small, large)}
    ratio = grown[large] / grown[small]
    return at_most(
        f"bytes of a fork of {effort.large:,} events, against {SMALL:,}",
        ratio,
        BYTES_LIMIT,
        f"{ratio:.2f} x ({grown[large]:,.0f} : {grown[small]:,.0f} bytes)",
    )


def _growth(path: Path) -> float:
    """Return by how many bytes a ledger's file grows for each fork."""
    before = path.stat().st_size
    with _opened(path) as ledger:
        session = ledger.session(LONG, scope=SCOPE, agent=AGENT)
        for _ in range(WEIGHED):
            session.fork()
    return (path.stat().st_size - before) / WEIGHED


def _lines(effort: Effort, large: Path) -> list[Row]:
    """Compare reading the last of a line of forks with reading the session it comes from."""
    with _opened(large) as ledger:
        session = ledger.session(LONG, scope=SCOPE, agent=AGENT)
        for _ in range(DEPTH):
            session = session.fork()
            with session.turn() as turn:
                turn.user("and what if we did it the other way round?")
                turn.assistant("then it would be done the other way round")
        names = {"root": LONG, "line": session.session_id}
        reads: dict[str, Callable[[treering.Session], Any]] = {
            f"first {PAGE} events": lambda one: list(one.events(first=PAGE)),
            f"last {PAGE} events": lambda one: list(one.events(last=PAGE)),
            "context": lambda one: one.context(BUDGET_TOKENS),
        }
        rows = []
        for what, read in reads.items():
            walls = in_turns(
                {name: _by_new_handle(ledger, one, read) for name, one in names.items()},
                rounds=effort.repeats,
                calls=CALLS,
            )
            label = f"{what} of the last of {DEPTH} forks in a line, against the first session"
            rows.append(against(label, walls["line"], walls["root"]))
    return rows


def _by_new_handle(
    ledger: treering.Ledger, session_id: str, read: Callable[[treering.Session], Any]
) -> Callable[[], Any]:
    return lambda: read(ledger.session(session_id, scope=SCOPE, agent=AGENT))


def _opened(path: Path) -> treering.Ledger:
    return treering.open(path, durability="normal", guard="off")
