"""What events are found by when they are looked for by meaning: what was said and done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.derive.chunks import chunks
from treering.derive.search_texts import clipped, texts_of
from treering.model.kinds import KINDS

if TYPE_CHECKING:
    from treering.model.events import Event

TEXT_CHARACTERS_MAX: Final = 4_000
"""Of longer texts the beginning and the end tell what the rest is about."""
_NOTES: Final = frozenset({
    "boundary.checkpoint", "boundary.intent", "context.compacted", "goal.added", "inbox.received",
    "ops.alert", "ops.decision", "ops.error", "ops.observation", "session.titled",
})  # fmt: skip

TELLING_KINDS: Final = frozenset(
    name for name, kind in KINDS.items() if kind.role == "item" or name in _NOTES
)
"""Kinds that say something. Others only say that something began, ended or was counted."""


def event_texts(event: Event) -> list[str]:
    """Return what an event says, in a few parts if it is long; none if it says nothing."""
    if event.kind not in TELLING_KINDS or event.redacted:
        return []
    text = next(texts_of(event), "").strip()
    return chunks(clipped(text, TEXT_CHARACTERS_MAX)) if text else []
