"""Fit how much each sign and phrase counts when a statement may change an earlier one.

Run as ``python scripts/fit_changes.py`` to write ``memory/change_weights.txt``, with ``--check`` to
print only what the sets of CHECKED come to when the weights are fitted without them.

The pairs lie in benchmarks/, all written for this: pairs, frames and groups. Besides, what each
later statement says is held against earlier ones of other pairs that are near to it, and against
facts of a made-up memory: it must leave them alone, unless the rules say otherwise.
"""

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from memory_cases import filler  # noqa: E402
from treering.embedders.static import StaticEmbedder  # noqa: E402
from treering.memory.alignment import Aligner  # noqa: E402
from treering.memory.change_features import ChangeReader, phrases_of  # noqa: E402
from treering.rules.claim_relations import relation  # noqa: E402
from update_pairs import DEVELOPED, FITTED, READ, SETS, UNFITTED, frames, pairs  # noqa: E402

WEIGHTS: Final = ROOT / "src/treering/memory/change_weights.txt"
CHECKED: Final = {"beyond", "outside", "mixed", "offices", "homes", "read 0", "groups 0"}
FOLDS: Final = {"fitted": 10, "read": 10, "frames": 10, "groups": 10, "everyday": 4}
"""Into how many sets each larger one is split."""
FILLER: Final = 600
NEAREST: Final = 2
TOO_NEAR: Final = 0.6
"""The cosine from which a statement may well change one of another pair."""
UNRELATED: Final = 0.6
"""The weight of a statement and one of another pair; that of a pair is 1."""
OFTEN: Final = 6
"""How many later statements have a phrase that is weighted."""
PENALTY: Final = 3.0
PHRASE: Final = 1.5
"""How easily a phrase counts, beside a sign that is at its usual distance from the mean."""
STEPS: Final = 400
LEAST: Final = 0.03
"""The weight of a phrase below which it is left out."""

FORMS: Final = (
    "The capital of {place} is {place}",
    "{person} was born in the city of {place}",
    "{person} died in the city of {place}",
    "{work} was written by {person}",
    "{firm} was founded by {person}",
    "The chief executive officer of {firm} is {person}",
    "{person} is married to {person}",
    "{work} was created in the country of {place}",
    "{place} is located in the continent of {place}",
    "{person} works in the field of {field}",
    "{person} is famous for {work}",
    "The headquarters of {firm} is in {place}",
    "{person} speaks {field}",
    "The director of {firm} is {person}",
    "{person} is a citizen of {place}",
    "The university where {person} was educated is {firm}",
    "{firm} is associated with {field}",
    "{work} was performed by {person}",
    "{person} plays {field}",
    "{person} collects {work} posters",
    "The head of state of {place} is {person}",
    "{person} is employed by {firm}",
    "{person}'s child is {person}",
    "{person} lives in {place}",
    "{firm} makes {field}",
)
FILLERS: Final = {
    "person": "Ada Birch|Otto Lang|Mirela Sava|Jon Okafor|Tessa Vane|Hugo Prill|Queen Ludmila"
    "|Sam Rook|Ines Duarte|Viktor Holm|Lady Ashworth|Kenji Mori",
    "place": "Norvia|Port Elsin|Karlow|Asia|Brenna|the Low Isles|Toronto|Peru|Great Marden|Lisbon",
    "work": "The Glass Orchard|Blue Lantern|chess boxing|Night Ferry|Songs of Salt|Ninepins",
    "firm": "Halden University|Corvex|Gala FC|Marden Broadcasting|Union Bank|Brightwater Labs",
    "field": "jazz|rugby union|physics|Greek|pottery|politics|tennis|law",
}


class Told(NamedTuple):
    """Two statements, whether the later is a change of the other, and the set they are from."""

    origin: str
    is_change: bool
    old: str
    new: str
    is_pair: bool = True
    """Whether they were written for each other."""


class Samples(NamedTuple):
    """Pairs of statements: their signs, the numbers of their phrases, and what they are."""

    told: list[Told]
    names: list[str]
    signs: NDArray[np.float64]
    phrases: list[list[int]]


def main() -> None:
    """Fit the weights, or print what sets come to that they were not fitted on."""
    samples = read_samples([*told_pairs(), *unrelated_pairs()])
    if "--check" in sys.argv:
        check(samples)
        return
    weights = fit(samples, np.ones(len(samples.told), np.bool_))
    rows = (
        f"{weight:.3f} {name}\n"
        for at, (name, weight) in enumerate(zip(samples.names, weights, strict=True))
        if at < samples.signs.shape[1] or abs(weight) >= LEAST
    )
    WEIGHTS.write_text("".join(rows), encoding="utf-8")


def check(samples: Samples) -> None:
    """Print how many pairs come out right from several sums on."""
    held = np.array([one.origin in CHECKED for one in samples.told])
    totals = sums(samples, fit(samples, ~held))
    for name in sorted({one.origin for one in samples.told} & CHECKED):
        for least in (-1.0, 0.0, 0.5, 1.0, 1.5, 2.0):
            counted = Counter(
                (one.is_pair, one.is_change)
                for one, total in zip(samples.told, totals, strict=True)
                if one.origin == name and total >= least
            )
            print(
                f"{name} from {least}: right {counted[True, True]},"
                f" falsely {counted[True, False]}, unrelated {counted[False, False]}"
            )


def told_pairs() -> list[Told]:
    """Return all pairs that may be fitted on."""
    sets = [*(name for name in SETS if name not in UNFITTED), *DEVELOPED]
    told = [
        Told(name, one.is_change, one.first, one.second) for name in sets for one in pairs(name)
    ]
    for name in (FITTED, READ):
        told += [
            Told(f"{name} {at % FOLDS[name]}", one.is_change, one.first, one.second)
            for at, one in enumerate(pairs(name))
        ]
    for name in ("frames", "groups", "everyday"):
        told += [
            Told(f"{name} {at % FOLDS[name]}", kind == "new", old, new)
            for at, frame in enumerate(frames(name))
            for old in frame["old"]
            for kind in ("new", "keep")
            for new in frame[kind]
        ]
    return told


def unrelated_pairs() -> list[Told]:
    """Return later statements with earlier ones of others, which they leave alone."""
    told, embedder = told_pairs(), StaticEmbedder()
    own: dict[str, set[str]] = {}
    for one in told:
        own.setdefault(one.new, set()).add(one.old)
    olds = sorted({one.old for one in told} | set(filler(FILLER)))
    vectors = embedder.embed(olds)
    origins = {one.new: one.origin for one in told} | dict.fromkeys(filler(FILLER), "filler")
    found = []
    for new, origin in origins.items():
        cosines = vectors @ embedder.embed([new])[0]
        for at in np.argsort(-cosines)[:NEAREST].tolist():
            old, cosine = olds[at], float(cosines[at])
            is_far = cosine < TOO_NEAR and old not in own.get(new, {new})
            if is_far and relation(new, old, cosine) == "unrelated":
                found.append(Told(origin, False, old, new, is_pair=False))
    return found


def made_up(dice: random.Random) -> tuple[str, str]:
    """Return two statements of other forms, or of one form about others; they share names."""
    forms = [dice.choice(FORMS)] * 2 if dice.random() < 0.4 else dice.sample(FORMS, 2)
    values = {kind: dice.sample(listed.split("|"), 3) for kind, listed in FILLERS.items()}
    said = []
    for form in forms:
        text = form
        for kind in FILLERS:
            names = dice.sample(values[kind], text.count(f"{{{kind}}}"))
            for name in names:
                text = text.replace(f"{{{kind}}}", name, 1)
        said.append(text)
    one, other = said
    first, second = (text.split(" is ")[0].split(" was ")[0] for text in said)
    return (one, other) if forms[0] != forms[1] or first != second else made_up(dice)


def read_samples(told: list[Told]) -> Samples:
    """Return the signs and phrases of pairs."""
    reader = ChangeReader(Aligner(StaticEmbedder()))
    read = [(one, signs) for one in told if (signs := reader.signs(one.new, one.old)) is not None]
    phrases = [phrases_of(one.new, one.old) for one, _ in read]
    said = {
        (phrase, one.new)
        for (one, _), listed in zip(read, phrases, strict=True)
        for phrase in listed
        if one.is_pair
    }
    often = Counter(phrase for phrase, _ in said)
    chosen = sorted(phrase for phrase, count in often.items() if count >= OFTEN)
    names = list(read[0][1])
    numbers = {phrase: len(names) + at for at, phrase in enumerate(chosen)}
    return Samples(
        [one for one, _ in read],
        [*names, *chosen],
        np.array([[signs[name] for name in names] for _, signs in read]),
        [[numbers[phrase] for phrase in listed if phrase in numbers] for listed in phrases],
    )


def fit(samples: Samples, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the weights of a logistic regression with a penalty, by accelerated descent."""
    told = [one for one, is_chosen in zip(samples.told, chosen, strict=True) if is_chosen]
    signs = samples.signs[chosen]
    constant = samples.names.index("constant")
    mean, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-6
    mean[constant], spread[constant] = 0.0, 1.0
    scaled = (signs - mean) / spread
    listed = [one for one, is_chosen in zip(samples.phrases, chosen, strict=True) if is_chosen]
    rows = np.repeat(np.arange(len(listed)), [len(one) for one in listed])
    columns = np.array([at for one in listed for at in one]) - len(mean)
    wanted = np.array([float(one.is_change) for one in told])
    weight = np.array([1.0 if one.is_pair else UNRELATED for one in told])
    count = len(samples.names) - len(mean)
    # Each weight has a step of its own, as large as the slope of the loss allows.
    terms = 8.0
    curve = np.concatenate([
        terms * (weight @ scaled**2) / 4,
        terms * PHRASE**2 * np.bincount(columns, weight[rows], count) / 4,
    ]) + PENALTY  # fmt: skip
    found = ahead = np.zeros(len(samples.names))
    for step in range(STEPS):
        total = scaled @ ahead[: len(mean)] + PHRASE * np.bincount(
            rows, ahead[len(mean) :][columns], len(told)
        )
        missed = weight * (1 / (1 + np.exp(-total)) - wanted)
        slope = np.concatenate([
            missed @ scaled, PHRASE * np.bincount(columns, missed[rows], count)
        ]) + PENALTY * ahead  # fmt: skip
        slope[constant] -= PENALTY * ahead[constant]
        after = ahead - slope / curve
        ahead = after + step / (step + 3) * (after - found)
        found = after
    weights = found * PHRASE
    weights[: len(mean)] = found[: len(mean)] / spread
    weights[constant] = found[constant] - float(weights[: len(mean)] @ mean)
    return weights


def sums(samples: Samples, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the weights of the signs and phrases of each pair come to."""
    said = np.array([weights[listed].sum() for listed in samples.phrases])
    totals: NDArray[np.float64] = samples.signs @ weights[: samples.signs.shape[1]] + said
    return totals


if __name__ == "__main__":
    main()
