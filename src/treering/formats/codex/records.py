"""The records of a rollout: wrapped, or bare as in old versions."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.formats.codex.drafts import PendingEvent
from treering.formats.codex.twins import LaneText
from treering.formats.format import OwnShare
from treering.formats.loose import fields_of, word
from treering.formats.parsed import LogRecord

HELD_MAX: Final = 12
"""Records that wait at most."""
_DECIDING: Final = ("tool.", "boundary.", "session.", "context.")
"""Kinds after which no record repeats what was said before."""

_RECORDS: Final = frozenset(
    {
        *("session_meta", "response_item", "event_msg", "turn_context", "compacted"),
        *("world_state", "inter_agent_communication"),
    }
)
_BARE_ITEMS: Final = frozenset(
    {"function_call", "function_call_output", "reasoning", "local_shell_call", "custom_tool_call",
     "custom_tool_call_output", "web_search_call"}
)  # fmt: skip


def opened(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the type of a record and what it holds; older ones come without a wrapper."""
    sort, content = value.get("type"), value.get("payload")
    if isinstance(sort, str) and isinstance(content, dict):
        return sort, content
    if _is_bare_opening(value):
        return "session_meta", value
    if _is_bare_item(value):
        return "response_item", value
    return (sort if isinstance(sort, str) and sort else str(value.get("record_type", "record"))), {}


def _is_bare_opening(value: dict[str, Any]) -> bool:
    return {"id", "timestamp", "instructions"} <= value.keys() and "type" not in value


def _is_bare_item(value: dict[str, Any]) -> bool:
    sort, content = word(value.get("type")), value.get("content")
    if sort in {"message", None} and isinstance(value.get("role"), str):
        parts = content if isinstance(content, list) else []
        sorts = {word(fields_of(part).get("type")) for part in parts}
        return bool(sorts & {"input_text", "output_text", "input_image"})
    return sort in _BARE_ITEMS and bool(
        {"call_id", "arguments", "summary", "action"} & value.keys()
    )


def _is_own(value: dict[str, Any]) -> bool | None:
    """Whether a record is Codex's; None if it may be, or if others write the same."""
    sort = word(value.get("type"))
    if sort is not None and isinstance(value.get("payload"), dict):
        return True if sort in _RECORDS else None
    if "record_type" in value:
        return None
    if _is_bare_item(value):
        # Other agents keep the reasoning of the same models in the same shape.
        return None if sort == "reasoning" else True
    return _is_bare_opening(value)


score: Final = OwnShare(_is_own)
"""Returns the share of a file that is records of a rollout, wrapped or bare."""


def timeless(value: Any) -> Any:
    """Return ``value`` without the time and the number, which a fork gives again."""
    if not isinstance(value, dict):
        return value
    return {name: field for name, field in value.items() if name not in {"timestamp", "ordinal"}}


class QueuedRecord(msgspec.Struct, gc=False):
    """A record that was read and may wait for another."""

    record: LogRecord
    at: int
    ts_ms: int
    parts: list[PendingEvent | LaneText]
    reason: str = "says nothing"
    """Why it has no events, if it has no parts."""
    waits: list[int] = []
    """The parts that a later record may have in a better version."""


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
        """Let a waiting record take over the better text of ``page``."""
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
    """Whether a later record may have a better version of it."""
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
