"""A question that no single fact answers is answered by facts that lead to one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from treering.memory import NewFact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Memory

TOWNS = [f"{start}{end}" for start in ("Al", "Bor", "Cam", "Dor", "El", "Fen", "Gil", "Har")
         for end in ("bury", "by", "ford", "ham", "mere", "stow", "ton", "wick")]  # fmt: skip
QUESTION = "In which city does the manager of the billing team live?"
FACTS = (
    "The manager of the billing team is Priya Raman.",
    "Priya Raman lives in the city of Utrecht.",
    "The manager of the search team is Olu Ade.",
    "Olu Ade lives in the city of Lagos.",
    "The billing team meets on Tuesdays.",
    "Utrecht has a tall church tower.",
)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        memory.learn_all([NewFact(text=text) for text in FACTS])
        yield memory


def recalled(memory: Memory, question: str, **given: str) -> dict[str, tuple[str, ...]]:
    """Return the texts that a recall gives, each with the texts of its path."""
    hits = memory.recall(question, record=False, turns=0, episodes=0, **given).fact_hits  # type: ignore[arg-type]
    texts = {hit.fact.id: hit.fact.text for hit in hits}
    return {hit.fact.text: tuple(texts[one] for one in hit.path) for hit in hits}


def test_a_fact_is_reached_by_what_another_names(memory: Memory) -> None:
    assert recalled(memory, QUESTION) == {FACTS[0]: (), FACTS[1]: (FACTS[0],)}


def test_a_question_that_one_fact_answers_is_not_walked_any_further(memory: Memory) -> None:
    found = recalled(memory, "Who is the manager of the billing team?")

    assert next(iter(found)) == FACTS[0]
    assert not any(found.values())


def test_a_path_of_three_facts_is_followed(memory: Memory) -> None:
    memory.learn_all([NewFact(text="The mayor of Utrecht is Sharon Kuiper.")])

    found = recalled(
        memory, "Who is the mayor of the city in which the manager of the billing team lives?"
    )

    assert found["The mayor of Utrecht is Sharon Kuiper."] == (FACTS[0], FACTS[1])


def test_no_path_leads_through_a_fact_that_no_longer_holds(memory: Memory) -> None:
    memory.learn("The manager of the billing team is Olu Ade.")

    found = recalled(memory, QUESTION)

    assert FACTS[3] in found
    assert FACTS[0] not in found
    assert FACTS[1] not in found


def test_no_path_leads_through_the_facts_of_somebody_else() -> None:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        memory.learn(FACTS[0], user="ida")
        memory.learn(FACTS[1], user="bo")

        assert FACTS[1] not in recalled(memory, QUESTION, user="ida")
        assert FACTS[1] in recalled(memory, "Where does Priya Raman live?", user="bo")


@pytest.mark.parametrize(("count", "leads"), [(20, True), (64, False)])
def test_a_name_that_many_facts_have_leads_nowhere(*, count: int, leads: bool) -> None:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        crowd = [f"Priya Raman visited the city of {name}." for name in TOWNS[:count]]
        memory.learn_all([NewFact(text=text) for text in (FACTS[0], *crowd)])

        found = recalled(memory, "Which city did the manager of the billing team visit?")

        assert any(found.values()) == leads


def test_a_value_that_many_facts_have_leads_on_to_what_is_asked_of_it() -> None:
    with treering.open(":memory:", embedder="static") as ledger:
        memory = ledger.memory("a/b")
        crowd = [f"{name} Vance is a citizen of Lorvia." for name in TOWNS[:64]]
        capital = "The capital of Lorvia is Dunmar."
        memory.learn_all([NewFact(text=text) for text in (*crowd, capital)])
        question = f"What is the capital of the country of citizenship of {TOWNS[0]} Vance?"

        assert capital in recalled(memory, question)


def test_a_full_name_comes_before_its_parts_and_its_bearer_before_a_mention() -> None:
    facts = (
        "Ann Castel is married to Bo Drum.",
        "Bo Castel is married to Ann Drum.",
        "Cy Moor is married to Ann Castel.",
    )
    with treering.open(":memory:", embedder="static") as ledger:
        memory = ledger.memory("a/b")
        memory.learn_all([NewFact(text=text) for text in facts])
        hits = memory.recall("Who is Ann Castel married to?", record=False).fact_hits
        texts = [hit.fact.text for hit in hits]

    assert texts[0] == facts[0]
    assert facts[1] not in texts[:2]
