"""An embedder that does not answer costs its vectors for a while, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import treering
from treering.embedders.static import StaticEmbedder
from treering.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HERE = "acme/app"


class Moody(StaticEmbedder):
    """Answers when it likes to."""

    knows_words = False

    def __init__(self) -> None:
        self.answers = True
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        if not self.answers:
            raise Unavailable("nobody is there", hint="start the server")
        self.embedded += texts
        return super().embed(texts)


def test_what_is_known_is_found_by_words_and_what_is_learnt_is_found_later() -> None:
    embedder = Moody()
    with treering.open(":memory:", embedder=embedder) as ledger:
        memory = ledger.memory(HERE)
        memory.learn("Likes green tea", user="u1")

        embedder.answers = False
        assert memory.learn("Lives in Lisbon", user="u1").outcome == "stored"
        found = memory.recall("tea", user="u1", record=False)
        assert found.facts == "- Likes green tea (preference)"
        assert "does not answer" in found.notes[0]

        embedder.answers = True
        found = memory.recall("Where do they live?", user="u1", record=False)
        assert found.facts == "- Lives in Lisbon (personal)"
        assert found.notes == []


def test_a_sealed_scope_makes_up_for_what_an_embedder_missed(tmp_path: Path) -> None:
    embedder = Moody()
    with treering.open(tmp_path / "a.db", keys=tmp_path / "keys", embedder=embedder) as ledger:
        ledger.keys.create(HERE)
        memory = ledger.memory(HERE)
        embedder.answers = False
        assert memory.learn("Likes green tea", user="u1").outcome == "stored"
        assert "does not answer" in memory.recall("tea", user="u1", record=False).notes[0]

        embedder.answers = True
        found = memory.recall("tea", user="u1", record=False)
        assert found.facts == "- Likes green tea (preference)"
        assert found.notes == []


def test_what_is_learnt_is_compared_with_what_an_embedder_missed() -> None:
    embedder = Moody()
    with treering.open(":memory:", embedder=embedder) as ledger:
        memory = ledger.memory(HERE)
        memory.learn("Plays the cello", user="u1")
        embedder.answers = False
        missed = memory.learn("Keeps two goats at the farm", user="u1")

        embedder.answers = True
        memory.learn("Repairs old clocks", user="u1")
        assert memory.learn("No longer keeps goats", user="u1").superseded == (missed.fact_id,)


def test_closing_a_ledger_waits_for_no_embedder(tmp_path: Path) -> None:
    embedder = Moody()
    with treering.open(tmp_path / "a.db", embedder=embedder) as ledger:
        memory = ledger.memory(HERE)
        for text in ("Plays the cello", "Keeps two goats"):
            memory.learn(text, user="u1")
        session = ledger.session("s1", scope=HERE, agent="lyria", user="u1")
        with session.turn() as turn:
            turn.user("Please book a boat for Friday, from the harbour of Ostend")
        session.close()
        embedder.embedded.clear()

    assert embedder.embedded == []
    with treering.open(tmp_path / "a.db", embedder=embedder) as ledger:
        found = ledger.memory(HERE).recall("goats", user="u1", record=False)
        assert found.facts == "- Keeps two goats (personal)"


def test_a_fact_that_is_learnt_is_embedded_once() -> None:
    embedder = Moody()
    with treering.open(":memory:", embedder=embedder) as ledger:
        memory = ledger.memory(HERE)
        memory.learn("Likes green tea", user="u1")
        embedder.embedded.clear()

        memory.learn("Plays the cello", user="u1")

        assert [text.startswith("Plays the cello") for text in embedder.embedded] == [True]
        assert memory.recall("cello", user="u1", record=False).fact_hits


def test_nothing_is_thrown_away_for_an_embedder_that_does_not_answer() -> None:
    embedder = Moody()
    with treering.open(":memory:", embedder=embedder) as ledger:
        memory = ledger.memory(HERE)
        memory.learn("Likes green tea", user="u1")
        memory.recall("tea", user="u1", record=False)
        embedder.answers = False

        with pytest.raises(Unavailable):
            ledger.admin.rebuild_vectors()

        assert memory.recall("tea", user="u1", record=False).fact_hits
