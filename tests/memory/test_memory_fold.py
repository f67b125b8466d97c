"""The fold of a memory: kept up with the ledger, resumed by the next process, or folded again."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import ELSEWHERE, HERE
from ports import store_of
from treering import Ledger
from treering.derive.memory_state import EPISODE, FACT
from treering.memory import memory_fold
from treering.memory.memory_fold import MemoryFold
from treering.memory.records import Row
from treering.model.queries import FollowedEvents
from treering.model.scopes import Scope
from treering.model.sessions import COMMON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering import Event
    from treering.memory.ports import MemoryStore
    from treering.model.queries import Mark

SCOPE = Scope(HERE)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    with treering.open(tmp_path / "ledger.db") as opened:
        yield opened


def recollected(store: MemoryStore, scope: Scope = SCOPE) -> MemoryFold:
    found = MemoryFold(store, lambda *_: COMMON, scope)
    found.refresh()
    return found


def learn(book: Ledger, *texts: str, scope: str = HERE) -> list[str]:
    return [book.memory(scope).learn(text, user="ann").fact_id for text in texts]


def told(found: MemoryFold) -> dict[str, str]:
    """Return what the facts that are current say, by id."""
    rows = [row for row in found.state.facts.values() if row.state == "current"]
    tellings = found.events_at([row.position for row in rows])
    return {row.id: tellings[row.position].payload["text"] for row in rows}


def test_what_others_record_is_taken_in(book: Ledger, tmp_path: Path) -> None:
    found = recollected(store_of(book).memory)
    with treering.open(tmp_path / "ledger.db") as other:
        [first] = learn(other, "Lives in Ghent")
        learn(other, "Likes cake", scope=ELSEWHERE)
        found.refresh()
        assert told(found) == {first: "Lives in Ghent"}
        [second] = learn(other, "Lives in Porto")

    found.refresh()

    assert told(found) == {second: "Lives in Porto"}
    assert found.generation == 0


def test_whoever_comes_next_goes_on_where_another_stopped(book: Ledger) -> None:
    [first] = learn(book, "Lives in Ghent")
    early = recollected(store_of(book).memory)
    early.save()
    assert store_of(book).memory.memory_rows(SCOPE).mark == store_of(book).reader.end(SCOPE)
    [second] = learn(book, "Likes tea")

    late = recollected(store_of(book).memory)

    assert late.state.changed <= {(FACT, second)}
    assert told(late) == {first: "Lives in Ghent", second: "Likes tea"}


def test_closing_a_ledger_keeps_what_was_folded(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db") as book:
        [fact_id] = learn(book, "Lives in Ghent")

    with treering.open(tmp_path / "ledger.db") as book:
        kept = [row.key for row in store_of(book).memory.memory_rows(SCOPE).items]
        assert kept == [fact_id]
        assert learn(book, "Lives in Ghent") == [fact_id]


@pytest.mark.parametrize(
    "damaged",
    [
        Row(FACT, "f1", b"{}"),
        Row(FACT, "f1", b"\xff"),
        Row(FACT, "f1", bytes(4)),
        Row(EPISODE, "f1", b"{}"),
        Row("fact.2", "f1", b"{}"),
        Row("odd", "f1", b"1"),
    ],
)
def test_rows_that_cannot_be_read_are_folded_anew_and_replaced(book: Ledger, damaged: Row) -> None:
    [fact_id] = learn(book, "Lives in Ghent")
    store = store_of(book)
    end = store.reader.end(SCOPE)
    assert store.memory.keep_memory_rows(SCOPE, [damaged], since=(), until=end, replace=True)

    found = recollected(store.memory)

    assert told(found) == {fact_id: "Lives in Ghent"}
    found.save()
    assert [row.key for row in store.memory.memory_rows(SCOPE).items] == [fact_id]


def test_a_key_with_a_damaged_byte_is_reported_and_folded_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with treering.open(path) as book:
        learn(book, "Lives in Ghent", "Likes tea")
    with contextlib.closing(sqlite3.connect(f"{path}.memory")) as file, file:
        damaged = "CAST(x'ff' || substr(CAST(key AS BLOB), 2) AS TEXT)"
        first = "(SELECT min(key) FROM memory_rows)"
        assert file.execute(f"UPDATE memory_rows SET key = {damaged} WHERE key = {first}").rowcount

    with treering.open(path) as book:
        broken = book.admin.verify(derived=True).first_broken
        assert broken is not None
        assert "memory rows cannot be read" in broken.detail
        assert len(book.memory(HERE).facts().items) == 2
    with treering.open(path) as book:
        assert book.admin.verify(derived=True).intact


def test_an_erasure_has_all_folded_anew_and_no_text_outlives_it(book: Ledger) -> None:
    book.memory(HERE).learn("Lives in Ghent", user="ann", fact_id="f1")
    [kept] = learn(book, "Likes tea")
    found = recollected(store_of(book).memory)
    assert len(told(found)) == 2
    position = found.state.facts["f1"].position

    book.redact(HERE, event_id="memory:f1")
    found.refresh()

    assert (told(found), found.generation) == ({kept: "Likes tea"}, 1)
    assert found.events_at([position]) == {}
    found.refresh()
    assert found.generation == 1


def test_what_was_erased_is_not_among_rows_that_were_kept_before(book: Ledger) -> None:
    book.memory(HERE).learn("Lives in Ghent", user="ann", fact_id="f1")
    recollected(store_of(book).memory).save()
    book.redact(HERE, event_id="memory:f1")

    found = recollected(store_of(book).memory)

    assert told(found) == {}
    found.save()
    assert "f1" not in {row.key for row in store_of(book).memory.memory_rows(SCOPE).items}


def test_an_erasure_elsewhere_changes_nothing(book: Ledger) -> None:
    [fact_id] = learn(book, "Lives in Ghent")
    found = recollected(store_of(book).memory)
    book.memory(ELSEWHERE).learn("Likes cake", fact_id="f1")
    book.redact(ELSEWHERE, event_id="memory:f1")

    found.refresh()

    assert (told(found), found.generation) == ({fact_id: "Lives in Ghent"}, 0)


def test_what_cites_an_event_is_known_by_its_own_event(book: Ledger) -> None:
    session = book.session("s1", scope=HERE, agent="lyria", user="ann")
    said = session.record("conversation.user", "I live in Ghent").event_id
    learned = book.memory(HERE).learn("Lives in Ghent", user="ann", evidence=[said])

    found = recollected(store_of(book).memory)

    assert found.citing([said, "unknown"]) == [learned.event_id]
    assert found.citing(["unknown"]) == []


def test_texts_that_are_not_held_are_read_again(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_fold, "TEXTS_MAX", 1)
    ids = learn(book, "Lives in Ghent", "Likes tea", "Has a dog named Max")

    found = recollected(store_of(book).memory)

    assert len(found._texts) == 1
    assert list(told(found)) == list(told(found)) == ids


# What has not settled: a server may show an event before others that will stand before it.


class Unsettled:
    """A store whose events stand in the order that a test says, some of them not for good."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        stretch = store.remembered_after(SCOPE, (), limit=99)
        self.events: list[Event] = list(stretch.items)
        self.settled = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def remembered_after(
        self, _: Scope, mark: tuple[int, ...], *, limit: int
    ) -> FollowedEvents[Event]:
        first = mark[0] if mark else 0
        marks: list[Mark] = [(number + 1,) for number in range(len(self.events))]
        return FollowedEvents(
            self.events[first:limit], marks[first:limit], (self.settled,), more=False
        )


@pytest.fixture
def unsettled(book: Ledger) -> Unsettled:
    """Return a store with two answers that were recorded at once, for the same time."""
    memory = book.memory(HERE)
    memory.learn("Lives in Ghent", user="ann", valid_from_ms=1, fact_id="ghent")
    memory.learn("Lives in Porto", user="ann", valid_from_ms=1, fact_id="porto")
    found = Unsettled(store_of(book).memory)
    found.events = [event for event in found.events if event.kind == "memory.stored"]
    return found


def test_what_has_not_settled_counts_and_is_not_kept(unsettled: Unsettled) -> None:
    store: Any = unsettled
    found = recollected(store)
    found.refresh()

    assert list(told(found)) == ["porto"]
    assert len(found.state.facts["porto"].assertions) == 1
    found.save()
    assert store.memory_rows(SCOPE).items == []
    unsettled.settled = 2
    found.refresh()
    assert found.generation == 0


def test_what_settles_in_another_order_is_folded_in_that_order(unsettled: Unsettled) -> None:
    store: Any = unsettled
    ghent, porto = unsettled.events
    unsettled.events = [porto]
    found = recollected(store)
    assert list(told(found)) == ["porto"]
    unsettled.events = [ghent, porto]

    found.refresh()

    assert list(told(found)) == ["porto"]
    assert found.state.facts["ghent"].superseded_by == "porto"
    assert found.generation == 1
    assert msgspec.json.encode(found.state.rows(found.state.all_keys())) == msgspec.json.encode(
        (again := recollected(store)).state.rows(again.state.all_keys())
    )
