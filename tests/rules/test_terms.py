"""The terms by which texts are ranked."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from children import run_python
from effort import rounds
from treering.rules.terms import STOP_WORDS, term_ids, terms


def test_endings_do_not_count() -> None:
    assert terms("meetings") == terms("Meeting") == terms("MEETING'S")


def test_small_words_are_left_out() -> None:
    assert terms("What was it that you have been to?") == []
    assert terms("I don't") == []


def test_small_words_are_in_one_spelling() -> None:
    assert all(word == word.lower() and word.isalpha() for word in STOP_WORDS)


def test_names_in_code_count_whole_and_in_parts() -> None:
    assert {"snake_case", "snake", "case"} <= set(terms("snake_case"))
    assert {"getusernam", "get", "user", "name"} <= set(terms("getUserName"))
    assert {"3.11.7", "notes.txt"} <= set(terms("3.11.7 wrote notes.txt"))


def test_accents_and_widths_do_not_count() -> None:
    assert terms("naïve \uff23\uff21\uff26\uff25") == terms("naive cafe")


def test_scripts_without_spaces_count_two_characters_at_a_time() -> None:
    assert {"東京", "京都"} <= set(terms("東京都"))


def test_a_term_that_comes_again_is_there_again() -> None:
    assert terms("dog and dogs") == ["dog", "dog"]
    assert len(term_ids("dog and dogs")) == 2


def test_terms_and_their_numbers_go_together() -> None:
    text = "Her getUserName broke in 3.11.7, 東京"

    assert len(term_ids(text)) == len(terms(text))
    assert len(set(term_ids(text))) == len(set(terms(text)))


@settings(max_examples=rounds(30, times=30))
@given(st.text())
def test_each_term_of_any_text_has_one_number(text: str) -> None:
    found, numbers = terms(text), term_ids(text)

    assert len(set(zip(found, numbers, strict=True))) == len(set(found))


def test_every_process_makes_the_same_numbers() -> None:
    asked = "from treering.rules.terms import term_ids; print(*term_ids('rings of a tree'))"
    answer = run_python(asked, env={"PYTHONHASHSEED": "7"})

    assert [int(one) for one in answer.stdout.split()] == list(term_ids("rings of a tree"))


def test_a_text_without_words_has_no_terms() -> None:
    assert terms("") == terms("?! …") == []
