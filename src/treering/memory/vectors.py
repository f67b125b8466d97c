"""Vectors as they are stored, 8 bits per number and one scale per vector, and their products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.ports import Matrix

SCALE_BYTES: Final = 4
LEVELS: Final = 127


def pack(vectors: Matrix) -> bytes:
    """Return rows as bytes: per row its scale, then its numbers. Zero rows are left out."""
    return pack_groups(vectors, [len(vectors)])[0]


def pack_groups(vectors: Matrix, counts: Sequence[int]) -> list[bytes]:
    """Return consecutive groups of rows as bytes; ``counts`` says how many rows each has."""
    import numpy as np  # noqa: PLC0415  (only who remembers needs it)

    peaks = np.abs(vectors).max(axis=1, initial=0.0)
    scales = (peaks / LEVELS).astype("<f4")
    levels = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
    rows = np.empty((len(vectors), SCALE_BYTES + vectors.shape[1]), dtype=np.uint8)
    rows[:, :SCALE_BYTES] = scales.view(np.uint8).reshape(-1, SCALE_BYTES)
    rows[:, SCALE_BYTES:] = levels.view(np.uint8)
    ends = np.cumsum(counts)
    groups = np.split(rows, ends[:-1]), np.split(peaks > 0, ends[:-1])
    return [group[nonzero].tobytes() for group, nonzero in zip(*groups, strict=True)]


def unpack(packed: Sequence[bytes], dimensions: int) -> tuple[Matrix, list[int]]:
    """Return all vectors as unit rows, and the number of rows in each of ``packed``."""
    import numpy as np  # noqa: PLC0415

    width = SCALE_BYTES + dimensions
    counts = [len(group) // width for group in packed]
    rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(-1, width)
    scales = np.ascontiguousarray(rows[:, :SCALE_BYTES]).view("<f4")
    vectors = rows[:, SCALE_BYTES:].view(np.int8).astype(np.float32) * scales
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-9), counts


def dots(vectors: Matrix, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of each row with a vector.

    On one thread: ``@`` shares even a small product between threads, which wait for each other for
    longer than it takes where the machine has other work.
    """
    import numpy as np  # noqa: PLC0415

    products: NDArray[np.float32] = np.vecdot(vectors, vector)
    return products
