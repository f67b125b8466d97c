"""BM25 over numbers."""

from __future__ import annotations

from collections import Counter
from math import log1p

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import rounds
from treering.memory.lexical import K1, SCANS_MAX, B, Lexicon

documents_of_terms = st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=1, max_size=25)


def lexicon_of(documents: list[list[int]]) -> Lexicon:
    flat = np.array([term for one in documents for term in one], np.uint32)
    return Lexicon(flat, [len(one) for one in documents])


def by_the_book(documents: list[list[int] | None], query: list[int]) -> list[float]:
    """Score documents one at a time; None is one that was removed."""
    there = [one for one in documents if one is not None]
    usual = max(sum(map(len, there)) / len(there), 1.0) if there else 1.0
    scores = []
    for one in documents:
        score = 0.0
        for term in set(query):
            having = sum(term in other for other in there)
            often = Counter(one or [])[term]
            rarity = log1p((len(there) - having + 0.5) / (having + 0.5))
            score += rarity * often * (K1 + 1) / (often + K1 * (1 - B + B * len(one or []) / usual))
        scores.append(score)
    return scores


@settings(max_examples=rounds(20, times=30))
@given(documents_of_terms, st.lists(st.integers(0, 14), max_size=5))
def test_scores_are_those_of_the_book(documents: list[list[int]], query: list[int]) -> None:
    assert np.allclose(
        lexicon_of(documents).scores(query), by_the_book([*documents], query), atol=1e-4
    )


@settings(max_examples=rounds(20, times=30))
@given(documents_of_terms, st.integers(0, 25), st.sets(st.integers(0, 24)), st.integers(0, 12))
def test_documents_that_come_one_by_one_score_as_if_they_had_always_been_there(
    documents: list[list[int]], first: int, removed: set[int], term: int
) -> None:
    gone = {one for one in removed if one < len(documents)}
    lexicon = lexicon_of(documents[:first])
    for place, one in enumerate(documents[first:]):
        lexicon.add(one)
        if place % 3 == 0:
            lexicon.scores([term])
    lexicon.remove(gone)
    left = [None if place in gone else one for place, one in enumerate(documents)]

    assert len(lexicon) == len(documents)
    assert np.allclose(lexicon.scores([term, 3]), by_the_book(left, [term, 3]), atol=1e-4)


@settings(max_examples=rounds(20, times=30))
@given(documents_of_terms, st.integers(0, 25), st.integers(0, 25), st.integers(0, 12))
def test_documents_that_are_dropped_were_never_there(
    documents: list[list[int]], first: int, count: int, term: int
) -> None:
    lexicon, left = lexicon_of(documents[:first]), documents[:count]
    for place, one in enumerate(documents[first:]):
        lexicon.add(one)
        if place % 3 == 0:
            lexicon.scores([term])

    lexicon.truncate(count)

    assert len(lexicon) == len(left)
    assert np.allclose(lexicon.scores([term, 3]), by_the_book([*left], [term, 3]), atol=1e-4)
    lexicon.add([term])
    assert np.allclose(
        lexicon.scores([term, 3]), by_the_book([*left, [term]], [term, 3]), atol=1e-4
    )


def test_a_document_is_told_its_number() -> None:
    lexicon = Lexicon()

    assert [lexicon.add([1]), lexicon.add([]), lexicon.add([2, 2])] == [0, 1, 2]
    assert lexicon.scores([2]).argmax() == 2


@settings(max_examples=rounds(20, times=30))
@given(documents_of_terms, st.integers(0, 14))
def test_a_term_is_found_in_the_same_documents_once_terms_are_sorted(
    documents: list[list[int]], term: int
) -> None:
    lexicon = lexicon_of(documents)
    scanned = lexicon.postings(term)

    for _ in range(SCANS_MAX):
        lexicon.postings(term)

    (documents_then, counts_then), (found, counts) = scanned, lexicon.postings(term)
    assert (found.tolist(), counts.tolist()) == (documents_then.tolist(), counts_then.tolist())
    assert (found.dtype, counts.dtype) == (documents_then.dtype, counts_then.dtype)
    assert scanned[0].tolist() == [at for at, one in enumerate(documents) if term in one]


def test_an_empty_lexicon_answers_with_nothing() -> None:
    assert len(Lexicon().scores([1])) == 0
    assert len(Lexicon().rarity([])) == 0


def test_rare_terms_tell_more() -> None:
    often, seldom, never = lexicon_of([[1, 2], [1], [1]]).rarity([1, 2, 3])

    assert often < seldom < never


def test_coverage_is_the_share_of_a_query_by_weight() -> None:
    lexicon = lexicon_of([[1, 2], [1], [1], [4]])
    common, rare = lexicon.rarity([1, 2])
    coverage = lexicon.matches([1, 2, 3, 3]).coverage

    # What nobody said counts like what was said once.
    assert np.isclose(coverage[0], (common + rare) / (common + rare + rare))
    assert np.isclose(coverage[1], common / (common + rare + rare))
    assert coverage[3] == 0


def test_all_of_a_query_is_covered_at_most_once() -> None:
    assert np.isclose(lexicon_of([[1, 1, 2]]).matches([1, 2, 1]).coverage[0], 1)


def test_a_removed_document_is_not_counted() -> None:
    lexicon = lexicon_of([[1], [1], [2]])
    lexicon.remove([1])

    assert lexicon.scores([1])[1] == 0
    assert np.array_equal(lexicon.lengths(), [1, 0, 1])
    assert np.array_equal(lexicon.postings(1)[0], [0])


@settings(max_examples=rounds(20, times=30))
@given(
    documents_of_terms,
    documents_of_terms,
    st.lists(st.integers(0, 14), min_size=1, max_size=4),
    st.none() | st.sets(st.integers(0, 49)),
)
def test_documents_that_have_all_terms(
    first: list[list[int]], second: list[list[int]], terms: list[int], among: set[int] | None
) -> None:
    lexicon, documents = lexicon_of(first), [*first, *second]
    for one in second:
        lexicon.add(one)
    limit = None if among is None else np.array(sorted(among), np.int64)

    assert lexicon.having_all(terms, limit).tolist() == [
        number
        for number, one in enumerate(documents)
        if set(terms) <= set(one) and (among is None or number in among)
    ]
    assert not len(lexicon.having_all([], limit))


def test_parts_stay_few_however_many_documents_come() -> None:
    lexicon = Lexicon()
    for number in range(600):
        lexicon.add([number % 7, 99])
        lexicon.scores([99])

    assert len(lexicon._segments) <= 11
    assert np.count_nonzero(lexicon.scores([99])) == 600
