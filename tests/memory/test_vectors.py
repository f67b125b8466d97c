"""Vectors as they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import treering
from children import run_python
from effort import rounds
from treering.memory.vectors import SCALE_BYTES, all_dots, distinct, dots, highest, pack, unpack

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.floats(-1, 1, width=32, allow_subnormal=False)
ROWS = st.lists(st.lists(NUMBERS, min_size=8, max_size=8), min_size=1, max_size=5)


@settings(max_examples=rounds(20, times=30))
@given(ROWS)
def test_a_vector_comes_back_in_its_direction(rows: list[list[float]]) -> None:
    given_rows = np.array(rows, np.float32)
    given_rows = given_rows[np.abs(given_rows).max(axis=1) > 1e-3]

    found, counts = unpack([pack(given_rows)], 8)

    assert counts == [len(given_rows)]
    lengths = np.linalg.norm(given_rows, axis=1, keepdims=True)
    assert np.allclose((found * given_rows / lengths).sum(axis=1), 1, atol=1e-3)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_a_number_takes_a_byte_and_a_vector_its_scale() -> None:
    assert len(pack(np.ones((3, 256), np.float32))) == 3 * (256 + SCALE_BYTES)


def test_vectors_without_a_direction_are_left_out() -> None:
    rows = np.array([[0, 0], [3, 4], [0, 0]], np.float32)

    found, counts = unpack([pack(rows), pack(rows[:1]), b"", pack(rows[1:2])], 2)

    assert counts == [1, 0, 0, 1]
    assert np.allclose(found, [[0.6, 0.8], [0.6, 0.8]], atol=0.01)


def test_nothing_is_as_good_as_no_vectors() -> None:
    found, counts = unpack([], 4)

    assert (found.shape, counts) == ((0, 4), [])


@settings(max_examples=rounds(20, times=30))
@given(st.lists(st.integers(0, 9), max_size=400), st.integers(0, 5))
def test_the_highest_scores_come_in_order_and_equal_ones_as_they_came(
    numbers: list[int], count: int
) -> None:
    in_order = sorted(range(len(numbers)), key=lambda at: -numbers[at])

    assert highest(np.array(numbers, np.float32), count).tolist() == in_order[:count]


def test_several_queries_give_what_each_gives_alone() -> None:
    vectors = np.random.default_rng(7).standard_normal((40, 16), np.float32)

    both = all_dots(vectors, vectors[:2])

    assert np.array_equal(both, [dots(vectors, vectors[0]), dots(vectors, vectors[1])])
    assert np.allclose(both, vectors[:2] @ vectors.T, atol=1e-5)


@given(st.lists(st.integers(-3, 3)))
def test_of_equal_numbers_one_is_left(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


def test_a_recall_loads_no_masked_arrays(tmp_path: Path) -> None:
    asked = (
        "import sys, treering; memory = treering.open(sys.argv[1]).memory('a/b');"
        " print(len(memory.recall('Where does Ada live?', user='ada').fact_hits));"
        " print('numpy' in sys.modules, 'numpy.ma' in sys.modules)"
    )
    with treering.open(tmp_path / "ledger.db") as ledger:
        ledger.memory("a/b").learn("Ada lives on a farm near Cork", user="ada")

    answer = run_python(asked, tmp_path / "ledger.db")

    assert answer.stdout.split() == ["1", "True", "False"]
