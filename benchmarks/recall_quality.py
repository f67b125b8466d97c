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
from fact_crowd import crowded
from fact_hops import hop_questions
from long_sessions import long_sessions
from report import Row, Section, at_least, at_most
from treering import NewEvent
from treering.errors import Disabled
from treering.memory.recall_result import quoted
from treering.model.memories import NewFact
from treering.model.searches import SearchMode
from workload import AGENT, FULL, Effort

SCOPE: Final = "eval/recall"
RECALL_10_MIN: Final = 0.82
NDCG_10_MIN: Final = 0.55
"""Of the mean over categories."""
LONG_RECALL_10_MIN: Final = 0.54
FIRST_MIN: Final = 0.97
HOPS_MIN: Final = 0.5
HOP_QUESTIONS: Final = 100
MANY_FACTS: Final = 18_000
ASKED: Final = 10
BLOCK_TOKENS: Final = 800
EVIDENCE_MIN: Final = 0.7
ASKED_OF_MANY: Final = 3
USER: Final = "ida"
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
_MANY_NOTE: Final = (
    "The same set, with made-up facts of the same forms strewn among its own; a third of them"
    " change later. Asked are the set's questions and a hundred about the made-up ones."
)
_FACTS_NOTE: Final = (
    "`memory.learn_all` of all facts in order, then `memory.recall` of each question: it counts if"
    " its answer is in the first fact. The set itself says what a later fact contradicts, not the"
    " memory."
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
    shares = [
        share
        for at, talk in enumerate(talks)
        for share in evidence_shown(talk, folder / f"evidence-{at}.db")
    ]
    share = statistics.fmean(shares)
    what = f"evidence of a question within a block of {BLOCK_TOKENS} tokens"
    rows.append(at_least(what, share, EVIDENCE_MIN, f"{share:.2f}", unit=""))
    rows += _long_rows(folder)
    return [
        Section(title=f"Searches by meaning and words: {name}", rows=rows, notes=[_NOTE]),
        Section(
            title=f"Facts that change: {known.name}",
            rows=_fact_rows(known, folder / "facts.db"),
            notes=[_FACTS_NOTE],
        ),
        *_many_sections(effort, known, folder / "many-facts.db"),
    ]


def _many_sections(effort: Effort, known: Facts, path: Path) -> list[Section]:
    if effort.large < FULL.large or known.name == OURS:
        return []
    many = crowded(known, MANY_FACTS)
    title = f"Facts that change: {many.name} to {MANY_FACTS:,} facts"
    return [Section(title=title, rows=_fact_rows(many, path), notes=[_MANY_NOTE])]


# Conversations.


def _long_rows(folder: Path) -> list[Row]:
    """Ask about long sessions with an assistant, by words and vectors and by vectors alone."""
    talk = long_sessions()
    both = mean(answered(talk, "static", folder / "long.db"), "recall_10")
    vectors = mean(answered(talk, "static", folder / "long-v.db", "semantic"), "recall_10")
    what = f"R@10 of {len(talk.questions)} questions about long sessions with an assistant"
    return [
        at_least(
            what, both, LONG_RECALL_10_MIN, f"{both:.3f} (vectors alone {vectors:.3f})", unit=""
        )
    ]


def _rows(talks: list[Conversation], embedder: str, folder: Path, *, aimed: bool) -> list[Row]:
    try:
        found = [
            answered(talk, embedder, folder / f"{embedder}-{at}.db")
            for at, talk in enumerate(talks)
        ]
    except Disabled:
        return [Row(what=EMBEDDERS[embedder], measured="not installed")]
    rows = []
    for measure, short in (("recall_5", "R@5"), ("recall_10", "R@10"), ("ndcg_10", "nDCG@10")):
        micro, macro, shown = _shown(found, measure)
        what = f"{short}, {EMBEDDERS[embedder]}"
        if aimed and embedder == "static" and measure == "recall_10":
            rows.append(at_least(what, micro, RECALL_10_MIN, shown, unit=""))
        elif aimed and embedder == "static" and measure == "ndcg_10":
            rows.append(at_least(f"{what}, macro", macro, NDCG_10_MIN, shown, unit=""))
        else:
            rows.append(Row(what=what, measured=shown))
    return rows


def _shown(found: list[list[Found]], measure: str) -> tuple[float, float, str]:
    """Return the mean over questions, the mean over categories, and both with their range."""
    every = [one for listed in found for one in listed]
    categories = {one.category for one in every}
    micro = mean(every, measure)
    macro = statistics.fmean(
        mean([one for one in every if one.category == kind], measure) for kind in categories
    )
    each = [mean(listed, measure) for listed in found]
    return micro, macro, f"{micro:.3f} (macro {macro:.3f}; {min(each):.3f} to {max(each):.3f})"


def mean(found: Sequence[Found], measure: str) -> float:
    """Return the mean of a measure over questions."""
    return statistics.fmean(getattr(one, measure) for one in found)


def answered(
    talk: Conversation, embedder: str, path: Path, mode: SearchMode = "hybrid"
) -> list[Found]:
    """Record a conversation, and ask all that is asked about it."""
    with treering.open(path, durability="normal", embedder=embedder) as ledger:
        ledger.append([
            NewEvent(
                scope=SCOPE,
                session_id=turn.session,
                kind=f"conversation.{'assistant' if turn.assistant else 'user'}",
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
                        question.text, scope=SCOPE, mode=mode, limit=ASKED
                    ).hits
                ],
            )
            for question in talk.questions
        ]


def evidence_shown(talk: Conversation, path: Path) -> list[float]:
    """Return for some questions the share of their gold turns that a recalled block shows."""
    with treering.open(path, durability="normal", embedder="static") as ledger:
        ledger.append([
            NewEvent(
                scope=SCOPE,
                session_id=turn.session,
                kind="conversation.user",
                agent_id=AGENT,
                user_id=USER,
                summary=turn.text[:SUMMARY_CHARACTERS],
                payload={"text": turn.text},
                event_id=turn.id,
            )
            for turn in talk.turns
        ])  # fmt: skip
        memory = ledger.memory(SCOPE)
        shares = []
        for question in talk.questions[::ASKED_OF_MANY]:
            result = memory.recall(question.text, user=USER, record=False)
            block, _ = result.block(BLOCK_TOKENS)
            shown = {hit.event_id for hit in result.turn_hits if quoted(hit.text) in block}
            shares.append(len(question.gold & shown) / len(question.gold))
    return shares


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


def _hop_rows(reached: int, asked: int) -> list[Row]:
    if not asked:
        return []
    share = reached / asked
    shown = f"{share:.2f} ({reached} of {asked} questions)"
    return [
        at_least("the answer over two or three facts is among ten", share, HOPS_MIN, shown, unit="")
    ]


def _fact_rows(known: Facts, path: Path) -> list[Row]:
    with treering.open(path, durability="normal", embedder="static") as ledger:
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
        hops = hop_questions(known.texts, HOP_QUESTIONS)
        reached = sum(
            any(
                hop.answer.casefold() in hit.fact.text.casefold()
                for hit in memory.recall(hop.text, record=False, turns=0).fact_hits
            )
            for hop in hops
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
        *_hop_rows(reached, len(hops)),
        Row(
            what="facts taken, and those that superseded another",
            measured=f"{taken} of {len(learned)}, {sum(bool(one.superseded) for one in learned)}",
        ),
        Row(what="facts of the set that are outdated", measured=str(len(known.outdated))),
    ]
