"""Processes that share a file: whether all get their turn, how long they wait, what goes wrong."""

import multiprocessing
import statistics
import time
from pathlib import Path
from typing import Any, Final

import treering
from report import Row, Section, at_least, at_most
from workload import SEED, Effort, Workload, unnumbered

WRITERS: Final = 4


def run(effort: Effort, folder: Path) -> Section:
    """Let four processes append durably to one file, each in its own session."""
    fairness, worst_ms, rates, errors = [], [], [], 0
    for at in range(max(3, effort.repeats // 2)):
        counts, waits, failed = _contend(folder / f"shared-{at}.db", effort.seconds * 2)
        fairness.append(min(counts) / max(counts))
        worst_ms.append(max(waits) * 1e3)
        rates.append(sum(counts) / (effort.seconds * 2))
        errors += failed
    fair, worst = statistics.median(fairness), statistics.median(worst_ms)
    return Section(
        title="Four processes on one file, durable appends",
        rows=[
            at_least("slowest ÷ fastest writer", fair, 0.8, f"{fair:.2f}", unit=""),
            at_most(
                "worst wait",
                worst,
                200,
                f"{worst:.0f} ms (worst of all rounds {max(worst_ms):.0f} ms)",
                unit="ms",
            ),
            Row(what="errors", measured=str(errors), target="0", met=errors == 0),
            Row(what="throughput", measured=f"{statistics.median(rates):,.0f} events/s"),
        ],
    )


def _contend(path: Path, seconds: float) -> tuple[list[int], list[float], int]:
    """Return events, worst wait in seconds and errors of the writers."""
    treering.open(path, guard="off").close()
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(WRITERS), context.SimpleQueue()
    writers = [
        context.Process(target=_write, args=(str(path), number, seconds, ready, results))
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    outcomes = [results.get() for _ in writers]
    for writer in writers:
        writer.join()
    return [o[0] for o in outcomes], [o[1] for o in outcomes], sum(o[2] for o in outcomes)


def _write(path: str, number: int, seconds: float, ready: Any, results: Any) -> None:
    events = unnumbered(Workload(SEED + number).batch(number, 2_000))
    done = errors = 0
    worst = 0.0
    with treering.open(path, guard="off") as ledger:
        ledger.append(events[:1])
        ready.wait()
        until = time.perf_counter() + seconds
        before = time.perf_counter()
        while before < until:
            try:
                ledger.append([events[done % len(events)]])
                done += 1
            except treering.TreeringError:
                errors += 1
            after = time.perf_counter()
            worst = max(worst, after - before)
            before = after
        ready.wait()
    results.put((done, worst, errors))
