"""What ``make bench`` measures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import evaluation_sets
import memory_facts
import treering
from evaluation_sets import FactQuestion, Question
from recall_quality import answered, judged, mean

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def _own_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(evaluation_sets.VARIABLE, raising=False)


def test_everything_that_can_be_measured_is() -> None:
    subjects = re.findall(
        r'"(\w+)"', (FOLDER / "run.py").read_text().split("SUBJECTS")[1].split(")")[0]
    )
    measured = {
        path.stem for path in FOLDER.glob("*.py") if "\ndef run(effort: Effort," in path.read_text()
    }

    assert sorted(subjects) == sorted(measured)


def test_what_answers_a_question_of_our_own_set_is_in_it() -> None:
    _, [talk] = evaluation_sets.conversations()
    there = {turn.id for turn in talk.turns}

    assert [one.text for one in talk.questions if not one.gold or one.gold - there] == []


def test_what_answers_a_question_about_facts_of_our_own_set_is_not_outdated() -> None:
    known = evaluation_sets.facts()
    current = [text for text in known.texts if text not in known.outdated]

    assert len(known.outdated) == 8
    for question in known.questions:
        assert any(answer in text for text in current for answer in question.answers), question


def test_our_own_conversation_is_searched_through_a_ledger(tmp_path: Path) -> None:
    _, [talk] = evaluation_sets.conversations()

    found = answered(talk, "static", tmp_path / "talk.db")

    assert len(found) == len(talk.questions)
    assert mean(found, "recall_10") > 0.7


def test_recall_is_the_share_of_gold_turns_and_early_ones_weigh_more() -> None:
    question = Question("Who?", frozenset({"a", "b"}), 4)
    others = [f"other-{number}" for number in range(4)]

    early = judged(question, ["a", *others, "b"])
    late = judged(question, [*others, "a", "b"])

    assert (early.recall_5, early.recall_10) == (0.5, 1.0)
    assert early.ndcg_10 == pytest.approx((1 + 1 / 2.807355) / (1 + 1 / 1.584963), rel=1e-5)
    assert late.ndcg_10 < early.ndcg_10 < 1.0


def test_evidence_that_is_spelt_oddly_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "talks.json"
    said = [{"dia_id": f"D2:{at}", "speaker": "Ann", "text": "Hi."} for at in (1, 2, 3)]
    shown = {"dia_id": "D10:1", "speaker": "Ben", "text": "Look!", "blip_caption": "a red kite"}
    asked = [
        {"question": "one", "category": 1, "evidence": ["D2:1; D:2:03", "D10:1"]},
        {"question": "none", "category": 4, "evidence": ["D", "D7:7"]},
    ]
    talk = {"session_10": [shown], "session_2": said, "session_2_date_time": "noon"}
    path.write_text(json.dumps([{"sample_id": "x", "conversation": talk, "qa": asked}]))

    [read] = evaluation_sets.locomo(path)

    assert [turn.session for turn in read.turns] == ["session_2"] * 3 + ["session_10"]
    assert read.turns[-1].text == "Ben: Look! [shares a photo of a red kite]"
    assert read.questions == [Question("one", frozenset({"D2:1", "D2:3", "D10:1"}), 1)]


def test_what_is_outdated_is_told_from_the_set_alone() -> None:
    texts = [
        "The mayor of Ulm is Ida.",
        "The mayor of Bonn is Kurt.",
        "The mayor of Ulm is Max.",
        "The mayor of Bonn is Lea.",
        "The mayor of Bonn is Kurt.",
    ]
    questions = [FactQuestion("Ulm?", ("Max",)), FactQuestion("Bonn?", ("Kurt",))]

    assert evaluation_sets.outdated(texts, questions) == {texts[0], texts[3]}


def test_made_up_facts_are_all_different_and_always_the_same() -> None:
    texts = memory_facts.texts(5_000)

    assert len(set(texts)) == 5_000
    assert texts[:100] == memory_facts.texts(100)


def test_facts_that_are_recorded_are_recalled_like_learnt_ones() -> None:
    texts = memory_facts.texts(60)
    asked = memory_facts.questions(5, 60)
    with treering.open(":memory:") as ledger:
        memory_facts.record(ledger, "bench/recorded", texts)
        ledger.memory("bench/learnt").learn_all(memory_facts.new_facts(texts))

        recorded, learnt = (
            [
                ledger.memory(scope).recall(one.question, user=memory_facts.USER, record=False)
                for one in asked
            ]
            for scope in ("bench/recorded", "bench/learnt")
        )

    assert [one.fact_hits[0].fact.text for one in recorded] == [one.text for one in asked]
    assert [len(one.fact_hits) for one in recorded] == [len(one.fact_hits) for one in learnt]
