"""The file of the memory beside a ledger: erased for good, shared by processes, never missed."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import apsw
import pytest

import treering
from builders import DAY, HERE, NOON, said
from concurrency.processes import begin_together, colleagues
from ports import store_of
from treering.memory.records import IndexEntry, Row
from treering.model.scopes import Scope
from treering.storage.sqlite import memory_documents
from treering.storage.sqlite.indexes import LAG_EVENTS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

    from treering import Event, Ledger

SCOPE: Final = Scope(HERE)


def tell(events: Sequence[Event]) -> list[IndexEntry]:
    """Enter each event by its own words; some of them fill several pages."""
    return [
        IndexEntry(event.position, words, words * (event.position % 5 * 100))
        for event in events
        for words in [str(event.summary).encode()]
    ]


def shelve(ledger: Ledger) -> list[str]:
    """Catch up with the events; return the words of all documents."""
    store = store_of(ledger)
    while store.memory.follow_documents(SCOPE, "events", tell, embedder="").more:
        pass
    found = store.memory.documents(SCOPE, "events", after=0, limit=50_000)
    return [document.terms.decode() for _, document in found]


def bytes_beside(path: Path) -> bytes:
    """Return the bytes of the memory's files, read by another process."""
    script = (
        "import sys, pathlib\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "for file in sorted(path.parent.glob(path.name + '.memory*')):\n"
        "    sys.stdout.buffer.write(file.read_bytes())\n"
    )
    command = [sys.executable, "-S", "-E", "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, check=True).stdout


def word(number: int) -> str:
    return f"{number * 7919 % 1_000_003:06}quokka{number:04}"


def test_no_file_is_made_before_there_is_something_to_keep(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("x", event_id="e1")])
        store = store_of(ledger)
        assert store.memory.memory_rows(SCOPE).items == []
        assert store.memory.index_state(SCOPE, "events").count == 0
        assert store.memory.documents(SCOPE, "events", after=0, limit=9) == []
        ledger.redact(HERE, event_id="e1")

        assert not (tmp_path / "a.db.memory").exists()
        shelve(ledger)
        assert (tmp_path / "a.db.memory").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("how", ["event", "session", "expired"])
def test_the_terms_of_what_was_erased_are_in_no_byte_of_the_file(tmp_path: Path, how: str) -> None:
    """Promise 5, with documents small and large, side by side with those that stay."""
    path = tmp_path / "a.db"
    count = 12 if how == "event" else 60
    gone, kept = [word(n) for n in range(count)], [word(n) for n in range(count, 2 * count)]
    with treering.open(path, durability="normal") as ledger:
        for number, pair in enumerate(zip(gone, kept, strict=True)):
            ledger.append(
                [
                    said(pair[0], event_id=f"g{number}", ts_ms=NOON),
                    said(pair[1], session_id="s2", ts_ms=NOON + 99 * DAY),
                ]
            )
            if number % 20 == 0:
                shelve(ledger)
        shelve(ledger)
        before = bytes_beside(path)

        if how == "event":
            for number in range(count):
                assert ledger.redact(HERE, event_id=f"g{number}").physical == "done"
        elif how == "session":
            assert ledger.redact(HERE, session_id="s1").physical == "done"
        else:
            assert ledger.expire(HERE, now_ms=NOON + 100 * DAY).physical == "done"

        after = bytes_beside(path)
        assert all(one.encode() in before for one in gone)
        assert [one for one in gone if one.encode() in after] == []
        assert shelve(ledger) == kept


def test_what_was_dropped_and_then_erased_is_in_no_byte_either(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said(word(n), event_id=f"e{n}") for n in range(40)])
        shelve(ledger)
        store_of(ledger).memory.drop_documents(SCOPE)

        assert ledger.redact(HERE, session_id="s1").physical == "done"

        assert b"quokka" not in bytes_beside(path)


def test_an_erasure_while_the_file_is_in_use_stays_pending_and_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.storage.sqlite.memory.FOLD_PATIENCE_MS", 50)
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka", event_id="e1"), said("numbat", event_id="e2")])
        shelve(ledger)
        reader = apsw.Connection(f"{path}.memory")
        reader.execute("BEGIN").execute("SELECT * FROM facts").fetchall()

        assert ledger.redact(HERE, event_id="e1").physical == "pending"

        assert shelve(ledger) == ["numbat"]
        reader.execute("COMMIT")
        reader.close()
    with treering.open(path) as ledger:
        assert b"quokka" not in bytes_beside(path)
        assert ledger.admin.erasure_state() == "done"
        assert shelve(ledger) == ["numbat"]


def test_an_erasure_that_was_cut_off_before_the_file_was_written_anew_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said(word(n), event_id=f"e{n}") for n in range(40)])
        shelve(ledger)
        with monkeypatch.context() as cut:
            cut.setattr(store_of(ledger).erasure, "finish", lambda: "pending")
            ledger.redact(HERE, session_id="s1")
        # Somebody follows meanwhile, and takes the documents out.
        ledger.append([said("numbat")])
        assert shelve(ledger) == ["numbat"]

    with treering.open(path) as ledger:
        assert b"quokka" not in bytes_beside(path)
        untidy = apsw.Connection(f"{path}.memory").execute(
            "SELECT value FROM facts WHERE name = 'untidy'"
        )
        assert untidy.get == 0


@pytest.mark.parametrize("damage", ["gone", "garbage", "torn", "foreign"])
@pytest.mark.parametrize("opened", ["already", "anew"])
def test_a_file_that_is_lost_or_damaged_is_made_anew(
    tmp_path: Path, damage: str, opened: str
) -> None:
    path, file = tmp_path / "a.db", tmp_path / "a.db.memory"
    ledger = treering.open(path)
    ledger.append([said(f"quokka {n}") for n in range(300)])
    shelve(ledger)
    before = store_of(ledger).memory.index_state(SCOPE, "events")
    if opened == "anew":
        ledger.close()
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    match damage:
        case "gone":
            file.unlink()
        case "garbage":
            file.write_bytes(os.urandom(40_000))
        case "torn":
            whole = file.read_bytes()
            file.write_bytes(whole[: len(whole) // 2] + os.urandom(len(whole) // 2))
        case "foreign":
            file.unlink()
            foreign = apsw.Connection(str(file))
            foreign.execute("CREATE TABLE facts (name, value); CREATE TABLE rows (x)")
            foreign.close()
    if opened == "anew":
        ledger = treering.open(path)

    ledger.append([said("next")])

    assert shelve(ledger) == [*(f"quokka {n}" for n in range(300)), "next"]
    after = store_of(ledger).memory.index_state(SCOPE, "events")
    assert after.count == 301
    # In a connection that was open before, what was cached may hide the damage.
    assert after.generation != before.generation or opened == "already"
    ledger.close()


def test_rows_that_no_fold_has_saved_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    texts = {"Lives in Porto", "Has two cats"}
    with treering.open(path) as ledger:
        memory = ledger.memory(HERE)
        for text in texts:
            memory.learn(text, user="ann")
        memory.recall("cats", user="ann", record=False)
    with contextlib.closing(sqlite3.connect(f"{path}.memory")) as connection:
        connection.execute("DELETE FROM marks")
        lie = "SELECT body FROM memory_rows WHERE sort LIKE 'fact%' ORDER BY key LIMIT 1"
        connection.execute(f"UPDATE memory_rows SET body = ({lie}) WHERE sort LIKE 'fact%'")
        connection.commit()

    with treering.open(path) as ledger:
        assert {fact.text for fact in ledger.memory(HERE).facts(user="ann").items} == texts


def test_a_ledger_that_was_put_back_from_a_copy_is_remembered_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka")])
    shutil.copy(path, tmp_path / "backup.db")
    with treering.open(path) as ledger:
        ledger.append([said("numbat"), said("bilby")])
        shelve(ledger)
        end = store_of(ledger).reader.end(SCOPE)
        rows = [Row("fact", "a", b"1")]
        assert store_of(ledger).memory.keep_memory_rows(
            SCOPE, rows, since=(), until=end, replace=False
        )
    shutil.copy(tmp_path / "backup.db", path)

    with treering.open(path) as ledger:
        ledger.append([said(f"wombat {n}") for n in range(3)])
        assert store_of(ledger).memory.memory_rows(SCOPE).items == []
        assert shelve(ledger) == ["quokka", "wombat 0", "wombat 1", "wombat 2"]


def test_the_memory_passes_over_events_of_other_kinds_and_misses_none_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_documents, "LOOKED_AT_MAX", 10)
    talk = [said(f"wombat {n}") for n in range(LAG_EVENTS_MAX)]
    with treering.open(tmp_path / "a.db") as ledger:
        ledger.append(talk)  # In the indexes.
        ledger.append([said("a fact", kind="memory.stored"), *talk])
        ledger.append([said("the last one", kind="memory.stored"), *talk[:5]])  # In the tail.
        read = store_of(ledger).memory.remembered_after
        mark: tuple[int, ...] = ()
        steps, found, more = 0, [], True
        while more:
            step = read(SCOPE, mark, limit=100)
            mark, more, steps = step.last, step.more, steps + 1
            found += [event.summary for event in step.items]

    assert found == ["a fact", "the last one"]
    assert steps < 5  # Not one for each ten of 1,031 events.


def test_the_file_of_another_ledger_is_not_taken_for_ours(tmp_path: Path) -> None:
    for name in ("one", "other"):
        with treering.open(tmp_path / f"{name}.db") as ledger:
            ledger.append([said(name)])
            shelve(ledger)
    shutil.copy(tmp_path / "one.db.memory", tmp_path / "other.db.memory")

    with treering.open(tmp_path / "other.db") as ledger:
        assert shelve(ledger) == ["other"]


def test_a_ledger_that_may_only_be_read_remembers_and_not_a_byte_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka")])
        shelve(ledger)
        end = store_of(ledger).reader.end(SCOPE)
        rows = [Row("fact", "a", b"1")]
        assert store_of(ledger).memory.keep_memory_rows(
            SCOPE, rows, since=(), until=end, replace=False
        )
        ledger.append([said("numbat")])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    with treering.open(path, mode="ro") as ledger:
        store = store_of(ledger)
        assert shelve(ledger) == ["quokka"]
        assert store.memory.documents_lag(SCOPE, "events") == 1
        assert store.memory.memory_rows(SCOPE).items == rows
        assert not store.memory.keep_memory_rows(SCOPE, [], since=end, until=end, replace=True)
        assert store.memory.drop_documents() == 0

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_ledger_that_may_only_be_read_and_has_no_such_file_is_remembered_in_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka")])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    with treering.open(path, mode="ro") as ledger:
        assert shelve(ledger) == ["quokka"]

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_many_events_of_other_kinds_are_passed_over_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.storage.sqlite.memory_documents.LOOKED_AT_MAX", 10)
    with treering.open(tmp_path / "a.db") as ledger:
        ledger.append([*(said("x") for _ in range(25)), said("fact", kind="memory.stored")])
        store, mark = store_of(ledger), tuple[int, ...]()
        steps: list[tuple[int, bool]] = []
        while not steps or steps[-1][1]:
            stretch = store.memory.remembered_after(SCOPE, mark, limit=100)
            mark = stretch.last
            steps.append((len(stretch.items), stretch.more))

        assert steps == [(0, True), (0, True), (1, False)]
        assert mark == (26,)


def write_and_shelve(pipe: Connection, path: Path, number: int) -> None:
    """Write and follow along with others."""
    with treering.open(path, durability="normal") as ledger:
        pipe.send("ready")
        pipe.recv()
        for at in range(20):
            ledger.append([said(f"by {number} {at}", session_id=f"s{number}")])
            shelve(ledger)
        pipe.send(sum(one.startswith(f"by {number}") for one in shelve(ledger)))


def test_processes_that_follow_at_once_enter_each_event_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    treering.open(path).close()
    with colleagues(2, write_and_shelve, path) as workers:
        begin_together(workers)

        assert [worker.hear() for worker in workers] == [20, 20]
    with treering.open(path) as ledger:
        found = shelve(ledger)
        assert len(found) == len(set(found)) == 40


def test_a_forked_child_follows_on_its_own(tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db") as ledger:
        ledger.append([said("quokka")])
        assert shelve(ledger) == ["quokka"]
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                ledger.append([said("numbat")])
                os.write(writing, " ".join(shelve(ledger)).encode())
                status = 0
            finally:
                os._exit(status)

        assert os.read(reading, 99) == b"quokka numbat"
        assert os.waitpid(child, 0)[1] == 0
        assert shelve(ledger) == ["quokka", "numbat"]
        for end in (reading, writing):
            os.close(end)
