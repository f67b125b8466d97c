"""The texts by which events are found in a search by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.derive.search_texts import clip, texts_of
from treering.model.kinds import KINDS

if TYPE_CHECKING:
    from treering.model.events import Event

TEXT_CHARACTERS_MAX: Final = 4_000
"""Longer texts are represented by their beginning and end."""
CHUNK_WORDS: Final = 40
"""About two sentences: the vector of a longer text blurs what it says."""
CHUNKS_MAX: Final = 4
_NOTES: Final = frozenset({
    "boundary.checkpoint", "boundary.intent", "context.compacted", "goal.added", "inbox.received",
    "ops.alert", "ops.decision", "ops.error", "ops.observation", "session.titled",
})  # fmt: skip

TEXT_KINDS: Final = frozenset(
    name for name, kind in KINDS.items() if kind.role == "item" or name in _NOTES
)
"""Kinds with content. Other kinds only say that something began, ended or was counted."""


def event_texts(event: Event) -> list[str]:
    """Return the text of an event, in a few chunks if it is long; empty if it has none."""
    if event.kind not in TEXT_KINDS or event.redacted:
        return []
    text = next(texts_of(event), "").strip()
    return chunks(clip(text, TEXT_CHARACTERS_MAX)) if text else []


def chunks(text: str) -> list[str]:
    """Return a text in 1 to 4 chunks of about the same number of words."""
    words = text.split()
    count = min(CHUNKS_MAX, -(-len(words) // CHUNK_WORDS))
    if count <= 1:
        return [text]
    size = -(-len(words) // count)
    return [" ".join(words[first : first + size]) for first in range(0, len(words), size)]
