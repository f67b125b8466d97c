"""Sentences in German, Spanish, French and Portuguese: facts, changes, wishes and questions.

They lie beside this file, and were written before the tables that read them were looked at.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

import treering
from report import Row, Section
from workload import Effort

SENTENCES: Final = Path(__file__).parent / "tongues_blind.txt"
FIRST_SEEN: Final = {"de": 9, "es": 10, "fr": 11, "pt": 10}
"""How many were right when they were first tried."""
LANGUAGES: Final = {"de": "German", "es": "Spanish", "fr": "French", "pt": "Portuguese"}
SCOPE: Final = "eval/tongues"
USER: Final = "ida"
SHOWN: Final = 3


class Sentence(msgspec.Struct, frozen=True):
    """What is said or asked, what must be there afterwards, and what must not."""

    kind: str
    text: str
    word: str
    outdated: str | None = None


def run(effort: Effort, folder: Path) -> list[Section]:
    """Count the sentences that come out right, by language."""
    del effort
    rows = []
    for short, language in LANGUAGES.items():
        judged = list(outcomes(short, folder / f"{short}.db"))
        shown = f"{sum(judged)} of {len(judged)} ({FIRST_SEEN[short]} when first tried)"
        rows.append(Row(what=f"sentences right, {language}", measured=shown))
    return [Section(title="Facts in other languages", rows=rows)]


def sentences(short: str) -> list[Sentence]:
    """Read the sentences of a language."""
    lines = (line.split(" | ") for line in SENTENCES.read_text(encoding="utf-8").splitlines())
    return [Sentence(*fields[1:]) for fields in lines if fields[0] == short]


def outcomes(short: str, path: Path) -> Iterator[bool]:
    """Record what is said, extract facts, and ask; yield whether each came out right."""
    with treering.open(path, embedder="static") as ledger:
        memory = ledger.memory(SCOPE)
        for sentence in sentences(short):
            if sentence.kind == "question":
                hits = memory.recall(sentence.text, user=USER, record=False).fact_hits[:SHOWN]
                yield any(sentence.word in hit.fact.text for hit in hits)
                continue
            earlier = {fact.id for fact in memory.facts(user=USER).items}
            with ledger.session("s1", scope=SCOPE, agent="bench", user=USER).turn() as turn:
                turn.user(sentence.text)
            memory.extract()
            facts = memory.facts(user=USER).items
            old = (sentence.outdated or "\0").casefold()
            yield any(sentence.word in fact.text for fact in facts) and not any(
                fact.id in earlier and old in fact.text.casefold() for fact in facts
            )
