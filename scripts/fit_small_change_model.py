"""Fit the small network that tells whether a statement makes an earlier one outdated.

    pip install jax
    python scripts/fit_small_change_model.py src/treering/embedders/small_change_model.npz

Nothing of this is needed to use it. The pairs lie in benchmarks/, all written for this; in every
round names, places, tools and the like take each other's places in both statements of a pair, by
the words of one kind in update_words.txt, so that no pair is known by its words. Few pieces are
learnt by themselves: with more of them the network is worse at pairs that it was not fitted on.
The sets of CHECKED are left out, and what they come to is printed.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from fit_changes import CHECKED, Told, told_pairs  # noqa: E402
from treering.embedders.small_change_model import (  # noqa: E402
    HEADS,
    LAYERS,
    PIECES_MAX,
    SCALE,
    Pieces,
    read_pieces,
)
from treering.embedders.static import DIMENSIONS, static_pieces  # noqa: E402

WORDS: Final = ROOT / "benchmarks/update_words.txt"
WIDTH: Final = 96
INNER: Final = 192
MARKS: Final = 6
OFTEN: Final = 60
"""How many pairs have a piece that is learnt by itself."""
EPOCHS: Final = 8
BATCH: Final = 64
LENGTHS: Final = (16, 20, 24, 28, 34, 44, 2 * PIECES_MAX + 1)
"""What statements are padded to, so that few shapes are compiled."""
RATE: Final = 2e-3
WARM_UP: Final = 300
DECAY: Final = 0.02
DROPPED: Final = 0.1
CERTAIN: Final = 0.985
HELD_BACK: Final = 1.2
"""The weight of a pair of which both must stay; that of a change is 1."""
KEPT: Final = 0.25
EXCHANGED: Final = 0.7
RAISED: Final = 0.3
"""How many pairs keep their words, how many words change in others, and whose numbers rise."""
SEED: Final = 1
FAR: Final = -1e9
STEPS: Final = 127
WORD: Final = re.compile(r"[A-Za-zÀ-ÿ0-9]+")

Tree = Any


class Sample(NamedTuple):
    """What the network is told of a pair, and whether it is a change."""

    read: Pieces
    is_change: bool

    @property
    def length(self) -> int:
        """Return how many signals there are of it."""
        return len(self.read.numbers) + 1


def main() -> None:
    """Fit the network, write it, and print what sets come to that it was not fitted on."""
    told = [one for one in told_pairs() if one.origin not in CHECKED]
    held = [one for one in told_pairs() if one.origin in CHECKED]
    known = known_pieces(told)
    fitted = fit(told, known)
    np.savez_compressed(sys.argv[1], **stored(fitted), known=known)
    report(fitted, known, held)


def known_pieces(told: list[Told]) -> Any:
    """Return the pieces that are learnt by themselves."""
    numbers = static_pieces().numbers
    often = Counter(piece for one in told for piece in {*numbers(one.old), *numbers(one.new)})
    return np.array(sorted(piece for piece, count in often.items() if count >= OFTEN), np.int32)


def words_of_one_kind() -> dict[str, list[str]]:
    """Return for each word those of its kind; words of several kinds are left out."""
    lines = WORDS.read_text(encoding="utf-8").splitlines()
    kinds = [line.split(" / ") for line in lines if not line.startswith("#")]
    often = Counter(word for kind in kinds for word in kind)
    return {word: kind for kind in kinds for word in kind if often[word] == 1}


def exchanged(one: Told, kinds: dict[str, list[str]], dice: random.Random) -> tuple[str, str]:
    """Return both statements of a pair about other names, places, tools and numbers."""
    if dice.random() < KEPT:
        return one.old, one.new
    words = {*WORD.findall(one.old), *WORD.findall(one.new)}
    chosen: dict[str, str] = {}
    for word in sorted(words):
        if word in kinds and dice.random() < EXCHANGED:
            other = dice.choice(kinds[word])
            if other not in words and other not in chosen.values():
                chosen[word] = other
    if dice.random() < RAISED:
        by = dice.choice([1, 2, 3, 5, 10])
        chosen |= {word: str(int(word) + by) for word in words if re.fullmatch("[0-9]{1,4}", word)}

    def other_word(match: re.Match[str]) -> str:
        return chosen.get(match[0], match[0])

    return WORD.sub(other_word, one.old), WORD.sub(other_word, one.new)


def beginning(known: int) -> Tree:
    """Return what nothing was fitted to yet."""
    dice = np.random.default_rng(SEED)

    def spread(*sizes: int, by: float = 1.0) -> Any:
        return jnp.asarray(dice.normal(0, by / np.sqrt(sizes[0]), sizes), jnp.float32)

    def norm(name: str) -> Tree:
        return {f"{name}:0": jnp.ones(WIDTH), f"{name}:1": jnp.zeros(WIDTH)}

    fitted = {
        # The table's rows are unit rows: their numbers are small.
        "in": spread(DIMENSIONS, WIDTH, by=4.0),
        "small": jnp.asarray(dice.normal(0, 0.05, (known + 1, WIDTH)), jnp.float32),
        "flag": spread(MARKS, WIDTH, by=0.5),
        "seg": jnp.asarray(dice.normal(0, 0.1, (3, WIDTH)), jnp.float32),
        "pos": jnp.asarray(dice.normal(0, 0.1, (PIECES_MAX, WIDTH)), jnp.float32),
        "out": jnp.zeros(2 * WIDTH),
        "c": jnp.zeros(()),
        **norm("n0"),
    }
    for layer in (f"l{at}" for at in range(LAYERS)):
        for name, sizes in (
            ("qkv", (WIDTH, 3 * WIDTH)),
            ("o", (WIDTH, WIDTH)),
            ("f", (WIDTH, INNER)),
            ("g", (INNER, WIDTH)),
        ):
            fitted[f"{layer}:{name}"] = spread(*sizes)
            fitted[f"{layer}:{name}b"] = jnp.zeros(sizes[1])
        fitted |= norm(f"{layer}:n1") | norm(f"{layer}:n2")
    return fitted


def scores(fitted: Tree, read: Any, key: Any) -> Any:
    """Return the log odds of a change; with a key, some of the signals are dropped."""
    rows, own, part, place, mask, marks = read
    drops = iter(() if key is None else jax.random.split(key, 1 + 2 * LAYERS))

    def dropped(signals: Any) -> Any:
        chosen = next(drops, None)
        if chosen is None:
            return signals
        kept = jax.random.bernoulli(chosen, 1 - DROPPED, signals.shape)
        return signals * kept / (1 - DROPPED)

    def normal(signals: Any, name: str) -> Any:
        centred = signals - signals.mean(-1, keepdims=True)
        spread = jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return centred / spread * fitted[f"{name}:0"] + fitted[f"{name}:1"]

    learnt = fitted["small"][own] * (own > 0)[..., None]
    signals = rows @ fitted["in"] + learnt + marks @ fitted["flag"]
    signals += fitted["seg"][part] + fitted["pos"][place] * (part > 0)[..., None]
    signals = dropped(normal(signals, "n0"))
    hidden = (1 - mask[:, None, None, :]) * FAR
    for layer in (f"l{at}" for at in range(LAYERS)):
        many, length, width = signals.shape
        of_heads = signals @ fitted[f"{layer}:qkv"] + fitted[f"{layer}:qkvb"]
        asked, offered, values = jnp.moveaxis(
            of_heads.reshape(many, length, 3, HEADS, width // HEADS), (2, 3), (0, 2)
        )
        near = asked @ offered.swapaxes(2, 3) / np.sqrt(width // HEADS) + hidden
        seen = (jax.nn.softmax(near, -1) @ values).swapaxes(1, 2).reshape(many, length, width)
        seen = seen @ fitted[f"{layer}:o"] + fitted[f"{layer}:ob"]
        signals = normal(signals + dropped(seen), f"{layer}:n1")
        inner = jax.nn.relu(signals @ fitted[f"{layer}:f"] + fitted[f"{layer}:fb"])
        inner = inner @ fitted[f"{layer}:g"] + fitted[f"{layer}:gb"]
        signals = normal(signals + dropped(inner), f"{layer}:n2")
    mean = (signals * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return jnp.concatenate([signals[:, 0], mean], -1) @ fitted["out"] + fitted["c"]


def fit(told: list[Told], known: Any) -> Tree:
    """Fit by Adam with decay, at a rate that rises first and then falls to nothing."""
    dice, kinds = random.Random(SEED), words_of_one_kind()  # noqa: S311
    key = jax.random.PRNGKey(SEED)

    def loss(fitted: Tree, read: Any, wanted: Any, weight: Any, key: Any) -> Any:
        odds = scores(fitted, read, key)
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
            return one - rate * (by + (DECAY * one if one.ndim > 1 else 0.0))

        return (jax.tree.map(moved, fitted, mean, square), mean, square), missed

    fitted = beginning(len(known))
    nothing = jax.tree.map(jnp.zeros_like, fitted)
    state, at = (fitted, nothing, nothing), 0
    steps = EPOCHS * (len(told) // BATCH)
    for epoch in range(EPOCHS):
        missed = []
        samples = [Sample(read_pieces(*exchanged(one, kinds, dice)), one.is_change) for one in told]
        for batch in batches(samples, dice):
            at += 1
            rate = RATE * min(1.0, at / WARM_UP) * max(0.01, 1 - at / steps)
            key, now = jax.random.split(key)
            is_change = np.array([one.is_change for one in batch])
            wanted = np.where(is_change, CERTAIN, 1 - CERTAIN).astype(np.float32)
            weight = np.where(is_change, 1.0, HELD_BACK).astype(np.float32)
            state, lost = step(state, at, rate, padded(batch, known), wanted, weight, now)
            missed.append(float(lost))
        print(f"epoch {epoch + 1} of {EPOCHS}: {np.mean(missed):.3f}", file=sys.stderr, flush=True)
    return state[0]


def batches(samples: list[Sample], dice: random.Random) -> list[list[Sample]]:
    """Return batches of pairs of about the same length."""
    dice.shuffle(samples)
    found = []
    for begin in range(0, len(samples), BATCH * 30):
        part = sorted(samples[begin : begin + BATCH * 30], key=lambda one: one.length)
        found += [part[at : at + BATCH] for at in range(0, len(part) - BATCH + 1, BATCH)]
    dice.shuffle(found)
    return found


def padded(samples: list[Sample], known: Any) -> tuple[Any, ...]:
    """Return what is told of pieces, which part each is of, and which of them are any."""
    longest = max(one.length for one in samples)
    length = next(length for length in LENGTHS if length >= longest)
    many = len(samples)
    rows = np.zeros((many, length, DIMENSIONS), np.float32)
    own, part, place = (np.zeros((many, length), np.int32) for _ in range(3))
    mask = np.zeros((many, length), np.float32)
    marks = np.zeros((many, length, MARKS), np.float32)
    for at, (read, _) in enumerate(samples):
        end = len(read.numbers) + 1
        rows[at, 1:end], marks[at, 1:end], mask[at, :end] = read.rows, read.marks, 1
        row = np.minimum(np.searchsorted(known, read.numbers), len(known) - 1)
        own[at, 1:end] = np.where(known[row] == read.numbers, row + 1, 0)
        part[at, 1:end] = np.where(np.arange(end - 1) < read.begun, 1, 2)
        place[at, 1:end] = [*range(read.begun), *range(end - 1 - read.begun)]
    return rows, own, part, place, mask, marks


def report(fitted: Tree, known: Any, held: list[Told]) -> None:
    """Print how many pairs of each set come out right from several odds on."""
    samples = [Sample(read_pieces(one.old, one.new), one.is_change) for one in held]
    odds = np.concatenate(
        [
            scores(fitted, padded(samples[at : at + BATCH], known), None)
            for at in range(0, len(samples), BATCH)
        ]
    )
    for name in sorted(CHECKED):
        chosen = np.array([one.origin == name for one in held])
        is_change = np.array([one.is_change for one in held])
        for least in (0.0, 1.0, 2.0, 3.0):
            right = (odds >= least)[chosen & is_change].mean()
            falsely = (odds >= least)[chosen & ~is_change].mean()
            print(f"{name} from {least}: right {right:.2f}, falsely {falsely:.2f}")


def stored(fitted: Tree) -> dict[str, Any]:
    """Return what was fitted, large matrices in steps of a byte."""
    found = {}
    for name, one in fitted.items():
        whole = np.array(one, np.float32)
        if name == "small":
            whole[0] = 0.0
        if whole.ndim > 1 and len(whole) > MARKS:
            scale = np.abs(whole).max(axis=0) / STEPS
            found |= {name: np.rint(whole / scale).astype(np.int8), name + SCALE: scale}
        else:
            found[name] = whole
    return found


if __name__ == "__main__":
    main()
