"""Stored vectors: 8 bits per number, one scale per vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.memory.ports import Matrix

SCALE_BYTES: Final = 4
LEVELS: Final = 127


def pack(vectors: Matrix) -> bytes:
    """Return rows as bytes: per row its scale, then its numbers. Zero rows are left out."""
    import numpy as np  # noqa: PLC0415  (only who remembers needs it)

    peaks = np.abs(vectors).max(axis=1, initial=0.0)
    nonzero = vectors[peaks > 0]
    if not len(nonzero):
        return b""
    scales = (peaks[peaks > 0] / LEVELS).astype("<f4")
    levels = np.rint(nonzero / scales[:, None]).astype(np.int8)
    rows = np.empty((len(nonzero), SCALE_BYTES + nonzero.shape[1]), dtype=np.uint8)
    rows[:, :SCALE_BYTES] = scales.view(np.uint8).reshape(-1, SCALE_BYTES)
    rows[:, SCALE_BYTES:] = levels.view(np.uint8)
    return rows.tobytes()


def unpack(packed: Sequence[bytes], dimensions: int) -> tuple[Matrix, list[int]]:
    """Return all vectors as unit rows, and the number of rows in each of ``packed``."""
    import numpy as np  # noqa: PLC0415

    width = SCALE_BYTES + dimensions
    counts = [len(one) // width for one in packed]
    rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(-1, width)
    scales = np.ascontiguousarray(rows[:, :SCALE_BYTES]).view("<f4")
    vectors = rows[:, SCALE_BYTES:].view(np.int8).astype(np.float32) * scales
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-9), counts
