"""How much of what recall returns answers the question, and how often it returns nothing."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

import treering
from memory_cases import CORE, UNRELATED, WORLDS, Case, World, filler
from report import Row, Section, at_least, at_most
from treering.errors import Disabled
from treering.memory import NewFact
from workload import FULL, Effort

SCOPE: Final = "eval/precision"
USER: Final = "ida"
SIZES: Final = (20, 300, 1_300)
PARAPHRASES_SHOWN: Final = 5
UNRELATED_MAX: Final = {"static": (6, 12, 12), "minilm": (3, 6, 6)}
PRECISION_MIN: Final = {"static": 0.6, "minilm": 0.8}
RECALL_MIN: Final = 0.9
_NOTE: Final = (
    "Cases are written by hand: aliases, changed facts, facts of others, open questions, and"
    " questions that nothing answers. Precision is the mean over cases of the share of returned"
    " facts that answer; where nothing does, returning nothing counts as 1. Unrelated questions are"
    " asked of 20, 300 and 1,300 facts; a paraphrase counts if its fact is among the first five."
)


class Judged(msgspec.Struct, frozen=True):
    """How one case came out."""

    kind: str
    precision: float
    recall: float | None
    """None if nothing answers."""
    passed: bool


class Crowd(msgspec.Struct, frozen=True):
    """How many of 60 unrelated questions were answered, and how many of 60 paraphrases found."""

    facts: int
    answered: int
    found: int


def run(effort: Effort, folder: Path) -> list[Section]:
    """Measure the precision of recall with each embedder."""
    chosen = ["static", "minilm"] if effort.large >= FULL.large else ["static"]
    rows = [row for one in chosen for row in _rows(one, folder)]
    return [
        Section(title="Recall: precision, and nothing instead of noise", rows=rows, notes=[_NOTE])
    ]


def _rows(embedder: str, folder: Path) -> list[Row]:
    try:
        judged = [
            one
            for at, world in enumerate(WORLDS)
            for one in judge_world(world, embedder, folder / f"world-{embedder}-{at}.db")
        ]
        crowds = [measure_crowd(size, embedder, folder) for size in SIZES]
    except Disabled:
        return [Row(what=f"precision with {embedder}", measured="not installed")]
    precision = statistics.fmean(one.precision for one in judged)
    recall = statistics.fmean(one.recall for one in judged if one.recall is not None)
    passed = sum(one.passed for one in judged)
    rows = [
        at_least(
            f"precision, {embedder}",
            precision,
            PRECISION_MIN[embedder],
            f"{precision:.3f} ({passed} of {len(judged)} cases exactly)",
            unit="",
        ),
        at_least(f"recall, {embedder}", recall, RECALL_MIN, f"{recall:.3f}", unit=""),
    ]
    for crowd, limit in zip(crowds, UNRELATED_MAX[embedder], strict=True):
        what = f"unrelated questions answered of 60, {crowd.facts:,} facts, {embedder}"
        rows.append(at_most(what, crowd.answered, limit, str(crowd.answered), unit=""))
        what = f"paraphrases found of 60, {crowd.facts:,} facts, {embedder}"
        rows.append(Row(what=what, measured=str(crowd.found)))
    return rows


def judge_world(world: World, embedder: str, path: Path) -> list[Judged]:
    """Learn the facts of a world, and ask its questions."""
    with treering.open(path, durability="normal", embedder=embedder) as ledger:
        memory = ledger.memory(SCOPE)
        memory.learn_all([NewFact(text=text, user=user) for user, text in world.facts])
        return [
            judge(
                case,
                [
                    hit.fact.text
                    for hit in memory.recall(case.question, user=case.user, record=False).fact_hits
                ],
            )
            for case in world.cases
        ]


def judge(case: Case, texts: Sequence[str]) -> Judged:
    """Compare the facts returned for a case with those that answer it."""
    right = [text for text in texts if text.startswith(case.answers)] if case.answers else []
    reached = {one for one in case.answers if any(text.startswith(one) for text in texts)}
    return Judged(
        kind=case.kind,
        precision=len(right) / len(texts) if texts else float(not case.answers),
        recall=len(reached) / len(case.answers) if case.answers else None,
        passed=len(right) == len(texts) and len(reached) == len(case.answers),
    )


def measure_crowd(size: int, embedder: str, folder: Path) -> Crowd:
    """Ask unrelated questions and paraphrases of ``size`` facts."""
    texts = [text for text, _ in CORE]
    texts += filler(size - len(texts))
    with treering.open(
        folder / f"crowd-{embedder}-{size}.db", durability="normal", embedder=embedder
    ) as ledger:
        memory = ledger.memory(SCOPE)
        memory.learn_all([NewFact(text=text, user=USER) for text in texts])
        answered = sum(
            bool(memory.recall(one, user=USER, record=False).fact_hits) for one in UNRELATED
        )
        found = sum(
            any(
                hit.fact.text == text
                for hit in memory.recall(
                    one, user=USER, limit=PARAPHRASES_SHOWN, record=False
                ).fact_hits
            )
            for text, questions in CORE
            for one in questions
        )
    return Crowd(size, answered, found)
