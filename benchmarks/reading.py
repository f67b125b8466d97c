"""Reading a session of 5,000 events as objects, against selecting and decoding documents."""

import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import treering
from bare import BareTable
from report import Row, Section, at_most
from workload import (
    AGENT,
    SCOPE,
    SEED,
    SESSIONS,
    Effort,
    Workload,
    body,
    session_name,
    settled_heap,
    timed,
)

SESSION: Final = 3
PER_SESSION: Final = 5_000
_FAIRNESS: Final = (
    "`session.events()` gives typed events, refs and payload decoded, a page at a time; the bare"
    " side selects all documents at once and decodes each into a typed struct."
)


def run(effort: Effort, folder: Path) -> Section:
    """Measure full reads, and what headers alone cost."""
    _fill(folder)
    bare = BareTable(str(folder / "bare.db"))
    with treering.open(folder / "ledger.db", guard="off") as ledger:
        session = ledger.session(session_name(SESSION), scope=SCOPE, agent=AGENT)
        ways: dict[str, Callable[[], list[Any]]] = {
            "events": lambda: list(session.events()),
            "headers": lambda: list(session.headers()),
            "bare": lambda: bare.read(SESSION),
        }
        cpu = _rounds(ways, effort.repeats)
    bare.close()
    ms = {name: statistics.median(seconds) * 1e3 for name, seconds in cpu.items()}
    return Section(
        title="Reading, against a bare select and JSON decode",
        rows=[
            at_most(
                "a session of 5,000 events as objects, CPU",
                ms["events"] / ms["bare"],
                1.6,
                f"{ms['events'] / ms['bare']:.2f} x ({ms['events']:.1f} : {ms['bare']:.1f} ms)",
            ),
            Row(
                what="its headers alone, CPU",
                measured=f"{ms['headers'] / ms['bare']:.2f} x ({ms['headers']:.1f} ms)",
            ),
        ],
        notes=[_FAIRNESS],
    )


def _fill(folder: Path) -> None:
    workload = Workload()
    bare = BareTable(str(folder / "bare.db"), durability="normal")
    with treering.open(folder / "ledger.db", durability="normal", guard="off") as ledger:
        for number in range(SESSIONS * PER_SESSION // 100):
            batch = workload.batch(number)
            ledger.append(batch)
            bare.append([body(event) for event in batch])
    bare.close()


def _rounds(ways: dict[str, Callable[[], list[Any]]], repeats: int) -> dict[str, list[float]]:
    dice = random.Random(SEED)
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    for at in range(repeats + 1):
        for name in dice.sample(list(ways), k=len(ways)):
            spent = _read(ways[name])
            if at:  # The first round warms the caches.
                cpu[name].append(spent)
    return cpu


def _read(way: Callable[[], list[Any]]) -> float:
    """Return the processor time of one read; what it found is let go after the clock stops."""
    with settled_heap(), timed() as spent:
        found = way()
    if len(found) != PER_SESSION:
        raise AssertionError(f"read {len(found)} events, not {PER_SESSION}")
    return spent.cpu_s
