"""PostgreSQL, call by call: one durable event, batches, reads, and what an event weighs."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

import treering
from postgres_bare import SCHEMA, BareEvents, bare_table, fresh_ledger, settle, size
from report import Row, Section, against
from treering import NewEvent
from workload import AGENT, SCOPE, SEED, Effort, Workload, in_turns, session_name, settled_heap

LEDGER: Final = "calls"
SIZES: Final = {1: 100, 100: 5, 1_000: 1}
"""How often a round appends so many events at once."""
READ: Final = 1_000
TAIL: Final = 20
READS: Final = 5
_FAIRNESS: Final = (
    "Wall clock, medians. The bare table has the columns, keys, indexes and partitions of ours,"
    " and rows of the same bytes; a batch is psycopg's `executemany` in one transaction. Both"
    " encode and decode JSON inside the timed section, commit with fsync and synchronous_commit"
    " on, and read in binary. Ours gives typed events, bare tuples. Guard off."
)


def measure(effort: Effort, url: str) -> Section:
    """Measure appends and reads, both sides in turns."""
    with (
        fresh_ledger(url, LEDGER) as place,
        bare_table(url, like=LEDGER),
        treering.open(place, guard="off") as ledger,
        BareEvents(url) as bare,
    ):
        empty = {schema: size(url, schema) for schema in (LEDGER, SCHEMA)}
        ours, theirs, events = _appends(ledger, bare, effort.rounds)
        weights = {schema: (size(url, schema) - empty[schema]) / events for schema in empty}
        settle(url)
        reads = _reads(ledger, bare, effort.rounds)
    return Section(
        title="PostgreSQL, against bare psycopg on a table like ours",
        rows=[
            against("one durable append a call", ours[1], theirs[1], 1.8),
            *(
                against(f"batches of {count:,}, an event", ours[count], theirs[count], 2.5)
                for count in (100, 1_000)
            ),
            against(f"{READ:,} events of a session", reads["read"], reads["bare read"], 1.6),
            against(f"its last {TAIL}", reads["tail"], reads["bare tail"], 1.6),
            Row(
                what="bytes a stored event, indexes included",
                measured=f"{weights[LEDGER] / weights[SCHEMA]:.2f} x"
                f" ({weights[LEDGER]:,.0f} : {weights[SCHEMA]:,.0f} bytes)",
            ),
        ],
        notes=[_FAIRNESS, f"{events:,} events in 10 sessions; a run every 20 events."],
    )


def _appends(
    ledger: treering.Ledger, bare: BareEvents, rounds: int
) -> tuple[dict[int, list[float]], dict[int, list[float]], int]:
    """Return the seconds an event of both, by the size of the call, and how many there are."""
    workload, dice = Workload(), random.Random(SEED)
    contestants = (
        (ledger.append, {count: list[float]() for count in SIZES}),
        (bare.append, {count: list[float]() for count in SIZES}),
    )
    for append, _ in contestants:  # Sessions are made, statements prepared.
        for number in range(10):
            append(Workload(SEED + 1).batch(number))
            append(Workload(SEED + 2).batch(number, 1))
    for at in range(rounds):
        calls = [
            workload.batch(at + number, count)
            for count, calls in SIZES.items()
            for number in range(calls)
        ]
        with settled_heap():
            for append, seconds in dice.sample(contestants, k=2):
                _time(append, calls, seconds)
    events = 10 * 101 + rounds * sum(count * calls for count, calls in SIZES.items())
    return contestants[0][1], contestants[1][1], events


def _time(
    append: Callable[[Sequence[NewEvent]], object],
    calls: Sequence[Sequence[NewEvent]],
    seconds: dict[int, list[float]],
) -> None:
    for events in calls:
        before = time.perf_counter()
        append(events)
        seconds[len(events)].append((time.perf_counter() - before) / len(events))


def _reads(ledger: treering.Ledger, bare: BareEvents, rounds: int) -> dict[str, list[float]]:
    session = ledger.session(session_name(3), scope=SCOPE, agent=AGENT)
    ways = {
        "read": lambda: list(session.events(first=READ)),
        "bare read": lambda: bare.first(3, READ),
        "tail": lambda: list(session.events(last=TAIL)),
        "bare tail": lambda: bare.last(3, TAIL),
    }
    for name, way in ways.items():
        wanted = READ if name.endswith("read") else TAIL
        if len(way()) != wanted:
            raise AssertionError(f"{name} found {len(way())} events, not {wanted}")
    return in_turns(ways, rounds=rounds, calls=READS)
