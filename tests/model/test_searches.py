"""Which events have the largest share of the words of a query."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from treering.model.searches import best_shares

matches = st.lists(st.lists(st.integers(0, 30), unique=True), min_size=1, max_size=5)


@given(matches=matches, least=st.integers(1, 3), limit=st.integers(1, 12))
def test_the_best_are_those_with_the_largest_shares_and_of_equals_the_newest(
    matches: list[list[int]], least: int, limit: int
) -> None:
    weights = [math.log1p(32 / (len(places) + 0.5)) for places in matches]
    shares = {
        place: sum(
            weight / sum(weights)
            for weight, places in zip(weights, matches, strict=True)
            if place in places
        )
        for place in range(31)
        if sum(place in places for places in matches) >= least
    }
    best = sorted(shares, key=lambda place: (-shares[place], -place))[:limit]

    assert best_shares(matches, 31, least=least, limit=limit) == (
        {place: shares[place] for place in best},
        len(shares) > limit,
    )
    assert list(best_shares(matches, 31, least=least, limit=limit)[0]) == best
