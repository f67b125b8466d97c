"""Fit the weights of the signs by which a statement changes an earlier one.

Run as ``python scripts/fit_changes.py`` to write ``memory/change_weights.py``, with ``--check`` to
print only what each set of pairs comes to when the weights are fitted without it.

The pairs lie in benchmarks/, all written for this. Besides the pairs themselves, what each second
statement says is held against the first statements of other pairs that are nearest to it, and
against facts of a made-up memory: it must leave them alone, unless the rules say otherwise. Frames
say of many things what may be known of them, what ends it, and what does not.
"""

import sys
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from memory_cases import filler  # noqa: E402
from treering.derive.claim_relations import relation  # noqa: E402
from treering.embedders.static import StaticEmbedder  # noqa: E402
from treering.memory.alignment import Aligner  # noqa: E402
from treering.memory.change_decision import ONE_FROM  # noqa: E402
from treering.memory.change_features import ChangeReader  # noqa: E402
from update_pairs import DEVELOPED, FITTED, SETS, UNFITTED, frames, pairs  # noqa: E402

WEIGHTS: Final = ROOT / "src/treering/memory/change_weights.py"
FILLER: Final = 600
NEAREST: Final = 10
FOLDS: Final = 4
"""Parts of the pairs that only serve to fit."""
HELD_BACK: Final = 4.0
"""The weight of a pair of which both must stay; that of a change is 1."""
UNRELATED: Final = 0.3
"""The weight of a statement and one of another pair."""
FRAMED: Final = 0.5
"""The weight of a statement and one of the same frame, as a share of that of a pair."""
ACROSS: Final = 0.1
"""The weight of a statement and one of another frame."""
APART: Final = 4
"""Frames that are nearer than this may be about the same."""
NEAREST_FRAMED: Final = 6
PENALTY: Final = 8.0
STEPS: Final = 8
_HEAD: Final = '''"""How much each sign counts when a statement may change an earlier one.

Written by ``scripts/fit_changes.py``; change the pairs that it is fitted on, not this.
"""

from __future__ import annotations

from typing import Final

WEIGHTS: Final = {
'''

Matrix = NDArray[np.float64]
Sample = tuple[dict[str, float], float, float, str, bool]
"""Signs, whether it is a change, its weight, the set it is from, and whether it is a pair."""


class Samples(NamedTuple):
    """Pairs of statements: their signs, whether one is a change, and the set each is from."""

    names: list[str]
    signs: Matrix
    is_change: Matrix
    weight: Matrix
    origin: list[str]
    is_pair: NDArray[np.bool_]


def main() -> None:
    """Fit the weights, and print what sets come to that they were not fitted on."""
    samples = read_samples()
    for name in (*_sets(), *(f"{FITTED} {fold}" for fold in range(FOLDS))):
        held = np.array([origin == name for origin in samples.origin])
        totals = samples.signs[held] @ fit(samples, ~held)
        judged, wanted = samples.is_pair[held], samples.is_change[held] > 0
        right = (totals >= ONE_FROM) & judged
        unrelated = int(((totals >= ONE_FROM) & ~judged).sum())
        print(
            f"{name}: right {int((right & wanted).sum())}, falsely {int((right & ~wanted).sum())},"
            f" unrelated {unrelated} of {int((~judged).sum())}"
        )
    if "--check" in sys.argv:
        return
    weights = fit(samples, np.ones(len(samples.origin), np.bool_))
    rows = "".join(
        f'    "{name}": {weight:.3f},\n'
        for name, weight in zip(samples.names, weights, strict=True)
    )
    WEIGHTS.write_text(f"{_HEAD}{rows}}}\n", encoding="utf-8")


def _sets() -> list[str]:
    return [*(name for name in SETS if name not in UNFITTED), *DEVELOPED]


def read_samples() -> Samples:
    """Return the signs of all pairs that speak of a change at all."""
    embedder = StaticEmbedder()
    reader = ChangeReader(Aligner(embedder))
    told = [(name, pair) for name in _sets() for pair in pairs(name)]
    told += [(f"{FITTED} {at % FOLDS}", pair) for at, pair in enumerate(pairs(FITTED))]
    earlier = sorted({pair.first for _, pair in told} | set(filler(FILLER)))
    vectors = embedder.embed(earlier)
    own: dict[str, set[str]] = {}
    for _, pair in told:
        own.setdefault(pair.second, set()).add(pair.first)
    rows: list[Sample] = []
    for name, pair in told:
        new = embedder.embed([pair.second])[0]
        signs = reader.signs(pair.second, pair.first)
        if signs is not None:
            weight = 1.0 if pair.is_change else HELD_BACK
            rows.append((signs, float(pair.is_change), weight, name, True))
        cosines = vectors @ new
        for at in np.argsort(-cosines)[:NEAREST].tolist():
            old, cosine = earlier[at], float(cosines[at])
            signs = None if old in own[pair.second] else reader.signs(pair.second, old)
            if signs is not None and relation(pair.second, old, cosine) == "unrelated":
                rows.append((signs, 0.0, UNRELATED, name, False))
    for new in filler(FILLER):
        vector = embedder.embed([new])[0]
        cosines = vectors @ vector
        for at in np.argsort(-cosines)[:NEAREST].tolist():
            signs = reader.signs(new, earlier[at])
            if signs is not None and earlier[at] != new:
                rows.append((signs, 0.0, UNRELATED, "filler", False))
    rows += framed_rows(embedder, reader)
    names = list(rows[0][0])
    return Samples(
        names,
        np.array([[row[0][name] for name in names] for row in rows]),
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
        [row[3] for row in rows],
        np.array([row[4] for row in rows]),
    )


def framed_rows(embedder: StaticEmbedder, reader: ChangeReader) -> list[Sample]:
    """Return the signs of what frames say, within each and across them."""
    rows: list[Sample] = []
    known = frames()
    olds = [(at, old) for at, frame in enumerate(known) for old in frame["old"]]
    vectors = embedder.embed([old for _, old in olds])
    told = [
        (at, kind, new)
        for at, frame in enumerate(known)
        for kind in ("new", "keep")
        for new in frame[kind]
    ]
    for at, kind, new in told:
        cosines = vectors @ embedder.embed([new])[0]
        across = [i for i in np.argsort(-cosines).tolist() if abs(olds[i][0] - at) > APART]
        for place in [i for i, (frame, _) in enumerate(olds) if frame == at]:
            signs, is_change = reader.signs(new, olds[place][1]), float(kind == "new")
            if signs is not None:
                weight = FRAMED if is_change else FRAMED * HELD_BACK
                rows.append((signs, is_change, weight, "frames", False))
        for place in across[:NEAREST_FRAMED]:
            old = olds[place][1]
            signs = reader.signs(new, old)
            if signs is not None and relation(new, old, float(cosines[place])) == "unrelated":
                rows.append((signs, 0.0, ACROSS, "frames", False))
    return rows


def fit(samples: Samples, chosen: NDArray[np.bool_]) -> Matrix:
    """Return the weights of a logistic regression with a penalty, by Newton's method."""
    constant = samples.names.index("constant")
    signs, wanted, weight = (
        samples.signs[chosen],
        samples.is_change[chosen],
        samples.weight[chosen],
    )
    mean, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-6
    mean[constant], spread[constant] = 0.0, 1.0
    scaled = (signs - mean) / spread
    penalty = np.full(len(samples.names), PENALTY)
    penalty[constant] = 1e-6
    found = np.zeros(len(samples.names))
    for _ in range(STEPS):
        guessed = 1 / (1 + np.exp(-(scaled @ found)))
        slope = scaled.T @ (weight * (guessed - wanted)) + penalty * found
        curve = (scaled * (weight * guessed * (1 - guessed))[:, None]).T @ scaled
        found -= np.linalg.solve(curve + np.diag(penalty), slope)
    weights: Matrix = found / spread
    weights[constant] = found[constant] - float(weights @ mean)
    return weights


if __name__ == "__main__":
    main()
