"""A small network on the table's vectors, fitted to tell whether one statement outdates another.

It reads the pieces of both statements, one after the other: what the table knows of each, what was
learnt of the most frequent ones, and how near each is to the pieces of the other statement.
``scripts/fit_small_change_model.py`` fits it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from treering.embedders.static import static_pieces, static_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

FITTED: Final = "small_change_model.npz"
PIECES_MAX: Final = 30
"""Pieces of each statement that are read."""
LAYERS: Final = 2
HEADS: Final = 4
ALIKE: Final = -9.0
"""The log odds for two statements with the same words."""
SCALE: Final = ":scale"
"""Behind the name of a matrix: the steps in which each of its columns is stored."""
PRODUCT_MAX: Final = 250_000
"""Multiplications from which the product of two matrices is spread over threads.

Waiting for these takes longer than the whole network does, above all on a busy machine.
"""
_LEAST: Final = 1e-6


class Pieces(NamedTuple):
    """What the network sees of the pieces of two statements."""

    numbers: NDArray[np.int64]
    begun: int
    """How many of them are of the earlier statement."""
    rows: Matrix
    """What the table knows of each, as unit rows."""
    marks: Matrix
    """Said in both, a number, inside a word, weight, how near the other statement comes to it."""


def scores(new: str, earlier: Sequence[str]) -> list[float]:
    """Return the log odds that a statement makes each earlier one outdated.

    Of two with the same words it knows nothing: it cannot tell C++ from C#.
    """
    read = [read_pieces(old, new) for old in earlier]
    return [ALIKE if _are_alike(one) else _score(one) for one in read]


def _are_alike(read: Pieces) -> bool:
    vocabulary, numbers = static_table().vocabulary, read.numbers.tolist()
    before, after = (
        [number for number in part if any(map(str.isalnum, vocabulary[number]))]
        for part in (numbers[: read.begun], numbers[read.begun :])
    )
    return before == after


def read_pieces(old: str, new: str) -> Pieces:
    """Return what the network sees of two statements."""
    table, pieces = static_table(), static_pieces().numbers
    before, after = pieces(old)[:PIECES_MAX], pieces(new)[:PIECES_MAX]
    numbers, begun = np.array([*before, *after], np.int64), len(before)
    rows = table.rows.take(numbers, axis=0).astype(np.float32)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None] + _LEAST
    marks = np.zeros((len(numbers), 6), np.float32)
    words = [table.vocabulary[number] for number in numbers]
    marks[:, 1] = [word.lstrip("#").isdigit() for word in words]
    marks[:, 2] = [word.startswith("##") for word in words]
    marks[:, 3] = _weights().take(numbers)
    if before and after:
        equal = numbers[:begun, None] == numbers[None, begun:]
        cosines = rows[:begun] @ rows[begun:].T
        for column, near in ((0, equal), (4, cosines), (5, np.where(equal, 0.0, cosines))):
            marks[:begun, column], marks[begun:, column] = near.max(axis=1), near.max(axis=0)
    return Pieces(numbers, begun, rows, marks)


def _score(read: Pieces) -> float:
    fitted, learnt = _fitted(), _learnt()
    signals = np.empty((len(read.numbers) + 1, fitted["seg"].shape[1]), np.float32)
    own = fitted["small"][learnt.take(read.numbers)]
    signals[1:] = _product(read.rows, "in") + own + read.marks @ fitted["flag"]
    signals[0] = fitted["seg"][0]
    first, second = signals[1 : read.begun + 1], signals[read.begun + 1 :]
    first += fitted["seg"][1] + fitted["pos"][: len(first)]
    second += fitted["seg"][2] + fitted["pos"][: len(second)]
    signals = _normal(signals, "n0")
    for layer in range(LAYERS):
        signals = _normal(signals + _attended(signals, f"l{layer}"), f"l{layer}:n1")
        inner = np.maximum(_product(signals, f"l{layer}:f") + fitted[f"l{layer}:fb"], 0)
        inner = _product(inner, f"l{layer}:g") + fitted[f"l{layer}:gb"]
        signals = _normal(signals + inner, f"l{layer}:n2")
    read_out = np.concatenate([signals[0], signals.mean(axis=0)])
    return float(read_out @ fitted["out"] + fitted["c"])


def _attended(signals: Matrix, layer: str) -> Matrix:
    """Return what each piece takes over from all others."""
    fitted, (count, width) = _fitted(), signals.shape
    of_heads = _product(signals, f"{layer}:qkv") + fitted[f"{layer}:qkvb"]
    of_heads = of_heads.reshape(count, 3, HEADS, width // HEADS)
    asked, offered, values = of_heads.transpose(1, 2, 0, 3)
    near = asked @ offered.transpose(0, 2, 1) / np.float32((width // HEADS) ** 0.5)
    near = np.exp(near - near.max(axis=-1, keepdims=True))
    near /= near.sum(axis=-1, keepdims=True)
    seen: Matrix = (near @ values).transpose(1, 0, 2).reshape(count, width)
    return _product(seen, f"{layer}:o") + fitted[f"{layer}:ob"]


def _product(signals: Matrix, name: str) -> Matrix:
    """Return the product with a matrix, some of its columns at a time."""
    matrix = _fitted()[name]
    columns = max(PRODUCT_MAX // max(signals.size, 1), 1)
    parts = [signals @ matrix[:, at : at + columns] for at in range(0, matrix.shape[1], columns)]
    return np.concatenate(parts, axis=1)


def _normal(signals: Matrix, name: str) -> Matrix:
    fitted = _fitted()
    centred = signals - signals.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.einsum("ij,ij->i", centred, centred) / signals.shape[1] + _LEAST)
    normal: Matrix = centred / spread[:, None] * fitted[f"{name}:0"] + fitted[f"{name}:1"]
    return normal


@cache
def _fitted() -> dict[str, Matrix]:
    """Return what was fitted, by name."""
    with np.load(Path(__file__).with_name(FITTED)) as stored:
        given = {name: stored[name].astype(np.float32) for name in stored.files if name != "known"}
    return {
        name: one * given[name + SCALE] if name + SCALE in given else one
        for name, one in given.items()
        if not name.endswith(SCALE)
    }


@cache
def _learnt() -> NDArray[np.int64]:
    """Return for each piece which row was learnt of it: the first, of zeros, for most."""
    with np.load(Path(__file__).with_name(FITTED)) as stored:
        known = stored["known"]
    rows = np.zeros(len(static_table().vocabulary), np.int64)
    rows[known] = np.arange(1, len(known) + 1)
    return rows


@cache
def _weights() -> Matrix:
    """Return how much each piece weighs in the table, as its distance from the mean."""
    logs = np.log(static_table().factors + 1e-3)
    weights: Matrix = (logs - logs.mean()) / logs.std()
    return weights
