"""The small network that tells whether a statement makes an earlier one outdated."""

import math

import pytest

from treering.embedders.small_change_model import ALIKE, PIECES_MAX, read_pieces
from treering.embedders.static import StaticEmbedder


def test_it_tells_what_a_statement_makes_outdated() -> None:
    olds = ["I use Vim at work.", "I live in Oslo."]

    over, other = StaticEmbedder().change_scores("I switched from Vim to Helix.", olds)
    [of_another] = StaticEmbedder().change_scores(
        "My brother switched from Vim to Helix.", olds[:1]
    )

    assert over > max(other, 0)
    assert of_another < 0


@pytest.mark.parametrize(("old", "new"), [("", ""), ("I sing", ""), ("", "I sing"), ("…", "住在")])
def test_it_reads_whatever_there_is(old: str, new: str) -> None:
    [score] = StaticEmbedder().change_scores(new, [old])

    assert math.isfinite(score)


@pytest.mark.parametrize(
    ("old", "new"),
    [("Uses C++ at work", "Uses C# at work"), ("Alarm limit: -5", "Alarm limit: 5")],
)
def test_it_knows_nothing_of_what_differs_in_no_word(old: str, new: str) -> None:
    assert StaticEmbedder().change_scores(new, [old, "I sing"])[0] == ALIKE


def test_it_reads_only_the_beginning_of_long_statements() -> None:
    long = "I moved from the harbour to the hill " * 20

    assert len(read_pieces(long, long).numbers) == 2 * PIECES_MAX
    other = "I live by the lake near a forest " * 20
    assert StaticEmbedder().change_scores(long, [other]) == StaticEmbedder().change_scores(
        f"{long} and back", [f"{other} again"]
    )


def test_it_is_told_what_both_statements_say() -> None:
    read = read_pieces("Rent: 900", "Rent: 950")

    said_in_both, is_number = read.marks[:, 0].tolist(), read.marks[:, 1].tolist()
    assert said_in_both == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    assert is_number == [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
