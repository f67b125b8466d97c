"""The default embedder: a vector for each word piece, added up. No model runs.

The table is a distillation of all-mpnet-base-v2 (see NOTICE); ``scripts/distil_table.py`` makes it.
Rare pieces weigh more than frequent ones, punctuation nothing.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.embedders.wordpiece import WordPieces
from treering.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

TABLE: Final = "table.zst"
TABLE_DIGEST: Final = "88264e2c5ec569c17c6d95a709f7b8f212f132ec0f2926eaf7873b474cc864dc"
DIMENSIONS: Final = 256
COSINE_MIN: Final = 0.4
_MAGIC: Final = b"treering-table-1"
_HEAD_BYTES: Final = len(_MAGIC) + 12
_PIECES_AT_ONCE: Final = 4_096
"""As many rows of the table are added up at once as a processor holds close by."""


class Table(NamedTuple):
    """A vocabulary, and a vector for each of its pieces."""

    vocabulary: list[str]
    rows: NDArray[np.int8]
    factors: NDArray[np.float32]
    """What a row is multiplied by: its step, and how much the piece counts."""


class StaticEmbedder:
    """Adds up the vectors of a text's words. May be used by several threads and after a fork."""

    @property
    def name(self) -> str:
        """The space that the vectors belong to."""
        return f"treering-static-1:{TABLE_DIGEST[:12]}"

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        return DIMENSIONS

    @property
    def knows_words(self) -> bool:
        """Whether single words have vectors of their own."""
        return True

    @property
    def cosine_min(self) -> float:
        """The cosine from which a text speaks of what is asked, if there are few."""
        return COSINE_MIN

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row of length 1 for each text, of zeros for one without known words."""
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        table = static_table()
        numbers = static_pieces().numbers
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        first, pieces, lengths = 0, [], []
        for place, text in enumerate(texts):
            found = numbers(text)
            pieces += found
            lengths.append(len(found))
            if len(pieces) >= _PIECES_AT_ONCE or place == len(texts) - 1:
                vectors[first : place + 1] = _sums(table, pieces, lengths)
                first, pieces, lengths = place + 1, [], []
        norms = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions: in this space, those of any text."""
        return self.embed(texts)


@cache
def static_table() -> Table:
    """Return the table in the package, read and checked once in a process."""
    return table_of(files(__package__).joinpath(TABLE).read_bytes())


def table_of(packed: bytes) -> Table:
    """Return a table as it was packed. Raises Corrupt if it is not the one that was shipped."""
    import numpy as np  # noqa: PLC0415
    import zstandard  # noqa: PLC0415

    if hashlib.sha256(packed).hexdigest() != TABLE_DIGEST:
        raise Corrupt(
            f"the table of the default embedder, {TABLE}, is not the one that was shipped",
            hint="install treering again: pip install --force-reinstall --no-deps treering",
        )
    content = zstandard.ZstdDecompressor().decompress(packed)
    words, count, dimensions = np.frombuffer(content[len(_MAGIC) : _HEAD_BYTES], "<u4").tolist()
    factors_at = _HEAD_BYTES + words
    rows_at = factors_at + 4 * count
    return Table(
        vocabulary=content[_HEAD_BYTES:factors_at].decode().split("\n"),
        factors=np.frombuffer(content[factors_at:rows_at], "<f4").astype(np.float32),
        rows=np.frombuffer(content, np.int8, offset=rows_at).reshape(count, dimensions),
    )


@cache
def static_pieces() -> WordPieces:
    """Return the vocabulary of the table, ready to read texts with."""
    return WordPieces(static_table().vocabulary)


def _sums(table: Table, pieces: list[int], lengths: list[int]) -> NDArray[np.float32]:
    import numpy as np  # noqa: PLC0415

    sums = np.zeros((len(lengths), DIMENSIONS), np.float32)
    counts = np.array(lengths)
    filled = np.flatnonzero(counts)
    if len(filled):
        starts = np.append(0, np.cumsum(counts[filled])[:-1])
        weighed = table.rows[pieces] * table.factors[pieces, None]
        sums[filled] = np.add.reduceat(weighed, starts, axis=0)
    return sums
