"""Pairs of statements: a change must end what it changes, anything else must leave it standing.

The pairs lie beside this file, in sets. Each was written before the rules were mended from it; what
it came to at that time is told beside what it comes to now.
"""

from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

import treering
from report import Row, Section, at_least, at_most
from workload import Effort

FOLDER: Final = Path(__file__).parent
RIGHT_MIN: Final = 0.8
FALSE_MAX: Final = 1 / 18


class FirstTry(NamedTuple):
    """What a set came to when it was first tried."""

    learnt: int
    extracted: int
    falsely: int = 0


SETS: Final = {
    "blind": FirstTry(9, 6),
    "held": FirstTry(24, 6),
    "last": FirstTry(19, 10),
    "work": FirstTry(13, 5),
    "life": FirstTry(16, 8),
    "people": FirstTry(17, 4),
    "fifth": FirstTry(22, 2),
    "sixth": FirstTry(25, 1),
    "seventh": FirstTry(21, 0, falsely=1),
    "eighth": FirstTry(24, 5),
    "ninth": FirstTry(20, 0),
    "outside": FirstTry(13, 5),
    "beyond": FirstTry(15, 0),
    "kept": FirstTry(16, 3),
    "spared": FirstTry(10, 1),
    "tenth": FirstTry(23, 5, falsely=1),
    "eleventh": FirstTry(28, 0, falsely=1),
    "twelfth": FirstTry(27, 0, falsely=5),
    "thirteenth": FirstTry(25, 3, falsely=3),
    "fourteenth": FirstTry(23, 0, falsely=5),
    "fifteenth": FirstTry(28, 1),
    "sixteenth": FirstTry(25, 1, falsely=2),
    "seventeenth": FirstTry(35, 4, falsely=23),
    "eighteenth": FirstTry(35, 6, falsely=1),
    "nineteenth": FirstTry(24, 4, falsely=3),
    "twentieth": FirstTry(34, 7),
    "twenty-first": FirstTry(31, 10, falsely=1),
    "twenty-second": FirstTry(140, 26, falsely=10),
    "twenty-third": FirstTry(133, 32, falsely=3),
}
"""In the order in which they were tried; the rules were mended after each.

With the signs, and before anybody looked into it, beyond came to 31 (2 falsely).
"""
UNFITTED: Final = (
    "kept", "spared", "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth",
    "sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth", "twenty-first",
    "twenty-third",
)  # fmt: skip
"""Sets that nobody looked into: nothing was mended from them, and nothing was fitted on them.

Kept and spared were first tried with the rules alone. Their totals, not their sentences, were
looked at while the signs were made: 30 and 26 at first, then 29 and 26, 28 and 27. They were looked
at once more when the signs of topics and objects were done: 29 and 30. The next five were first
tried with the signs, and with the first model when that was done: 39, 35, 35, 34 and 38 (falsely 2,
0, 5, 2 and 3), and 35, 34, 30, 33 and 32 (1, 0, 4, 2 and 3) when it had to be surer. It was fitted
again on more pairs, and the sets of ``CHECKED`` in ``scripts/fit_change_model.py`` decide how sure
it has to be; the last two were tried once with it: 34 and 35 (0 and 2). With the first model they
came to 35 and 34 (0 and 0).

The signs are fitted on the others; ``scripts/fit_changes.py --check`` shows what each comes to when
they are fitted without it.

Since phrases are fitted besides, and signs and model count together, the first nine come to 315
with the model (8 falsely, 305 and 10 before) and to 216 with the table (5 falsely, 238 and 17
before). The seventeenth is a third, chosen by lot, of 288 pairs with more traps, of which the
others are fitted on; with the model it came to 37 (7 falsely) when first tried.

With the small network, the first nine come to 237 with the table (2 falsely), the seventeenth to 28
(5). The next two were written before anybody looked at how it was to decide; without it they come
to 27 and 25 with the table (1 and 2 falsely). The totals of all were seen several times while it
was settled how sure it has to be and what it may dispute, so they may be a little high.

That network was fitted again, on more pairs and on what MiniLM says of pairs that were put together
from them, and it reads statements without a word of change. How much it and the model count, and
what it may dispute, was settled by sets of our own alone: the totals of these were looked at only
when that was done. The first nine came to 284 with the table (7 falsely) and, with the model, which
had to be surer, to 309 (5 falsely); the seventeenth to 35 (5) and 34 (5), the eighteenth to 35 and
38 (0 and 1), the nineteenth to 31 and 35 (3 and 2).

The twentieth and twenty-first were written and tried once after that: 34 and 31 with the table (0
and 1 falsely), 35 and 33 with the model (1 and 0).

The twenty-second has more and harder traps, which things of one name are told apart by since: 160
changes and 72 others, 140 (10 falsely) with the table at first, 148 (7) with the model. Two of its
four parts were looked into. The twenty-third, as large, was written and tried once after that: 133
(3) with the table, 144 (4) with the model.
"""
DEVELOPED: Final = ("homes", "offices", "notes", "unsaid", "mixed")
"""Sets with harder traps that the signs were made on, 40 changes and 18 or 30 others each.

Before, they came to 23, 24, 23, 12 and 26 right, and 7, 8, 6, 2 and 8 falsely.
"""
_NOTE: Final = (
    "40 changes and 18 pairs that are none in most sets. Right is a change after"
    " which what the first statement said is not current, and what the second said is. Each set"
    " was written before the rules were mended from it, by kinds of failure; work, life and people"
    " were tried together, before changes were understood by topic, attribute and value. Nothing"
    " was mended from the sets with minilm or fitted on them, so what they come to is nearest to"
    " what to expect of others; for kept and spared it may be high, since their totals were looked"
    " at while the signs were made. With minilm a model reads both statements, and its odds count"
    " together with those of the signs; with the table a small network does so."
)
USER: Final = "ida"
FITTED: Final = "fitted"
"""Pairs that the decision is fitted on besides, and never judged by."""
READ: Final = "read"
"""Pairs that the model is fitted on besides."""


class Pair(msgspec.Struct, frozen=True):
    """Two statements, and whether the second makes the first outdated."""

    is_change: bool
    first: str
    second: str


class PairOutcome(msgspec.Struct, frozen=True):
    """What became of a pair."""

    pair: Pair
    right: bool
    before: list[str]
    """What was current after the first statement."""
    after: list[str]
    """What was current after both."""


def run(effort: Effort, folder: Path) -> list[Section]:
    """Count the pairs that come out right, learnt as facts and found in what a person says."""
    del effort
    rows: list[Row] = []
    for name, first in SETS.items():
        for how, before in zip(("learnt", "extracted"), first[:2], strict=True):
            judged = outcomes(name, folder, extracting=how == "extracted")
            rows += _rows(name, how, judged, None if how == "extracted" else RIGHT_MIN, before)
    rows += [row for name in UNFITTED for row in _model_rows(name, folder)]
    return [Section(title="Statements that change facts", rows=rows, notes=[_NOTE])]


def _model_rows(name: str, folder: Path) -> list[Row]:
    judged = outcomes(name, folder, extracting=False, embedder="minilm")
    return _rows(name, "learnt with minilm", judged, RIGHT_MIN)


def _rows(
    name: str,
    how: str,
    judged: list[PairOutcome],
    right_min: float | None,
    before: int | None = None,
) -> list[Row]:
    right = [one.right for one in judged if one.pair.is_change]
    wrong = [not one.right for one in judged if not one.pair.is_change]
    shown = f"{sum(right)}" if before is None else f"{sum(right)} ({before} when first tried)"
    what = f"changes right of {len(right)}, set {name}, {how}"
    others = f"falsely superseded of {len(wrong)}, set {name}, {how}"
    return [
        Row(what=what, measured=shown)
        if right_min is None
        else at_least(what, sum(right), ceil(right_min * len(right)), shown, unit=""),
        at_most(others, sum(wrong), int(FALSE_MAX * len(wrong)), str(sum(wrong)), ""),
    ]


def pairs(name: str) -> list[Pair]:
    """Read a set of pairs."""
    lines = (FOLDER / f"update_pairs_{name}.txt").read_text(encoding="utf-8").splitlines()
    split = (line.split(" | ") for line in lines if not line.startswith("#"))
    return [Pair(kind == "change", first, second) for kind, first, second in split]


def frames(name: str = "frames") -> list[dict[str, list[str]]]:
    """Read frames or groups: statements by what they do, ``old``, ``new`` or ``keep``."""
    blocks = (FOLDER / f"update_{name}.txt").read_text(encoding="utf-8").split("\n\n")
    return [
        {kind: said.split(" / ") for kind, _, said in map(_parted, block.splitlines()) if said}
        for block in blocks
    ]


def _parted(line: str) -> tuple[str, str, str]:
    return ("", "", "") if line.startswith("#") else line.partition(" ")


def outcomes(
    name: str, folder: Path, *, extracting: bool, embedder: str = "static"
) -> list[PairOutcome]:
    """Learn each pair in a scope of its own: as facts, or from what a person says."""
    path = folder / f"pairs-{name}-{extracting}-{embedder}.db"
    with treering.open(path, embedder=embedder) as ledger:
        return [
            _outcome(ledger, f"pairs/p{at}", pair, extracting=extracting)
            for at, pair in enumerate(pairs(name))
        ]


def _outcome(ledger: treering.Ledger, scope: str, pair: Pair, *, extracting: bool) -> PairOutcome:
    memory = ledger.memory(scope)
    listed = []
    for text in (pair.first, pair.second):
        if extracting:
            with ledger.session("s1", scope=scope, agent="bench", user=USER).turn() as turn:
                turn.user(text)
            memory.extract()
        else:
            memory.learn(text, user=USER)
        listed.append({fact.id: fact.text for fact in memory.facts().items})
    before, after = listed
    fresh = after.keys() - before.keys() or after.items() - before.items()
    ended = bool(before) and not before.items() & after.items()
    right = (ended and bool(fresh)) if pair.is_change else before.items() <= after.items()
    return PairOutcome(pair, right, list(before.values()), list(after.values()))
