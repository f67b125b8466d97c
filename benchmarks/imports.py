"""Imports: the logs of other agents on one core, against decoding and storing their bytes.

Run as ``imports.py VERB LEDGER PATH``, it imports the logs at PATH, or stores them bare, and prints
how long that took as JSON.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

import treering
from agent_logs import write_claude_code, write_codex, write_small_sessions
from copying import peak_mb
from other_logs import FORMS, write_other
from report import Row, Section, at_least, at_most
from store_logs import STORES
from treering.capture.intake.ledger_buffer import BATCH_BYTES, BATCH_EVENTS
from workload import FULL, Effort

ROUNDS: Final = 3
SPEED_MIN: Final = 22
EVENTS_MIN: Final = 10_000
MEGABYTES_MAX: Final = 200
CLAUDE_CODE_MB: Final = 60
CODEX_MB: Final = 30
OTHER_MB: Final = 10
LARGE_MB: Final = 300
FILES: Final = 1_000
SMALL_SPEED_MIN: Final = 18
_NOTE: Final = (
    "The bare side decodes every line and inserts its bytes in a table of one column, in"
    " transactions of as many lines; it masks no secrets, knows no repeats, chains nothing."
    " Each round is a process of its own, bound to one core; both wait for the disk."
)


def run(effort: Effort, folder: Path) -> Section:
    """Import a log of each agent, a large one, and a folder of small sessions."""
    share = 1 if effort.large >= FULL.large else 20
    claude_code = write_claude_code(folder / "claude.jsonl", CLAUDE_CODE_MB * 10**6 // share)
    codex = write_codex(folder / "rollout.jsonl", CODEX_MB * 10**6 // share)
    rows = [
        *_rows("Claude Code", claude_code, folder),
        *_rows("Codex", codex, folder),
        *(_other_row(form, folder, OTHER_MB * 10**6 // share) for form in FORMS),
        *(_store_row(form, folder, OTHER_MB * 10**6 // share) for form in STORES),
        _large_row(folder, LARGE_MB // share),
        *_folder_rows(folder, FILES // share),
    ]
    return Section(
        title="Importing logs, on one core",
        rows=rows,
        notes=[_NOTE],
    )


def _rows(name: str, log: Path, folder: Path) -> list[Row]:
    ours: list[dict[str, Any]] = []
    bare: list[dict[str, Any]] = []
    for at in range(ROUNDS):
        ours.append(_measured("import", folder / f"{log.stem}-{at}.db", log))
        bare.append(_measured("bare", folder / f"{log.stem}-{at}.bare", log))
    again = [_measured("again", folder / f"{log.stem}-{at}.db", log) for at in range(ROUNDS)]
    size = log.stat().st_size / 1e6
    seconds, limit, repeated = (
        statistics.median(one["seconds"] for one in rounds) for rounds in (ours, bare, again)
    )
    rate = ours[0]["events"] / seconds
    return [
        at_least(
            f"{name}, {size:.0f} MB", size / seconds, SPEED_MIN, f"{size / seconds:.1f} MB/s",
            unit="MB/s",
        ),
        at_least(f"{name}, events", rate, EVENTS_MIN, f"{rate:,.0f} events/s", unit="events/s"),
        Row(
            what=f"{name}, against the bare limit",
            measured=f"{seconds / limit:.1f} x ({size / limit:.0f} MB/s)",
        ),
        Row(what=f"{name}, all of it again", measured=f"{size / repeated:.1f} MB/s"),
    ]  # fmt: skip


def _other_row(form: str, folder: Path, size: int) -> Row:
    """Return how fast the log of another agent is imported: one round, to compare readers."""
    log = write_other(folder / "others" / f"{form.replace(' ', '-')}.jsonl", form, size)
    seconds = _measured("import", folder / f"{log.stem}.db", log)["seconds"]
    megabytes = log.stat().st_size / 1e6
    return Row(what=f"{form}, {megabytes:.0f} MB", measured=f"{megabytes / seconds:.1f} MB/s")


def _store_row(form: str, folder: Path, size: int) -> Row:
    """Return how fast a log is imported that is not lines."""
    place = folder / "stores" / form
    place.mkdir(parents=True)
    log = STORES[form](place, size)
    seconds = _measured("import", place / "ledger.db", log)["seconds"]
    files = [log] if log.is_file() else [one for one in log.rglob("*") if one.is_file()]
    megabytes = sum(one.stat().st_size for one in files) / 1e6
    return Row(what=f"{form}, {megabytes:.0f} MB", measured=f"{megabytes / seconds:.1f} MB/s")


def _large_row(folder: Path, megabytes: int) -> Row:
    log = write_claude_code(folder / "large.jsonl", megabytes * 10**6)
    peak = _measured("import", folder / "large.db", log)["peak_mb"]
    what = f"a file of {megabytes} MB, peak memory"
    return at_most(what, peak, MEGABYTES_MAX, f"{peak:.0f} MB", unit="MB")


def _folder_rows(folder: Path, files: int) -> list[Row]:
    logs = folder / "logs"
    size = write_small_sessions(logs, files) / 1e6
    ours: list[float] = []
    bare: list[float] = []
    for at in range(ROUNDS):
        ours.append(_measured("import", folder / f"logs-{at}.db", logs)["seconds"])
        bare.append(_measured("bare", folder / f"logs-{at}.bare", logs)["seconds"])
    again = [_measured("import", folder / "logs-0.db", logs)["seconds"] for _ in range(ROUNDS)]
    seconds, limit, second = map(statistics.median, (ours, bare, again))
    return [
        at_least(
            f"{files:,} small sessions, {size:.0f} MB", size / seconds, SMALL_SPEED_MIN,
            f"{size / seconds:.1f} MB/s", unit="MB/s",
        ),
        Row(
            what="small sessions, against the bare limit",
            measured=f"{seconds / limit:.1f} x ({size / limit:.0f} MB/s)",
        ),
        Row(what="the same folder, unchanged", measured=f"{second * 1e3:,.0f} ms"),
    ]  # fmt: skip


def _measured(verb: str, ledger: Path, logs: Path) -> dict[str, Any]:
    """Do one of them in a process of its own; return its events, seconds and peak memory."""
    # With bytecode, as an installed package has it, wherever this runs.
    finished = subprocess.run(
        [sys.executable, __file__, verb, str(ledger), str(logs)],
        stdout=subprocess.PIPE,
        check=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""},
    )
    outcome: dict[str, Any] = json.loads(finished.stdout)
    return outcome


def _import(ledger_path: str, logs: str, *, again: bool) -> int:
    with treering.open(ledger_path) as ledger:
        receipt = treering.import_logs(ledger, [logs], again=again)
    if receipt.errors or receipt.files_refused:
        raise AssertionError(f"not all was imported: {receipt}")
    return receipt.events


def _store_bare(table: str, log: str) -> int:
    """Decode every line and store it as it is."""
    connection = apsw.Connection(table)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute("CREATE TABLE lines (number INTEGER PRIMARY KEY, line BLOB NOT NULL)")
    decode = msgspec.json.Decoder().decode
    lines = size = 0
    batch: list[tuple[bytes]] = []
    for path in sorted(Path(log).iterdir()) if Path(log).is_dir() else [Path(log)]:
        with path.open("rb") as stream:
            for line in stream:
                decode(line)
                batch.append((line,))
                size += len(line)
                if len(batch) >= BATCH_EVENTS or size >= BATCH_BYTES:
                    lines += _store(connection, batch)
                    batch, size = [], 0
    lines += _store(connection, batch)
    connection.close()
    return lines


def _store(connection: apsw.Connection, batch: list[tuple[bytes]]) -> int:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO lines (line) VALUES (?)", batch)
    connection.execute("COMMIT")
    return len(batch)


def main() -> None:
    verb, ledger, logs = sys.argv[1:]
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    started = time.perf_counter()
    if verb == "bare":
        events = _store_bare(ledger, logs)
    else:
        events = _import(ledger, logs, again=verb == "again")
    seconds = time.perf_counter() - started
    print(json.dumps({"events": events, "seconds": seconds, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
