"""Claims: sentences as subject, attribute and value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.rules.claim_words import normal
from treering.rules.claims import Claim, claim_key, claim_slot, read_claim

FORMS = [
    "{} was born in the city of {}",
    "The chairperson of {} is {}",
    "{} plays the position of {}",
    "{} is located in the continent of {}",
    "The headquarters of {} is located in the city of {}",
    "{} is married to {}",
    "The author of {} is {}",
    "The university where {} was educated is {}",
    "{} was founded by {}",
    "{} was founded in the city of {}",
    "{} is associated with the sport of {}",
    "{} was created in the country of {}",
    "{} was created by {}",
    "{} is employed by {}",
    "{} speaks the language of {}",
    "{} was written in the language of {}",
    "{}'s child is {}",
    "The name of the head of state of {} is {}",
    "The current head of the {} government is {}",
    "The Prime Minister of {} is {}",
    "The style of dance that {} teaches is {}",
    "The firm that built {} is {}",
    "The workshop which overhauled {} is {}",
    "{} works in the field of {}",
    "{} worked in the city of {}",
    "{} died in the city of {}",
    "The head coach of {} is {}",
    "The original language of {} is {}",
]
SUBJECTS = [
    "Ann Lee",
    "Ordinary Bakery, Ltd.",
    "Never Let Me Go",
    "Don't Look Now",
    "I Am Legend",
    "My Fair Lady",
    "No Country for Old Men",
    "The Man in the High Castle",
    "Who's Afraid of Virginia Woolf?",
    "beach volleyball",
    "Republic of the Ninth Isle",
    "Every Breath You Take",
    "1984",
]
VALUES = ["Ghent", "Bo Dee, Earl of Somewhere", "The College of the Sea", "curling", "Acme Inc."]


def key(text: str) -> str | None:
    return claim_key(read_claim(text))


@pytest.mark.parametrize("form", FORMS)
def test_every_value_of_one_subject_and_relation_has_one_key(form: str) -> None:
    for subject in SUBJECTS:
        keys = {key(f"{form.format(subject, value)}.") for value in VALUES}

        assert len(keys) == 1, (subject, keys)
        assert None not in keys, subject


def test_no_two_subjects_or_relations_share_a_key() -> None:
    told = [(form, subject) for form in FORMS for subject in SUBJECTS]

    keys = {key(form.format(subject, "Ghent")) for form, subject in told}

    assert len(keys) == len(told)


@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_read_as_it_was_written(form: str) -> None:
    for value in VALUES:
        assert read_claim(f"{form.format('Ann Lee', value)}.").value == value.rstrip(".")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I live in Ghent", "Moved to Porto"),
        ("The user lives in Ghent", "lives in porto."),
        ("My favourite colour is green", "Favorite color is blue"),
        ("Prefers dark mode", "I prefer light mode"),
        ("Likes Python over JS", "Prefers JS to Python"),
        ("My name is Sam", "Call me Samuel"),
        ("Timezone: CET", "My time zone is UTC"),
        ("The database is PostgreSQL 15", "Our database is PostgreSQL 16"),
        ("Uses VS Code as editor", "My editor is Helix"),
        ("Uses Redis for caching", "I use Valkey for caching"),
        ("Uses Python 3.11", "Upgraded from Python 3.11 to Python 3.12"),
        ("Meeting every Tuesday 2pm", "Meeting every Thursday at 3pm"),
        ("Deploys on Fridays", "We deploy on Mondays"),
        ("Works at Acme", "Is employed by Globex"),
        ("My wife is Ann", "Is married to Bea"),
        ("My wife works at Acme", "Wife works at Globex"),
        ("I'm a nurse", "Works as teacher"),
        ("Is vegetarian", "Eats meat"),
        ("Is married to Sam", "Is divorced"),
        ("Time zone is PST", "Timezone is CET"),
        ("Flight to Oslo on 3 March", "The flight to Oslo is on 7 June"),
        ("I have two kids", "Has three kids"),
        ("Ann is the mayor of Ghent", "The mayor of Ghent is Bea"),
        ("Emma was written by Jane", "The author of Emma is Joan"),
    ],
)
def test_two_ways_to_fill_one_slot_share_a_key(one: str, other: str) -> None:
    assert key(one) is not None
    assert key(one) == key(other)


@pytest.mark.parametrize(
    "text",
    [
        "Likes tea",
        "Speaks French",
        "Knows Rust",
        "Has a dog named Max",
        "Visited Rome",
        "Flight on 3 March",
        "Uses Docker",
        "Max is allergic to peanuts",
        "My daughter is Eva",
        "The database is slow",
        "Joined a chess club",
        "Does not live in Ghent",
        "I used to live in Ghent",
        "The Lord of the Rings is a novel",
        "She lives in Ghent",
        "喜欢深色模式",
        "Ich wohne in Berlin",
        "",
    ],
)
def test_what_may_hold_of_many_or_cannot_be_told_has_no_key(text: str) -> None:
    assert key(text) is None


def test_a_claim_says_what_it_replaces() -> None:
    assert read_claim("I moved from Ghent to Porto") == Claim(
        subject="user",
        attribute="residence",
        value="Porto",
        single_valued=True,
        changed=True,
        replaced="Ghent",
    )


@pytest.mark.parametrize(
    ("text", "negated", "changed"),
    [
        ("Likes fish", False, False),
        ("I don't like fish", True, False),
        ("Hates fish", True, False),
        ("I can't stand fish", True, False),
        ("Never eats fish", True, False),
        ("No longer eats fish", True, True),
        ("Stopped eating fish", True, True),
        ("I used to eat fish", True, True),
        ("Now eats fish", False, True),
    ],
)
def test_denial_and_change_are_told_apart(text: str, *, negated: bool, changed: bool) -> None:
    claim = read_claim(text)

    assert (claim.negated, claim.changed) == (negated, changed)
    assert claim.value == "fish"


def test_words_of_a_title_deny_and_change_nothing() -> None:
    claim = read_claim("Never Let Me Go was performed by Ann Lee.")

    assert (claim.subject, claim.negated, claim.changed) == ("never let me go", False, False)


def test_a_correction_is_marked() -> None:
    claim = read_claim("Actually, I live in Porto")

    assert (claim.corrected, claim.value) == (True, "Porto")


def test_a_slot_is_told_also_where_many_values_hold() -> None:
    assert claim_slot(read_claim("Speaks French")) == claim_slot(read_claim("I speak Dutch"))


@given(st.text(max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(read_claim(text), Claim)


@pytest.mark.parametrize("text", ["tea time", "Anna Smith", "all the best", "area at sea"])
def test_an_article_is_left_out_where_it_leads_and_nowhere_else(text: str) -> None:
    assert normal(text) == text.lower()
    assert normal(f"The {text}") == text.lower()
