"""Other programs' SQLite files: read as they are, and left as they were."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import treering
from effort import PATIENCE_S
from treering.errors import Busy, InvalidInput, NotFound
from treering.storage.sqlite.foreign import PAGE_ROWS, is_sqlite, open_foreign

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import StrPath


def make(path: StrPath, rows: int = 3, mode: str = "delete") -> sqlite3.Connection:
    """Return a file with a table of notes, still open."""
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA journal_mode = {mode}")
    database.execute('CREATE TABLE "my notes" (id INTEGER PRIMARY KEY, said, "odd ""one")')
    database.executemany(
        'INSERT INTO "my notes" VALUES (?, ?, ?)', [(n * 2, f"note {n}", None) for n in range(rows)]
    )
    database.commit()
    return database


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return every file of a folder, with its bytes and its time."""
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()}


def rows_of(path: Path, table: str, columns: list[str]) -> list[dict[str, Any]]:
    """Return the rows of one table."""
    with open_foreign(path) as database:
        return list(database.rows(table, columns))


def said(path: Path) -> list[str]:
    """Return what the notes say."""
    return [row["said"] for row in rows_of(path, "my notes", ["said"])]


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_file_at_rest_is_read_without_a_trace(tmp_path: Path, mode: str) -> None:
    make(tmp_path / "x.db", mode=mode).close()
    before = contents(tmp_path)

    rows = rows_of(tmp_path / "x.db", "my notes", ["said", 'odd "one'])

    assert rows == [{"rowid": n * 2, "said": f"note {n}", 'odd "one': None} for n in range(3)]
    assert contents(tmp_path) == before


def test_a_file_whose_log_is_not_written_back_is_read_with_it(tmp_path: Path) -> None:
    with closing(make(tmp_path / "x.db", mode="wal")) as database:
        database.execute("INSERT INTO \"my notes\" VALUES (100, 'in the log', NULL)")
        database.commit()
        before = contents(tmp_path)

        found = said(tmp_path / "x.db")

        assert found[-1] == "in the log"
        assert contents(tmp_path) == before


def test_a_log_that_a_crash_left_behind_is_read_and_left(tmp_path: Path) -> None:
    live, dead = tmp_path / "live", tmp_path / "dead"
    live.mkdir()
    dead.mkdir()
    with closing(make(live / "x.db", mode="wal")):
        for name in ("x.db", "x.db-wal"):
            (dead / name).write_bytes((live / name).read_bytes())
    before = contents(dead)

    assert said(dead / "x.db") == ["note 0", "note 1", "note 2"]
    assert contents(dead) == before


def test_many_rows_come_in_their_order(tmp_path: Path) -> None:
    make(tmp_path / "x.db", 2 * PAGE_ROWS + 7).close()

    assert said(tmp_path / "x.db") == [f"note {n}" for n in range(2 * PAGE_ROWS + 7)]


WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
database.execute("PRAGMA journal_mode = " + sys.argv[2])
database.execute("PRAGMA wal_autocheckpoint = 20")
database.execute("CREATE TABLE IF NOT EXISTS pairs (id INTEGER PRIMARY KEY, one, other)")
for number in range(100_000):
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO pairs VALUES (?, ?, NULL)", (number, "x" * 3000))
    database.execute("UPDATE pairs SET other = one WHERE id = ?", (number,))
    database.execute("DELETE FROM pairs WHERE id < ?", (number - 50,))
    database.execute("COMMIT")
    print(number, flush=True)
    if sys.stdin.readline() != "go on\\n":
        break
"""


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_writer_never_waits_nor_fails_and_every_copy_is_whole(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "x.db"
    command = [sys.executable, "-c", WRITER, str(path), mode]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for number in range(60):
            assert writer.stdout.readline() == f"{number}\n"
            # It writes on while this reads, without a lock to wait for: a timeout of 0 would fail.
            writer.stdin.write("go on\n")
            rows = rows_of(path, "pairs", ["id", "one", "other"])

            assert all(row["one"] == row["other"] for row in rows)
            assert [row["id"] for row in rows] == list(range(rows[0]["id"], rows[-1]["id"] + 1))
            assert rows[-1]["id"] in {number, number + 1}
        writer.stdin.close()
        assert writer.wait(PATIENCE_S) == 0


def test_rows_are_chosen_and_ordered(tmp_path: Path) -> None:
    with closing(make(tmp_path / "x.db", 12)) as database:
        database.execute('UPDATE "my notes" SET "odd ""one" = id / 8')
        database.commit()
    with open_foreign(tmp_path / "x.db") as found:
        assert found.tables() == {"my notes": ["id", "said", 'odd "one']}
        assert found.count("my notes") == 12
        begun = found.rows("my notes", ["said"], prefix=("said", "note 1"), order=["said"])
        assert [row["said"] for row in begun] == ["note 1", "note 10", "note 11"]
        equal = found.rows("my notes", where={'odd "one': 1}, order=['odd "one'])
        assert [row["id"] for row in equal] == [8, 10, 12, 14]


def test_texts_that_are_none_are_marked(tmp_path: Path) -> None:
    with closing(make(tmp_path / "x.db")) as database:
        database.execute("UPDATE \"my notes\" SET said = CAST(x'6aff' AS TEXT) WHERE id = 2")
        database.commit()

    assert said(tmp_path / "x.db") == ["note 0", "j\ufffd", "note 2"]


def test_a_write_that_was_cut_off_is_not_guessed_at(tmp_path: Path) -> None:
    make(tmp_path / "x.db").close()
    (tmp_path / "x.db-journal").write_bytes(b"unfinished")

    with pytest.raises(Busy) as refused:
        said(tmp_path / "x.db")
    assert refused.value.hint


def test_a_ledger_is_refused_with_the_way_to_bring_it_over(tmp_path: Path) -> None:
    treering.open(tmp_path / "ledger.db").close()

    with pytest.raises(InvalidInput, match="a Treering ledger") as refused:
        said(tmp_path / "ledger.db")
    assert "treering copy" in str(refused.value.hint)


def test_what_is_no_such_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("hello " * 1_000)
    (tmp_path / "empty.db").touch()
    with closing(sqlite3.connect(tmp_path / "bare.db")) as database:
        database.execute("VACUUM")
    make(tmp_path / "x.db").close()

    with pytest.raises(InvalidInput, match="not a SQLite file"):
        said(tmp_path / "text.db")
    with pytest.raises(InvalidInput, match="not a SQLite file"):
        said(tmp_path / "empty.db")
    with pytest.raises(NotFound, match="no table my notes"):
        said(tmp_path / "bare.db")
    with pytest.raises(InvalidInput, match="no column mood"):
        rows_of(tmp_path / "x.db", "my notes", ["said", "mood"])
    with pytest.raises(NotFound):
        said(tmp_path / "nothing.db")


def test_a_sqlite_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    make(tmp_path / "x.db").close()

    assert is_sqlite((tmp_path / "x.db").read_bytes()[:100])
    assert not is_sqlite(b"{}")
