"""Peers: the same events through every store that somebody might use instead."""

import random
import sqlite3
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from async_contestants import GoogleAdk, OpenAIAgents
from contestants import Contestant, EventSourcing, LangGraph, LangGraphDicts, Treering
from report import Row, Section
from treering import NewEvent
from workload import SEED, Effort, Workload, settled_heap

PEERS: Final[tuple[Callable[[Path], Contestant], ...]] = (
    EventSourcing,
    OpenAIAgents,
    LangGraph,
    LangGraphDicts,
    GoogleAdk,
)
BATCH: Final = 100
SINGLE_ROUNDS: Final = 20
TAIL: Final = 100
SESSION: Final = "long"
TASKS: Final = {
    "append": ("one durable append, p50", "µs", 1e6),
    "batch": ("a batch of 100, an event", "µs", 1e6),
    "read": ("the whole session as objects", "ms", 1e3),
    "tail": ("its last 100", "ms", 1e3),
}

Seconds = dict[str, dict[str, list[float]]]


def run(effort: Effort, folder: Path) -> Section:
    """Let all stores take turns at four tasks; compare medians of the wall clock."""
    with _contestants(folder) as (contestants, missing):
        seconds: Seconds = {
            contestant.name: {task: [] for task in TASKS} for contestant in contestants
        }
        workload = Workload()
        _grow(contestants, seconds, workload, effort.peer_rounds)
        _read(contestants, seconds, effort)
        _append(contestants, seconds, workload)
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


def _grow(contestants: list[Contestant], seconds: Seconds, workload: Workload, rounds: int) -> None:
    """Let one session grow in every store, a batch a round."""
    dice = random.Random(SEED)
    for _ in range(rounds):
        events = _next(workload, BATCH)
        forms = {c.name: [c.prepare(event) for event in events] for c in contestants}
        with settled_heap():
            for contestant in dice.sample(contestants, k=len(contestants)):
                before = time.perf_counter()
                contestant.append(SESSION, forms[contestant.name])
                spent = time.perf_counter() - before
                seconds[contestant.name]["batch"].append(spent / BATCH)


def _append(contestants: list[Contestant], seconds: Seconds, workload: Workload) -> None:
    """Append single events at the end of the session.

    Stores that write megabytes an event come last: the disk is busy with them long afterwards.
    """
    quick = [c for c in contestants if c.singles >= Treering.singles]
    for group in (quick, [c for c in contestants if c not in quick]):
        dice = random.Random(SEED)
        for _ in range(SINGLE_ROUNDS if group else 0):
            events = _next(workload, max(contestant.singles for contestant in group))
            forms = {
                c.name: [(SESSION, c.prepare(event)) for event in events[: c.singles]]
                for c in group
            }
            with settled_heap():
                for contestant in dice.sample(group, k=len(group)):
                    taken = contestant.append_each(forms[contestant.name])
                    seconds[contestant.name]["append"] += taken


def _next(workload: Workload, count: int) -> list[NewEvent]:
    return [
        msgspec.structs.replace(event, session_id=SESSION) for event in workload.batch(0, count)
    ]


def _read(contestants: list[Contestant], seconds: Seconds, effort: Effort) -> None:
    dice = random.Random(SEED)
    for at in range(effort.repeats + 1):
        for contestant in dice.sample(contestants, k=len(contestants)):
            for task, read, count in (
                ("read", contestant.read, _length(effort)),
                ("tail", contestant.tail, TAIL),
            ):
                spent = _time(read, count)
                if at:  # The first round warms the caches.
                    seconds[contestant.name][task].append(spent)


def _time(read: Callable[[str], Sequence[Any]], count: int) -> float:
    with settled_heap():
        before = time.perf_counter()
        found = read(SESSION)
        spent = time.perf_counter() - before
    if len(found) != count:
        raise AssertionError(f"{read} gave {len(found)} events, not {count}")
    return spent


def _length(effort: Effort) -> int:
    return effort.peer_rounds * BATCH


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
    return (
        "Every store on a file database as it is shipped. Peers use Python's own sqlite3, which"
        f" here commits with synchronous={synchronous}: {durable}. One session grows by batches to"
        f" {_length(effort):,} events, is read, and then takes single appends at its end:"
        f" {Treering.singles * SINGLE_ROUNDS} of every store,"
        f" {LangGraph.singles * SINGLE_ROUNDS} of LangGraph's."
    )
