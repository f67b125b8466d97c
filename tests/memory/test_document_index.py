"""Document indexes in memory: caught up, read again, the same within and beyond what is held."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest

import treering
from builders import HERE, said
from ports import store_of
from treering import Ledger
from treering.derive.fact_rows import FactRow, hashed
from treering.derive.memory_state import FactPayload
from treering.embedders.static import StaticEmbedder
from treering.errors import Unavailable
from treering.memory import document_index, lexical, memory_fold, scope_memory
from treering.memory.document_index import DocumentIndex
from treering.memory.events import fact_event
from treering.memory.fact_columns import FactColumns
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from treering import Event
    from treering.memory.ports import Embedder, Matrix
    from treering.memory.records import Document

SCOPE = Scope(HERE)
TALK = ["I live in Ghent", "the dog barks at night", "rye bread and butter", "a red bicycle"]


class Renamed(StaticEmbedder):
    """The same vectors, said to be of another space."""

    name = "another"


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


def texts(event: Event) -> list[str]:
    """Return what an event is found by: its sentences, each with a vector of its own."""
    return [one for one in str(event.summary).split(". ") if one != "nothing"]


def copied(book: Ledger, embedder: Embedder | None) -> DocumentIndex:
    copy = DocumentIndex(store_of(book).memory, SCOPE, "events", embedder)
    copy.catch_up(texts)
    return copy


def asked(embedder: StaticEmbedder, text: str) -> Matrix:
    return embedder.embed_queries([text])


def test_what_is_said_is_on_the_shelf_once_it_is_asked_for(
    book: Ledger, embedder: StaticEmbedder
) -> None:
    heard: list[int] = []
    book.append([said(one) for one in TALK])
    copy = DocumentIndex(store_of(book).memory, SCOPE, "events", embedder)

    copy.catch_up(texts, progress=heard.append)
    book.append([said("nothing"), said("green tea")])
    copy.catch_up(texts)

    assert (copy.count, sum(heard), copy.without_vector) == (5, 4, 0)
    assert copy.column("seq").tolist() == [1, 2, 3, 4, 6]
    assert copy.at == {position: at for at, position in enumerate(copy.column("position").tolist())}
    assert copy.cosines(asked(embedder, "a dog that barks")).argmax() == 1


def test_the_nearest_part_of_a_document_counts(book: Ledger, embedder: StaticEmbedder) -> None:
    book.append([said("a red bicycle. the dog barks at night. rye bread"), said("green tea")])
    copy = copied(book, embedder)

    near = copy.cosines(asked(embedder, "the dog barks at night"))

    assert copy.has_parts()
    assert copy.starts.tolist() == [0, 3]
    assert near[0] > 0.8 > near[1]


@pytest.mark.parametrize("parts", [False, True])
def test_only_those_that_are_asked_for_need_be_compared(
    book: Ledger, embedder: StaticEmbedder, *, parts: bool
) -> None:
    book.append([said(one) for one in TALK * 3] + [said("a. rye bread")] * parts)
    copy = copied(book, embedder)
    query, only = asked(embedder, "bread"), np.array([2, 6])

    assert np.allclose(copy.cosines(query, only)[only], copy.cosines(query)[only])


def test_beyond_what_is_held_the_cosines_are_the_same(
    book: Ledger, embedder: StaticEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.append([said(one) for one in (*TALK, "a red bicycle. rye bread")])
    held = copied(book, embedder)
    monkeypatch.setattr(document_index, "VECTORS_HELD_MAX", 2)
    monkeypatch.setattr(document_index, "PAGE", 2)
    query = asked(embedder, "bread")

    far = DocumentIndex(store_of(book).memory, SCOPE, "events", embedder)
    far.refresh()

    assert held.vectors is not None
    assert far.vectors is None
    assert np.allclose(far.cosines(query), held.cosines(query), atol=1e-5)


def test_vectors_of_another_space_are_never_compared(
    book: Ledger, embedder: StaticEmbedder
) -> None:
    book.append([said(one) for one in TALK])
    copied(book, embedder)

    other = copied(book, Renamed())

    assert other.without_vector == len(TALK)
    assert not other.cosines(asked(embedder, "bread")).any()
    assert copied(book, None).cosines(asked(embedder, "bread")).tolist() == [0.0] * len(TALK)


def test_what_is_erased_leaves_the_shelf(book: Ledger, embedder: StaticEmbedder) -> None:
    book.append([said(one, event_id=f"e{at}") for at, one in enumerate(TALK)])
    copy = copied(book, embedder)
    before = copy.generation

    book.redact(HERE, event_id="e2")
    copy.catch_up(texts)

    assert copy.generation != before
    assert copy.count == copied(book, embedder).count == len(TALK) - 1
    assert copy.cosines(asked(embedder, "rye bread and butter")).max() < 0.6


def test_a_sealed_scopes_words_are_held_and_kept_nowhere(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db", keys=tmp_path / "keys") as ledger:
        ledger.keys.create(HERE)
        memory = ledger.memory(HERE)
        learned = memory.learn("Likes rye bread", user="ann", fact_id="f1")

        assert memory.recall("rye bread", user="ann").ids == [learned.fact_id]
        assert store_of(ledger).memory.index_state(SCOPE, "memories").count == 0
        ledger.redact(HERE, event_id="memory:f1")
        assert memory.recall("rye bread", user="ann").ids == []


RYE = FactPayload(
    id="f1",
    text="Likes rye bread",
    category="preference",
    importance=5,
    confidence=0.8,
    statement=hashed("likes rye bread"),
    valid_from_ms=1,
)
CRAFTS = ["Plays the cello", "Repairs old clocks", "Keeps two goats", "Bakes rye bread"]


def shelved(ledger: Ledger) -> int:
    return store_of(ledger).memory.index_state(SCOPE, "memories").count


def documents(ledger: Ledger) -> list[Document]:
    page = store_of(ledger).memory.documents(SCOPE, "memories", after=0, limit=100)
    return [document for _, document in page]


def test_what_is_learnt_one_by_one_is_shelved_when_it_is_asked_for(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db", embedder="static") as ledger:
        memory = ledger.memory(HERE)
        learned = [memory.learn(text, user="ann").fact_id for text in CRAFTS]
        again = memory.learn("Repairs old clocks.", user="ann")
        moved = [memory.learn(f"Lives in {town}", user="ann") for town in ("Ghent", "Oslo")]

        assert (again.outcome, again.fact_id) == ("known", learned[1])
        assert moved[1].superseded == (moved[0].fact_id,)
        assert shelved(ledger) == 1

        assert memory.recall("Who repairs a clock?", user="ann", record=False).ids[0] == learned[1]
        assert memory.recall("Who keeps goats?", user="ann", record=False).ids[0] == learned[2]
        assert shelved(ledger) == len(CRAFTS) + 2
        memory.learn("Drinks cider", user="ann")
        memory.recall("cider", user="ann", record=False)
        before = documents(ledger)
        ledger.admin.rebuild()
        assert documents(ledger) == before


def test_what_is_learnt_is_shelved_when_the_ledger_is_closed(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db", embedder="static") as ledger:
        for text in CRAFTS:
            ledger.memory(HERE).learn(text, user="ann")

    with treering.open(tmp_path / "ledger.db", mode="ro") as ledger:
        assert shelved(ledger) == len(CRAFTS)


def test_many_that_are_learnt_one_by_one_do_not_wait(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_memory, "WAITING_MAX", 2)
    counts = []
    for text in CRAFTS:
        book.memory(HERE).learn(text, user="ann")
        counts.append(shelved(book))

    assert counts == [1, 1, 1, len(CRAFTS)]


def test_what_is_erased_before_it_is_shelved_stays_nowhere(book: Ledger) -> None:
    memory = book.memory(HERE)
    for at, text in enumerate(CRAFTS):
        memory.learn(text, user="ann", fact_id=f"f{at}")
    held = book._memory_factory.scope_memories.of(SCOPE)
    [position] = (row.position for row in held.fold.state.facts.values() if row.id == "f2")
    assert position in held.documents.at

    book.redact(HERE, event_id="memory:f2")
    memory.learn("Drinks cider", user="ann")

    assert position not in held.documents.at
    assert not len(held.documents.lexicon.having_all(held.documents.term_ids("goats")))
    assert shelved(book) == len(CRAFTS) - 1
    assert memory.recall("Who keeps goats?", user="ann", record=False).fact_hits == []
    assert memory.learn("Keeps two goats", user="ann", fact_id="f2").outcome == "refused"


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "place",
    [
        (memory_fold.MemoryFold, "_drop_oldest"),
        (DocumentIndex, "_add_vectors"),
        (FactColumns, "update"),
        (lexical._IndexSegment, "__init__"),
    ],
    ids=lambda place: place[1],
)
def test_a_memory_that_was_interrupted_answers_as_before(
    tmp_path: Path, place: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(tmp_path / "l.db", embedder="static") as ledger:
        memory = ledger.memory(HERE)
        for text in CRAFTS[:2]:
            memory.learn(text, user="ann")
        memory.recall("cello", user="ann", record=False)
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(*place, interrupt)
            memory.learn(CRAFTS[2], user="ann")
            memory.recall("goats", user="ann", record=False)
        for text in CRAFTS[2:]:
            memory.learn(text, user="ann")
        found = [memory.recall(text, user="ann", record=False).facts for text in CRAFTS]
        states = {row.id: row.uses for row in held_facts(ledger)}

    with treering.open(tmp_path / "l.db", mode="ro", embedder="static") as ledger:
        memory = ledger.memory(HERE)
        assert [memory.recall(text, user="ann", record=False).facts for text in CRAFTS] == found
        assert {row.id: row.uses for row in held_facts(ledger)} == states
    assert all(text in facts for text, facts in zip(CRAFTS, found, strict=True))


def held_facts(ledger: Ledger) -> list[FactRow]:
    held = ledger._memory_factory.scope_memories.of(SCOPE)
    return list(held.fold.state.facts.values())


class Watching(StaticEmbedder):
    """Notes how often garbage is looked for while it works."""

    def __init__(self) -> None:
        self.thresholds: set[tuple[int, ...]] = set()

    def embed(self, texts: Sequence[str]) -> Matrix:
        self.thresholds.add(gc.get_threshold())
        return super().embed(texts)


def test_garbage_is_collected_while_a_memory_is_embedded(tmp_path: Path) -> None:
    with treering.open(tmp_path / "l.db") as ledger:
        ledger.append([fact_event(SCOPE, "memory.stored", RYE, session=None, user="ann")])

    embedder = Watching()
    with treering.open(tmp_path / "l.db", embedder=embedder) as ledger:
        ledger.memory(HERE).facts(user="ann")

    assert embedder.thresholds == {gc.get_threshold()}


def test_whoever_may_only_read_finds_what_nobody_has_shelved_yet(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db") as writer:
        writer.memory(HERE).learn("Lives in Ghent", user="ann")
        with treering.open(tmp_path / "ledger.db", mode="ro") as reader:
            reading = reader.memory(HERE)
            writer.append([fact_event(SCOPE, "memory.stored", RYE, session=None, user="ann")])
            assert [one.id for one in reading.facts(category="preference").items] == ["f1"]
            assert reading.recall("rye bread", user="ann").ids == ["f1"]
            assert store_of(reader).memory.index_state(SCOPE, "memories").count == 1

            assert writer.memory(HERE).recall("rye bread", user="ann").ids == ["f1"]

            assert reading.recall("rye bread", user="ann").ids == ["f1"]
            assert store_of(reader).memory.index_state(SCOPE, "memories").count == 2


class Silent(StaticEmbedder):
    """Does not answer."""

    name = "silent"

    def embed(self, texts: Sequence[str]) -> Matrix:
        raise Unavailable(f"{len(texts)} texts are too many for whoever is not there")


def test_an_embedder_that_does_not_answer_costs_no_vectors(tmp_path: Path) -> None:
    with treering.open(tmp_path / "l.db") as opened:
        opened.memory(HERE).learn("Lives in Ghent", user="ann")
        opened.memory(HERE).recall("Ghent", user="ann")
    with treering.open(tmp_path / "l.db", embedder=Silent()) as opened, pytest.raises(Unavailable):
        opened.admin.rebuild_vectors()

    with treering.open(tmp_path / "l.db", mode="ro") as opened:
        [(_, held)] = store_of(opened).memory.documents(SCOPE, "memories", after=0, limit=10)
        assert held.embedder == StaticEmbedder().name


def test_an_erasure_that_was_interrupted_while_it_folded_counts_no_use_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It folds what others recorded, and nothing else of the memory is brought up to date."""
    with (
        treering.open(tmp_path / "l.db", embedder="static") as ledger,
        treering.open(tmp_path / "l.db", embedder="static") as other,
    ):
        memory = ledger.memory(HERE)
        fact_id = memory.learn(CRAFTS[0], user="ann").fact_id
        [header] = ledger.append([said()])
        other.memory(HERE).recall(CRAFTS[0], user="ann")
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(memory_fold.MemoryFold, "_drop_oldest", interrupt)
            ledger.redact(HERE, event_id=header.event_id)

        assert memory.fact(fact_id).access_count == 1
