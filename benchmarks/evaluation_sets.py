"""Sets that recall is measured with: conversations and facts, and what is asked about them.

Public ones are read from the folder that ``TREERING_EVAL_DATA`` names, as they were published;
where it is not set, a small set of our own stands in.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

import own_set

VARIABLE: Final = "TREERING_EVAL_DATA"
OURS: Final = "our own small set"
_PLACE: Final = re.compile(r"D:?(\d+):(\d+)")
_SESSION: Final = re.compile(r"session_(\d+)")
_NUMBERED: Final = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


class Turn(msgspec.Struct, frozen=True):
    """What somebody said, where."""

    id: str
    session: str
    text: str
    assistant: bool = False


class Question(msgspec.Struct, frozen=True):
    """A question, the ids of the turns that answer it, and its category."""

    text: str
    gold: frozenset[str]
    category: int


class Conversation(msgspec.Struct, frozen=True):
    """Turns in order, and what is asked about them."""

    name: str
    turns: list[Turn]
    questions: list[Question]


class FactQuestion(msgspec.Struct, frozen=True):
    """A question, and any of the answers that count."""

    text: str
    answers: tuple[str, ...]


class Facts(msgspec.Struct, frozen=True):
    """Facts in the order in which they are learnt, and what is asked about them."""

    name: str
    texts: list[str]
    questions: list[FactQuestion]
    outdated: frozenset[str]
    """Those that a later one contradicts."""


def conversations() -> tuple[str, list[Conversation]]:
    """Return the name of the set of conversations, and them."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        return OURS, [_own_conversation()]
    return "LoCoMo", locomo(Path(folder) / "locomo" / "dev.json")


def facts() -> Facts:
    """Return the set of facts."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        return _own_facts()
    return consolidation(Path(folder) / "fact_consolidation" / "dev.json")


def locomo(path: Path) -> list[Conversation]:
    """Read a file of LoCoMo. Evidence that is spelt oddly is repaired by its pattern."""
    return [_conversation(sample) for sample in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(sample: dict[str, Any]) -> Conversation:
    turns = list(_turns(sample["conversation"]))
    there = {turn.id for turn in turns}
    questions = [
        Question(asked["question"], gold, asked["category"])
        for asked in sample["qa"]
        if (gold := _places(asked["evidence"]) & there)
    ]
    return Conversation(sample["sample_id"], turns, questions)


def _turns(talk: dict[str, Any]) -> Iterator[Turn]:
    names = [found for name in talk if (found := _SESSION.fullmatch(name))]
    for name in sorted(names, key=lambda found: int(found[1])):
        for turn in talk[name[0]]:
            picture = turn.get("blip_caption")
            shown = f" [shares a photo of {picture}]" if picture else ""
            text = f"{turn['speaker']}: {turn.get('text', '')}{shown}"
            yield Turn(turn["dia_id"], name[0], text)


def _places(evidence: Sequence[str]) -> frozenset[str]:
    """Return the ids of turns; one text may name several, and name them badly."""
    return frozenset(
        f"D{int(session)}:{int(turn)}"
        for text in evidence
        for session, turn in _PLACE.findall(text)
    )


def consolidation(path: Path) -> Facts:
    """Read a file of numbered facts in which later ones supersede earlier ones."""
    [sample] = json.loads(path.read_text(encoding="utf-8"))
    texts = _NUMBERED.findall(sample["context"])
    questions = [
        FactQuestion(asked, (answers,) if isinstance(answers, str) else tuple(answers))
        for asked, answers in zip(sample["questions"], sample["answers"], strict=True)
    ]
    return Facts("fact consolidation", texts, questions, outdated(texts, questions))


def outdated(texts: Sequence[str], questions: Sequence[FactQuestion]) -> frozenset[str]:
    """Return the facts that say the same as an answering one up to its answer, and came before it.

    That is told from the file alone: whoever measures must not ask the memory what is outdated.
    """
    last = {text: at for at, text in enumerate(texts)}
    found: set[str] = set()
    for answer in (answer for question in questions for answer in question.answers):
        for text, at in last.items():
            beginning, named, behind = text.rpartition(answer)
            # An answer in the middle begins nothing: of many countries a capital is told.
            if named and behind in {"", "."} and len(beginning.split()) > 1:
                found |= {
                    other
                    for other, before in last.items()
                    if before < at and other.startswith(beginning)
                }
    return frozenset(found)


def _own_conversation() -> Conversation:
    turns = [
        Turn(f"D{session}:{turn}", f"session_{session}", text)
        for session, said in enumerate(own_set.SESSIONS, 1)
        for turn, text in enumerate(said, 1)
    ]
    questions = [
        Question(text, frozenset(gold.split()), category)
        for text, gold, category in own_set.QUESTIONS
    ]
    return Conversation(OURS, turns, questions)


def _own_facts() -> Facts:
    return Facts(
        OURS,
        [text for text, _ in own_set.FACTS],
        [FactQuestion(text, (answer,)) for text, answer in own_set.FACT_QUESTIONS],
        frozenset(text for text, later in own_set.FACTS if later),
    )
