"""Fit the small network that tells whether a statement makes an earlier one outdated.

    pip install torch 'treering[memory]'
    python scripts/fit_small_change_model.py src/treering/embedders/small_change_model.npz

Nothing of this is needed to use it. The pairs lie in benchmarks/, all written for this. In some of
their copies names, places, tools and the like take each other's places in both statements, by the
words of one kind in update_words.txt, so that no pair is known by its words. Besides, statements
are put together that were not written for each other, and MiniLM and the signs say what they take
such a pair for: so the network learns from many more pairs than anybody could write.

The sets of CHECKED and HELD are left out. What HELD comes to is printed: by these sets one chooses
how long to fit, and how much the network counts in ``treering.memory.change_decision``.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch
from torch.nn import functional

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from fit_changes import CHECKED, Told, made_up, told_pairs  # noqa: E402
from treering.embedders.minilm import MiniLMEmbedder  # noqa: E402
from treering.embedders.small_change_model import (  # noqa: E402
    HEADS,
    LAYERS,
    PIECES_MAX,
    SCALE,
    Pieces,
    read_pieces,
)
from treering.embedders.static import DIMENSIONS, StaticEmbedder, static_pieces, static_table  # noqa: E402
from treering.memory.alignment import Aligner  # noqa: E402
from treering.memory.change_decision import fitted_weights  # noqa: E402
from treering.memory.change_features import ChangeReader, phrases_of  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS: Final = ROOT / "benchmarks/update_words.txt"
SLOTS: Final = ROOT / "benchmarks/update_slots.txt"
SUBJECTS: Final = ROOT / "benchmarks/update_subjects.txt"
HELD: Final = {"eighth", "ninth", "notes", "read 1", "groups 1", "frames 1", "everyday 3"}
WIDTH: Final = 96
INNER: Final = 192
MARKS: Final = 6
OFTEN: Final = 45
"""How many pairs have a piece that is learnt by itself."""
COPIES: Final = 5
"""How many copies there are of each pair; in all but the first words are exchanged."""
EXCHANGED: Final = 0.75
RAISED: Final = 0.3
"""How many words change in a copy, and in how many the numbers rise."""
RELATED: Final = 6
NEAR_OLD: Final = 3
NEAR: Final = 1
AMONG: Final = 25
"""For each statement, how many it is put together with: of those about the same, of the nearest
earlier ones, and of the nearest of all; and among how many of these they are chosen."""
SIGNS_SHARE: Final = 0.48
MODEL_SHARE: Final = 0.6
ADDED: Final = 0.8
"""How the log odds of the signs and of MiniLM count together, and what is added."""
SUREST: Final = 5.0
MADE: Final = 3_500
FILLED: Final = 4_000
SIDES: Final = 3_500
"""How many pairs are made up about the world, of what has one value at a time, and of the sides of
one subject."""
OTHER_MATTERS: Final = 3
FAR_UNTIL: Final = 0.42
HARDLY: Final = 0.08
"""With how many far statements about others one about a person is put together, under one name, and
how likely it ends any of them."""
EPOCHS: Final = 9
BATCH: Final = 64
PAIRS_SHARE: Final = 1.5
TAUGHT_SHARE: Final = 0.65
"""How many times a pair that was written, and one that was put together, is read in an epoch."""
RATE: Final = 2e-3
WARM_UP: Final = 300
DECAY: Final = 0.02
DROPPED: Final = 0.1
CERTAIN: Final = 0.985
HELD_BACK: Final = 1.2
"""The weight of a pair of which both must stay; that of a change is 1."""
SEED: Final = 1
STEPS: Final = 127
WORD: Final = re.compile(r"[A-Za-zÀ-ÿ0-9]+")

Numbers = dict[str, torch.nn.Parameter]


class Sample(NamedTuple):
    """What the network is told of a pair, how likely it is a change, and how much it counts."""

    read: Pieces
    wanted: float
    weight: float = 1.0

    @property
    def length(self) -> int:
        """Return how many signals there are of it."""
        return len(self.read.numbers) + 1


def main() -> None:
    """Fit the network, write it, and print what sets come to that it was not fitted on."""
    torch.manual_seed(SEED)
    told = [one for one in told_pairs() if one.origin not in CHECKED | HELD]
    known = known_pieces(told)
    fitted = beginning(len(known))
    fit(fitted, known, told)
    np.savez_compressed(sys.argv[1], **stored(fitted), known=known)
    report(fitted, known, [one for one in told_pairs() if one.origin in HELD])


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


def exchanged(
    old: str, new: str, kinds: dict[str, list[str]], dice: random.Random
) -> tuple[str, str]:
    """Return both statements of a pair about other names, places, tools and numbers."""
    words = {*WORD.findall(old), *WORD.findall(new)}
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

    return WORD.sub(other_word, old), WORD.sub(other_word, new)


def written(told: list[Told], dice: random.Random) -> list[list[Sample]]:
    """Return the copies of each pair."""
    kinds, found = words_of_one_kind(), []
    for one in told:
        wanted = CERTAIN if one.is_change else 1 - CERTAIN
        weight = 1.0 if one.is_change else HELD_BACK
        texts = [(one.old, one.new)]
        texts += [exchanged(one.old, one.new, kinds, dice) for _ in range(COPIES - 1)]
        found.append([Sample(pieces_of(*both), wanted, weight) for both in texts])
    return found


def taught(told: list[Told], dice: random.Random) -> list[Sample]:
    """Return pairs of statements that were not written for each other, and what they are."""
    kinds, model = words_of_one_kind(), MiniLMEmbedder()
    reader, weights = ChangeReader(Aligner(StaticEmbedder())), fitted_weights()
    found = []
    for new, olds in put_together(told, dice):
        pairs = [
            exchanged(old, new, kinds, dice) if dice.random() < 1 / 2 else (old, new)
            for old in olds
        ]
        for old, later in pairs:
            signs = reader.signs(later, old)
            total = None
            if signs is not None:
                total = sum(weights.get(phrase, 0.0) for phrase in phrases_of(later, old))
                total += sum(weights[name] * value for name, value in signs.items())
            [score] = model.change_scores(later, [old])
            odds = SIGNS_SHARE * (total or 0.0) + MODEL_SHARE * score + ADDED
            odds = float(np.clip(odds, -SUREST, SUREST))
            found.append(Sample(pieces_of(old, later), 1 / (1 + np.exp(-odds))))
    return found


def made(dice: random.Random) -> list[Sample]:
    """Return pairs about the world that leave each other alone, and pairs of filled-in slots."""
    found = [Sample(pieces_of(*made_up(dice)), 1 - CERTAIN) for _ in range(MADE)]
    lines = SLOTS.read_text(encoding="utf-8").splitlines()
    slots = [
        [part.split(" / ") for part in line.split(" | ")]
        for line in lines
        if not line.startswith("#")
    ]
    for _ in range(FILLED):
        whose, forms, values = dice.choice(slots)
        is_change = dice.random() < 1 / 2
        one, other = dice.sample(whose, 2)
        first, second = dice.sample(values, 2)
        old = dice.choice(forms).format(one, first)
        new = dice.choice(forms).format(one if is_change else other, second)
        found.append(Sample(pieces_of(old, new), CERTAIN if is_change else 1 - CERTAIN))
    subjects = [
        [part.split(" / ") for part in line.split(" | ")]
        for line in SUBJECTS.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    for _ in range(SIDES):
        whom, *sides = dice.choice(subjects)
        who = dice.choice(whom)
        first, second = (f"{who} {dice.choice(side)}" for side in dice.sample(sides, 2))
        found.append(Sample(pieces_of(first, second), 1 - CERTAIN))
    return found


def other_matters(told: list[Told], dice: random.Random) -> Iterator[Sample]:
    """Yield statements about one person that have nothing else in common.

    MiniLM takes many of them for changes, which the network must not learn.
    """
    embedder, people = StaticEmbedder(), {*words_of_one_kind()["Anna"]}
    olds, news = (
        sorted({text for text in texts if text.split(" ", 1)[0].removesuffix("'s") in people})
        for texts in ([one.old for one in told], [one.new for one in told])
    )
    of_olds = embedder.embed(olds)
    for new, vector in zip(news, embedder.embed(news), strict=True):
        cosines = of_olds @ vector
        far = np.flatnonzero((cosines > 0) & (cosines < FAR_UNTIL)).tolist()
        name = new.split(" ", 1)[0].removesuffix("'s")
        for at in dice.sample(far, min(OTHER_MATTERS, len(far))):
            old = name + olds[at].removeprefix(olds[at].split(" ", 1)[0].removesuffix("'s"))
            yield Sample(pieces_of(old, new), HARDLY)


def pieces_of(old: str, new: str) -> Pieces:
    """Return what the network is told of two statements, without the rows: they are many."""
    return read_pieces(old, new)._replace(rows=np.zeros((0, DIMENSIONS), np.float32))


def put_together(told: list[Told], dice: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Yield statements with others about the same, and with others that are near to them."""
    embedder, written_for = StaticEmbedder(), {(one.old, one.new) for one in told}
    about: dict[str, set[str]] = {}
    for one in told:
        about.setdefault(one.old, {one.old}).add(one.new)
    families: dict[str, set[str]] = {}
    for family in about.values():
        for text in family:
            families.setdefault(text, set()).update(family)
    olds, texts = sorted(about), sorted(families)
    of_olds, of_texts = embedder.embed(olds), embedder.embed(texts)
    for new, vector in zip(texts, of_texts, strict=True):
        related = sorted(families[new])
        chosen = set(dice.sample(related, min(RELATED, len(related))))
        for vectors, listed, most in ((of_olds, olds, NEAR_OLD), (of_texts, texts, NEAR)):
            nearest = np.argpartition(-(vectors @ vector), AMONG)[:AMONG].tolist()
            chosen |= {listed[at] for at in dice.sample(nearest, most)}
        others = [old for old in sorted(chosen) if old != new and (old, new) not in written_for]
        yield new, others


def beginning(known: int) -> Numbers:
    """Return what nothing was fitted to yet."""

    def spread(*sizes: int, by: float = 1.0) -> torch.Tensor:
        return torch.randn(*sizes) * by / sizes[0] ** 0.5

    def norm(name: str) -> dict[str, torch.Tensor]:
        return {f"{name}:0": torch.ones(WIDTH), f"{name}:1": torch.zeros(WIDTH)}

    fitted = {
        # The table's rows are unit rows: their numbers are small.
        "in": spread(DIMENSIONS, WIDTH, by=4.0),
        "small": torch.randn(known + 1, WIDTH) * 0.05,
        "flag": spread(MARKS, WIDTH, by=0.5),
        "seg": torch.randn(3, WIDTH) * 0.1,
        "pos": torch.randn(PIECES_MAX, WIDTH) * 0.1,
        "out": torch.zeros(2 * WIDTH),
        "c": torch.zeros(()),
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
            fitted[f"{layer}:{name}b"] = torch.zeros(sizes[1])
        fitted |= norm(f"{layer}:n1") | norm(f"{layer}:n2")
    return {name: torch.nn.Parameter(one) for name, one in fitted.items()}


def scores(
    fitted: Numbers, read: tuple[torch.Tensor, ...], *, dropped: float = 0.0
) -> torch.Tensor:
    """Return the log odds of a change; some of the signals may be dropped."""
    rows, own, part, place, mask, marks = read
    many, length = mask.shape

    def normal(signals: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(
            signals, (WIDTH,), fitted[f"{name}:0"], fitted[f"{name}:1"], 1e-6
        )

    def some(signals: torch.Tensor) -> torch.Tensor:
        return functional.dropout(signals, dropped, training=dropped > 0)

    learnt = functional.embedding(own, fitted["small"]) * (own > 0)[..., None]
    signals = rows @ fitted["in"] + learnt + marks @ fitted["flag"]
    signals = signals + fitted["seg"][part] + fitted["pos"][place] * (part > 0)[..., None]
    signals = some(normal(signals, "n0"))
    for layer in (f"l{at}" for at in range(LAYERS)):
        of_heads = signals @ fitted[f"{layer}:qkv"] + fitted[f"{layer}:qkvb"]
        of_heads = of_heads.view(many, length, 3, HEADS, WIDTH // HEADS)
        asked, offered, values = of_heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(
            asked, offered, values, attn_mask=mask[:, None, None, :]
        )
        seen = seen.transpose(1, 2).reshape(many, length, WIDTH)
        seen = seen @ fitted[f"{layer}:o"] + fitted[f"{layer}:ob"]
        signals = normal(signals + some(seen), f"{layer}:n1")
        inner = functional.relu(signals @ fitted[f"{layer}:f"] + fitted[f"{layer}:fb"])
        inner = inner @ fitted[f"{layer}:g"] + fitted[f"{layer}:gb"]
        signals = normal(signals + some(inner), f"{layer}:n2")
    mean = (signals * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    odds: torch.Tensor = torch.cat([signals[:, 0], mean], -1) @ fitted["out"] + fitted["c"]
    return odds


def fit(fitted: Numbers, known: Any, told: list[Told]) -> None:
    """Fit by Adam with decay, at a rate that rises first and then falls to nothing."""
    dice = random.Random(SEED)  # noqa: S311
    pairs, others = written(told, dice), taught(told, dice)
    always = [*made(dice), *other_matters(told, dice)]
    matrices = [one for one in fitted.values() if one.ndim > 1]
    vectors = [one for one in fitted.values() if one.ndim <= 1]
    adam = torch.optim.AdamW([
        {"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}
    ])  # fmt: skip
    in_epoch = int(PAIRS_SHARE * len(pairs)), int(TAUGHT_SHARE * len(others))
    steps, at = EPOCHS * ((sum(in_epoch) + len(always)) // BATCH), 0
    for epoch in range(EPOCHS):
        chosen = [dice.choice(copies) for copies in dice.sample(pairs * 2, in_epoch[0])]
        chosen += [*dice.sample(others, in_epoch[1]), *always]
        missed = []
        for batch in batches(chosen, dice):
            at += 1
            for group in adam.param_groups:
                group["lr"] = RATE * min(1.0, at / WARM_UP) * max(0.01, 1 - at / steps)
            odds = scores(fitted, padded(batch, known), dropped=DROPPED)
            loss = functional.binary_cross_entropy_with_logits(
                odds,
                torch.tensor([one.wanted for one in batch]),
                torch.tensor([one.weight for one in batch]),
            )
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(fitted.values(), 1.0)
            adam.step()
            missed.append(loss.item())
        print(f"epoch {epoch + 1} of {EPOCHS}: {np.mean(missed):.3f}", file=sys.stderr, flush=True)


def batches(samples: list[Sample], dice: random.Random) -> list[list[Sample]]:
    """Return batches of pairs of about the same length."""
    dice.shuffle(samples)
    found = []
    for begin in range(0, len(samples), BATCH * 30):
        part = sorted(samples[begin : begin + BATCH * 30], key=lambda one: one.length)
        found += [part[at : at + BATCH] for at in range(0, len(part) - BATCH + 1, BATCH)]
    dice.shuffle(found)
    return found


def padded(samples: list[Sample], known: Any) -> tuple[torch.Tensor, ...]:
    """Return what is told of pieces, which part each is of, and which of them are any."""
    many, length = len(samples), max(one.length for one in samples)
    rows = np.zeros((many, length, DIMENSIONS), np.float32)
    table = static_table().rows
    own, part, place = (np.zeros((many, length), np.int64) for _ in range(3))
    mask = np.zeros((many, length), np.bool_)
    marks = np.zeros((many, length, MARKS), np.float32)
    learnt = np.zeros(len(static_table().vocabulary), np.int64)
    learnt[known] = np.arange(1, len(known) + 1)
    for at, one in enumerate(samples):
        read, end = one.read, one.length
        marks[at, 1:end], mask[at, :end] = read.marks, True
        rows[at, 1:end] = table[read.numbers]
        own[at, 1:end] = learnt[read.numbers]
        part[at, 1:end] = np.where(np.arange(end - 1) < read.begun, 1, 2)
        place[at, 1:end] = [*range(read.begun), *range(end - 1 - read.begun)]
    rows /= np.sqrt((rows**2).sum(-1, keepdims=True)) + 1e-6
    return tuple(torch.from_numpy(one) for one in (rows, own, part, place, mask, marks))


@torch.no_grad()
def report(fitted: Numbers, known: Any, held: list[Told]) -> None:
    """Print how many pairs of each set come out right from several odds on."""
    samples = [Sample(pieces_of(one.old, one.new), one.is_change) for one in held]
    parts = [samples[at : at + BATCH] for at in range(0, len(samples), BATCH)]
    odds = np.concatenate([scores(fitted, padded(part, known)).numpy() for part in parts])
    is_change = np.array([one.is_change for one in held])
    for name in sorted(HELD):
        chosen = np.array([one.origin == name for one in held])
        for least in (0.0, 1.0, 2.0, 3.0):
            right = (odds >= least)[chosen & is_change].mean()
            falsely = (odds >= least)[chosen & ~is_change].mean()
            print(f"{name} from {least}: right {right:.2f}, falsely {falsely:.2f}")


def stored(fitted: Numbers) -> dict[str, Any]:
    """Return what was fitted, large matrices in steps of a byte."""
    found: dict[str, Any] = {}
    for name, one in fitted.items():
        whole = one.detach().numpy().copy()
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
