"""PostgreSQL, call by call: one durable event, batches, reads, and what an event weighs."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import uuid_utils

import treering
from postgres_bare import SCHEMA, BareEvents, bare_table, fresh_ledger, settle, size
from report import Row, Section, against
from treering import NewEvent
from workload import AGENT, SCOPE, SEED, Effort, Workload, in_turns, session_name, settled_heap

LEDGER: Final = "calls"
CALLS: Final = {"own id": (1, 20), "one": (1, 100), "hundred": (100, 5), "thousand": (1_000, 1)}
"""How many events are appended at once, and how often a round does so.

Ids of the caller's come first: the server plans for them when the ledger is empty, and keeps to it.
"""
READ: Final = 1_000
TAIL: Final = 20
READS: Final = 5
_FAIRNESS: Final = (
    "Wall clock, medians. The bare table has the columns, keys, indexes and partitions of ours,"
    " and rows of the same bytes; a batch is psycopg's `executemany` in one transaction. Both"
    " encode and decode JSON inside the timed section, commit with fsync and synchronous_commit"
    " on, and read in binary. Ours gives typed events, bare tuples. Guard off."
)

_Append: TypeAlias = Callable[[Sequence[NewEvent]], object]


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
            against("one durable append a call", ours["one"], theirs["one"], 1.8),
            against("the same, with an id of the caller's", ours["own id"], theirs["own id"], 1.8),
            against("batches of 100, an event", ours["hundred"], theirs["hundred"], 2.5),
            against("batches of 1,000, an event", ours["thousand"], theirs["thousand"], 2.5),
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
) -> tuple[dict[str, list[float]], dict[str, list[float]], int]:
    """Return the seconds an event of both, by the sort of call, and how many events there are."""
    workload, dice = Workload(), random.Random(SEED)
    ours, theirs = ({name: list[float]() for name in CALLS} for _ in range(2))
    contestants: list[tuple[_Append, dict[str, list[float]]]] = [
        (ledger.append, ours),
        (bare.append, theirs),
    ]
    events = 0
    for at in range(rounds + 1):
        calls = _calls(workload, at)
        events += sum(len(call) for _, call in calls)
        with settled_heap():
            for append, seconds in dice.sample(contestants, k=2):
                taken = [(name, _time(append, call)) for name, call in calls]
                if at:  # The first round makes the sessions and prepares the statements.
                    for name, spent in taken:
                        seconds[name].append(spent)
    return ours, theirs, events


def _calls(workload: Workload, at: int) -> list[tuple[str, list[NewEvent]]]:
    """Return the events of each call of a round."""
    calls = []
    for name, (count, times) in CALLS.items():
        for number in range(times):
            events = workload.batch(at + number, count)
            if name == "own id":
                own = str(uuid_utils.uuid7())
                events = [msgspec.structs.replace(event, event_id=own) for event in events]
            calls.append((name, events))
    return calls


def _time(append: _Append, events: Sequence[NewEvent]) -> float:
    before = time.perf_counter()
    append(events)
    return (time.perf_counter() - before) / len(events)


def _reads(ledger: treering.Ledger, bare: BareEvents, rounds: int) -> dict[str, list[float]]:
    session = ledger.session(session_name(3), scope=SCOPE, agent=AGENT)
    ways: dict[str, Callable[[], list[Any]]] = {
        "read": lambda: list(session.events(first=READ)),
        "bare read": lambda: bare.first(3, READ),
        "tail": lambda: list(session.events(last=TAIL)),
        "bare tail": lambda: bare.last(3, TAIL),
    }
    for name, way in ways.items():
        wanted = READ if name.endswith("read") else TAIL
        found = len(way())
        if found != wanted:
            raise AssertionError(f"{name} found {found} events, not {wanted}")
    return in_turns(ways, rounds=rounds, calls=READS)
