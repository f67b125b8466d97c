"""Threads that share a ledger: how much group commit gives back.

Beside it runs the limit: a bare table whose one writing thread commits for all who wait.
"""

import queue
import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

import treering
from bare import BareTable
from report import Row, Section, at_least
from workload import SEED, Body, Effort, Workload, body, settled_heap, unnumbered

THREADS: Final = (1, 8, 64)
LIMITS: Final = {8: 3.5, 64: 9.0}
WAITING_MAX: Final = 512
_READING: Final = (
    "The gain depends on the disk more than on the program: a single caller waits for one flush an"
    " event, so the slower the flush, the higher the ratio, and a busy disk alone can turn this"
    " verdict. Read it beside the bare table's gain and the rate of one thread."
)


def run(effort: Effort, folder: Path) -> Section:
    """Measure the throughput of 1, 8 and 64 threads, each waiting for its own commit."""
    events = unnumbered(Workload().singles(2_000))
    items = {"ours": events, "bare": [body(event) for event in events]}
    rates: dict[tuple[str, int], list[float]] = {
        (name, count): [] for name in items for count in THREADS
    }
    dice = random.Random(SEED)
    with settled_heap():
        for at in range(max(3, effort.repeats // 2)):
            for name, count in dice.sample(list(rates), k=len(rates)):
                path = folder / f"{name}-{count}-{at}.db"
                measure = _ledger_rate if name == "ours" else _bare_rate
                rates[name, count].append(measure(path, count, effort.seconds, items[name]))
                path.unlink()
    medians = {key: statistics.median(values) for key, values in rates.items()}
    return Section(
        title="Threads on one ledger, throughput against one thread",
        rows=[
            Row(
                what="1 thread, one durable append a call",
                measured=f"{medians['ours', 1]:,.0f} events/s"
                f" (bare table {medians['bare', 1]:,.0f})",
            ),
            *(_row(count, limit, medians, rates) for count, limit in LIMITS.items()),
        ],
        notes=[_READING],
    )


def _row(
    count: int,
    limit: float,
    medians: dict[tuple[str, int], float],
    rates: dict[tuple[str, int], list[float]],
) -> Row:
    gain, bare_gain = (medians[name, count] / medians[name, 1] for name in ("ours", "bare"))
    gains = [many / one for many, one in zip(rates["ours", count], rates["ours", 1], strict=True)]
    shown = (
        f"{gain:.1f} x, rounds {min(gains):.1f} to {max(gains):.1f}"
        f" ({medians['ours', count]:,.0f} events/s);"
        f" bare table {bare_gain:.1f} x ({medians['bare', count]:,.0f})"
    )
    return at_least(f"{count} threads, the same", gain, limit, shown)


def _ledger_rate(
    path: Path, count: int, seconds: float, events: Sequence[treering.NewEvent]
) -> float:
    with treering.open(path, guard="off") as ledger:
        for batch in _warming():
            ledger.append(batch)
        return _rate(lambda event: ledger.append([event]), count, seconds, events)


def _bare_rate(path: Path, count: int, seconds: float, bodies: Sequence[Body]) -> float:
    table = BareTable(str(path))
    for batch in _warming():
        table.append([body(event) for event in batch])
    if count == 1:
        rate = _rate(lambda item: table.append([item]), count, seconds, bodies)
    else:
        with _Committer(table) as committer:
            rate = _rate(committer.append, count, seconds, bodies)
    table.close()
    return rate


def _warming() -> list[list[treering.NewEvent]]:
    """Return what lets a write-ahead log reach its full size: while it grows, it is slower."""
    workload = Workload(SEED + 1)
    return [workload.batch(number) for number in range(20)]


class _Committer:
    """One thread that commits whatever is waiting."""

    def __init__(self, table: BareTable) -> None:
        self._table = table
        self._waiting: queue.SimpleQueue[tuple[Body, threading.Lock] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._commit)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)
        self._thread.join()

    def append(self, item: Body) -> None:
        """Return when ``item`` is durable."""
        done = threading.Lock()
        done.acquire()
        self._waiting.put((item, done))
        done.acquire()

    def _commit(self) -> None:
        while (first := self._waiting.get()) is not None:
            group = [first]
            while len(group) < WAITING_MAX and not self._waiting.empty():
                following = self._waiting.get()
                if following is not None:
                    group.append(following)
            self._table.append([item for item, _ in group])
            for _, done in group:
                done.release()


def _rate(
    append: Callable[[Any], object], count: int, seconds: float, items: Sequence[Any]
) -> float:
    """Return events a second, all threads together."""
    ready = threading.Barrier(count + 1)
    done = [0] * count
    until = 0.0

    def write(number: int) -> None:
        mine = items[number % 10 :: 10]
        ready.wait()
        at = 0
        while time.perf_counter() < until:
            append(mine[at % len(mine)])
            at += 1
        done[number] = at

    writers = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for writer in writers:
        writer.start()
    started = time.perf_counter()
    until = started + seconds
    ready.wait()
    for writer in writers:
        writer.join()
    return sum(done) / (time.perf_counter() - started)
