"""Citations: which events support what somebody says of them, by the words that they share."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from treering.context.clues import sentences_in
from treering.context.notes import one_line
from treering.context.prose import holds_secret
from treering.context.tokens import estimate
from treering.derive.terms import terms
from treering.model.episodes import Sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.model.messages import ModelMessage

SUPPORT_MIN: Final = 0.2
"""The part of a sentence's terms that one message must share for it to be supported."""
CLOSE: Final = 0.6
"""Messages are cited, too, that support a sentence so well compared with the best."""
MESSAGES_MAX: Final = 3
TEXT_CHARS_MAX: Final = 4_096
"""So much of a message is looked at."""
_HEADING: Final = re.compile(r"^\s*(?:#{1,6}\s.*|[*_]{0,2}[\w ]{1,40}[*_]{0,2}:[*_]{0,2}\s*)$")
_MARKUP: Final = re.compile(r"\*\*|__|`")


def cite(text: str, messages: Sequence[ModelMessage]) -> list[Sentence]:
    """Return the sentences of ``text``, each with the events that support it best.

    Headings are left out, and so is what no message supports.
    """
    known = [frozenset(terms(_words_of(message))) for message in messages]
    spread = Counter(term for one in known for term in one)
    rarity = {term: math.log(1 + len(known) / count) for term, count in spread.items()}
    found = []
    for line in text.splitlines():
        if _HEADING.match(line):
            continue
        for sentence in sentences_in(_MARKUP.sub("", line)):
            told = one_line(sentence)
            ids = _supporting(frozenset(terms(told)), messages, known, rarity)
            if ids and not holds_secret(told):
                found.append(Sentence(told, ids))
    return found


def text_of(sentences: Iterable[Sentence]) -> str:
    """Return sentences as one text."""
    return " ".join(sentence.text for sentence in sentences)


def within(sentences: Sequence[Sentence], limit: int) -> tuple[Sentence, ...]:
    """Return as many of the first sentences as fit into ``limit`` tokens."""
    kept = list(sentences)
    while kept and estimate(text_of(kept)) > limit:
        kept.pop()
    return tuple(kept)


def _words_of(message: ModelMessage) -> str:
    """Return what was said in a message, and the tools that it called."""
    calls = getattr(message, "calls", ())
    return " ".join([message.text[:TEXT_CHARS_MAX], *(call.tool for call in calls)])


def _supporting(
    wanted: frozenset[str],
    messages: Sequence[ModelMessage],
    known: Sequence[frozenset[str]],
    rarity: dict[str, float],
) -> tuple[str, ...]:
    scores = [
        math.fsum(rarity[term] for term in wanted & terms_said)
        if len(wanted & terms_said) >= max(1, SUPPORT_MIN * len(wanted))
        else 0.0
        for terms_said in known
    ]
    best = max(scores, default=0.0)
    if not best:
        return ()
    close = [at for at, score in enumerate(scores) if score >= CLOSE * best]
    close.sort(key=lambda at: -scores[at])
    # The first event of a message is that of its words; calls and results follow.
    return tuple(one for at in sorted(close[:MESSAGES_MAX]) for one in messages[at].event_ids[:1])
