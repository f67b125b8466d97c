"""The default embedder: adds up one vector per word piece. No model runs.

The table is distilled from all-mpnet-base-v2 (see NOTICE) by ``scripts/distil_table.py``. Rare
pieces weigh more than frequent ones, punctuation nothing.

Words are looked up whole, then by their longest known prefixes. Their pieces are cached, since most
words occur again; so no compiled tokenizer is needed, nor its threads, which do not survive a fork.
"""

from __future__ import annotations

import hashlib
import unicodedata
from functools import cache
from itertools import chain, count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.errors import Corrupt
from treering.lazy import lazy_pattern

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


class Table(NamedTuple):
    """A vocabulary, and a vector for each of its pieces."""

    vocabulary: list[str]
    rows: NDArray[np.int8]
    factors: NDArray[np.float32]
    """The factor of each row: its quantisation step times the weight of the piece."""


class StaticEmbedder:
    """Adds up the vectors of a text's word pieces. Thread-safe and fork-safe."""

    name = f"treering-static-1:{TABLE_DIGEST[:12]}"
    dimensions = DIMENSIONS
    cosine_min = COSINE_MIN
    knows_words = True

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit row for each text, a zero row for one without known words."""
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        rows, factors = static_table()[1:]
        numbers = static_pieces().numbers
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for index, text in enumerate(texts):
            pieces = np.array(numbers(text), np.intp)
            if pieces.size:
                # A product of a row and a matrix: ten times as fast as adding up weighted rows.
                vectors[index] = factors.take(pieces) @ rows.take(pieces, axis=0).astype(np.float32)
        norms = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of queries: here the same as for any text."""
        return self.embed(texts)

    def change_scores(self, new: str, earlier: Sequence[str]) -> list[float]:
        """Return the log odds that a statement makes each earlier one outdated."""
        from treering.embedders.small_change_model import scores  # noqa: PLC0415  (reads the table)

        return scores(new, earlier)


@cache
def static_table() -> Table:
    """Return the table in the package, read and checked once per process."""
    # importlib.resources would cost a process that recalls once 6 ms.
    return table_of(Path(__file__).with_name(TABLE).read_bytes())


def table_of(packed: bytes) -> Table:
    """Return an unpacked table. Raise Corrupt if it is not the shipped one."""
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
    """Return the vocabulary of the table as a tokenizer."""
    return WordPieces(static_table().vocabulary)


CHARACTERS_MAX: Final = 20_000
"""The rest of a longer text is not read."""
WORD_CHARACTERS_MAX: Final = 100
"""Longer words are unknown."""
KEPT_WORDS_MAX: Final = 50_000
UNKNOWN: Final = 100
STARTS: Final = 101
ENDS: Final = 102

_PLAIN: Final = lazy_pattern(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_IDEOGRAPHS: Final = lazy_pattern(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf\U0002f800-\U0002fa1f])"
)


class WordPieces:
    """A vocabulary that splits texts. Thread-safe."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._pieces = _WordPieces(dict(zip(vocabulary, count())))

    def numbers(self, text: str) -> list[int]:
        """Return the pieces of a text as indexes into the vocabulary."""
        read = text[:CHARACTERS_MAX]
        parts = [(True, [read])] if read.isascii() else groupby(read.split(), str.isascii)
        words: list[str] = []
        for is_plain, chunks in parts:
            words += _PLAIN.findall(" ".join(chunks).lower()) if is_plain else chunks
        return list(chain.from_iterable(map(self._pieces.__getitem__, words)))


class _WordPieces(dict[str, tuple[int, ...]]):
    """The pieces of words, and of chunks in other scripts, found when first asked for."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def __missing__(self, word: str) -> tuple[int, ...]:
        words = [word] if word.isascii() else _foreign_words(word)
        pieces = tuple(chain.from_iterable(map(self._split, words)))
        if len(word) <= WORD_CHARACTERS_MAX and len(self) < KEPT_WORDS_MAX:
            self[word] = pieces
        return pieces

    def _split(self, word: str) -> tuple[int, ...]:
        if len(word) > WORD_CHARACTERS_MAX:
            return (UNKNOWN,)
        pieces: list[int] = []
        rest, begun = word, 0
        while len(rest) > begun:
            for end in range(len(rest), begun, -1):
                number = self._numbers.get(rest[:end])
                if number is not None:
                    break
            else:
                return (UNKNOWN,)
            pieces.append(number)
            rest, begun = f"##{rest[end:]}", 2
        return tuple(pieces)


def _foreign_words(text: str) -> list[str]:
    """Return the words of a text in any script, with punctuation marks as separate words."""
    spaced = _IDEOGRAPHS.sub(r" \1 ", text).lower()
    words: list[str] = []
    for chunk in unicodedata.normalize("NFD", spaced).split():
        word = ""
        for character in chunk:
            category = unicodedata.category(character)
            if category == "Mn" or (category[0] == "C"):
                continue
            if category[0] == "P" or (character.isascii() and not character.isalnum()):
                words += [word, character] if word else [character]
                word = ""
            else:
                word += character
        if word:
            words.append(word)
    return words
