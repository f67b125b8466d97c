"""Vectors from any endpoint with OpenAI's embeddings API.

EndpointEmbedder("http://localhost:8080/v1", "nomic-embed-text")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec

from treering.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


TIMEOUT_S: Final = 30.0
TEXTS_AT_ONCE: Final = 64
TEXT_CHARACTERS_MAX: Final = 8_000
"""The rest of a longer text is not sent."""
ANSWER_BYTES_MAX: Final = 64 * 2**20
NUMBER_MAX: Final = 1e9
COSINE_MIN: Final = 0.4
"""Models differ; this value rather finds too much than too little."""


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingsReply(msgspec.Struct):
    data: list[_Row]


class EndpointEmbedder:
    """Lets a server turn texts into vectors. Thread-safe and fork-safe."""

    cosine_min = COSINE_MIN
    knows_words = False

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
        """The name of the vector space."""
        return f"endpoint:{self._model}@{self._endpoint.url}"

    @property
    def dimensions(self) -> int:
        """The length of a vector. Asks the server once."""
        if self._dimensions is None:
            self._dimensions = len(self._rows(["dimensions"])[0])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit row for each text, a zero row for a blank one.

        Raise Unavailable if the server cannot be reached.
        """
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        # Servers refuse a whole batch because of one blank text.
        indexes = [index for index, text in enumerate(texts) if text.strip()]
        for first in range(0, len(indexes), TEXTS_AT_ONCE):
            batch = indexes[first : first + TEXTS_AT_ONCE]
            rows = self._rows([texts[index][:TEXT_CHARACTERS_MAX] for index in batch])
            if any(len(row) != self.dimensions for row in rows):
                raise self._endpoint.unavailable("its vectors differ in length")
            batch_vectors = np.array(rows, np.float64)
            if not (np.abs(batch_vectors) < NUMBER_MAX).all():
                raise self._endpoint.unavailable("its vectors hold invalid numbers")
            norms = np.sqrt((batch_vectors * batch_vectors).sum(axis=1, keepdims=True))
            vectors[batch] = batch_vectors / np.where(norms > 0, norms, 1)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of queries: here the same as for any text."""
        return self.embed(texts)

    def _rows(self, texts: list[str]) -> list[list[float]]:
        answer = self._endpoint.ask({"model": self._model, "input": texts}, _EmbeddingsReply)
        rows = {row.index: row.embedding for row in answer.data}
        if sorted(rows) != list(range(len(texts))) or not all(rows.values()):
            raise self._endpoint.unavailable(
                f"it returned {len(rows)} vectors for {len(texts)} texts"
            )
        return [rows[index] for index in range(len(texts))]


T = TypeVar("T")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of a server."""

    url: str
    wanted: str
    """What an answer is, in a word: ``summary``."""
    api_key: str | None = None
    timeout_s: float
    answer_bytes_max: int

    def __post_init__(self) -> None:
        """Raise InvalidInput if the URL is not http or https."""
        if urlsplit(self.url).scheme not in {"http", "https"}:
            raise InvalidInput(
                f"invalid endpoint: {self.url}", hint="give a URL such as http://localhost:8080/v1"
            )

    def ask(self, body: Mapping[str, object], answer: type[T]) -> T:
        """Return the endpoint's answer. Raise Unavailable if it cannot be reached."""
        headers = {"Content-Type": "application/json"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = Request(self.url, msgspec.json.encode(body), headers)  # noqa: S310  (checked)
        try:
            with urlopen(request, timeout=self.timeout_s) as response:  # noqa: S310
                return msgspec.json.decode(response.read(self.answer_bytes_max), type=answer)
        except HTTPError as error:
            error.close()
            raise self.unavailable(f"it answered {error.code}") from error
        except (URLError, OSError) as error:
            raise self.unavailable(str(getattr(error, "reason", error))) from error
        except msgspec.MsgspecError as error:
            raise self.unavailable(f"its answer is not a valid {self.wanted}") from error

    def unavailable(self, why: str) -> Unavailable:
        """Return the error that says why no answer came."""
        return Unavailable(
            f"no {self.wanted} from {self.url}: {why}",
            hint="check the address, the model and the key",
        )
