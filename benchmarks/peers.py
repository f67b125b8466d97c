"""Peers: the same events through every store that somebody might use instead."""

import random
import sqlite3
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from async_contestants import GoogleAdk, OpenAIAgents
from contestants import Contestant, EventSourcing, LangGraph, Treering
from report import Row, Section
from workload import SEED, Effort, Workload, settled_heap

PEERS: Final[tuple[Callable[[Path], Contestant], ...]] = (
    EventSourcing,
    OpenAIAgents,
    LangGraph,
    GoogleAdk,
)
SINGLES: Final = 40
LONG: Final = "long"
LONG_EVENTS: Final = 5_000
TASKS: Final = {
    "append": ("one durable append, p50", "µs", 1e6),
    "batch": ("a batch of 100, an event", "µs", 1e6),
    "read": ("a session of 5,000 as objects", "ms", 1e3),
    "tail": ("its last 100", "ms", 1e3),
}

Seconds = dict[str, dict[str, list[float]]]


def run(effort: Effort, folder: Path) -> Section:
    """Let all stores take turns at four tasks; compare medians of the wall clock."""
    with _contestants(folder) as (contestants, missing):
        seconds: Seconds = {
            contestant.name: {task: [] for task in TASKS} for contestant in contestants
        }
        _append(contestants, seconds, effort.peer_rounds)
        _fill(contestants)
        _read(contestants, seconds, effort.repeats)
        rows = [
            _row(task, contestant.name, seconds) for contestant in contestants[1:] for task in TASKS
        ]
        rows += [Row(what=name, measured="not installed", target="faster") for name in missing]
        notes = [f"{contestant.name}: {contestant.how}." for contestant in contestants]
    return Section(title="Peers, wall clock", rows=rows, notes=[_fairness(effort), *notes])


@contextmanager
def _contestants(folder: Path) -> Iterator[tuple[list[Contestant], list[str]]]:
    """Open every store that is installed, ours first; also name those that are not."""
    there: list[Contestant] = [Treering(folder)]
    missing: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in PEERS:
            try:
                there.append(make(folder))
            except ImportError:
                missing.append(make.__name__)
        try:
            yield there, missing
        finally:
            for contestant in there:
                contestant.close()


def _append(contestants: list[Contestant], seconds: Seconds, rounds: int) -> None:
    workload, dice = Workload(), random.Random(SEED)
    for at in range(rounds):
        singles, batch = workload.singles(SINGLES), workload.batch(at)
        forms: dict[str, tuple[list[tuple[str, Any]], list[Any]]] = {
            c.name: (
                [(event.session_id, c.prepare(event)) for event in singles],
                [c.prepare(event) for event in batch],
            )
            for c in contestants
        }
        with settled_heap():
            for contestant in dice.sample(contestants, k=len(contestants)):
                pairs, items = forms[contestant.name]
                taken = seconds[contestant.name]
                taken["append"] += contestant.append_each(pairs)
                before = time.perf_counter()
                contestant.append(batch[0].session_id, items)
                taken["batch"].append((time.perf_counter() - before) / len(items))


def _fill(contestants: list[Contestant]) -> None:
    """Give every store the same long session."""
    workload = Workload(SEED + 1)
    for _ in range(LONG_EVENTS // 100):
        batch = [
            msgspec.structs.replace(event, session_id=LONG, run_id=None, turn_id=None, run_seq=None)
            for event in workload.batch(0)
        ]
        for contestant in contestants:
            contestant.append(LONG, [contestant.prepare(event) for event in batch])


def _read(contestants: list[Contestant], seconds: Seconds, repeats: int) -> None:
    dice = random.Random(SEED)
    with settled_heap():
        for at in range(repeats + 1):
            for contestant in dice.sample(contestants, k=len(contestants)):
                for task, read, count in (
                    ("read", contestant.read, LONG_EVENTS),
                    ("tail", contestant.tail, 100),
                ):
                    before = time.perf_counter()
                    found = read(LONG)
                    spent = time.perf_counter() - before
                    if len(found) != count:
                        raise AssertionError(f"{contestant.name} gave {len(found)}, not {count}")
                    if at:  # The first round warms the caches.
                        seconds[contestant.name][task].append(spent)


def _row(task: str, name: str, seconds: Seconds) -> Row:
    what, unit, scale = TASKS[task]
    ours = statistics.median(seconds[Treering.name][task]) * scale
    theirs = statistics.median(seconds[name][task]) * scale
    return Row(
        what=f"{name}: {what}",
        measured=f"{theirs / ours:.1f} x ours ({theirs:.1f} : {ours:.1f} {unit})",
        target="slower than ours",
        met=ours < theirs,
    )


def _fairness(effort: Effort) -> str:
    synchronous = sqlite3.connect(":memory:").execute("PRAGMA synchronous").fetchone()[0]
    durable = "as durable as ours" if synchronous >= 2 else "**less durable than ours**"
    per_session = effort.peer_rounds * (SINGLES + 100) // 10
    return (
        "Every store on a file database as it is shipped. Peers use Python's own sqlite3, which"
        f" here commits with synchronous={synchronous}: {durable}. Appends go to sessions that"
        f" grow to {per_session} events; reads to one of {LONG_EVENTS:,}."
    )
