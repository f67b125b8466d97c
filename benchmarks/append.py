"""Appending: one durable event a call, and batches of a hundred, against the bare table."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import treering
from bare import BareTable
from report import Row, Section, against, at_most
from workload import SEED, Effort, Workload, body, settled_heap, timed

SINGLES: Final = 100
BATCHES: Final = 9
STALL_S_MAX: Final = 1.0
"""No checkpoint may hold a writer up for longer."""
_LIMIT: Final = (
    "The bare table keeps `(position, session, seq, body)`, one JSON document an event: no chain,"
    " no idempotency, no index by time, nothing erasable."
)


def run(effort: Effort, folder: Path) -> Section:
    """Measure both ways of appending, and what the files then weigh."""
    ledger = treering.open(folder / "ledger.db", guard="off")
    bare = BareTable(str(folder / "bare.db"))
    contestants: dict[str, Callable[[Any], object]] = {"ours": ledger.append, "bare": bare.append}
    walls: dict[str, list[float]] = {name: [] for name in contestants}
    cpu: dict[str, list[float]] = {name: [] for name in contestants}
    batch_cpu: dict[str, list[float]] = {name: [] for name in contestants}
    batch_wall: dict[str, list[float]] = {name: [] for name in contestants}
    workload, dice = Workload(), random.Random(SEED)
    for at in range(effort.rounds):
        singles = workload.singles(SINGLES)
        batches = [workload.batch(at * BATCHES + number) for number in range(BATCHES)]
        forms = {
            "ours": (singles, batches),
            "bare": ([body(e) for e in singles], [[body(e) for e in b] for b in batches]),
        }
        with settled_heap():
            for name in dice.sample(list(contestants), k=2):
                append, (one_by_one, hundreds) = contestants[name], forms[name]
                spent_wall, spent_cpu = _singles(append, one_by_one)
                walls[name] += spent_wall
                cpu[name].append(spent_cpu)
                for hundred in hundreds:
                    with timed() as spent:
                        append(hundred)
                    batch_cpu[name].append(spent.cpu_s / len(hundred))
                    batch_wall[name].append(spent.wall_s / len(hundred))
    ledger.close()
    bare.close()
    events = effort.rounds * SINGLES * (1 + BATCHES)
    sizes = {
        "ours": (folder / "ledger.db").stat().st_size / events,
        "bare": (folder / "bare.db").stat().st_size / events,
    }
    return Section(
        title="Appending, against a bare insert of the same events",
        rows=[
            against("one durable append a call, p50", walls["ours"], walls["bare"], 1.3),
            _worst(walls["ours"], walls["bare"]),
            against("one durable append a call, CPU", cpu["ours"], cpu["bare"], 1.5),
            against("batches of 100, CPU an event", batch_cpu["ours"], batch_cpu["bare"], 2.2),
            against("batches of 100, wall clock an event", batch_wall["ours"], batch_wall["bare"]),
            at_most(
                "bytes a stored event",
                sizes["ours"] / sizes["bare"],
                1.25,
                f"{sizes['ours'] / sizes['bare']:.2f} x"
                f" ({sizes['ours']:.0f} : {sizes['bare']:.0f} bytes)",
            ),
        ],
        notes=[_fairness(events), _LIMIT],
    )


def _singles(append: Callable[[Any], object], items: Sequence[Any]) -> tuple[list[float], float]:
    """Append one by one; return each call's wall time and the mean processor time."""
    walls = []
    clock = time.perf_counter
    started = time.process_time()
    for item in items:
        before = clock()
        append([item])
        walls.append(clock() - before)
    return walls, (time.process_time() - started) / len(items)


def _worst(ours_s: Sequence[float], bare_s: Sequence[float]) -> Row:
    """Return a row with the slowest appends: those that checkpoint, or index other events."""
    shown = [
        f"{walls[len(walls) * 99 // 100] * 1e3:.1f} and {walls[-1] * 1e3:.1f} ms"
        for walls in (sorted(ours_s), sorted(bare_s))
    ]
    return at_most(
        "one durable append a call, p99 and worst",
        max(ours_s),
        STALL_S_MAX,
        f"{shown[0]} (bare: {shown[1]})",
        "s",
    )


def _fairness(events: int) -> str:
    return (
        f"{events:,} events in 10 sessions, a tenth of them one a call. Both sides encode their"
        " events inside the timed section and commit with synchronous=FULL; guard off."
    )
