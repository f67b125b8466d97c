"""The texts by which facts and episodes are found."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from treering.lazy import LazyModule

if TYPE_CHECKING:
    from treering.derive import claims
    from treering.model.events import Event
else:
    claims = LazyModule("treering.derive.claims")

WORDS_HELD: Final = 1_024


def memory_texts(event: Event) -> list[str]:
    """Return the texts by which a memory event is found; empty if it has none."""
    content = event.payload if isinstance(event.payload, dict) else {}
    if event.kind == "episode.written":
        summary = content.get("summary")
        return [" ".join([summary, *_topics(content)])] if isinstance(summary, str) else []
    text = content.get("text")
    return [fact_text(text)] if isinstance(text, str) and text else []


def fact_text(text: str) -> str:
    """Return the text of a fact with the name of its attribute.

    A person who moved to a town has a residence, even if nobody says so.
    """
    attribute = claims.read_claim(text).attribute
    return text if attribute is None else f"{text} {attribute}"


@lru_cache(maxsize=WORDS_HELD)
def asked_attributes(word: str) -> tuple[str, ...]:
    """Return the names of the attributes that a word of a question asks for: a wife is a spouse."""
    from treering.derive.claim_attributes import known_attribute  # noqa: PLC0415  (slow to load)

    named = (known_attribute(phrase) for phrase in (word, f"{word} in", f"{word} at", f"{word} as"))
    return tuple(dict.fromkeys(name for name in named if name is not None and name != word))


def _topics(content: dict[str, Any]) -> list[str]:
    topics = content.get("topics")
    return [topic for topic in topics if isinstance(topic, str)] if isinstance(topics, list) else []
