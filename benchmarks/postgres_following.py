"""PostgreSQL, followed while four processes write: what is missed, by us and by a plain cursor."""

import multiprocessing
import time
from multiprocessing.synchronize import Event
from typing import Any, Final, Self

import psycopg

import treering
from postgres_bare import bare_table, fresh_ledger
from postgres_crew import Crew
from report import Row, Section
from workload import SCOPE, Effort

LEDGER: Final = "following"
SESSIONS: Final = (0, 1, 2, 3)
SIZES: Final = (1, 20, 1, 5)
"""Short and longer transactions in turn, so that they overtake each other."""
PAGE: Final = 500
PAUSE_S: Final = 0.005
IDLE_S: Final = 0.5
PLAIN: Final = f"""
SELECT position
FROM {LEDGER}.events
WHERE scope = %s AND position > %s
ORDER BY position
LIMIT {PAGE}
"""
_READING: Final = (
    "The plain cursor asks for `position >` the last it has seen, by an index made for it. A"
    " position is taken before its transaction commits, so one that commits later than its"
    " neighbours is passed by."
)


def measure(effort: Effort, url: str) -> Section:
    """Follow with a ledger and with a plain cursor at the same time, and count what each saw."""
    seconds = effort.seconds * 4
    with (
        fresh_ledger(url, LEDGER) as place,
        bare_table(url, like=LEDGER),
        Crew(place, url, len(SESSIONS)) as crew,
        _PlainCursor(url) as plain,
        treering.open(place, guard="off") as ledger,
    ):
        results = crew.send("ours", SESSIONS, seconds=seconds, sizes=SIZES)
        seen = _follow(ledger, crew)
        written = sum(results())
        plainly = plain.finish()
        recorded = _positions(url)
    missed, repeated = len(recorded - set(seen)), len(seen) - len(set(seen))
    passed = len(recorded - set(plainly))
    return Section(
        title="PostgreSQL, followed while four processes write",
        rows=[
            Row(
                what=f"missed by a follower, of {len(recorded):,} events",
                measured=str(missed),
                target="0",
                met=not missed,
            ),
            Row(what="given twice", measured=str(repeated), target="0", met=not repeated),
            Row(what="missed by a plain cursor meanwhile", measured=f"{passed:,}"),
            Row(what="written meanwhile", measured=f"{written / seconds:,.0f} events/s"),
        ],
        notes=[_READING],
    )


def _follow(ledger: treering.Ledger, crew: Crew) -> list[int]:
    """Return the positions that a follower gives until all is written and it has gone quiet."""
    seen: list[int] = []
    cursor = None
    while True:
        busy = crew.busy()
        follower = ledger.follow(SCOPE, after=cursor, idle_s=IDLE_S)
        seen += [header.position for header in follower]
        cursor = follower.cursor
        if not busy:
            return seen


class _PlainCursor:
    """A process that reads on by position until it is told to finish."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE INDEX ON {LEDGER}.events (scope, position)")
        context = multiprocessing.get_context("spawn")
        self._over, self._positions = context.Event(), context.SimpleQueue()
        self._process = context.Process(
            target=_read_on, args=(url, self._over, self._positions), daemon=True
        )
        self._process.start()
        self._positions.get()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._process.join()

    def finish(self) -> list[int]:
        """Return what it has seen, once there is nothing new."""
        self._over.set()
        seen: list[int] = self._positions.get()
        return seen


def _read_on(url: str, over: Event, positions: Any) -> None:
    seen = [0]
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        positions.put([])
        while True:
            last = over.is_set()
            found = connection.execute(PLAIN, (SCOPE, seen[-1]), binary=True).fetchall()
            seen += [position for (position,) in found]
            if not found and last:
                break
            if len(found) < PAGE:
                time.sleep(PAUSE_S)
    positions.put(seen)


def _positions(url: str) -> set[int]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(f"SELECT position FROM {LEDGER}.events", binary=True)
        return {position for (position,) in found}
