"""Texts as pieces of words."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import rounds
from treering.embedders.static import (
    CHARACTERS_MAX,
    UNKNOWN,
    WordPieces,
    static_pieces,
    static_table,
)


def read(text: str) -> list[str]:
    return [static_table().vocabulary[number] for number in static_pieces().numbers(text)]


def test_a_known_word_is_one_piece() -> None:
    assert read("The tree, the ring!") == ["the", "tree", ",", "the", "ring", "!"]


def test_another_word_is_read_by_its_longest_beginnings() -> None:
    assert read("unaffable") == ["una", "##ffa", "##ble"]


def test_case_and_accents_do_not_count() -> None:
    assert read("Café NAÏVE") == read("cafe naive")


def test_ideographs_stand_each_for_itself() -> None:
    assert read("東京") == ["東", "京"]


def test_punctuation_of_other_scripts_parts_words() -> None:
    assert read("tree—ring") == ["tree", "—", "ring"]


def test_what_cannot_be_read_is_unknown() -> None:
    assert WordPieces(["a", "##b"]).numbers("ab ac") == [0, 1, UNKNOWN]
    assert static_pieces().numbers("x" * 101) == [UNKNOWN]


def test_a_word_reads_the_same_the_second_time() -> None:
    pieces = WordPieces(["tree", "##s"])

    assert pieces.numbers("trees") == pieces.numbers("trees") == [0, 1]


def test_of_a_long_text_the_beginning_is_read() -> None:
    assert static_pieces().numbers("a " * CHARACTERS_MAX) == static_pieces().numbers(
        "a " * (CHARACTERS_MAX // 2)
    )


@settings(max_examples=rounds(20, times=25))
@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    count = len(static_table().vocabulary)

    assert all(0 <= number < count for number in static_pieces().numbers(text))
