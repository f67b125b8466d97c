"""How many facts the rules find in conversations, and how many of those are useful.

A hundred facts were judged by hand; the labels are beside this file, by the digest of the text,
since the conversations are not ours to copy.
"""

import statistics
from collections import Counter
from pathlib import Path
from typing import Final

from evaluation_sets import OURS, Conversation, conversations
from report import Row, Section, at_least
from treering.rules.fact_extraction import Utterance, extract_facts
from workload import START_MS, Effort

LABELS: Final = Path(__file__).parent / "extraction_labels.txt"
FACTS_MIN: Final = 60
USEFUL_MIN: Final = 0.8
UNSEEN: Final = Path(__file__).parent / "extraction_labels_unseen.txt"
"""Facts of talk between strangers (Synthetic-Persona-Chat, CC BY 4.0) that no rule was tried on."""
LATER: Final = Path(__file__).parent / "extraction_labels_later.txt"
"""Other facts of such talk, found after the rules were mended from the first."""


def run(effort: Effort, folder: Path) -> list[Section]:
    """Count the facts of each conversation, and those that were judged useful."""
    del effort, folder
    name, talks = conversations()
    found = [extracted(talk) for talk in talks]
    count = statistics.fmean(len(one) for one in found)
    what = "facts a conversation, by rules"
    shown = f"{count:.1f} ({', '.join(str(len(one)) for one in found)})"
    if name == OURS:
        return [Section(title="Extraction", rows=[Row(what=what, measured=shown)])]
    rows = [
        at_least(what, count, FACTS_MIN, shown, unit=""),
        _useful("useful, of those judged by hand", LABELS),
        _useful("the same, of talk that no rule was tried on", UNSEEN),
        _useful("the same, of other such talk, later", LATER),
    ]
    return [Section(title=f"Extraction: {name}", rows=rows)]


def _useful(what: str, path: Path) -> Row:
    labels = Counter(judged(path).values())
    share = labels["useful"] / labels.total()
    return at_least(what, share, USEFUL_MIN, str(dict(labels)), unit="")


def extracted(talk: Conversation) -> list[str]:
    """Return the facts that each speaker of a conversation states about themselves."""
    speakers = dict.fromkeys(turn.text.partition(": ")[0] for turn in talk.turns)
    return [
        fact.text
        for speaker in speakers
        for fact in extract_facts([
            Utterance(
                event_id=turn.id,
                role="user" if turn.text.startswith(f"{speaker}: ") else "assistant",
                text=turn.text.partition(": ")[2].partition(" [shares a photo of ")[0],
                ts_ms=START_MS,
            )
            for turn in talk.turns
        ])
    ]  # fmt: skip


def judged(path: Path = LABELS) -> dict[str, str]:
    """Return the label of each judged fact, by its digest."""
    lines = path.read_text(encoding="ascii").splitlines()
    return {line[:16]: line[17:] for line in lines}
