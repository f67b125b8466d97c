"""Mirroring: events a second into Parquet files, and questions over three million of them."""

import contextlib
import shutil
import statistics
import time
from pathlib import Path
from typing import Final

import msgspec

import treering
from large import large_ledger
from report import Row, Section
from treering.sinks.parquet_mirror import MANIFEST, ParquetMirror, read_manifest, scope_folder
from treering.sinks.parquet_query import MirrorQuery
from workload import SCOPE, Effort

COPIES: Final = 3
QUESTIONS: Final = {
    "calls and failures by tool": "SELECT tool, count(*), count_if(status = 'failed') FROM events"
    " WHERE kind = 'tool.result' GROUP BY tool",
    "events by day and kind": "SELECT day, kind, count(*) FROM events GROUP BY ALL",
    "events of one session": "SELECT count(*) FROM events WHERE session_id = 's3'",
}


def run(effort: Effort, folder: Path) -> Section:
    """Mirror the large ledger, then ask three scopes of its size."""
    mirror = folder / "mirror"
    with treering.open(large_ledger(folder.parent, effort.large), guard="off") as ledger:
        started = time.perf_counter()
        with contextlib.closing(ParquetMirror(ledger, mirror)) as made:
            events = made.catch_up(SCOPE).events
        seconds = time.perf_counter() - started
    if events != effort.large:
        raise AssertionError(f"the mirror has {events} events, not {effort.large}")
    size = sum(path.stat().st_size for path in mirror.rglob("*.parquet"))
    rows = [
        Row(what=f"mirror {events:,} events", measured=f"{events / seconds:,.0f} events/s"),
        Row(what="bytes a mirrored event", measured=f"{size / events:.0f} bytes"),
    ]
    _multiply(mirror)
    for what, sql in QUESTIONS.items():
        took = statistics.median(_seconds(mirror, sql) for _ in range(5))
        asked = f"{what}, over {COPIES * events:,} events"
        rows.append(Row(what=asked, measured=f"{took:.2f} s"))
    return Section(
        title="Mirroring in Parquet, and asking it",
        rows=rows,
        notes=["Headers, tool calls and usage, no payloads; a question opens the mirror anew."],
    )


def _multiply(mirror: Path) -> None:
    """Make more scopes of the same files."""
    home = mirror / scope_folder(SCOPE)
    for number in range(1, COPIES):
        scope = f"{SCOPE}-{number}"
        copy = mirror / scope_folder(scope)
        shutil.copytree(home, copy)
        manifest = read_manifest(copy)
        if manifest is None:
            raise AssertionError("the mirror has no manifest")
        manifest.scope = scope
        (copy / MANIFEST).write_bytes(msgspec.json.encode(manifest))


def _seconds(mirror: Path, sql: str) -> float:
    started = time.perf_counter()
    with contextlib.closing(MirrorQuery(mirror, sql)) as query:
        if not list(query.rows()):
            raise AssertionError("the question has no answer")
    return time.perf_counter() - started
