"""What speaks for a document, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import rounds
from treering.embedders.static import StaticEmbedder
from treering.memory.event_index import Passages, Whitening
from treering.memory.fusion import FusionWeights, is_about_query, order_by_session, rank
from treering.memory.lexical import Lexicon
from treering.rules.terms import term_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from treering.memory.fusion import Ranking

TALK = [
    ("Ada: My sister moved to Lisbon in the spring.", 1),
    ("Ben: How does she like it there?", 1),
    ("Ada: She loves the trams, and hates the hills.", 1),
    ("Ben: I adopted a greyhound last week!", 2),
    ("Ada: What is his name?", 2),
    ("Ben: Comet, because he never stops running.", 2),
    ("Ada: The bakery raised the price of rye bread.", 3),
    ("Ben: Then we bake our own.", 3),
]
TEXTS = [text for text, _ in TALK]
SESSIONS = [session for _, session in TALK]


def scores(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


def lexicon_of(texts: list[str]) -> Lexicon:
    lexicon = Lexicon()
    for text in texts:
        lexicon.add(term_ids(text))
    return lexicon


def ranked(question: str, texts: list[str] = TEXTS, sessions: list[int] = SESSIONS) -> Ranking:
    embedder = StaticEmbedder()
    lexicon, session_order = lexicon_of(texts), order_by_session(sessions, range(len(texts)))
    vectors = embedder.embed(texts)
    return rank(
        words=lexicon.scores(term_ids(question)),
        passages=Passages(lexicon, session_order).scores(term_ids(question)),
        similarity=Whitening(vectors).compare(vectors, embedder.embed_queries([question])[0])[1],
        session_order=session_order,
    )


def test_what_is_asked_for_is_found() -> None:
    assert ranked("Where does the sister live? Lisbon?").best(1) == [0]
    assert ranked("rye bread price").best(1) == [6]


def test_an_answer_is_found_by_the_question_before_it() -> None:
    assert 5 in ranked("What is the name of Ben's greyhound?").best(3)


def test_words_that_are_not_there_are_found_by_what_they_mean() -> None:
    assert ranked("puppy").best(8).index(3) < 3
    assert ranked("puppy").words.max() == 0


@settings(max_examples=rounds(15, times=30))
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 9), st.floats(-1, 1)), max_size=12))
def test_a_score_is_the_sum_of_its_parts(rows: list[tuple[int, float, float]]) -> None:
    ranking = rank(
        words=scores(*(words for _, words, _ in rows)),
        passages=scores(*(words / 2 for _, words, _ in rows)),
        similarity=scores(*(alike for _, _, alike in rows)),
        session_order=order_by_session([session for session, _, _ in rows], range(len(rows))),
    )

    assert np.allclose(np.sum(ranking[1:], axis=0), ranking.scores, atol=1e-5)
    assert ranking.best(99) == sorted(
        (place for place in range(len(rows)) if ranking.scores[place] > 0),
        key=lambda place: (-ranking.scores[place], place),
    )


def test_nothing_lifts_what_stands_in_another_session() -> None:
    ranking = rank(
        words=scores(0, 5, 0, 0),
        passages=scores(0, 0, 0, 0),
        similarity=None,
        session_order=order_by_session([1, 1, 2, 2], [1, 2, 1, 2]),
    )

    assert ranking.best(9) == [1, 0]
    assert np.array_equal(ranking.scores[2:], [0, 0])


def test_the_one_behind_is_lifted_more_than_the_one_before() -> None:
    ranking = rank(
        words=scores(0, 0, 5, 0, 0),
        passages=scores(0, 0, 0, 0, 0),
        similarity=None,
        session_order=order_by_session([1] * 5, range(5)),
    )

    assert ranking.best(1) == [2]
    assert ranking.neighbours[3] > ranking.neighbours[1] > 0


def test_sessions_may_be_interleaved() -> None:
    apart = rank(
        words=scores(1, 2, 3, 4),
        passages=scores(4, 3, 2, 1),
        similarity=scores(0.1, 0.2, 0.4, 0.3),
        session_order=order_by_session([1, 1, 2, 2], [1, 2, 1, 2]),
    )
    mixed = rank(
        words=scores(3, 1, 4, 2),
        passages=scores(2, 4, 1, 3),
        similarity=scores(0.4, 0.1, 0.3, 0.2),
        session_order=order_by_session([2, 1, 2, 1], [1, 1, 2, 2]),
    )

    assert np.allclose(apart.scores[[2, 0, 3, 1]], mixed.scores)


def test_without_an_embedder_words_count_alone() -> None:
    ranking = rank(
        words=scores(2, 1),
        passages=scores(0, 0),
        similarity=None,
        session_order=order_by_session([1, 2], [1, 1]),
    )

    assert np.allclose(ranking.words, [1, 0.5])
    assert not ranking.vector.any()


def test_weights_decide() -> None:
    def first(words: float) -> list[int]:
        return rank(
            words=scores(1, 0),
            passages=scores(0, 0),
            similarity=scores(0, 1),
            session_order=order_by_session([1, 2], [1, 1]),
            weights=FusionWeights(words=words),
        ).best(1)

    assert (first(0.9), first(0.1)) == ([0], [1])


def test_nothing_is_ranked_where_nothing_is() -> None:
    none = scores()

    assert (
        rank(
            words=none, passages=none, similarity=none, session_order=order_by_session([], [])
        ).best(5)
        == []
    )


def test_one_document_is_found() -> None:
    assert ranked("greyhound", ["I adopted a greyhound"], [1]).best(5) == [0]


def test_a_passage_is_found_by_words_of_several_documents() -> None:
    texts = ["Lisbon again", "yes", "the trams", "so", "bread", "rye"]
    lexicon, session_order = lexicon_of(texts), order_by_session([1, 1, 1, 2, 2, 2], range(6))
    found = Passages(lexicon, session_order).scores(term_ids("trams of Lisbon"))

    assert found[:3].min() > 0
    assert not found[3:].any()


def test_a_removed_document_is_part_of_no_passage() -> None:
    lexicon, session_order = lexicon_of(["Lisbon", "yes"]), order_by_session([1, 1], [1, 2])
    lexicon.remove([0])

    assert not Passages(lexicon, session_order).scores(term_ids("Lisbon")).any()


def test_what_all_vectors_share_does_not_count() -> None:
    shared = np.eye(8, dtype=np.float32)[0]
    own = np.eye(8, dtype=np.float32)[1:]
    vectors = (4 * shared + np.tile(own, (30, 1))) / np.sqrt(np.float32(17))
    query = (4 * shared + own[2]) / np.sqrt(np.float32(17))
    cosines, similarity = Whitening(vectors).compare(vectors, query)

    assert np.allclose(cosines, vectors @ query)
    assert cosines.min() > 0.9
    assert similarity.argmax() % 7 == 2
    assert similarity.min() < similarity.max() - 0.5


def test_likeness_stays_within_its_bounds() -> None:
    vectors = StaticEmbedder().embed([*TEXTS, ""])
    similarity = Whitening(vectors).compare(vectors, vectors[0])[1]

    assert similarity.argmax() == 0
    assert np.abs(similarity).max() <= 1 + 1e-4
    assert similarity[-1] == 0
    assert not Whitening(vectors).compare(vectors, vectors[-1])[1].any()


def test_vectors_that_come_later_are_as_far_from_the_mean() -> None:
    vectors = StaticEmbedder().embed([*TEXTS, ""])
    whitening = Whitening(vectors[:3])
    distances = np.append(whitening.distances(vectors[:3]), whitening.distances(vectors[3:]))

    similarity = whitening.compare(vectors, vectors[0])[1]
    assert np.array_equal(whitening.compare(vectors, vectors[0], distances)[1], similarity)


def test_a_memory_knows_of_what_it_does_not_speak() -> None:
    embedder, lexicon = StaticEmbedder(), lexicon_of(TEXTS)
    vectors = embedder.embed(TEXTS)

    def known(question: str) -> bool:
        coverage = lexicon.matches(term_ids(question)).coverage
        cosines = vectors @ embedder.embed_queries([question])[0]
        return is_about_query(coverage, cosines, cosine_min=embedder.cosine_min)

    assert known("What is the greyhound called?")
    assert known("Which animal did he take in, a dog?")
    assert not known("kubernetes ingress timeout")
    assert not known("Which mortgage rate did the bank offer?")
    assert not known("")


def test_of_two_documents_with_the_same_match_the_longer_one_comes_first() -> None:
    scores = np.array([1.0, 1.0, 0.0], np.float32)
    ranking = rank(
        words=scores,
        passages=np.zeros(3, np.float32),
        similarity=None,
        session_order=order_by_session([1, 2, 3], [1, 1, 1]),
        lengths=np.array([2, 20, 20], np.int32),
    )

    assert ranking.best(3)[:2] == [1, 0]


def test_where_messages_are_long_neighbours_count_less() -> None:
    def lifted(length: int) -> float:
        ranking = rank(
            words=np.array([1.0, 0.0], np.float32),
            passages=np.zeros(2, np.float32),
            similarity=None,
            session_order=order_by_session([1, 1], [1, 2]),
            lengths=np.array([length, length], np.int32),
        )
        return float(ranking.neighbours[1] / ranking.words[0])

    assert lifted(100) < lifted(10)
