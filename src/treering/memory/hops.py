"""Walks from fact to fact, for questions that no single fact answers.

    Who is the spouse of the author of Emma?
      "The author of Emma is Jane."       names Jane, whom the question does not
      "Jane is married to Tom."           has her name, and answers "spouse"

A path is good if its facts together have the words of the question. Each next fact has to share a
name with the one before it that the question lacks, and to have words that the path still misses.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.search_texts import fact_text
from treering.lazy import LazyModule, lazy_pattern
from treering.memory.vectors import distinct
from treering.rules.claims import read_claim
from treering.rules.terms import terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.questions import Clause
    from treering.memory.scope_memory import ScopeMemory

    Scores = NDArray[np.float32]
    Texts = Callable[[Sequence[int]], Mapping[int, str]]
    """Returns the texts of facts by document number."""
else:
    np = LazyModule("numpy")

FACTS_MAX: Final = 4
"""Facts of a path, the first one included."""
BEGINNINGS_MAX: Final = 12
PATHS_MAX: Final = 6
"""Paths that are followed further at each step."""
LINKED_MAX: Final = 60
"""A name that more facts have leads everywhere, and so nowhere, unless few have what is asked."""
MET: Final = 0.55
"""A word is met by a text from this nearness on; below, it counts for nothing."""
GAIN_MIN: Final = 0.1
"""The share of the question that each next fact adds at least."""
COVERED_MIN: Final = 0.6
"""The share of the question that the facts of a path have together."""
COMPLETE: Final = 0.92
"""A fact that has so much of the question answers it alone."""
NAMES_MAX: Final = 4
_NAME: Final = lazy_pattern(
    r"[^\W\d_a-z][\w'.-]*(?:,? (?:(?:of|the|and|de|da|del|van|von|der|la|le|in|for|&) )*"
    r"[^\W\d_a-z][\w'.-]*)*"
)


class FactPath(msgspec.Struct, frozen=True, gc=False):
    """Facts that lead to an answer, by document number, and how much of the question they cover."""

    documents: tuple[int, ...]
    covered: float


class _Step(msgspec.Struct, frozen=True, gc=False):
    """A partial path: for each concept of the question, how well it is met so far."""

    documents: tuple[int, ...]
    met: Scores
    covered: float


class FactWalk:
    """A walk through the facts of one scope, for one question."""

    def __init__(
        self,
        scope_memory: ScopeMemory,
        clause: Clause,
        allowed: NDArray[np.bool_],
        texts: Texts,
    ) -> None:
        """Walk through the facts that are ``allowed``, by document number."""
        self._scope_memory = scope_memory
        self._clause = clause
        self._allowed = allowed
        self._texts = texts
        self._asked = frozenset(
            term for concept in clause.concepts for term in terms(" ".join(concept.names))
        )
        weights = np.array([concept.weight for concept in clause.concepts], np.float32)
        self._weights: Scores = weights / max(float(weights.sum()), 1e-9)
        self._known: dict[int, str] = {}
        self._met: dict[int, Scores] = {}

    def best_path(self, beginnings: Sequence[int]) -> FactPath | None:
        """Return the best path of two facts or more that answers; None without one."""
        steps = [
            _Step((number,), met, float(self._weights @ met))
            for number, met in self._look(beginnings[:BEGINNINGS_MAX]).items()
        ]
        if not steps or max(step.covered for step in steps) >= COMPLETE:
            return None
        best: _Step | None = None
        for _ in range(FACTS_MAX - 1):
            steps = sorted(steps, key=lambda step: -step.covered)[:PATHS_MAX]
            linked = [self._next(step) for step in steps]
            # All at once: a step by itself leads to few facts.
            self._look(list(dict.fromkeys(chain.from_iterable(linked))))
            steps = [
                longer
                for step, numbers in zip(steps, linked, strict=True)
                for longer in self._longer(step, numbers)
            ]
            for step in steps:
                # A longer path has to earn its length.
                if best is None or step.covered > best.covered + GAIN_MIN / 2:
                    best = step
        if best is None or best.covered < COVERED_MIN:
            return None
        return FactPath(best.documents, best.covered)

    def _next(self, step: _Step) -> list[int]:
        """Return the facts that a path leads to."""
        missing = [
            name
            for concept, met in zip(self._clause.concepts, step.met, strict=True)
            if met < MET
            for name in concept.names
        ]
        text = self._known[step.documents[-1]]
        value = read_claim(text).value
        linked = [
            number
            for name in self._new_names(text)
            # Many other facts have the same subject: only the value is looked up further.
            for number in self._linked(name, missing if name == value else ())
            if number not in step.documents
        ]
        return list(dict.fromkeys(linked))[:LINKED_MAX]

    def _longer(self, step: _Step, linked: Sequence[int]) -> list[_Step]:
        """Return the path with one more fact, for each linked fact that adds to it."""
        paths = []
        for number, met in self._look(linked).items():
            together = np.maximum(step.met, met)
            covered = float(self._weights @ together)
            if covered >= step.covered + GAIN_MIN:
                paths.append(_Step((*step.documents, number), together, covered))
        return paths

    def _new_names(self, text: str) -> list[str]:
        """Return the names in a fact that the question lacks: its value first."""
        claim = read_claim(text)
        names = [claim.value or "", claim.subject or "", *_NAME.findall(text)]
        new = [
            name
            for name in dict.fromkeys(names)
            if (words := frozenset(terms(name))) and not words <= self._asked
        ]
        return new[:NAMES_MAX]

    def _linked(self, name: str, missing: Sequence[str]) -> list[int]:
        """Return the facts that have a name; of many, those with a word that the path misses."""
        having = self._having(name)
        if len(having) > LINKED_MAX:
            parts = [self._having(word, having) for word in missing]
            having = distinct(np.concatenate(parts)) if parts else having
        return having.tolist() if len(having) <= LINKED_MAX else []

    def _having(self, name: str, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the facts that have all words of a name, of all or ``among`` some."""
        documents = self._scope_memory.documents
        places = documents.lexicon.having_all(documents.term_ids(name), among)
        return places[self._allowed[places]]

    def _look(self, numbers: Sequence[int]) -> dict[int, Scores]:
        """Return how well facts meet each concept of the question; reads each fact once."""
        new = [number for number in numbers if number not in self._met]
        texts = {number: text for number, text in self._texts(new).items() if text}
        if texts:
            self._known |= texts
            met = self._met_by([fact_text(text) for text in texts.values()])
            self._met |= {number: met[:, at] for at, number in enumerate(texts)}
        return {number: self._met[number] for number in numbers if number in self._met}

    def _met_by(self, texts: Sequence[str]) -> Scores:
        aligner = self._scope_memory.aligner
        if aligner is not None:
            near = aligner.by_concept(self._clause, texts)
            return np.where(near >= MET, near, 0).astype(np.float32)
        held = [frozenset(terms(text)) for text in texts]
        return np.array(
            [
                [float(any(_within(name, words) for name in concept.names)) for words in held]
                for concept in self._clause.concepts
            ],
            np.float32,
        )


def _within(name: str, words: frozenset[str]) -> bool:
    wanted = frozenset(terms(name))
    return bool(wanted) and wanted <= words
