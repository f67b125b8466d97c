"""Events by meaning and by words together: the shelf of a scope's events, ranked for a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from treering.memory.fusion import FusionWeights, Ranking, rank, speaks_of
from treering.memory.passages import passage_scores
from treering.memory.placing import placed
from treering.memory.spread import Spread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.document_index import DocumentIndex
    from treering.memory.placing import Placing

Blend = Literal["hybrid", "semantic"]

GROWTH: Final = 1.1
"""What the vectors have in common is looked at again when there are so many more of them."""
UNRELATED: Final = 0.1
"""What has no word of the question, and a cosine below this, is about something else."""
SPREAD_FROM: Final = 50
"""Fewer vectors have nothing in common that could be told."""
SEMANTIC: Final = FusionWeights(words=0.0, before=(), after=(), passage=0.0, session=0.0)


class Ranked(msgspec.Struct, frozen=True):
    """Which documents answer, the best first, and what speaks for each."""

    order: list[int]
    ranking: Ranking | None


class EventIndex:
    """Ranks the documents of one shelf. Callers hold the copy's lock."""

    def __init__(self, documents: DocumentIndex) -> None:
        self.documents = documents
        self._placing: Placing | None = None
        self._placed = (-1, 0)
        self._spread: Spread | None = None
        self._spread_of = (-1, 0)

    def rank(self, query: str, blend: Blend, limit: int) -> Ranked:
        """Return up to ``limit`` documents that answer; none, if nothing here speaks of it."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        documents = self.documents
        if not documents.count:
            return Ranked([], None)
        terms = list(documents.term_ids(query))
        matches = documents.lexicon.matches(terms)
        cosines, likeness = self._likeness(query)
        asked = matches.coverage if blend == "hybrid" else np.zeros_like(matches.coverage)
        floor = 0.0 if documents.embedder is None else documents.embedder.cosine_min
        if not speaks_of(asked, cosines, cosine_min=floor):
            return Ranked([], None)
        placing = self._placing_now()
        if blend == "semantic":
            flat = np.zeros_like(matches.scores)
            ranking = rank(
                words=flat, passages=flat, likeness=likeness, placing=placing, weights=SEMANTIC
            )
        else:
            ranking = rank(
                words=matches.scores,
                passages=passage_scores(documents.lexicon, terms, placing),
                likeness=likeness,
                placing=placing,
            )
        order = ranking.best(limit)
        if cosines is not None:
            # What stands near an answer is none if nothing in it is about the question.
            order = [one for one in order if matches.scores[one] > 0 or cosines[one] >= UNRELATED]
        return Ranked(order, ranking)

    def _likeness(
        self, query: str
    ) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """Return the cosine of each document, and how alike it is when what all share is left out.

        None without an embedder.
        """
        documents = self.documents
        vector = documents.embedded([query])
        if vector is None or not vector.any():
            # It knows no word of it: words alone may.
            return None, None
        cosines = documents.cosines(vector)
        vectors = documents.vectors
        if vectors is None or len(vectors) < SPREAD_FROM:
            return cosines, cosines
        likeness = self._spread_now(vectors).likeness(vectors, vector[0])
        return cosines, documents.best_of_parts(likeness)

    def _spread_now(self, vectors: NDArray[np.float32]) -> Spread:
        generation, count = self._spread_of
        stale = generation != self.documents.generation or len(vectors) > count * GROWTH
        if self._spread is None or stale:
            self._spread = Spread(vectors)
            self._spread_of = (self.documents.generation, len(vectors))
        return self._spread

    def _placing_now(self) -> Placing:
        now = (self.documents.generation, self.documents.count)
        if self._placing is None or self._placed != now:
            self._placing = placed(
                self.documents.column("session").tolist(), self.documents.column("seq").tolist()
            )
            self._placed = now
        return self._placing
