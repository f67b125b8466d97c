"""Ten million events, against a hundred thousand: what must not grow with a ledger.

Building takes a quarter of an hour and 13 GB of disk, so it is measured on request only:
``python benchmarks/run.py --all``. With ``--keep`` the next run finds both ledgers built.
"""

import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Final

import treering
from conversations import BATCH, talk
from large import layout
from report import Row, Section, against
from workload import AGENT, SCOPE, SEED, SESSIONS, Effort, in_turns, session_name

LIMIT: Final = 1.3
CALLS: Final = 5
APPENDED: Final = 100
READ: Final = 100
_NOTE: Final = (
    "Both are conversations in ten sessions, built by appending them batch by batch, and indexed"
    " before anything is measured; then they take turns. Appended are five turns in a session of"
    " their own, without waiting for the disk."
)
_Look = Callable[[treering.Ledger], object]


def run(effort: Effort, folder: Path) -> Section:
    """Measure the same calls on a large and on a small ledger, in turns."""
    sizes = {"small": effort.large // 10, "large": effort.large * 10}
    built = folder.parent / f"ten-million-{effort.large}-{layout()}"
    if not built.exists():
        for size, events in sizes.items():
            _build(folder / f"{size}.db", events)
        folder.rename(built)
    paths = {size: built / f"{size}.db" for size in sizes}
    # No session is begun twice, in ledgers that were kept neither.
    dice, numbers = random.Random(SEED), count(time.time_ns())
    words = sorted({word for event in talk("words", APPENDED) for word in event.summary.split()})
    looks: dict[str, _Look] = {
        "append of 100": lambda ledger: ledger.append(list(talk(f"n{next(numbers)}", APPENDED))),
        "last 100 headers of a session": lambda ledger: list(_session(ledger).headers(last=READ)),
        "last 100 headers of the scope": lambda ledger: ledger.headers(SCOPE, last=READ).items,
        "first 100 events of a session": lambda ledger: list(_session(ledger).events(first=READ)),
        "search of a word": lambda ledger: ledger.search(dice.choice(words), scope=SCOPE),
    }
    label = f"{sizes['large']:,} events against {sizes['small']:,}"
    opening = {size: _bound(_open_and_close, path) for size, path in paths.items()}
    rows = [_compared(effort, f"open and close, {label}", opening)]
    with ExitStack() as stack:
        ledgers = {size: stack.enter_context(_opened(path)) for size, path in paths.items()}
        for what, look in looks.items():
            ways = {size: _bound(look, ledger) for size, ledger in ledgers.items()}
            rows.append(_compared(effort, f"{what}, {label}", ways))
    return Section(title="Ten million events", rows=rows, notes=[_NOTE])


def _build(path: Path, events: int) -> None:
    """Make a ledger of so many events, with its index."""
    sessions = (talk(session_name(at), events // SESSIONS) for at in range(SESSIONS))
    recorded = chain.from_iterable(sessions)
    with _opened(path) as ledger:
        for made in range(0, events, BATCH):
            ledger.append(list(islice(recorded, BATCH)))
            if made % 1_000_000 == 0:
                print(f"  building: {made:,} of {events:,} events", file=sys.stderr, flush=True)
        print(f"  indexing {events:,} events", file=sys.stderr, flush=True)
        ledger.admin.index(SCOPE)


def _compared(effort: Effort, what: str, ways: dict[str, Callable[[], object]]) -> Row:
    walls = in_turns(ways, rounds=effort.repeats, calls=CALLS)
    return against(what, walls["large"], walls["small"], LIMIT)


def _bound(look: Callable[[Any], object], subject: Any) -> Callable[[], object]:
    return lambda: look(subject)


def _session(ledger: treering.Ledger) -> treering.Session:
    return ledger.session(session_name(3), scope=SCOPE, agent=AGENT)


def _open_and_close(path: Path) -> None:
    _opened(path).close()


def _opened(path: Path) -> treering.Ledger:
    return treering.open(path, durability="normal", guard="off")
