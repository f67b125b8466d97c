"""PostgreSQL, scale: the same reads of a large ledger and of a small one."""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import treering
from postgres_bare import fresh_ledger, settle
from report import Row, Section, at_most
from workload import AGENT, SCOPE, Effort, Workload, in_turns, session_name

SMALL: Final = 10_000
BATCH: Final = 1_000
CALLS: Final = 5
LIMIT: Final = 1.5
_PROGRESS_EVENTS: Final = 100_000


def measure(effort: Effort, url: str) -> Section:
    """Measure reads of a session and of a scope, small and large in turns."""
    with fresh_ledger(url, "small") as small, fresh_ledger(url, "large") as large:
        _fill(small, SMALL)
        rate = _fill(large, effort.large)
        settle(url)
        with (
            treering.open(small, guard="off") as few,
            treering.open(large, guard="off") as many,
        ):
            rows = [
                _row(what, limit, few, many, read, effort) for what, (read, limit) in _READS.items()
            ]
    return Section(
        title=f"PostgreSQL, {effort.large:,} events against {SMALL:,}",
        rows=[
            *rows,
            Row(
                what=f"building it, batches of {BATCH:,} without waiting for the disk",
                measured=f"{rate:,.0f} events/s",
            ),
        ],
    )


def _tail(ledger: treering.Ledger) -> list[Any]:
    session = ledger.session(session_name(3), scope=SCOPE, agent=AGENT)
    return list(session.events(last=20))


def _window(ledger: treering.Ledger) -> list[Any]:
    session = ledger.session(session_name(3), scope=SCOPE, agent=AGENT)
    return list(session.events(last=1_000))


def _of_kind(ledger: treering.Ledger) -> list[Any]:
    return ledger.headers(SCOPE, kinds=["conversation.user"], last=100).items


def _of_scope(ledger: treering.Ledger) -> list[Any]:
    return ledger.headers(SCOPE, last=100).items


_Read = Callable[[treering.Ledger], list[Any]]
_READS: Final[dict[str, tuple[_Read, float | None]]] = {
    "last 20 events of a session": (_tail, LIMIT),
    "last 1,000 events of a session": (_window, LIMIT),
    "last 100 headers of a kind in a scope": (_of_kind, None),
    "last 100 headers of a scope": (_of_scope, None),
}


def _fill(place: str, events: int) -> float:
    """Make a ledger of so many events; return events a second."""
    workload, spent = Workload(), 0.0
    with treering.open(place, durability="normal", guard="off") as ledger:
        for number in range(events // BATCH):
            batch = workload.batch(number, BATCH)
            before = time.perf_counter()
            ledger.append(batch)
            spent += time.perf_counter() - before
            made = (number + 1) * BATCH
            if made % _PROGRESS_EVENTS == 0:
                print(f"  building: {made:,} of {events:,} events", file=sys.stderr, flush=True)
    return events / spent


def _row(
    what: str,
    limit: float | None,
    few: treering.Ledger,
    many: treering.Ledger,
    read: _Read,
    effort: Effort,
) -> Row:
    if len(read(few)) != len(read(many)):
        raise AssertionError(f"{what}: found {len(read(few))} and {len(read(many))}")
    walls = in_turns(
        {"few": lambda: read(few), "many": lambda: read(many)},
        rounds=effort.repeats * 2,
        calls=CALLS,
    )
    small_us, large_us = (statistics.median(walls[name]) * 1e6 for name in ("few", "many"))
    shown = f"{large_us / small_us:.2f} x ({large_us:,.0f} : {small_us:,.0f} µs)"
    if limit is None:
        return Row(what=what, measured=shown)
    return at_most(what, large_us / small_us, limit, shown)
