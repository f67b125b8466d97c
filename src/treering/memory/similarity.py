"""The similarity of facts and episodes to a query, by words and by meaning.

A match is a weighted mean that does not saturate: what shares one word with a question, or a topic,
stays far below what answers it. A memory answers if its match reaches a floor. The floor rises with
the number of memories, since among many some come near by chance, and for questions about the
world.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.derive.search_texts import fact_text
from treering.lazy import LazyModule
from treering.memory.questions import parse_question
from treering.memory.vectors import distinct, highest
from treering.rules.claims import USER, read_claim
from treering.rules.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.questions import Clause
    from treering.memory.scope_memory import ScopeMemory

    Scores = NDArray[np.float32]
else:
    np = LazyModule("numpy")

ANSWERS_FROM: Final = 0.6
"""The similarity of a memory whose match is just at the floor."""
ALIGNED_MAX: Final = 24
"""Best candidates that are compared word by word."""
ALIGNED_SHARE: Final = 0.6
"""The weight of the comparison word by word; the rest is the weight of the sentence's vector."""
WORDS_SHARE: Final = 0.1
"""What equal words add to the vector of an embedder that does not know single words."""
FLOOR: Final = 0.26
"""The match from which a memory answers, among few."""
ALIGNED_FLOOR: Final = 0.28
"""The same for matches word by word: some word is always near some other."""
ABOUT_OTHERS: Final = 0.5
"""What is left of the match of "her sister is a lawyer" with "What is my job?"."""
NAMED_APART: Final = 0.85
"""What is left of the match of a fact that has parts of a name in the question, not the name."""
NAMED_BESIDE: Final = 0.97
"""What is left if the name is there, but another is what the fact is about."""
CROWD: Final = 0.05
"""How much higher the floor is among 400 memories than among 20."""
CROWD_MAX: Final = 1.4
GENERAL: Final = 0.1
"""How much higher the floor is for a question about the world."""
FEW: Final = 20
MANY: Final = 400


class Similarity(NamedTuple):
    """How similar documents are to a query."""

    similarity: Scores
    """From 0 to 1; 0.6 at the floor. Decides whether a document answers at all."""
    match: Scores
    """The same for ranking, regardless of the floor."""
    words: Scores
    """The share of the query's words that the document has; rare words weigh more."""
    vector: Scores
    """The cosine of the vectors, or the match word by word."""


class QuerySimilarity:
    """The similarity of documents to one query, by words and by meaning."""

    def __init__(self, scope_memory: ScopeMemory, query: str | None, user: str | None) -> None:
        self._scope_memory = scope_memory
        self.has_query = query is not None
        self._question = parse_question(query or "", user)
        clauses = self._question.clauses
        self.words: Scores = np.zeros(scope_memory.documents.count, np.float32)
        for clause in clauses:
            self.words = np.maximum(self.words, self._coverage(clause))
        texts = [clause.text for clause in clauses]
        self._query = scope_memory.documents.embed_queries(texts) if texts else None
        self._texts_read: dict[int, str] = {}

    def to(self, documents: NDArray[np.int64], *, word_by_word: bool) -> Similarity:
        """Return how similar documents are; document -1 never is.

        With ``word_by_word``, short documents are also compared word by word.
        """
        indexed = documents >= 0
        numbers = documents[indexed]
        words = np.zeros(len(documents), np.float32)
        near = np.zeros(len(documents), np.float32)
        words[indexed] = self.words[numbers]
        if self._query is None:
            match, vector = words.copy(), near
        else:
            cosines = self._scope_memory.documents.cosines(self._query, numbers)[numbers]
            near[indexed] = np.maximum(cosines, 0)
            if self._scope_memory.aligner is None:
                match, vector = np.minimum(near + WORDS_SHARE * words, 1), near
            else:
                aligned = self._aligned(documents, words, near) if word_by_word else words
                match = ALIGNED_SHARE * aligned + (1 - ALIGNED_SHARE) * near
                vector = np.maximum(aligned, near)
        if word_by_word and self._question.full_names and len(documents):
            match = self._by_names(documents, match)
        floor = self._floors(documents, int(indexed.sum()))
        above = ANSWERS_FROM + (1 - ANSWERS_FROM) * (match - floor) / (1 - floor)
        similarity = np.where(match < floor, ANSWERS_FROM * match / floor, above)
        return Similarity(
            similarity=similarity.astype(np.float32),
            match=match.astype(np.float32),
            words=words,
            vector=vector,
        )

    def _coverage(self, clause: Clause) -> Scores:
        """Return the share of a clause's weight whose words each document has."""
        documents = self._scope_memory.documents
        lexicon = documents.lexicon
        coverage = np.zeros(documents.count, np.float32)
        total = 0.0
        for concept in clause.concepts:
            having = [self._having(name) for name in concept.names]
            places = having[0] if len(having) == 1 else distinct(np.concatenate(having))
            # An unknown word weighs no more than one that a single document has.
            weight = concept.weight * lexicon.weight(max(len(places), 1))
            total += weight
            coverage[places] += weight
        return coverage / max(total, 1e-9)

    def _having(self, name: str) -> NDArray[np.int64]:
        """Return the documents that have all terms of a name."""
        documents = self._scope_memory.documents
        return documents.lexicon.having_all(documents.term_ids(name))

    def _floors(self, documents: NDArray[np.int64], count: int) -> Scores:
        """Return the match from which each document answers."""
        crowd = min(log(max(count, FEW) / FEW) / log(MANY / FEW), CROWD_MAX)
        lowest = FLOOR if self._scope_memory.aligner is None else ALIGNED_FLOOR
        floors = np.full(len(documents), lowest + CROWD * crowd, np.float32)
        if not self._question.general:
            return floors
        named = np.zeros(self._scope_memory.documents.count + 1, bool)
        for name in self._question.names:
            named[self._having(name)] = True
        # Somebody or something in the question is remembered: it is not about the world.
        floors[~named[documents]] += GENERAL
        return floors

    def _aligned(self, documents: NDArray[np.int64], words: Scores, near: Scores) -> Scores:
        """Return the share of words that each document has, or comes near if it is of the best.

        Lowers what is ``near``, too, if it is about somebody else.
        """
        aligned, aligner = words.copy(), self._scope_memory.aligner
        if aligner is None or not len(documents):
            return aligned
        best = highest(words + near, ALIGNED_MAX)
        best = best[documents[best] >= 0]
        texts = self._texts(documents[best])
        indexed = [fact_text(text) for text in texts]
        for clause in self._question.clauses if texts else ():
            scores = np.array(aligner.scores(clause, indexed), np.float32)
            aligned[best] = np.maximum(aligned[best], scores)
        if self._question.own_words is not None and texts:
            others = [ABOUT_OTHERS if self._is_about_other(text) else 1.0 for text in texts]
            aligned[best] *= np.array(others, np.float32)
            near[best] *= np.array(others, np.float32)
        return aligned

    def _by_names(self, documents: NDArray[np.int64], match: Scores) -> Scores:
        """Return the matches, those of the best lowered that have other names than the question."""
        best = highest(match, ALIGNED_MAX)
        best = best[documents[best] >= 0]
        texts = self._texts(documents[best])
        if texts:
            named = np.array([self._naming(text) for text in texts], np.float32)
            match[best] *= named / named.max()
        return match

    def _naming(self, text: str) -> float:
        """Return how well a fact has the full names of the question: Ann Lee is not Ann Poe."""
        folded, share = text.casefold(), 1.0
        for name in self._question.full_names:
            if name not in folded:
                parts = name.split(" ")
                share *= NAMED_APART if any(part in folded for part in parts) else 1.0
            elif (subject := read_claim(text).subject) is not None and name not in subject:
                share *= NAMED_BESIDE
        return share

    def _is_about_other(self, text: str) -> bool:
        """Whether a fact is about somebody whom a question of the asker about themselves omits."""
        subject = read_claim(text).subject
        if subject is None or subject == USER:
            return False
        words = frozenset(terms(subject))
        return bool(words) and words.isdisjoint(self._question.own_words or ())

    def naming(self, documents: Sequence[int]) -> list[int]:
        """Return the facts that have a full name of the question; all, if none has one."""
        names = self._question.full_names
        if not names:
            return list(documents)
        texts = self.texts_by_document(documents)
        folded = {number: texts.get(number, "").casefold() for number in documents}
        having = [number for number in documents if any(name in folded[number] for name in names)]
        return having or list(documents)

    @property
    def whole_clause(self) -> Clause | None:
        """Return the question as one clause."""
        return next(iter(self._question.clauses), None)

    def texts_by_document(self, documents: Sequence[int]) -> dict[int, str]:
        """Return the texts of facts by document number, without erased ones."""
        new = [number for number in documents if number not in self._texts_read]
        if new:
            positions = self._scope_memory.documents.column("position")[new].tolist()
            events = self._scope_memory.fold.events_at(positions)
            self._texts_read |= {
                number: str(events[position].payload["text"])
                for number, position in zip(new, positions, strict=True)
                if position in events
            }
        read = self._texts_read
        return {number: read[number] for number in documents if number in read}

    def _texts(self, documents: NDArray[np.int64]) -> list[str]:
        """Return the texts of facts, in order; empty for erased ones."""
        numbers = documents.tolist()
        texts = self.texts_by_document(numbers)
        return [texts.get(number, "") for number in numbers]
