"""Changes: a fact that no longer holds is superseded, and nothing else is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from memory_cases import BOTH_HOLD, CHANGES
from treering.rules import claim_changes, claim_endings, claim_times
from treering.rules.claim_changes import is_past, lost_possession, plain_change
from treering.rules.claim_endings import ended_thing, parted_sentence
from treering.rules.claim_words import has_word_of
from treering.rules.claims import read_claim

SHAPES = [shape.pattern for shape, _ in claim_changes._SHAPES]
ENDINGS = [
    ending.pattern
    for ending in (*claim_endings._ENDED, *(ending for _, ending in claim_endings._ENDINGS))
]


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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I use Vim as my editor", "I gave up Vim and use Zed as my editor"),
        ("I smoke a pack a day", "I quit smoking in January"),
        ("I use Slack at work", "Our company moved from Slack to Teams"),
        ("My sister is called Ida and lives with Bob", "Bob and I broke up"),
        ("Our weekly sync is on Tuesdays", "We moved our weekly sync to Fridays"),
        ("I plan to run the Berlin marathon", "I had to cancel the Berlin marathon"),
        ("My dog Bruno is six years old", "Bruno turned seven yesterday"),
        ("I'm looking for a flat", "I found a flat in Leeds"),
        ("The server is located in Frankfurt", "The server was relocated to Dublin"),
        ("I'm vegetarian", "I'm not vegetarian anymore, I eat fish again"),
    ],
)
def test_what_a_statement_says_is_over_ends_what_named_it(old: str, new: str) -> None:
    is_about_a_tie = "broke up" in new

    assert superseded(old, new) is not is_about_a_tie


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I went to Rome in April", "I went to Paris in May"),
        ("My phone is a Pixel 8", "I dropped my phone"),
        ("My grandmother's name is Rosa", "Rosa passed away in autumn"),
        ("Ann Lee is a citizen of Chile", "Ann Lee died in the city of Lima"),
        ("Ann Lee is employed by Acme", "Ann Lee died in the city of Lima"),
        ("Ann Lee is employed by Acme", "Ann Lee passed away"),
        ("Ben uses Slack", "I switched from Slack to Teams"),
        ("The server runs on port 80", "I stopped the server"),
        ("Visited Misty in May", "Misty passed away"),
    ],
)
def test_what_a_statement_says_is_over_ends_nothing_else(old: str, new: str) -> None:
    assert not superseded(old, new)


def test_a_sentence_of_an_ending_is_parted_from_what_holds_now() -> None:
    assert parted_sentence("I sold the Golf and drive a Kia.") == (
        "I sold the Golf",
        "I drive a Kia",
    )
    assert parted_sentence("Our office is moving: from Monday it is on Canal Road") == (
        "Our office is moving",
        "Our office is on Canal Road",
    )
    assert parted_sentence("I like tea and drink coffee") is None
    assert ended_thing("I cancelled my Netflix subscription last week") == (
        "Netflix subscription",
        "thing",
    )
    assert ended_thing("I stopped by the bakery") is None


@given(st.data())
def test_every_sentence_that_fits_a_shape_has_a_word_that_shapes_need(data: st.DataObject) -> None:
    change = data.draw(st.from_regex(data.draw(st.sampled_from(SHAPES)), fullmatch=True))
    ending = data.draw(st.from_regex(data.draw(st.sampled_from(ENDINGS)), fullmatch=True))

    assert has_word_of(change, claim_changes._NEEDED)
    assert has_word_of(ending, claim_endings._NEEDED)


@given(st.from_regex(re.compile(claim_times._REPEATED.pattern, re.ASCII), fullmatch=True))
def test_every_text_that_says_that_something_repeats_has_a_word_for_it(text: str) -> None:
    assert has_word_of(text, claim_times._REPEATING)
