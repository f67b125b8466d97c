"""Records that wait: one behind them may say the same in a better way.

A user's item may wrap words that the event behind it tells as they were said; a thought that was
shown may come again with what only its item holds. What waits takes over what is said better, and
keeps its place; what stands behind it waits as well, so that the order stays.
"""

from __future__ import annotations

from typing import Final

import msgspec

from treering.formats.codex.drafts import Draft
from treering.formats.codex.twins import Saying
from treering.formats.telling import Record

HELD_MAX: Final = 12
"""Records that wait, at most."""
_DECIDING: Final = ("tool.", "boundary.", "session.", "context.")
"""Kinds behind which no record says again what was said before."""


class Page(msgspec.Struct):
    """One record, read, that may wait for another."""

    record: Record
    at: int
    ts_ms: int
    parts: list[Draft | Saying]
    reason: str = "says nothing"
    """Why it tells nothing, if it has no parts."""
    waits: list[int] = []
    """The parts that may be said again in a better way."""


class Waiting(msgspec.Struct):
    """Records in their order, the first of which waits."""

    pages: list[Page] = []

    def add(self, page: Page) -> list[Page]:
        """Return the records that wait no longer now that ``page`` has come, in their order."""
        page.waits = [number for number, part in enumerate(page.parts) if _may_wait(part)]
        self._match(page)
        decided = len(self.pages) >= HELD_MAX or any(map(_decides, page.parts))
        settled = self.release() if decided else []
        self.pages.append(page)
        while self.pages and not self.pages[0].waits:
            settled.append(self.pages.pop(0))
        return settled

    def release(self) -> list[Page]:
        """Return all that waits."""
        pages, self.pages = self.pages, []
        return pages

    def _match(self, page: Page) -> None:
        """Let what waits take over what ``page`` says better."""
        for number, part in enumerate(page.parts):
            if isinstance(part, Saying) and (place := self._waiting(part)):
                held, at = place
                held.parts[at] = _joined(held.parts[at], part)
                held.waits = [one for one in held.waits if one != at]
                page.parts[number] = msgspec.structs.replace(part, told={})
                page.waits = [one for one in page.waits if one != number]

    def _waiting(self, saying: Saying) -> tuple[Page, int] | None:
        for exact in (True, False):
            for held in self.pages:
                for at in held.waits:
                    if _is_twin(held.parts[at], saying, exact=exact):
                        return held, at
        return None


def _decides(part: Draft | Saying) -> bool:
    if isinstance(part, Saying):
        return part.role == "assistant"
    return part.kind.startswith(_DECIDING)


def _may_wait(part: Draft | Saying) -> bool:
    """Whether a record behind it may say the same in a better way."""
    return isinstance(part, Saying) and (part.role, part.lane) in {
        ("user", "item"),
        ("thinking", "event"),
    }


def _is_twin(held: Draft | Saying, saying: Saying, *, exact: bool) -> bool:
    if not isinstance(held, Saying) or (held.role, held.lane) == (saying.role, saying.lane):
        return False
    if held.role != saying.role:
        return False
    one, other = held.text.strip(), saying.text.strip()
    return one == other if exact else held.role == "user" and bool(other) and other in one


def _joined(held: Draft | Saying, saying: Saying) -> Draft | Saying:
    """Return what waited, with the cleaner text and all that is known of it."""
    assert isinstance(held, Saying)  # noqa: S101  (only sayings wait)
    wrapped = {"wrapped": held.text} if held.text.strip() != saying.text.strip() else {}
    return Saying(
        role=held.role,
        lane=held.lane,
        text=saying.text,
        told={**wrapped, **saying.told, **held.told},
    )
