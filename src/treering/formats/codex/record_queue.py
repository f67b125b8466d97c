"""Records that wait: a later one may say the same in a better way.

A user's item may wrap words that the event after it has as they were said; a thought that was shown
may come again with what only its item holds. A waiting record takes over the better text and keeps
its place; the records after it wait as well, so that the order stays.
"""

from __future__ import annotations

from typing import Final

import msgspec

from treering.formats.codex.drafts import PendingEvent
from treering.formats.codex.twins import LaneText
from treering.formats.parsed import LogRecord

HELD_MAX: Final = 12
"""Records that wait at most."""
_DECIDING: Final = ("tool.", "boundary.", "session.", "context.")
"""Kinds after which no record repeats what was said before."""


class QueuedRecord(msgspec.Struct, gc=False):
    """A record that was read and may wait for another."""

    record: LogRecord
    at: int
    ts_ms: int
    parts: list[PendingEvent | LaneText]
    reason: str = "says nothing"
    """Why it has no events, if it has no parts."""
    waits: list[int] = []
    """The parts that a later record may say in a better way."""


class RecordQueue(msgspec.Struct):
    """Records in order, the first of which waits."""

    pages: list[QueuedRecord] = []

    def add(self, page: QueuedRecord) -> list[QueuedRecord]:
        """Return the records that no longer wait once ``page`` has come, in order."""
        page.waits = [number for number, part in enumerate(page.parts) if _may_wait(part)]
        if not self.pages and not page.waits:
            return [page]  # Nearly always.
        self._match(page)
        decided = len(self.pages) >= HELD_MAX or any(map(_decides, page.parts))
        settled = self.release() if decided else []
        self.pages.append(page)
        while self.pages and not self.pages[0].waits:
            settled.append(self.pages.pop(0))
        return settled

    def release(self) -> list[QueuedRecord]:
        """Return all that waits."""
        pages, self.pages = self.pages, []
        return pages

    def _match(self, page: QueuedRecord) -> None:
        """Have a waiting record take over what ``page`` says better."""
        for number, part in enumerate(page.parts):
            if isinstance(part, LaneText) and (waiting := self._waiting(part)):
                held, at = waiting
                held.parts[at] = _joined(held.parts[at], part)
                held.waits = [index for index in held.waits if index != at]
                page.parts[number] = msgspec.structs.replace(part, more={})
                page.waits = [index for index in page.waits if index != number]

    def _waiting(self, saying: LaneText) -> tuple[QueuedRecord, int] | None:
        for exact in (True, False):
            for held in self.pages:
                for at in held.waits:
                    if _is_twin(held.parts[at], saying, exact=exact):
                        return held, at
        return None


def _decides(part: PendingEvent | LaneText) -> bool:
    if isinstance(part, LaneText):
        return part.role == "assistant"
    return part.kind.startswith(_DECIDING)


def _may_wait(part: PendingEvent | LaneText) -> bool:
    """Whether a later record may say the same in a better way."""
    return isinstance(part, LaneText) and (part.role, part.lane) in {
        ("user", "item"),
        ("thinking", "event"),
    }


def _is_twin(held: PendingEvent | LaneText, saying: LaneText, *, exact: bool) -> bool:
    if not isinstance(held, LaneText) or (held.role, held.lane) == (saying.role, saying.lane):
        return False
    if held.role != saying.role:
        return False
    held_text, text = held.text.strip(), saying.text.strip()
    return held_text == text if exact else held.role == "user" and bool(text) and text in held_text


def _joined(held: PendingEvent | LaneText, saying: LaneText) -> PendingEvent | LaneText:
    """Return the waiting text, with the cleaner words and all that is known of it."""
    assert isinstance(held, LaneText)  # noqa: S101  (only sayings wait)
    wrapped = {"wrapped": held.text} if held.text.strip() != saying.text.strip() else {}
    return LaneText(
        role=held.role,
        lane=held.lane,
        text=saying.text,
        more={**wrapped, **saying.more, **held.more},
    )
