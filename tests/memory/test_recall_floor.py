"""Recall returns nothing instead of noise, and one figure that says how good a match is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from memory_cases import CORE, UNRELATED, WORLDS, filler
from recall_precision import judge_world, measure_crowd
from treering.memory import NewFact
from treering.memory.questions import parse_question
from treering.memory.similarity import ANSWERS_FROM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering import Memory

USER = "ida"


@pytest.fixture
def memory() -> Iterator[Memory]:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        memory.learn_all([NewFact(text=text, user=USER) for text, _ in CORE])
        yield memory


@pytest.mark.parametrize(
    "question",
    [
        "what is 2+2",
        "x",
        "Who won the world cup in 1998?",
        "How long does it take to bake a potato?",
    ],
)
def test_an_unrelated_question_gets_nothing(memory: Memory, question: str) -> None:
    assert memory.recall(question, user=USER, record=False).fact_hits == []


def test_few_of_many_unrelated_questions_get_an_answer(tmp_path: Path) -> None:
    crowd = measure_crowd(300, "static", tmp_path)

    assert crowd.answered <= 12
    assert crowd.found >= 45


def test_most_of_what_is_recalled_answers(tmp_path: Path) -> None:
    judged = [
        one
        for at, world in enumerate(WORLDS)
        for one in judge_world(world, "static", tmp_path / f"{at}.db")
    ]
    recalls = [one.recall for one in judged if one.recall is not None]

    assert len(judged) >= 100
    assert sum(one.precision for one in judged) / len(judged) >= 0.75
    assert sum(recalls) / len(recalls) >= 0.85


def test_the_sets_are_as_large_as_they_say() -> None:
    assert (len(UNRELATED), sum(len(questions) for _, questions in CORE)) == (60, 60)
    assert len(set(filler(1_280))) == 1_280


def test_similarity_says_how_well_a_fact_answers(memory: Memory) -> None:
    [exact] = memory.recall("What is my blood type?", user=USER, record=False).fact_hits
    [near] = memory.recall("Which blood group am I?", user=USER, record=False).fact_hits

    assert ANSWERS_FROM < near.similarity < exact.similarity < 1


def test_a_poor_match_is_left_out_beside_a_good_one(memory: Memory) -> None:
    hits = memory.recall("Does my mother live in Gdansk?", user=USER, record=False).fact_hits

    assert [hit.fact.text for hit in hits] == ["Her mother lives in Gdansk"]


def test_a_question_about_the_world_must_be_matched_better(memory: Memory) -> None:
    asked = memory.recall("What are my hobbies on Thursdays?", user=USER, record=False).fact_hits

    assert [hit.fact.text for hit in asked] == ["Plays tennis on Thursdays"]
    assert memory.recall("What are the rules of squash?", user=USER, record=False).fact_hits == []
    assert parse_question("Who painted The Night Watch?").general
    assert not parse_question("Which film do I like?").general
    assert not parse_question("theme preference").general


def test_a_remembered_name_makes_a_question_one_about_it(memory: Memory) -> None:
    memory.learn("Kim paints landscapes", user=USER)

    hits = memory.recall("What does Kim paint?", user=USER, record=False).fact_hits

    assert [hit.fact.text for hit in hits] == ["Kim paints landscapes"]


def test_a_question_about_oneself_is_not_answered_by_a_fact_about_somebody_else() -> None:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        memory.learn("Her sister Clara is a lawyer", user=USER)
        memory.learn("Is a freelance illustrator", user=USER)

        def answers(question: str) -> list[str]:
            hits = memory.recall(question, user=USER, record=False).fact_hits
            return [hit.fact.text for hit in hits]

        assert answers("What is my profession?") == ["Is a freelance illustrator"]
        assert answers("What is my sister's profession?")[0] == "Her sister Clara is a lawyer"
