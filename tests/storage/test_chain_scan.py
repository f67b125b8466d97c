"""The quick proof of all chains: it says what the proof of each session by itself says."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import treering
from builders import ELSEWHERE, HERE, called, run_of, said
from ports import store_of
from treering.errors import StorageError
from treering.ledger.verification import verify
from treering.storage.sqlite.chain_scan import Positions, Scan, ScanJob, join, scan, scan_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Ledger
    from treering.ledger.records import ProvedChain
    from treering.model.receipts import Verification
    from treering.storage.sqlite.store import SqliteStore

SIZE = 10
"""Positions of a stretch: each session lies in several."""
MODULE = "treering.storage.sqlite.chain_scan"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a ledger with sessions of all sorts, their events mixed."""
    path = tmp_path / "ledger.db"
    with treering.open(path, keys=tmp_path / "keys") as ledger:
        ledger.append([said("before", session_id=f"s{n}", scope=ELSEWHERE) for n in range(3)])
        ledger.keys.create(HERE)
        for n in range(1, 12):
            ledger.append(
                [
                    said(f"event {n}", event_id=f"e{n}", user_id="u1", turn_id=f"t{n}"),
                    called(session_id="s2", visibility="private"),
                    said("large", session_id="s3", payload={"text": "x" * 20_000, "n": n}),
                    *run_of(f"r{n}", "ran", session_id="s4", scope=ELSEWHERE),
                    said("öffentlich", session_id="s5", scope=ELSEWHERE, event_id=f"named {n}"),
                    said("erased", session_id="s6", scope=ELSEWHERE, event_id=f"gone {n}"),
                ]
            )
        ledger.session("s5", scope=ELSEWHERE, agent="lyria").fork("s7", at="named 6")
        ledger.redact(ELSEWHERE, event_id="gone 3")
    return path


def test_an_intact_ledger_is_proved_without_looking_at_plain_sessions_again(path: Path) -> None:
    with opened(path) as (_, store):
        proved = prove(store, path)
        expected = verify(store, store.sessions.records())
        left = [s.session_id for s in store.sessions.records() if s.genesis not in proved]

        assert left == ["s6"]  # It has an erasure.
        assert verify(store, store.sessions.records(), proved) == expected
        assert expected.intact


@pytest.mark.parametrize("session", range(1, 10))
def test_a_changed_event_of_any_session_is_found_with_other_processes_and_without(
    path: Path, session: int
) -> None:
    tamper(
        path,
        "UPDATE events SET summary = 'a lie'"
        f" WHERE position = (SELECT max(position) FROM events WHERE session = {session})",
    )

    quick, careful = both(path, helpers=1)

    assert quick == careful
    assert not quick.intact


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET refs = CAST('{}' AS BLOB) WHERE position = 25",
        "UPDATE events SET ts_ms = ts_ms + 1 WHERE position = 25",
        "UPDATE events SET run_seq = 7 WHERE position = 25",
        "UPDATE events SET content_digest = randomblob(32) WHERE position = 25",
        "UPDATE events SET link = randomblob(32) WHERE position = 25",
        "UPDATE contents SET payload = CAST('{}' AS BLOB) WHERE position = 2",
        "UPDATE contents SET salt = randomblob(length(salt)) WHERE position = 12",
        "UPDATE contents SET salt = NULL WHERE position = 5",
        "UPDATE blobs SET body = (SELECT max(body) FROM blobs)",
        "UPDATE events SET payload_bytes = payload_bytes + 1 WHERE position = 20",
        "UPDATE events SET flags = flags | 64 WHERE position = 20",
        "UPDATE events SET flags = flags | 2 WHERE position = 20",
        "UPDATE events SET kind = (SELECT kind FROM events ORDER BY position DESC LIMIT 1)",
        "UPDATE events SET seq = seq + 1 WHERE position = 40",
        "UPDATE events SET session = 4 WHERE position = 21",
        "UPDATE events SET event_name = 'another' WHERE event_name = 'named 4'",
        "UPDATE heads SET seq = seq - 1 WHERE session = 3",
        "UPDATE heads SET link = randomblob(32) WHERE session = 3",
        "DELETE FROM heads WHERE session = 2",
        "UPDATE sessions SET genesis = randomblob(32) WHERE id = 5",
        "UPDATE sessions SET name = 'renamed' WHERE id = 5",
        "UPDATE sessions SET genesis = (SELECT genesis FROM sessions WHERE id = 4) WHERE id = 5",
        "UPDATE forks SET seq = seq - 1",
        "DELETE FROM seqs_by_session WHERE session = 5",
        "UPDATE seqs_by_session SET position = 1 WHERE session = 5 AND seq = 3",
        "UPDATE names SET name = 'treering' WHERE name = 'lyria'",
        "DELETE FROM events WHERE position = 33",
        "DELETE FROM events WHERE position = (SELECT max(position) FROM events)",
        "DELETE FROM contents WHERE position = 33",
    ],
)
def test_whatever_was_changed_both_proofs_say_the_same(path: Path, statement: str) -> None:
    with treering.open(path) as ledger:  # All of it is in the indexes.
        ledger.admin.rebuild()
    tamper(path, statement)

    quick, careful = both(path)

    assert quick == careful
    assert not quick.intact


def test_a_scope_is_proved_with_its_own_sessions_only(path: Path) -> None:
    with opened(path) as (ledger, _):
        proved = ledger.admin.verify(ELSEWHERE)

        assert proved.intact
        assert proved.events == 3 + 11 * 5 + 2


def test_progress_counts_every_event_that_is_proved(path: Path) -> None:
    counts: list[int] = []
    with opened(path) as (ledger, _):
        proved = ledger.admin.verify(progress=counts.append)

        assert sum(counts) == proved.events


def test_payloads_whose_key_is_gone_are_counted(path: Path) -> None:
    for key in (path.parent / "keys").glob("*.key"):
        key.unlink()

    with opened(path) as (_, store):
        proved = prove(store, path)
        result = verify(store, store.sessions.records(), proved)

        assert result == verify(store, store.sessions.records())
        assert result.sealed > 0


def test_a_session_of_a_thousand_stretches_is_in_doubt_if_one_link_between_them_is_wrong(
    path: Path,
) -> None:
    with opened(path) as (_, store):
        scans = parts(store, SIZE)
        session = next(iter(scans[3].parts))
        scans[3].parts[session].first_seq += 1
        with store.reader.database.reading() as connection:
            proved = join(connection, scans)
            whole = join(connection, parts(store, SIZE))

        assert len(proved) == len(whole) - 1


def answer_of(path: Path, stretch: Positions) -> bytes:
    """Return what another process writes that is asked for a stretch."""
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in (job_of(path), stretch))
    command = [sys.executable, "-P", "-m", MODULE]
    asked = subprocess.run(command, input=lines, capture_output=True, check=True, timeout=60)
    return asked.stdout


def test_another_process_returns_what_this_one_would(path: Path) -> None:
    stretch = Positions(5, 60)
    with opened(path) as (_, store):
        result = msgspec.json.decode(answer_of(path, stretch), type=Scan)
        assert result == scan(store.reader, stretch, lambda: None)
        assert result.parts


def test_what_a_process_does_not_answer_for_is_scanned_here(path: Path) -> None:
    nowhere = ScanJob(str(path) + ".nowhere", str(path.parent))
    with opened(path) as (_, store):
        assert prove(store, path, job=nowhere) == prove(store, path, helpers=0)


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/true"])
def test_where_no_other_python_can_be_started_all_is_scanned_here(
    path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    with opened(path) as (_, store):
        expected = prove(store, path, helpers=0)
        monkeypatch.setattr(sys, "executable", program)

        assert prove(store, path, helpers=2) == expected


def test_no_process_outlives_an_interrupted_proof(path: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with opened(path) as (_, store):
        before = processes()
        with pytest.raises(KeyboardInterrupt):
            prove(store, path, progress=interrupt)

        assert processes() <= before


def test_a_ledger_that_nobody_has_open_is_not_copied_by_each_process(path: Path) -> None:
    assert not answer_of(path, Positions(0, 5))


def test_an_interrupted_proof_stops_the_check_of_the_tables(path: Path) -> None:
    stopped = threading.Event()

    def check(*_: object, is_stopped: Callable[[], bool]) -> None:
        while not is_stopped():
            time.sleep(0.01)
        stopped.set()

    def interrupt(*_: object) -> dict[bytes, ProvedChain]:
        raise KeyboardInterrupt

    with opened(path) as (ledger, store):
        store.check_tables = check  # type: ignore[method-assign, assignment]
        store.prove_chains = interrupt  # type: ignore[method-assign, assignment]
        with pytest.raises(KeyboardInterrupt):
            ledger.admin.verify()

    assert stopped.is_set()


def test_a_check_of_the_tables_ends_when_it_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.storage.sqlite.store.STEPS_UNASKED", 10)
    with opened(path) as (_, store):
        with pytest.raises(StorageError):
            store.check_tables(is_stopped=lambda: True)

        assert store.check_tables() is None


@contextmanager
def opened(path: Path) -> Iterator[tuple[Ledger, SqliteStore]]:
    with treering.open(path, keys=path.parent / "keys") as ledger:
        yield ledger, store_of(ledger)  # type: ignore[misc]


def job_of(path: Path) -> ScanJob:
    return ScanJob(str(path), str(path.parent / "keys"))


def prove(
    store: SqliteStore,
    path: Path,
    *,
    job: ScanJob | None = None,
    helpers: int = 2,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[bytes, ProvedChain]:
    """Prove all chains in small stretches, with other processes."""
    whole = Positions(0, store.reader.last_position())
    scans = scan_all(
        store.reader, whole, progress, job=job or job_of(path), helpers=helpers, size=SIZE
    )
    with store.reader.database.reading() as connection:
        return join(connection, scans)


def parts(store: SqliteStore, size: int) -> list[Scan]:
    newest = store.reader.last_position()
    return [
        scan(store.reader, Positions(at, min(at + size, newest)), lambda: None)
        for at in range(0, newest, size)
    ]


def both(path: Path, *, helpers: int = 0) -> tuple[Verification, Verification]:
    """Verify with the quick proof in small stretches, and with that of each session alone."""
    with opened(path) as (ledger, store):
        proof = partial(prove, store, path, helpers=helpers)
        store.prove_chains = lambda *_: proof()  # type: ignore[method-assign]
        quick = ledger.admin.verify()
    with opened(path) as (ledger, store):
        store.prove_chains = lambda *_: {}  # type: ignore[method-assign]
        return quick, ledger.admin.verify()


def tamper(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def processes() -> set[str]:
    """Return the processes that this one has started, where the system says."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {child for task in tasks for child in task.read_text().split()}
