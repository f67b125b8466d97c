"""Tool calls: how they can end, and what stands in when no result came."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from treering.errors import InvalidInput
from treering.model.codec import canonical

if TYPE_CHECKING:
    from treering.model.codec import Json

Status = Literal["open", "ok", "failed", "synthetic"]
"""open: no outcome yet; synthetic: the tool gave none, and one was put in its place."""
STATUSES: Final[tuple[str, ...]] = get_args(Status)

Reason = Literal["missing_result", "interrupted", "crashed", "timeout", "denied", "aborted"]
"""Why a result is synthetic."""
REASONS: Final[tuple[str, ...]] = get_args(Reason)

SHAPE_DEPTH_MAX: Final = 8
"""How deep an input's shape is told; what lies deeper is just something."""

_TEXTS: Final[dict[str, str]] = {
    "missing_result": "[treering] {tool} gave no result; none was recorded before the run ended.",
    "interrupted": "[treering] {tool} was interrupted; it may have done part of its work.",
    "crashed": "[treering] {tool} has no result: its process died; it may have done its work.",
    "timeout": "[treering] {tool} gave no result in time; it may still be at work.",
    "denied": "[treering] {tool} was not run: it is not allowed here.",
    "aborted": "[treering] {tool} was given up because the run failed.",
}


class SyntheticPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What is said in the place of a result that never came."""

    texts: Mapping[str, str] = {}
    """Texts by reason, over the defaults; ``{tool}`` and ``{reason}`` are filled in."""

    def __post_init__(self) -> None:
        if not isinstance(self.texts, Mapping):
            raise InvalidInput("texts is not a mapping", hint="write SyntheticPolicy(texts={…})")
        for reason, text in self.texts.items():
            check_reason(reason)
            if not isinstance(text, str) or not text.strip():
                raise InvalidInput(f"the text for {reason} is no text", hint="say it in words")
            canonical(text, f"the text for {reason}")

    def text(self, tool: str, reason: Reason) -> str:
        """Return the text that replaces the result of ``tool``."""
        told = self.texts.get(reason) or _TEXTS[reason]
        return told.replace("{tool}", tool).replace("{reason}", reason)


def check_reason(reason: str) -> Reason:
    """Return ``reason`` if a result can be synthetic for it. Raises InvalidInput otherwise."""
    if reason not in REASONS:
        raise InvalidInput(f"invalid reason: {reason}", hint=f"use one of {', '.join(REASONS)}")
    return reason  # type: ignore[return-value]


def shape_hash(value: Json) -> str:
    """Return a hash of the names and sorts of values in ``value``, and of no value itself.

    Calls of one shape share it, whatever they were called with.
    """
    return sha256(canonical(_shape(value, SHAPE_DEPTH_MAX), "shape")).hexdigest()[:16]


def _shape(value: Json, depth: int) -> Json:
    if isinstance(value, dict):
        return {key: _shape(part, depth - 1) for key, part in value.items()} if depth else {}
    if isinstance(value, list | tuple):
        sorts = {canonical(_shape(part, depth - 1), "shape") for part in value} if depth else set()
        return [sort.decode() for sort in sorted(sorts)]
    return "number" if type(value) in {int, float} else type(value).__name__
