"""LangGraph's checkpoints in a ledger against its own savers, and records by key."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import treering
from report import Row, Section, at_most
from treering.views import RecordChange
from workload import SCOPE, Effort

STEPS: Final = 1_000
KEYS: Final = 100_000
GET_MS_MAX: Final = 0.2
LATEST_MS_MAX: Final = 0.5
_NOTE: Final = (
    f"{STEPS:,} steps of a thread; each puts a checkpoint and the writes of a task. In the state a"
    " list grows by a text of 200 characters at every step, or a counter changes. Growth compares"
    " the bytes of the second half with those of the first: 1 is linear, 3 is quadratic."
    " InMemorySaver keeps everything in the process; SqliteSaver commits without waiting for the"
    " disk. On PostgreSQL both wait for it: one server as it is shipped, over its Unix socket."
    " Bytes there are what the database grew by."
)


def run(effort: Effort, folder: Path) -> Section:
    """Measure savers step by step, then records."""
    steps = STEPS if effort.rounds > 5 else STEPS // 10
    rows: list[Row] = []
    for sort in ("list", "counter"):
        for name, (saver, size, close) in _savers(folder, sort).items():
            rows += _measure(f"{name}, {sort}", saver, size, sort, steps)
            close()
        rows += _on_postgres(sort, steps)
    return Section(
        title="Checkpoints and records", rows=rows + _records(folder, effort), notes=[_NOTE]
    )


def _savers(folder: Path, sort: str) -> dict[str, tuple[Any, Callable[[], int], Callable[[], Any]]]:
    import sqlite3

    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite import SqliteSaver

    from treering.adapters.langgraph import TreeringSaver

    ours, theirs = folder / f"ours-{sort}.db", folder / f"theirs-{sort}.db"
    ledger = treering.open(ours, durability="normal")
    connection = sqlite3.connect(theirs)
    return {
        "TreeringSaver": (TreeringSaver(ledger, scope=SCOPE), lambda: _size(ours), ledger.close),
        "SqliteSaver": (SqliteSaver(connection), lambda: _size(theirs), connection.close),
        "InMemorySaver": (InMemorySaver(), lambda: 0, lambda: None),
    }


def _on_postgres(sort: str, steps: int) -> list[Row]:
    """Measure both savers on one server, each in a database of its own."""
    from langgraph.checkpoint.postgres import PostgresSaver

    from postgres import AS_SHIPPED
    from postgres_server import Server
    from treering.adapters.langgraph import TreeringSaver

    rows: list[Row] = []
    with Server(AS_SHIPPED, on_disk=True) as server:
        for name in ("ours", "theirs"):
            server.create_database(name)
        with treering.open(server.url("ours")) as ledger:
            saver = TreeringSaver(ledger, scope=SCOPE)
            size = partial(_growth, server.url("ours"), _database_size(server.url("ours")))
            rows += _measure(f"TreeringSaver on PostgreSQL, {sort}", saver, size, sort, steps)
        with PostgresSaver.from_conn_string(server.url("theirs")) as theirs:
            theirs.setup()
            size = partial(_growth, server.url("theirs"), _database_size(server.url("theirs")))
            rows += _measure(f"PostgresSaver, {sort}", theirs, size, sort, steps)
    return rows


def _growth(url: str, before: int) -> int:
    return _database_size(url) - before


def _database_size(url: str) -> int:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(row[0]) if row else 0


def _measure(name: str, saver: Any, size: Callable[[], int], sort: str, steps: int) -> list[Row]:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.base.id import uuid6

    thread = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    config, versions, items = thread, dict[str, Any](), list[str]()
    times, sizes = [], [0, 0]
    for step in range(steps):
        items.append(f"{step:06} {uuid6()} ".ljust(200, "x"))
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=step))
        checkpoint["channel_values"] = {"value": list(items) if sort == "list" else step}
        versions["value"] = saver.get_next_version(versions.get("value"), None)
        checkpoint["channel_versions"] = dict(versions)
        metadata: Any = {"source": "loop", "step": step, "parents": {}}
        begun = time.perf_counter()
        config = saver.put(config, checkpoint, metadata, dict(versions))
        saver.put_writes(config, [("value", items[-1])], f"task-{step}")
        times.append(time.perf_counter() - begun)
        if step + 1 == steps // 2:
            sizes[0] = size()
    sizes[1] = size()
    reads = []
    for _ in range(50):
        begun = time.perf_counter()
        found = saver.get_tuple(thread)
        reads.append(time.perf_counter() - begun)
    assert found is not None
    latest_ms = statistics.median(reads) * 1e3
    shown = f"{latest_ms:.3f} ms"
    rows = [
        Row(
            what=f"{name}: put and put_writes",
            measured=f"{statistics.median(times) * 1e3:.2f} ms",
        ),
        at_most(f"{name}: the latest checkpoint", latest_ms, LATEST_MS_MAX, shown, "ms")
        if name.startswith("TreeringSaver, ")
        else Row(what=f"{name}: the latest checkpoint", measured=shown),
    ]
    if sizes[0]:
        grown = (sizes[1] - sizes[0]) / sizes[0]
        measured = f"{sizes[1] / 1e6:.1f} MB, growth {grown:.1f}"
        rows.append(Row(what=f"{name}: stored", measured=measured))
    return rows


def _records(folder: Path, effort: Effort) -> list[Row]:
    count = KEYS if effort.rounds > 5 else KEYS // 20
    with treering.open(folder / "records.db", durability="normal") as ledger:
        records = ledger.records(SCOPE, "bench")
        for start in range(0, count, 2_000):
            some = range(start, min(start + 2_000, count))
            records.put_all([RecordChange(key=f"{n % 100}/{n}", value={"n": n}) for n in some])
        gets, puts = [], []
        for n in range(0, count, count // 2_000):
            begun = time.perf_counter()
            records.get(f"{n % 100}/{n}")
            gets.append(time.perf_counter() - begun)
        for n in range(500):
            begun = time.perf_counter()
            records.put(f"{n % 100}/{n}", n)
            puts.append(time.perf_counter() - begun)
    get_ms = statistics.median(gets) * 1e3
    what = f"records: get among {count:,} keys"
    return [
        at_most(what, get_ms, GET_MS_MAX, f"{get_ms:.3f} ms", "ms"),
        Row(what="records: put", measured=f"{statistics.median(puts) * 1e3:.3f} ms"),
    ]


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))
