"""Vectors made by any endpoint that speaks OpenAI's embeddings, by choice.

EndpointEmbedder("http://localhost:8080/v1", "nomic-embed-text")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.embedders.posting import Endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

TIMEOUT_S: Final = 30.0
TEXTS_AT_ONCE: Final = 64
TEXT_CHARACTERS_MAX: Final = 8_000
"""Of a longer text, the beginning is sent."""
ANSWER_BYTES_MAX: Final = 64 * 2**20
NUMBER_MAX: Final = 1e9
COSINE_MIN: Final = 0.4
"""Models differ; this errs on the side of what is found."""


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingsReply(msgspec.Struct):
    data: list[_Row]


class EndpointEmbedder:
    """Has a server turn texts into vectors. May be used by several threads and after a fork."""

    def __init__(
        self, url: str, model: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._model = model
        self._endpoint = Endpoint(
            url=f"{url.rstrip('/')}/embeddings",
            wanted="embedding",
            api_key=api_key,
            timeout_s=timeout_s,
            answer_bytes_max=ANSWER_BYTES_MAX,
        )
        self._dimensions: int | None = None

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self._endpoint.url!r}, {self._model!r})"

    @property
    def name(self) -> str:
        """The space that the vectors belong to."""
        return f"endpoint:{self._model}@{self._endpoint.url}"

    @property
    def dimensions(self) -> int:
        """How long a vector is. Asks the server once."""
        if self._dimensions is None:
            self._dimensions = len(self._rows(["dimensions"])[0])
        return self._dimensions

    @property
    def knows_words(self) -> bool:
        """Whether single words have vectors of their own."""
        return False

    @property
    def cosine_min(self) -> float:
        """The cosine from which a text speaks of what is asked, if there are few."""
        return COSINE_MIN

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row of length 1 for each text, of zeros for a blank one.

        Raises Unavailable if the server cannot be asked.
        """
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        # Servers refuse blank texts, and with them all that is sent along.
        places = [place for place, text in enumerate(texts) if text.strip()]
        for first in range(0, len(places), TEXTS_AT_ONCE):
            batch = places[first : first + TEXTS_AT_ONCE]
            rows = self._rows([texts[place][:TEXT_CHARACTERS_MAX] for place in batch])
            if any(len(row) != self.dimensions for row in rows):
                raise self._endpoint.unavailable("its vectors are not of one length")
            made = np.array(rows, np.float64)
            if not (np.abs(made) < NUMBER_MAX).all():
                raise self._endpoint.unavailable("its vectors are not of usual numbers")
            norms = np.sqrt((made * made).sum(axis=1, keepdims=True))
            vectors[batch] = made / np.where(norms > 0, norms, 1)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions: in this space, those of any text."""
        return self.embed(texts)

    def _rows(self, texts: list[str]) -> list[list[float]]:
        answer = self._endpoint.ask({"model": self._model, "input": texts}, _EmbeddingsReply)
        rows = {row.index: row.embedding for row in answer.data}
        if sorted(rows) != list(range(len(texts))) or not all(rows.values()):
            raise self._endpoint.unavailable(f"{len(rows)} vectors came for {len(texts)} texts")
        return [rows[place] for place in range(len(texts))]
