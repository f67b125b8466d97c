"""Vectors as they are stored, 8 bits per number and one scale per vector, and their products."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from treering.lazy import LazyModule

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.ports import Matrix
else:
    np = LazyModule("numpy")

SCALE_BYTES: Final = 4
LEVELS: Final = 127
UNPACKED_AT_ONCE: Final = 512
SAMPLED_EVERY: Final = 16
SAMPLED_FROM: Final = 64
"""Scores for each wanted one from which a part of them is looked at first."""


def pack(vectors: Matrix) -> bytes:
    """Return rows as bytes: per row its scale, then its numbers. Zero rows are left out."""
    return pack_groups(vectors, [len(vectors)])[0]


def pack_groups(vectors: Matrix, counts: Sequence[int]) -> list[bytes]:
    """Return consecutive groups of rows as bytes; ``counts`` says how many rows each has."""
    peaks = np.abs(vectors).max(axis=1, initial=0.0)
    scales = (peaks / LEVELS).astype("<f4")
    levels = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
    rows = np.empty((len(vectors), SCALE_BYTES + vectors.shape[1]), dtype=np.uint8)
    rows[:, :SCALE_BYTES] = scales.view(np.uint8).reshape(-1, SCALE_BYTES)
    rows[:, SCALE_BYTES:] = levels.view(np.uint8)
    nonzero, ends = peaks > 0, list(accumulate(counts))
    return [
        rows[end - count : end][nonzero[end - count : end]].tobytes()
        for end, count in zip(ends, counts, strict=True)
    ]


def unpack(packed: Sequence[bytes], dimensions: int) -> tuple[Matrix, list[int]]:
    """Return all vectors as unit rows, and the number of rows in each of ``packed``."""
    width = SCALE_BYTES + dimensions
    counts = [len(group) // width for group in packed]
    vectors = np.empty((sum(counts), dimensions), np.float32)
    unpack_into(vectors, np.frombuffer(b"".join(packed), np.uint8).reshape(-1, width))
    return vectors, counts


def unpack_into(vectors: Matrix, rows: NDArray[np.uint8]) -> None:
    """Set the rows of ``vectors`` to packed ones; zero bytes are a row of zeros."""
    levels = rows[:, SCALE_BYTES:].view(np.int8)
    for at in range(0, len(rows), UNPACKED_AT_ONCE):
        # A part at a time, which stays in the processor's cache. The scale of a unit row is its
        # length, whatever it was.
        part = vectors[at : at + UNPACKED_AT_ONCE]
        part[...] = levels[at : at + UNPACKED_AT_ONCE]
        part /= np.maximum(np.sqrt(np.vecdot(part, part)), 1e-9)[:, None]


def dots(vectors: Matrix, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of each row with a vector."""
    products: NDArray[np.float32] = all_dots(vectors, vector[None])[0]
    return products


def all_dots(vectors: Matrix, queries: Matrix) -> Matrix:
    """Return the product of each row with each query, one row per query.

    On one thread: ``@`` shares even a small product between threads, which wait for each other for
    longer than it takes where the machine has other work.
    """
    products = np.empty((len(queries), len(vectors)), np.float32)
    # Each vector is read once, whatever the number of queries.
    np.vecdot(vectors[:, None, :], queries, out=products.T)
    return products


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers that are there, each once, in order."""
    # Asked for counts, too, NumPy does not load its masked arrays, which takes 6 ms.
    found: NDArray[np.int64] = np.unique(numbers, return_counts=True)[0]
    return found


def highest(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the indexes of the highest scores, highest first; of equal ones the first."""
    if count <= 0:
        return np.empty(0, np.int64)
    # The least of the highest among a few is a bound: only possible winners are sorted.
    few = scores[:: SAMPLED_EVERY if len(scores) > SAMPLED_FROM * count else 1]
    able = np.arange(len(scores))
    if len(few) > count:
        able = np.flatnonzero(scores >= np.partition(few, len(few) - count)[len(few) - count])
    return able[np.argsort(-scores[able], kind="stable")[:count]]
