"""Forks in a file: tampering is found, failures leave nothing behind, reads use indexes."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw
import pytest

import treering
from builders import HERE, run_of, said
from forks import fork
from ports import store_of
from treering.model.scopes import Scope
from treering.storage.projections import LATEST
from treering.storage.sqlite import reader, sessions
from treering.storage.sqlite.opening import connect
from treering.storage.sqlite.rows import events

if TYPE_CHECKING:
    from treering import Event, Ledger
    from treering.model.receipts import Broken
    from treering.storage.sqlite.rows import Row

OURS: Final = Scope(HERE)
GOLDEN: Final = Path(__file__).parents[1] / "golden"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed ledger: s1 with four events, f leaves it at 2, g leaves f at 4."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        ledger.append([said(text) for text in "abcd"])
        fork(ledger, "f", parent="s1", seq=2)
        ledger.append([said("e", session_id="f")])
        fork(ledger, "g", parent="f", seq=4)
    return path


def tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def first_broken(path: Path, session_id: str | None = None) -> Broken:
    with treering.open(path) as ledger:
        scope = None if session_id is None else HERE
        broken = ledger.admin.verify(scope, session_id=session_id).first_broken
    assert broken is not None
    return broken


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE forks SET link = randomblob(32) WHERE session = 2",
        "UPDATE forks SET seq = 1 WHERE session = 2",
        "UPDATE forks SET parent = 3 WHERE session = 2",
        "UPDATE forks SET session = 9 WHERE session = 2",
        "DELETE FROM forks WHERE session = 2",
        "UPDATE sessions SET genesis = randomblob(32) WHERE id = 1",
    ],
)
def test_a_fork_that_leaves_elsewhere_is_found(path: Path, change: str) -> None:
    tamper(path, change)

    broken = first_broken(path, "f")

    assert (broken.session_id, broken.fault) == ("f", "link")
    assert "forked" in broken.detail


def test_a_session_made_into_a_fork_is_found(path: Path) -> None:
    tamper(
        path,
        "INSERT INTO forks (session, parent, seq, link)"
        " SELECT 1, 2, 3, link FROM events WHERE session = 2 AND seq = 3",
    )

    assert first_broken(path).session_id == "s1"


def test_a_parent_that_is_gone_is_named(path: Path) -> None:
    tamper(path, "UPDATE forks SET parent = 99 WHERE session = 3")

    broken = first_broken(path, "g")

    assert (broken.fault, broken.seq) == ("missing", 4)
    assert "is gone" in broken.detail


def test_a_parent_that_no_longer_reaches_the_cut_is_named(path: Path) -> None:
    tamper(path, "DELETE FROM events WHERE session = 1 AND seq = 2")

    broken = first_broken(path, "f")

    assert (broken.fault, broken.seq) == ("missing", 2)
    assert "seq 2 of s1" in broken.detail


def test_a_parent_that_was_changed_at_the_cut_is_named(path: Path) -> None:
    tamper(path, "UPDATE events SET link = randomblob(32) WHERE session = 1 AND seq = 2")

    broken = first_broken(path, "f")

    assert (broken.fault, broken.seq) == ("link", 2)
    assert first_broken(path).session_id == "s1"


def test_events_before_the_cut_are_not_the_forks(path: Path) -> None:
    tamper(path, "UPDATE events SET seq = 2 WHERE session = 2 AND seq = 3")

    broken = first_broken(path, "f")

    assert (broken.fault, broken.seq) == ("missing", 3)


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ("INSERT INTO forks VALUES (99, 1, 1, x'00')", "no session"),
        ("INSERT INTO snapshots VALUES (1, 99, 0, 1, x'00')", "snapshots"),
    ],
)
def test_rows_that_no_session_accounts_for_are_found(path: Path, change: str, flaw: str) -> None:
    tamper(path, change)

    broken = first_broken(path)

    assert broken.fault == "file"
    assert flaw in broken.detail


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ("UPDATE forks SET link = randomblob(32) WHERE session = 2", "not what it was"),
        ("UPDATE forks SET parent = 99 WHERE session = 2", "no parent"),
        ("UPDATE events SET seq = 9 WHERE session = 2 AND seq = 4", "what it was"),
        ("UPDATE events SET seq = 9 WHERE session = 1 AND seq = 4", "gaps"),
    ],
)
def test_tables_that_disagree_about_forks_are_found(path: Path, change: str, flaw: str) -> None:
    tamper(path, change)

    with treering.open(path) as ledger:
        stray = store_of(ledger).check_tables()

    assert stray is not None
    assert flaw in stray


# What fails leaves nothing.


def test_what_is_remembered_of_a_fork_goes_with_its_transaction(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise apsw.FullError("disk full")

    with treering.open(path) as ledger:
        ledger.append([said("on"), said("on", session_id="f")])
        with monkeypatch.context() as broken:
            broken.setattr("treering.storage.sqlite.batch.Batch.flush", fail)
            with pytest.raises(treering.errors.StorageFull):
                fork(ledger, "h", parent="f", seq=4)

        [added] = ledger.append([said("an ordinary session", session_id="h")])

        assert added.seq == 1
        assert store_of(ledger).sessions.cut(OURS, "h") is None
        assert store_of(ledger).sessions.forks(OURS, "f") == ["g"]
        assert ledger.admin.verify().intact


def test_a_process_that_ends_in_the_middle_of_a_fork_leaves_nothing(path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            with treering.open(path) as ledger:
                # Ends behind all rows of the fork, right before they would be kept.
                store_of(ledger)._writer._commit = lambda _: os._exit(7)  # type: ignore[attr-defined]
                fork(ledger, "h", parent="s1", seq=1)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    with treering.open(path) as ledger:
        assert status == 7
        assert store_of(ledger).sessions.cut(OURS, "h") is None
        assert fork(ledger, "h", parent="s1", seq=1).seq == 2
        assert ledger.admin.verify().intact


def test_a_snapshot_that_cannot_be_kept_fails_nobody(path: Path) -> None:
    with treering.open(path) as ledger, closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")

        store_of(ledger).snapshots.keep(OURS, "s1", seq=1, body=b"x")

        other.execute("ROLLBACK")
        assert store_of(ledger).snapshots.latest(OURS, "s1", until_seq=9) is None
        store_of(ledger).snapshots.keep(OURS, "s1", seq=1, body=b"y")
        assert store_of(ledger).snapshots.latest(OURS, "s1", until_seq=9) == (1, b"y")
        assert ledger.append([said("on")])[0].seq == 5


# What a fork costs.


def plan(path: Path, statement: str, bindings: object) -> str:
    connection = connect(str(path))
    cursor = connection.execute("EXPLAIN QUERY PLAN " + statement, bindings)  # type: ignore[arg-type]
    found = "\n".join(str(row[3]) for row in cursor)
    connection.close()
    return found


def test_reads_about_forks_use_their_indexes(path: Path) -> None:
    asked = {
        "session": 1, "after": 0, "before": 9, "until": 9, "run": None, "limit": 9, "mark": 3
    }  # fmt: skip

    counting = plan(path, reader.COMMITTED.of_kinds([1, 2]).indexed, asked)
    tail = plan(path, reader.COMMITTED.of_kinds([1, 2]).tail, asked)
    at_seqs = plan(path, reader.AT_SEQS, (1, b"[1]"))
    heads = plan(path, sessions.HEADS, (1, 9, 9))

    assert "t USING PRIMARY KEY (session=? AND seq>? AND seq<?)" in counting
    assert "e USING INTEGER PRIMARY KEY (rowid>?)" in tail
    for half in (counting, tail):
        assert "r USING INDEX sqlite_autoindex_runs_1 (session=? AND run=?)" in half
        assert "TEMP B-TREE" not in half
        assert half.index("SEARCH e ") < half.index("SEARCH c ")
    assert "seqs_by_session USING PRIMARY KEY (session=? AND seq=?)" in at_seqs
    assert "s USING COVERING INDEX sessions_by_key (scope=?)" in heads
    assert "t USING PRIMARY KEY (session=? AND seq=?)" in heads
    assert "e USING INTEGER PRIMARY KEY (rowid>?)" in heads
    assert "SCAN e" not in heads
    assert "USING INDEX sqlite_autoindex_snapshots_1" in plan(
        path, LATEST, {"scope": 1, "session": 1, "view": 0, "until": 9}
    )


def test_a_fork_writes_as_much_at_the_end_of_a_long_session_as_of_a_short_one(
    tmp_path: Path,
) -> None:
    def changed(ledger: Ledger, name: str, seq: int) -> int:
        connection = store_of(ledger)._writer.database.writer()  # type: ignore[attr-defined]
        before = connection.total_changes()
        fork(ledger, name, parent="s1", seq=seq)
        return int(connection.total_changes() - before)

    with treering.open(tmp_path / "long.db") as ledger:
        ledger.append([said("a")])
        changed(ledger, "first", 1)
        short = changed(ledger, "short", 1)
        ledger.append([said(str(n)) for n in range(400)])
        long = changed(ledger, "long", 401)

    assert short == long


def test_a_failed_run_is_not_decoded_to_be_left_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(path) as ledger:
        ledger.append(run_of("r1", *map(str, range(200)), end="run.failed"))
        counted: list[int] = []

        def counting(found: list[Row], *rest: Any) -> list[Event]:
            counted.append(len(found))
            return events(found, *rest)

        monkeypatch.setattr("treering.storage.sqlite.rows.events", counting)

        found = store_of(ledger).reader.committed_events(
            OURS, "s1", kinds=("conversation.user",), before_seq=999, until_seq=999,
            run_id=None, limit=4,
        )  # fmt: skip

    assert [event.summary for event in found] == ["a", "b", "c", "d"]
    assert counted == [4]


# Older files.


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.db")), ids=lambda file: file.name)
def test_sessions_of_every_released_schema_can_be_forked(golden: Path, path: Path) -> None:
    path.write_bytes(golden.read_bytes())

    with treering.open(path) as ledger:
        before = ledger.admin.verify()
        fork(ledger, "f", parent="g1", seq=2, scope="golden")
        ledger.append([said("on", session_id="f", scope="golden")])

        assert [e.seq for e in store_of(ledger).reader.events_at(Scope("golden"), "f", [3, 4])] == [
            3,
            4,
        ]
        assert ledger.admin.verify().events == before.events + 2
        assert ledger.admin.verify().intact


def test_forks_and_snapshots_hold_no_text(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        declared = {
            column[2]
            for table in ("forks", "snapshots")
            for column in connection.execute(f"PRAGMA table_info({table})")
        }

    assert declared == {"INTEGER", "BLOB"}


def test_what_is_erased_leaves_no_byte_though_it_was_forked(path: Path) -> None:
    with treering.open(path) as ledger:
        ledger.append([said("sensitive-words", event_id="x", payload={"text": "sensitive-words"})])
        fork(ledger, "h", parent="s1", seq=5)
        store_of(ledger).snapshots.keep(OURS, "h", seq=6, body=b"numbers")
        receipt = ledger.redact(HERE, event_id="x")
        fork(ledger, "i", parent="s1", seq=5)

        assert ledger.admin.verify().intact
    found = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())

    assert receipt.physical == "done"
    assert b"sensitive-words" not in found
    assert b"numbers" not in found
