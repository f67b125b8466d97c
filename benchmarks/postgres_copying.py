"""PostgreSQL, importing an export, against a bare COPY of the same rows."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

import treering
from postgres_bare import BareEvents, bare_table, fresh_ledger
from report import Row, Section
from treering.ledger.records import Record, SessionRecord
from treering.ledger.restoring import PAGE
from treering.model.scopes import Scope
from treering.storage.postgres.batch import COLUMNS
from workload import SCOPE, SEED, Effort, Workload, settled_heap

SOURCE: Final = "source"
TARGET: Final = "target"
_READING: Final = (
    f"All commit every {PAGE} events, into fresh tables. An import parses the file, checks each"
    " record and its link, and at the end reads back and proves what it has stored. Storing alone"
    " is handed the records."
)


def measure(effort: Effort, url: str, folder: Path) -> Section:
    """Import an export into fresh ledgers, with and without the checks around."""
    events = max(2_000, effort.large // 50)
    file = folder / "export.jsonl"
    with (
        fresh_ledger(url, SOURCE) as place,
        treering.open(place, durability="normal", guard="off") as source,
    ):
        _fill(source, events, file)
        sessions, records = _records(source)
        rows = _rows(url)
        us = _in_turns(
            {
                "import": lambda: _into_ledger(url, lambda target: _import(target, file, events)),
                "storing": lambda: _into_ledger(url, lambda it: _store(it, sessions, records)),
                "bare": lambda: _into_bare(url, rows),
            },
            rounds=max(3, effort.repeats // 2),
            events=events,
        )
    return Section(
        title=f"PostgreSQL, an export of {events:,} events",
        rows=[
            Row(what="import, against a bare binary COPY", measured=_shown(us, "import")),
            Row(what="storing its records alone, against the same", measured=_shown(us, "storing")),
        ],
        notes=[_READING],
    )


def _fill(ledger: treering.Ledger, events: int, file: Path) -> None:
    workload = Workload()
    for number in range(events // PAGE):
        ledger.append(workload.batch(number, PAGE))
    with file.open("wb") as stream:
        ledger.admin.export(SCOPE, stream, payloads="included")


def _records(
    ledger: treering.Ledger,
) -> tuple[Mapping[tuple[str, str], SessionRecord], list[Sequence[Record]]]:
    store, scope = ledger._store, Scope(SCOPE)
    sessions = {(one.scope, one.session_id): one for one in store.sessions.records(scope)}
    return sessions, _pages(
        [record for page in store.reader.record_pages(scope) for record in page]
    )


def _rows(url: str) -> list[Sequence[tuple[Any, ...]]]:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            f"SELECT {', '.join(COLUMNS)} FROM {SOURCE}.events ORDER BY position", binary=True
        )
        return _pages(found.fetchall())


def _pages(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[at : at + PAGE] for at in range(0, len(items), PAGE)]


def _in_turns(
    ways: Mapping[str, Callable[[], float]], *, rounds: int, events: int
) -> dict[str, float]:
    """Return the median microseconds an event of each; each of ``ways`` says what it took."""
    dice = random.Random(SEED)
    spent: dict[str, list[float]] = {name: [] for name in ways}
    with settled_heap():
        for _ in range(rounds):
            for name in dice.sample(list(ways), k=len(ways)):
                spent[name].append(ways[name]())
    return {name: statistics.median(seconds) / events * 1e6 for name, seconds in spent.items()}


def _into_ledger(url: str, take_in: Callable[[treering.Ledger], None]) -> float:
    with fresh_ledger(url, TARGET) as place, treering.open(place, guard="off") as ledger:
        ledger.retention(SCOPE)  # It connects when it is first asked.
        before = time.perf_counter()
        take_in(ledger)
        return time.perf_counter() - before


def _import(ledger: treering.Ledger, file: Path, events: int) -> None:
    with file.open("rb") as stream:
        receipt = ledger.admin.restore(stream)
    if not receipt.complete or receipt.imported != events:
        raise AssertionError(f"the import is not complete: {receipt}")


def _store(
    ledger: treering.Ledger,
    sessions: Mapping[tuple[str, str], SessionRecord],
    pages: Sequence[Sequence[Record]],
) -> None:
    for page in pages:
        ledger._store.restore(sessions, page)


def _into_bare(url: str, pages: Sequence[Sequence[tuple[Any, ...]]]) -> float:
    with bare_table(url, like=SOURCE), BareEvents(url) as bare:
        before = time.perf_counter()
        for page in pages:
            bare.copy(page)
        return time.perf_counter() - before


def _shown(us: Mapping[str, float], name: str) -> str:
    return (
        f"{us[name] / us['bare']:.2f} x ({us[name]:.1f} : {us['bare']:.1f} µs an event;"
        f" {1e6 / us[name]:,.0f} : {1e6 / us['bare']:,.0f} events/s)"
    )
