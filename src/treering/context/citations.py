"""Citations: finds the events that support a model's sentences, by shared words.

Nothing is dropped for lack of support: another language shares few words with the messages. What
cannot be traced says so, and what must not be kept leaves a mark.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from treering.context.remarks import has_secret
from treering.context.summaries import single_line
from treering.context.text_cues import split_sentences
from treering.context.tokens import estimate
from treering.model.memories import Sentence
from treering.rules.fact_noise import INSTRUCTION, OVERRIDE
from treering.rules.terms import terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from treering.model.messages import ModelMessage

SUPPORT_MIN: Final = 0.2
"""The share of a sentence's terms that one message must contain to support it."""
CLOSE: Final = 0.6
"""Messages with at least this share of the best support are cited, too."""
MESSAGES_MAX: Final = 3
TEXT_CHARS_MAX: Final = 4_096
"""Characters of a message that are read."""
SECRET: Final = "[left out: it seems to hold a secret]"  # noqa: S105 - a placeholder for one.
ORDER: Final = "[left out: it gives orders to its reader]"
TITLE_WORDS_MAX: Final = 3
"""Longer headings are statements themselves."""
_HEADING: Final = re.compile(r"^\s*(?:#{1,6}\s.*|[*_]{0,2}[\w ]{1,40}[*_]{0,2}:[*_]{0,2}\s*)$")
_MARKUP: Final = re.compile(r"^\s*#{1,6}\s+|\*\*|`")


class CitedText(msgspec.Struct, frozen=True):
    """A model's sentences about messages, each with the events that support it."""

    sentences: tuple[Sentence, ...]
    """Sentences without events could not be traced; some only mark what was left out."""
    notes: tuple[str, ...] = ()
    """What could not be traced, was left out or did not fit."""

    @property
    def says_something(self) -> bool:
        """Return whether any content is left."""
        return any(sentence.text not in {SECRET, ORDER} for sentence in self.sentences)


def cite(text: str, messages: Sequence[ModelMessage], *, limit: int) -> CitedText:
    """Return the sentences of ``text`` within ``limit`` tokens, with their supporting events."""
    titled = list(_titled_sentences(text))
    fitting = _fitting([f"{title}{sentence}" for title, sentence in titled], limit)
    message_terms = [frozenset(terms(_words_of(message))) for message in messages]
    message_counts = Counter(term for term_set in message_terms for term in term_set)
    rarity = {
        term: math.log(1 + len(message_terms) / count) for term, count in message_counts.items()
    }
    sentences = []
    for title, sentence in titled[:fitting]:
        ids = _supporting(frozenset(terms(sentence)), messages, message_terms, rarity)
        mark = _withheld(f"{title}{sentence}", is_traced=bool(ids))
        sentences.append(Sentence(mark or f"{title}{sentence}", () if mark else ids))
    return CitedText(tuple(sentences), tuple(_notes(sentences, cut=len(titled) - fitting)))


def text_of(sentences: Iterable[Sentence]) -> str:
    """Return sentences as one text."""
    return " ".join(sentence.text for sentence in sentences)


def sentences_within(sentences: Sequence[Sentence], limit: int) -> tuple[Sentence, ...]:
    """Return as many of the first sentences as fit into ``limit`` tokens."""
    return tuple(sentences[: _fitting([sentence.text for sentence in sentences], limit)])


def _titled_sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yield all sentences of ``text``, each with the headings and numbers before it."""
    title = ""
    for line in text.splitlines():
        plain = single_line(_MARKUP.sub("", line))
        if not plain:
            continue
        if _HEADING.match(line) and len(plain.split()) <= TITLE_WORDS_MAX:
            title += f"{plain.rstrip(':*_ ')}: "
            continue
        for sentence in filter(None, map(single_line, split_sentences(plain))):
            if not any(map(str.isalpha, sentence)):
                title += f"{sentence} "  # For example the number of a list item.
                continue
            yield title, sentence
            title = ""
    if title:
        yield "", title.rstrip()


def _fitting(sentences: Sequence[str], limit: int) -> int:
    """Return how many of the first sentences fit into ``limit`` tokens."""
    return bisect_right(
        range(1, len(sentences) + 1), limit, key=lambda count: estimate(" ".join(sentences[:count]))
    )


def _withheld(sentence: str, *, is_traced: bool) -> str | None:
    """Return the placeholder for a sentence that must not be kept; None if it may be."""
    if has_secret(sentence):
        return SECRET
    # A rule that somebody stated is kept; one that nobody stated is aimed at the reader.
    is_order = OVERRIDE.search(sentence) or (not is_traced and INSTRUCTION.search(sentence))
    return ORDER if is_order else None


def _notes(sentences: Sequence[Sentence], *, cut: int) -> Iterator[str]:
    left_out = Counter(sentence.text for sentence in sentences if sentence.text in {SECRET, ORDER})
    untraced = sum(not sentence.event_ids for sentence in sentences) - left_out.total()
    total = len(sentences)
    if untraced:
        noun = "sentence" if total == 1 else "sentences"
        yield f"{untraced} of {total} {noun} could not be traced to what was said"
    for mark, why in ((SECRET, "to hold a secret"), (ORDER, "to give orders to its reader")):
        if left_out[mark]:
            yield f"{_sentences(left_out[mark])} left out: it seems {why}"
    if cut:
        yield f"{_sentences(cut)} left out at the end: it was too long"


def _sentences(count: int) -> str:
    return f"{count} {'sentence was' if count == 1 else 'sentences were'}"


def _words_of(message: ModelMessage) -> str:
    """Return the text of a message, and the tools it called."""
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
    # The first event of a message is that of its text; calls and results follow.
    return tuple(
        event_id for at in sorted(close[:MESSAGES_MAX]) for event_id in messages[at].event_ids[:1]
    )
