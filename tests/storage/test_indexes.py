"""Indexes that lag: every event is found, once and in order, whether indexed or not yet."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import treering
from builders import DAY, HERE, NOON, called, run_of, said
from forks import fork
from storage.test_tampering import tamper
from treering.errors import DuplicateEvent
from treering.model.events import Event, Header
from treering.model.scopes import Scope
from treering.storage.sqlite import indexes

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger
    from treering.storage.sqlite.store import SqliteStore

OURS = Scope(HERE)
LAG = 7


@pytest.fixture(autouse=True)
def _small_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter events seven at a time, so that small ledgers have both indexed ones and a tail."""
    monkeypatch.setattr(indexes, "LAG_EVENTS_MAX", LAG)


def store_of(ledger: Ledger) -> SqliteStore:
    return ledger._store  # type: ignore[return-value]


def marks(path: Path) -> tuple[int, int]:
    """Return the last event that is indexed, and the last one."""
    with closing(sqlite3.connect(path)) as connection:
        (indexed,) = connection.execute(
            "SELECT value FROM ledger WHERE name = 'indexed_position'"
        ).fetchone()
        (last,) = connection.execute("SELECT max(position) FROM events").fetchone()
    return indexed, last


def fill(ledger: Ledger, count: int, *, first: int = 0) -> None:
    """Append events to three sessions one by one; each second one has an id of its own."""
    for n in range(first, first + count):
        event_id = f"e{n}" if n % 2 else None
        ledger.append([said(f"event {n}", session_id=f"s{n % 3}", event_id=event_id)])


def whole(ledger: Ledger, session: str) -> list[Any]:
    return store_of(ledger).reader.by_seq(Header, OURS, session, after_seq=0, limit=99)


def seqs(found: list[Any]) -> list[int]:
    return [one.seq for one in found]


@pytest.mark.parametrize("count", [1, 6, 7, 8, 20, 21, 22, 40])
def test_every_stretch_of_a_session_is_read_in_order(path: Path, count: int) -> None:
    with treering.open(path) as ledger:
        fill(ledger, count)
        store = store_of(ledger)
        for session in range(min(count, 3)):
            name, own = f"s{session}", len(range(session, count, 3))
            for limit in (1, 2, own, own + 1):
                for after in range(own + 1):
                    wanted = list(range(after + 1, min(after + limit, own) + 1))
                    read: dict[str, Any] = {"after_seq": after, "limit": limit}
                    assert seqs(store.reader.by_seq(Header, OURS, name, **read)) == wanted
                    assert seqs(store.reader.by_seq(Event, OURS, name, **read)) == wanted
                    assert seqs(store.reader.records(OURS, name, **read)) == wanted
                    wanted = list(range(max(after + 1 - limit, 1), after + 1))
                    last: dict[str, Any] = {"before_seq": after + 1, "limit": limit}
                    assert seqs(store.reader.last_by_seq(Header, OURS, name, **last)) == wanted
                    assert seqs(store.reader.last_by_seq(Event, OURS, name, **last)) == wanted
            every = list(range(1, own + 1))
            assert seqs(store.reader.events_at(OURS, name, [*every, *every, own + 1])) == every
    assert marks(path) == (count // LAG * LAG, count)


def test_every_id_is_found_and_repeats_are_known(path: Path) -> None:
    with treering.open(path) as ledger:
        fill(ledger, 40)
        named = [f"e{n}" for n in range(1, 40, 2)]

        assert sorted(store_of(ledger).reader.find_ids(OURS, [*named, "new"])) == sorted(named)
        for number, event_id in zip(range(1, 40, 2), named, strict=True):
            event = ledger.event(HERE, event_id)
            assert event.summary == f"event {number}"
            draft = said(event.summary, session_id=event.session_id, event_id=event_id)
            assert ledger.append([draft])[0].seq == event.seq
        again = [said(f"event {n}", session_id=f"s{n % 3}", event_id=f"e{n}") for n in (1, 3, 39)]
        mixed = [*again, *(said("new", event_id=f"new{n}") for n in range(9))]
        assert len(ledger.append(mixed)) == 12
        assert ledger.admin.verify().events == 49


@pytest.mark.parametrize("event_id", ["e1", "e39"])
def test_an_id_is_not_given_twice(path: Path, event_id: str) -> None:
    with treering.open(path) as ledger, treering.open(path) as other:
        fill(ledger, 40)
        for one in (ledger, other):
            with pytest.raises(DuplicateEvent):
                one.append([said("something else", event_id=event_id)])
        assert ledger.admin.verify().events == 40


def test_two_writers_that_take_turns_see_what_the_other_has_in_the_tail(path: Path) -> None:
    dice = Random(40)
    with treering.open(path) as one, treering.open(path) as two:
        for n in range(120):
            writer, other = dice.sample([one, two], 2)
            event = said(f"event {n}", session_id=f"s{n % 4}", event_id=f"e{n}")
            recorded = writer.append([event])
            assert recorded[0].seq == n // 4 + 1
            assert other.append([event]) == recorded
            assert other.event(HERE, f"e{n}").seq == recorded[0].seq
        assert one.admin.verify().events == two.admin.verify().events == 120
        assert one.admin.verify().intact


def test_ids_of_what_expired_are_hidden_in_the_index_and_in_the_tail(path: Path) -> None:
    with treering.open(path) as ledger:
        ledger.append([called(event_id=f"old{n}", ts_ms=NOON) for n in range(LAG + 3)])
        ledger.append([called(event_id="tail", ts_ms=NOON)])
        ledger.expire(HERE, now_ms=NOON + 45 * DAY)
        assert ledger.admin.verify().intact
        names = [f"old{n}" for n in range(LAG + 3)] + ["tail"]
        with pytest.raises(treering.NotFound):
            ledger.event(HERE, "old1")

        # They are still taken: repeating one returns the event that was there.
        assert sorted(store_of(ledger).reader.find_ids(OURS, names)) == sorted(names)
        fill(ledger, 3 * LAG)
        assert sorted(store_of(ledger).reader.find_ids(OURS, names)) == sorted(names)
        assert ledger.admin.verify().intact


def test_runs_sessions_and_forks_are_found_on_both_sides(path: Path) -> None:
    with treering.open(path) as ledger:
        ledger.append(run_of("r1", "a", "b", session_id="old")[:-1])
        fill(ledger, 30)
        ledger.append(run_of("r2", "c", session_id="new")[:-1])
        store = store_of(ledger)

        assert sorted(one.run_id for one in store.reader.open_runs()) == ["r1", "r2"]
        assert all(one.seen_ms for one in store.reader.open_runs())
        heads = store.sessions.heads(OURS, before_position=None, limit=9)
        assert heads[0].session_id == "new"
        assert heads[-1].session_id == "old"
        assert len(heads) == 5
        paged = store.sessions.heads(OURS, before_position=heads[1].position, limit=9)
        assert paged == heads[2:]
        for record in store.sessions.records():
            assert store.sessions.link_at(OURS, record.genesis, record.head_seq) == record.head_link
        assert ledger.admin.verify().intact


def test_an_append_writes_the_event_its_content_and_the_head_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "LAG_EVENTS_MAX", 10_000)
    with treering.open(path) as ledger, closing(apsw.Connection(str(path))) as other:
        ledger.append([said("first")])
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        for n in range(200):
            ledger.append([said(f"event {n}", event_id=f"e{n}" if n % 2 else None)])
        (frames,) = {row[1] for row in other.execute("PRAGMA wal_checkpoint(PASSIVE)")}

    # Three pages each, and a little for pages that are full; five and a half with two indexes more.
    assert frames < 200 * 3.8


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM seqs_by_session WHERE position = 3",
        "DELETE FROM ids_by_scope WHERE position = 3",
        "UPDATE seqs_by_session SET seq = 99 WHERE position = 3",
        "UPDATE seqs_by_session SET position = 2 WHERE position = 3",
        "UPDATE ids_by_scope SET event_id = randomblob(16) WHERE position = 3",
        "UPDATE ids_by_scope SET position = 2 WHERE position = 3",
        "INSERT INTO ids_by_scope (scope, event_id, position) VALUES (1, randomblob(16), 3)",
        "INSERT INTO seqs_by_session (session, seq, position) VALUES (1, 99, 3)",
        "UPDATE ledger SET value = 9999 WHERE name = 'indexed_position'",
        "UPDATE ledger SET value = value + 1 WHERE name = 'indexed_position'",
        "UPDATE ledger SET value = value - 1 WHERE name = 'indexed_position'",
        "UPDATE ledger SET value = 0 WHERE name = 'indexed_position'",
    ],
)
def test_a_wrong_index_is_found_and_mended(path: Path, statement: str) -> None:
    with treering.open(path) as ledger:
        fill(ledger, 3 * LAG + 3)
        assert ledger.admin.verify().intact
    tamper(path, statement)

    with treering.open(path) as ledger:
        assert not ledger.admin.verify().intact
        ledger.admin.rebuild()
        assert ledger.admin.verify().intact
        assert ledger.admin.verify().events == 3 * LAG + 3
        assert seqs(whole(ledger, "s0")) == list(range(1, 9))


@pytest.mark.parametrize("count", [LAG - 2, 3 * LAG + 3])
@pytest.mark.parametrize("mark", ["indexed_position", "timed_position"])
def test_a_mark_that_is_gone_is_reported_and_mended_and_frees_no_id(
    path: Path, mark: str, count: int
) -> None:
    with treering.open(path) as ledger:
        fill(ledger, count)
    tamper(path, f"DELETE FROM ledger WHERE name = '{mark}'")

    with treering.open(path) as ledger:
        assert not ledger.admin.verify().intact
        assert ledger.event(HERE, "e1").summary == "event 1"
        again = ledger.append([said("event 1", session_id="s1", event_id="e1")])
        assert seqs(again) == [1]
        ledger.admin.rebuild()
        assert ledger.admin.verify().intact
        assert ledger.admin.verify().events == count
        assert len(ledger.headers(HERE, first=count + 1).items) == count


def test_a_rebuild_empties_the_cache_while_no_other_thread_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(path) as ledger:
        fill(ledger, LAG)
        writer = store_of(ledger)._writer
        locked: list[bool] = []
        forget = writer.ids.forget

        def looked_at() -> None:
            locked.append(writer.database.lock.is_held_here())
            forget()

        monkeypatch.setattr(writer.ids, "forget", looked_at)
        ledger.admin.rebuild()

        assert locked
        assert all(locked)


@pytest.mark.parametrize(
    "changes",
    [
        "event_id = (SELECT event_id FROM events WHERE position = 2), event_name = NULL",
        "event_id = (SELECT event_id FROM events WHERE position = 23), event_name = NULL",
    ],
)
def test_an_id_that_was_doubled_by_hand_is_reported_and_stops_no_writer(
    path: Path, changes: str
) -> None:
    with treering.open(path) as ledger:
        fill(ledger, 3 * LAG + 3)
    tamper(path, f"UPDATE events SET {changes} WHERE position = 24")

    with treering.open(path) as ledger:
        assert not ledger.admin.verify().intact
        fill(ledger, 2 * LAG, first=100)
        assert not ledger.admin.verify().intact


def swap(one: int, two: int, table: str) -> list[str]:
    return [
        f"UPDATE {table} SET seq = -1 WHERE session = 1 AND seq = {one}",
        f"UPDATE {table} SET seq = {one} WHERE session = 1 AND seq = {two}",
        f"UPDATE {table} SET seq = {two} WHERE session = 1 AND seq = -1",
    ]


@pytest.mark.parametrize(("one", "two"), [(2, 3), (1, 6), (5, 7)])
def test_swapped_rows_are_found_in_the_index(path: Path, one: int, two: int) -> None:
    with treering.open(path) as ledger:
        fill(ledger, 3 * LAG + 3)
    tamper(path, *swap(one, two, "events"))
    with treering.open(path) as ledger:
        broken = ledger.admin.verify().first_broken
        assert broken is not None
        assert broken.seq == one

    tamper(path, *swap(one, two, "seqs_by_session"))
    with treering.open(path) as ledger:
        broken = ledger.admin.verify().first_broken
        assert broken is not None
        assert (broken.seq, broken.fault) == (one, "reordered")


def test_a_program_of_an_earlier_version_may_still_write(path: Path) -> None:
    """It enters events into the orders of time alone, and moves their mark."""
    with treering.open(path) as ledger:
        fill(ledger, LAG + 2)
        with closing(sqlite3.connect(path)) as earlier, earlier:
            earlier.execute(
                "INSERT INTO times_by_session"
                " SELECT session, ts_ms, position FROM events WHERE position > 7"
            )
            earlier.execute(
                "INSERT INTO times_by_kind"
                " SELECT scope, kind, ts_ms, position FROM events WHERE position > 7"
            )
            earlier.execute("UPDATE ledger SET value = 9 WHERE name = 'timed_position'")
        assert ledger.admin.verify().intact
        assert len(ledger.headers(HERE).items) == LAG + 2
        fill(ledger, 2 * LAG, first=LAG + 2)
        assert ledger.admin.verify().intact
        assert len(ledger.headers(HERE).items) == 3 * LAG + 2
        assert seqs(whole(ledger, "s0")) == list(range(1, 9))


def test_the_index_is_not_read_for_a_fork_that_is_all_in_the_tail(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(path) as ledger:
        ledger.append([said(str(n)) for n in range(LAG)])
        fork(ledger, "f", parent="s1", seq=LAG)
        ledger.append([said("d", session_id="f")])
        read: list[str] = []

        def fetch_all(connection: Any, statement: str, bindings: Any) -> Any:
            read.append(statement)
            return connection.execute(statement, bindings).fetchall()

        monkeypatch.setattr(indexes, "fetch_all", fetch_all)
        reader = store_of(ledger).reader
        first = reader.by_seq(Header, OURS, "f", after_seq=0, limit=9)
        last = reader.last_by_seq(Header, OURS, "f", before_seq=None, limit=9)

    assert [header.seq for header in first] == [LAG + 1, LAG + 2]
    assert last == first
    assert len(read) == 2
    assert not any("seqs_by_session" in statement for statement in read)


def test_an_id_that_was_looked_for_in_vain_is_known_once_another_writer_has_recorded_it(
    tmp_path: Path,
) -> None:
    events = [said(f"event {n}", event_id=f"e{n}", ts_ms=NOON) for n in range(2 * LAG)]
    ids = [event.event_id or "" for event in events]
    with treering.open(tmp_path / "l.db") as ledger, treering.open(tmp_path / "l.db") as other:
        ledger.append([said("first")])
        assert ledger.find_ids(HERE, ids) == {}

        recorded = other.append(events)

        assert ledger.append(events) == recorded
