"""Limits for captured events: masked, cut to size, and marked where something was left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.codec import PAYLOAD_BYTES_MAX, REFS_BYTES_MAX, Json, canonical, encode

if TYPE_CHECKING:
    from treering.capture.secrets import SecretGuard

PAYLOAD_CAP_MIN: Final = 256
REFS_CAP_MIN: Final = 128
CONVERSATION_CAP: Final = 4_096
LEVELS_MAX: Final = 5
ITEMS_MAX: Final = 48
PREVIEW_CHARACTERS: Final = 256
OUTPUT_FIELDS: Final = frozenset(
    {"stdout", "stderr", "raw_stdout", "raw_stderr", "command_output", "tool_output"}
)
"""Program output does not belong in an event that is passed around."""

_DUMPS: Final = (
    re.compile(r"\A```(?:json|bash|sh|shell|log|output|yaml)?", re.IGNORECASE),
    re.compile(r"\b(?:stdout|stderr|exit\s*code|traceback|stack\s*trace)\b", re.IGNORECASE),
    re.compile(r"\b(?:tool[_\s-]?call|tool[_\s-]?result|command output)\b", re.IGNORECASE),
)
_RECORD_OF_TOOL: Final = re.compile(r'"(?:stdout|stderr|exitCode|command|tool)"')


class EventLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an event, in bytes of canonical JSON."""

    payload: int = PAYLOAD_BYTES_MAX
    conversation: int = CONVERSATION_CAP
    refs: int = REFS_BYTES_MAX

    @classmethod
    def within(cls, *, payload: int, conversation: int, refs: int) -> EventLimits:
        """Return these limits, clamped to what a ledger accepts and a mark needs."""
        return cls(
            payload=min(max(PAYLOAD_CAP_MIN, payload), PAYLOAD_BYTES_MAX),
            conversation=min(max(PAYLOAD_CAP_MIN, conversation), PAYLOAD_BYTES_MAX),
            refs=min(max(REFS_CAP_MIN, refs), REFS_BYTES_MAX),
        )

    def payload_of(self, kind: str) -> int:
        """Return the limit of a payload of ``kind``."""
        is_message = kind.startswith("conversation.")
        return min(self.payload, self.conversation) if is_message else self.payload


class Bounded(msgspec.Struct, frozen=True):
    """A value within its limit."""

    value: Json
    was_cut: bool


def bound(value: Json, *, cap: int, reason: str, guard: SecretGuard | None) -> Bounded:
    """Return ``value`` masked and within ``cap`` bytes; cuts are marked.

    Masking comes first: half a secret would not be recognized. Without a ``guard``, the value is
    known to be clean. Raises InvalidInput if a ledger cannot store it.
    """
    if value is None:
        return Bounded(None, was_cut=False)
    masked = value if guard is None else guard.mask_value(value)
    cut = _Cut(cap)
    shortened = cut.value(masked, 0)
    encoded = canonical(shortened, reason.removesuffix("_cap"))
    if len(encoded) <= cap:
        return Bounded(shortened, cut.was_made)
    mark: dict[str, Any] = {"_truncated": True, "reason": reason, "original_bytes": len(encoded)}
    preview = encoded.decode()[: min(PREVIEW_CHARACTERS, max(32, cap // 2))]
    marked = {**mark, "preview": preview}
    return Bounded(marked if len(encode(marked)) <= cap else mark, was_cut=True)


class _Cut:
    """Cuts values to a limit of levels, items and characters, and notes whether it did."""

    def __init__(self, characters: int) -> None:
        self._characters = characters
        self.was_made = False

    def value(self, value: Json, level: int) -> Json:
        if isinstance(value, str):
            if len(value) <= self._characters:
                return value
            self.was_made = True
            return value[: self._characters] + "…"
        if not isinstance(value, dict | list):
            return value
        if level > LEVELS_MAX:
            self.was_made = True
            return "[TRUNCATED_DEPTH]"
        return (self._object if isinstance(value, dict) else self._list)(value, level)  # type: ignore[arg-type]

    def _object(self, value: dict[str, Json], level: int) -> Json:
        bounded: dict[str, Json] = {}
        outputs = 0
        for count, (key, item) in enumerate(value.items()):
            if count >= ITEMS_MAX:
                self.was_made = True
                bounded["_truncated_items"] = True
                break
            if key.strip().lower() in OUTPUT_FIELDS:
                outputs += 1
            else:
                bounded[key] = self.value(item, level + 1)
        if outputs:
            bounded["_redacted_output_fields"] = outputs
        return bounded

    def _list(self, value: list[Json], level: int) -> Json:
        bounded = [self.value(item, level + 1) for item in value[:ITEMS_MAX]]
        if len(value) > ITEMS_MAX:
            self.was_made = True
            bounded.append(f"[TRUNCATED_ITEMS:{len(value) - ITEMS_MAX}]")
        return bounded


def is_dump(text: str) -> bool:
    """Return whether ``text`` looks like the output of a tool rather than a message."""
    plain = text.strip()
    return (
        "<relevant-memories>" in plain
        or (plain[:1] == "{" and plain[-1:] == "}" and bool(_RECORD_OF_TOOL.search(plain)))
        or any(pattern.search(plain) for pattern in _DUMPS)
    )
