"""Questions and answers compared word by word."""

from __future__ import annotations

import pytest

from treering.embedders.static import StaticEmbedder
from treering.memory.alignment import Aligner
from treering.memory.questions import WORDS_MAX, Clause, content_words, parse_question

ANSWERS = ["Has a dog named Max", "Is married to Ben", "Drives a red car", "Works as a nurse"]


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    return Aligner(StaticEmbedder())


def clause(question: str) -> Clause:
    return parse_question(question).clauses[0]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("any pets?", "Has a dog named Max"),
        ("spouse", "Is married to Ben"),
        ("which vehicle", "Drives a red car"),
        ("profession?", "Works as a nurse"),
    ],
)
def test_what_is_meant_is_found_though_nothing_names_it(
    aligner: Aligner, question: str, answer: str
) -> None:
    scores = aligner.scores(clause(question), ANSWERS)

    assert ANSWERS[scores.index(max(scores))] == answer
    assert all(0 <= one <= 1.001 for one in scores)


def test_a_text_of_the_same_words_meets_all_of_them(aligner: Aligner) -> None:
    [same, other] = aligner.scores(
        clause("dog named Max"), ["Max, a dog is named", "Drives a red car"]
    )

    assert same == pytest.approx(1, abs=0.001)
    assert other < same


def test_texts_do_not_change_each_others_scores(aligner: Aligner) -> None:
    together = aligner.scores(clause("any pets?"), ANSWERS)

    assert together == pytest.approx(
        [aligner.scores(clause("any pets?"), [one])[0] for one in ANSWERS], abs=1e-6
    )


def test_nothing_is_met_by_nothing(aligner: Aligner) -> None:
    assert aligner.scores(Clause(()), ANSWERS) == [0.0] * len(ANSWERS)
    assert aligner.scores(clause("any pets?"), []) == []
    assert aligner.scores(clause("any pets?"), ["", "?!"]) == [0.0, 0.0]


def test_small_words_say_nothing_unless_there_are_no_others() -> None:
    assert content_words("Does the user have a DOG?") == ["dog"]
    assert content_words("the user") == ["the", "user"]
    assert len(content_words("word " * 100)) == WORDS_MAX
