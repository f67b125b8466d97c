"""What a model counts to one estimated token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.ledger.windows import PAIRS_MAX, RATIO_MAX, RATIO_MIN, ratio

tokens = st.integers(min_value=1, max_value=10**9)
anything = st.integers() | st.just(10**400) | st.just(-(10**400))


@given(st.lists(st.tuples(anything, anything)))
def test_the_ratio_is_always_within_its_limits(pairs: list[tuple[int, int]]) -> None:
    assert RATIO_MIN <= ratio(pairs) <= RATIO_MAX


@given(st.integers(1, 10**6), st.integers(50, 300), st.integers(1, 20))
def test_reports_that_agree_are_believed(estimated: int, percent: int, times: int) -> None:
    reported = max(estimated * percent // 100, -(-estimated // 2))

    assert ratio([(estimated, reported)] * times) == reported / estimated


@given(st.lists(st.tuples(anything, anything)), st.lists(st.tuples(tokens, tokens), min_size=8))
def test_only_the_latest_reports_count(
    older: list[tuple[int, int]], newer: list[tuple[int, int]]
) -> None:
    assert ratio([*older, *newer]) == ratio(newer[-PAIRS_MAX:])


@given(
    st.lists(st.tuples(tokens, tokens), max_size=PAIRS_MAX),
    st.lists(st.tuples(st.integers(max_value=0), anything)),
)
def test_reports_without_tokens_tell_nothing(
    sound: list[tuple[int, int]], senseless: list[tuple[int, int]]
) -> None:
    swapped = [(reported, estimated) for estimated, reported in senseless]

    assert ratio([*sound, *senseless, *swapped]) == ratio(sound) or not sound


def test_without_reports_an_estimate_is_taken_as_it_is() -> None:
    assert ratio([]) == 1.0
    assert ratio([(0, 100), (100, 0), (-5, 100), (100, -5)]) == 1.0


def test_one_odd_report_changes_nothing() -> None:
    assert ratio([(100, 120), (100, 120), (100, 900), (100, 120)]) == 1.2


def test_the_middle_of_two_reports_lies_between_them() -> None:
    assert ratio([(100, 110), (100, 130)]) == pytest.approx(1.2)


def test_a_model_that_counts_anew_is_known_after_five_reports() -> None:
    assert ratio([(100, 100)] * 20 + [(100, 150)] * 5) == 1.5


@pytest.mark.parametrize(("reported", "expected"), [(1, RATIO_MIN), (10_000, RATIO_MAX)])
def test_what_cannot_be_is_clamped(reported: int, expected: float) -> None:
    assert ratio([(100, reported)]) == expected
