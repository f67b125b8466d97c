"""How much of what answers a question is found: turns of conversations, and facts that change.

Each turn is recorded as an event, each session of a conversation as one of the ledger; the query
is the question as it stands. Facts are learnt in their order, and recalled.
"""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

import treering
from evaluation_sets import OURS, Conversation, Facts, Question, conversations, facts
from report import Row, Section, at_least, at_most
from treering import NewEvent
from treering.errors import Disabled
from treering.model.memories import NewFact
from workload import AGENT, FULL, Effort

SCOPE: Final = "eval/recall"
RECALL_5_MIN: Final = 0.64
RECALL_10_MIN: Final = 0.73
FIRST_MIN: Final = 0.9
ASKED: Final = 10
SUMMARY_CHARACTERS: Final = 200
EMBEDDERS: Final = {
    "static": "as shipped",
    "off": "words only, no embedder",
    "minilm": "with minilm",
}
_NOTE: Final = (
    '`ledger.search(mode="hybrid")` of turns: gold turns found ÷ gold turns, the mean over'
    " questions; macro is the mean over the categories of questions, and what follows it is the"
    " range over conversations. Neighbouring turns and sessions count, as they do in every search."
)
_FACTS_NOTE: Final = (
    "`memory.learn_all` of all facts in order, then `memory.recall` of each question: it counts if"
    " its answer stands in the first fact. What a later fact contradicts is told from the set"
    " itself, not from the memory."
)


class Found(msgspec.Struct, frozen=True):
    """What one question came to."""

    category: int
    recall_5: float
    recall_10: float
    ndcg_10: float


def run(effort: Effort, folder: Path) -> list[Section]:
    """Measure searches of conversations, with each embedder, and recall of facts."""
    name, talks = conversations()
    # The model reads slowly: a run that only sees whether all works does without it.
    chosen = list(EMBEDDERS) if effort.large >= FULL.large else ["static", "off"]
    rows = [row for one in chosen for row in _rows(talks, one, folder, aimed=name != OURS)]
    known = facts()
    return [
        Section(title=f"Searches by meaning and words: {name}", rows=rows, notes=[_NOTE]),
        Section(
            title=f"Facts that change: {known.name}",
            rows=_fact_rows(known, folder / "facts.db"),
            notes=[_FACTS_NOTE],
        ),
    ]


# Conversations.


def _rows(talks: list[Conversation], embedder: str, folder: Path, *, aimed: bool) -> list[Row]:
    try:
        found = [
            answered(talk, embedder, folder / f"{embedder}-{at}.db")
            for at, talk in enumerate(talks)
        ]
    except Disabled:
        return [Row(what=EMBEDDERS[embedder], measured="not installed")]
    limits = {"recall_5": RECALL_5_MIN, "recall_10": RECALL_10_MIN}
    rows = []
    for measure, short in (("recall_5", "R@5"), ("recall_10", "R@10"), ("ndcg_10", "nDCG@10")):
        value, shown = _shown(found, measure)
        what = f"{short}, {EMBEDDERS[embedder]}"
        if aimed and embedder == "static" and measure in limits:
            rows.append(at_least(what, value, limits[measure], shown, unit=""))
        else:
            rows.append(Row(what=what, measured=shown))
    return rows


def _shown(found: list[list[Found]], measure: str) -> tuple[float, str]:
    """Return the mean over questions, and it with its other means."""
    every = [one for listed in found for one in listed]
    categories = {one.category for one in every}
    micro = mean(every, measure)
    macro = statistics.fmean(
        mean([one for one in every if one.category == kind], measure) for kind in categories
    )
    each = [mean(listed, measure) for listed in found]
    return micro, f"{micro:.3f} (macro {macro:.3f}; {min(each):.3f} to {max(each):.3f})"


def mean(found: Sequence[Found], measure: str) -> float:
    """Return the mean of a measure over questions."""
    return statistics.fmean(getattr(one, measure) for one in found)


def answered(talk: Conversation, embedder: str, path: Path) -> list[Found]:
    """Record a conversation, and ask all that is asked about it."""
    with treering.open(path, durability="normal", embedder=embedder) as ledger:
        ledger.append([
            NewEvent(
                scope=SCOPE,
                session_id=turn.session,
                kind="conversation.user",
                agent_id=AGENT,
                summary=turn.text[:SUMMARY_CHARACTERS],
                payload={"text": turn.text},
                event_id=turn.id,
            )
            for turn in talk.turns
        ])  # fmt: skip
        return [
            judged(
                question,
                [
                    hit.event_id
                    for hit in ledger.search(
                        question.text, scope=SCOPE, mode="hybrid", limit=ASKED
                    ).hits
                ],
            )
            for question in talk.questions
        ]


def judged(question: Question, found: list[str]) -> Found:
    """Return how much of what answers a question is among the first found, and how early."""
    gold = question.gold
    gains = [1 / math.log2(at + 2) for at, one in enumerate(found[:ASKED]) if one in gold]
    ideal = [1 / math.log2(at + 2) for at in range(min(ASKED, len(gold)))]
    return Found(
        question.category,
        len(gold.intersection(found[:5])) / len(gold),
        len(gold.intersection(found[:ASKED])) / len(gold),
        sum(gains) / sum(ideal),
    )


# Facts.


def _fact_rows(known: Facts, path: Path) -> list[Row]:
    with treering.open(path, durability="normal") as ledger:
        memory = ledger.memory(SCOPE)
        learned = memory.learn_all([NewFact(text=text) for text in known.texts])
        first = stale = 0
        for question in known.questions:
            hits = memory.recall(question.text, record=False).fact_hits
            texts = [hit.fact.text for hit in hits]
            answers = [answer.casefold() for answer in question.answers]
            first += any(answer in text.casefold() for text in texts[:1] for answer in answers)
            stale += sum(
                hit.fact.state != "current" or hit.fact.text in known.outdated for hit in hits
            )
    share = first / len(known.questions)
    taken = sum(one.believed for one in learned)
    return [
        at_least(
            "the first fact recalled has the answer",
            share,
            FIRST_MIN,
            f"{share:.2f} ({first} of {len(known.questions)} questions)",
            unit="",
        ),
        at_most("superseded facts returned", stale, 0, str(stale), unit=""),
        Row(
            what="facts taken, and those that superseded another",
            measured=f"{taken} of {len(learned)}, {sum(bool(one.superseded) for one in learned)}",
        ),
        Row(what="facts of the set that are outdated", measured=str(len(known.outdated))),
    ]
