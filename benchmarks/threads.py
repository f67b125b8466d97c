"""Threads that share a ledger: how much group commit gives back."""

import random
import statistics
import threading
import time
from pathlib import Path
from typing import Final

import treering
from report import Row, Section, at_least
from workload import SEED, Effort, Workload, settled_heap

THREADS: Final = (1, 8, 64)
LIMITS: Final = {8: 3.5, 64: 9.0}


def run(effort: Effort, folder: Path) -> Section:
    """Measure the throughput of 1, 8 and 64 threads, each waiting for its own commit."""
    rates: dict[int, list[float]] = {count: [] for count in THREADS}
    dice = random.Random(SEED)
    events = Workload().singles(2_000)
    with settled_heap():
        for at in range(max(3, effort.repeats // 2)):
            for count in dice.sample(THREADS, k=len(THREADS)):
                path = folder / f"threads-{count}-{at}.db"
                with treering.open(path, guard="off") as ledger:
                    rates[count].append(_rate(ledger, count, effort.seconds, events))
                path.unlink()
    alone = statistics.median(rates[1])
    rows = [Row(what="1 thread, one durable append a call", measured=f"{alone:,.0f} events/s")]
    for count, limit in LIMITS.items():
        rate = statistics.median(rates[count])
        shown = f"{rate / alone:.1f} x ({rate:,.0f} events/s)"
        rows.append(at_least(f"{count} threads, the same", rate / alone, limit, shown))
    return Section(title="Threads on one ledger, throughput against one thread", rows=rows)


def _rate(
    ledger: treering.Ledger, count: int, seconds: float, events: list[treering.NewEvent]
) -> float:
    """Return events a second, all threads together."""
    ready = threading.Barrier(count + 1)
    done = [0] * count
    until = 0.0

    def write(number: int) -> None:
        mine = [[event] for event in events[number % 10 :: 10]]
        ready.wait()
        at = 0
        while time.perf_counter() < until:
            ledger.append(mine[at % len(mine)])
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
