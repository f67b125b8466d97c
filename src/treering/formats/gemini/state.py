"""The state of a Gemini reader: the events and version of each message."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.formats.codex.drafts import PendingEvent, digest, observed
from treering.formats.gemini.messages import id_of
from treering.formats.parsed import SessionHeader

_SAID: Final = frozenset({"conversation.user", "conversation.assistant"})
_SPOKEN: Final = ("conversation.", "tool.", "context.")
"""Kinds that are part of the conversation."""


class GeminiState(msgspec.Struct):
    """State carried from one record to the next."""

    opening: SessionHeader | None = None
    ts_ms: int = 1
    order: list[str] = []
    """The ids of the visible messages, in order."""
    firsts: dict[str, str] = {}
    """The key of the first event of each message."""
    digests: dict[str, str] = msgspec.field(name="told", default_factory=dict)
    """A digest of the event recorded for each key."""
    seen: dict[str, str] = {}
    """A digest of the last version of each message."""
    texts: dict[str, str] = {}
    """The key of the last text of each message."""
    last: str = ""
    """The key of the last event that is part of the conversation."""

    def with_unique_key(self, draft: PendingEvent, message_id: str) -> PendingEvent:
        """Return ``draft`` under another key if another message has a call with the same id."""
        if self.digests.get(draft.key, _mark(draft)) == _mark(draft):
            return draft
        return msgspec.structs.replace(draft, key=f"{draft.key}@{message_id}")

    def new(self, drafts: list[PendingEvent]) -> list[PendingEvent]:
        """Return the drafts with new keys, and remember them."""
        fresh = [draft for draft in drafts if draft.key not in self.digests]
        self.digests |= {draft.key: _mark(draft) for draft in fresh}
        return fresh

    def changed(
        self,
        message: dict[str, Any],
        drafts: list[PendingEvent],
        fresh: list[PendingEvent],
        mark: str,
    ) -> list[PendingEvent]:
        """Return the observation for a message that changed."""
        recorded = self.digests
        updated = [draft for draft in drafts if recorded[draft.key] != _mark(draft)]
        recorded |= {draft.key: _mark(draft) for draft in updated}
        if fresh and not updated:
            return []
        message_id = id_of(message)
        raw = observed(f"{message_id}.whole.{mark[:8]}", str(message.get("type")), message)
        refs = {**raw.refs, "replaces": message_id}
        return self.new([msgspec.structs.replace(raw, refs=refs)])

    def replaced(self, message_id: str, fresh: list[PendingEvent]) -> list[PendingEvent]:
        """Return ``fresh`` with a new text marked as replacing the earlier one."""
        before = self.texts.get(message_id)
        text = next((draft for draft in fresh if draft.kind in _SAID), None)
        if text is None or before is None:
            return fresh
        refs = {**text.refs, "replaces": message_id}
        drafts = [
            msgspec.structs.replace(draft, refs=refs) if draft is text else draft for draft in fresh
        ]
        if self.last != before:
            return drafts
        undone = PendingEvent(
            key=f"{text.key}.undone",
            kind="session.undone",
            summary="replaced by a later version",
            payload=None,
            refs={"turns": int(text.kind == "conversation.user")},
            first=before,
            ts_ms=text.ts_ms,
        )
        return [*self.new([undone]), *drafts]

    def note(self, message_id: str, fresh: list[PendingEvent]) -> None:
        """Remember the last text of the message and the last event of the conversation."""
        for draft in fresh:
            if draft.kind.startswith(_SPOKEN):
                self.last = draft.key
            if draft.kind in _SAID:
                self.texts[message_id] = draft.key


def _mark(draft: PendingEvent) -> str:
    return digest([draft.kind, draft.payload])[:8]
