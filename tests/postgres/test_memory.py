"""The memory of a ledger on a server: what has not settled, what is erased, which index is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

import treering
from builders import HERE, said
from ports import store_of
from treering.memory.records import IndexEntry, Row
from treering.model.scopes import Scope
from treering.storage.postgres import following, memory_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postgres_places import Place
    from treering import Event, Ledger

SCOPE: Final = Scope(HERE)


def tell(events: Sequence[Event]) -> list[IndexEntry]:
    return [IndexEntry(event.position, str(event.summary).encode(), b"") for event in events]


def shelve(ledger: Ledger) -> list[str]:
    """Catch up with the events; return the words of all documents."""
    store = store_of(ledger)
    while store.memory.follow_documents(SCOPE, "events", tell, embedder="").more:
        pass
    return [
        document.terms.decode()
        for _, document in store.memory.documents(SCOPE, "events", after=0, limit=9_999)
    ]


def test_what_has_not_settled_is_told_beyond_the_last_mark_and_told_again(place: Place) -> None:
    with treering.open(place.url) as ledger, place.connect() as other:
        store = store_of(ledger)
        ledger.append([said("first", kind="memory.stored")])
        other.execute("BEGIN")
        other.execute("SELECT pg_current_xact_id()")
        ledger.append([said("second", kind="memory.stored"), said("third", kind="memory.stored")])

        early = store.memory.remembered_after(SCOPE, (), limit=9)

        assert [event.summary for event in early.items] == ["first", "second", "third"]
        assert [mark > early.last for mark in early.marks] == [False, True, True]
        assert not early.more
        assert store.memory.remembered_after(SCOPE, early.last, limit=1).items == early.items[1:]
        other.execute("COMMIT")
        late = store.memory.remembered_after(SCOPE, early.last, limit=9)
        assert (late.items, late.marks) == (early.items[1:], early.marks[1:])
        assert late.last == late.marks[-1]


def test_what_has_not_settled_is_entered_once(place: Place) -> None:
    with treering.open(place.url) as ledger, place.connect() as other:
        ledger.append([said("first")])
        other.execute("BEGIN")
        other.execute("SELECT pg_current_xact_id()")
        ledger.append([said("second")])

        assert shelve(ledger) == ["first", "second"]
        ledger.append([said("third")])
        other.execute("COMMIT")

        assert shelve(ledger) == ["first", "second", "third"]
        assert store_of(ledger).memory.index_state(SCOPE, "events").count == 3
        assert store_of(ledger).memory.documents_lag(SCOPE, "events") == 0


def test_the_terms_of_what_was_erased_are_in_no_table(place: Place) -> None:
    with treering.open(place.url) as ledger:
        ledger.append([said("quokka-0001", event_id="e1"), said("numbat-0001")])
        assert shelve(ledger) == ["quokka-0001", "numbat-0001"]
        place.sql("CHECKPOINT")
        assert _in_documents(place, b"numbat-0001")
        assert _in_documents(place, b"quokka-0001")

        assert ledger.redact(HERE, event_id="e1").physical == "done"

        place.sql("CHECKPOINT")
        assert not _in_documents(place, b"quokka-0001")
        assert _in_documents(place, b"numbat-0001")
        store_of(ledger).memory.drop_documents(SCOPE)
        place.sql("CHECKPOINT")
        assert not _in_documents(place, b"numbat-0001")
        assert ledger.admin.erasure_state() == "done"


def _in_documents(place: Place, word: bytes) -> bool:
    """Whether a word lies in a file of the documents."""
    found = place.sql(
        "SELECT pg_read_binary_file(pg_relation_filepath(inhrelid)) FROM pg_inherits"
        " WHERE inhparent = 'memory_documents'::regclass"
    )
    return any(word in bytes(row[0]) for row in found)


def test_a_ledger_that_may_only_be_read_keeps_nothing(place: Place) -> None:
    with treering.open(place.url) as ledger:
        ledger.append([said("first")])
        assert shelve(ledger) == ["first"]
        ledger.append([said("second")])

    with treering.open(place.url, mode="ro") as ledger:
        store = store_of(ledger)
        assert shelve(ledger) == ["first"]
        assert store.memory.documents_lag(SCOPE, "events") == 1
        assert not store.memory.keep_memory_rows(
            SCOPE, [Row("f", "a", b"1")], since=(), until=(), replace=True
        )
        assert store.memory.drop_documents(SCOPE) == 0


@pytest.mark.parametrize(
    ("index", "statement"),
    [
        ("events_remembered", memory_documents.REMEMBERED.statement("")),
        ("events_remembered", memory_documents.SHELVED["memories"].statement("")),
        ("events_followed", memory_documents.SHELVED["events"].statement("")),
        ("events_by_position", memory_documents.AT_POSITIONS),
    ],
)
def test_a_plan_that_was_made_early_goes_by_the_index_that_is_meant(
    place: Place, index: str, statement: str
) -> None:
    asked = following.place(SCOPE, (), 100) | {"positions": [7, 8]}

    with place.connect() as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        plan = connection.execute(f"EXPLAIN {statement}".encode(), asked).fetchall()
        parts = connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass",
            (index,),
        ).fetchall()

    text = "\n".join(row[0] for row in plan)
    assert any(part in text for (part,) in parts), text
