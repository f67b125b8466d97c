"""Tool calls: their statuses, and the texts of synthetic results."""

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
"""open: no outcome yet; synthetic: the tool gave none, so one was substituted."""
STATUSES: Final[tuple[str, ...]] = get_args(Status)

Reason = Literal["missing_result", "interrupted", "crashed", "timeout", "denied", "aborted"]
"""Why a result is synthetic."""
REASONS: Final[tuple[str, ...]] = get_args(Reason)

SHAPE_DEPTH_MAX: Final = 8
"""The depth of an input's shape; deeper values are ignored."""

_TEXTS: Final[dict[str, str]] = {
    "missing_result": "[treering] {tool} gave no result; none was recorded before the run ended.",
    "interrupted": "[treering] {tool} was interrupted; it may have done part of its work.",
    "crashed": "[treering] {tool} has no result: its process died; it may have done its work.",
    "timeout": "[treering] {tool} gave no result in time; it may still be at work.",
    "denied": "[treering] {tool} was not run: it is not allowed here.",
    "aborted": "[treering] {tool} was given up because the run failed.",
}


class SyntheticPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of synthetic results."""

    texts: Mapping[str, str] = {}
    """Texts by reason, which override the defaults; ``{tool}`` and ``{reason}`` are filled in."""

    def __post_init__(self) -> None:
        if not isinstance(self.texts, Mapping):
            raise InvalidInput("texts is not a mapping", hint="write SyntheticPolicy(texts={…})")
        for reason, text in self.texts.items():
            check_reason(reason)
            if not isinstance(text, str) or not text.strip():
                raise InvalidInput(f"the text for {reason} is not text", hint="write a sentence")
            canonical(text, f"the text for {reason}")

    def text(self, tool: str, reason: Reason) -> str:
        """Return the text that replaces the result of ``tool``."""
        template = self.texts.get(reason) or _TEXTS[reason]
        return template.replace("{tool}", tool).replace("{reason}", reason)


def check_reason(reason: str) -> Reason:
    """Return ``reason`` if it is a reason for a synthetic result. Raises InvalidInput otherwise."""
    if reason not in REASONS:
        raise InvalidInput(f"invalid reason: {reason}", hint=f"use one of {', '.join(REASONS)}")
    return reason  # type: ignore[return-value]


def shape_hash(value: Json) -> str:
    """Return a hash of the names and types in ``value``, without its values.

    Calls of the same shape share it.
    """
    return sha256(canonical(_shape(value, SHAPE_DEPTH_MAX), "shape")).hexdigest()[:16]


def _shape(value: Json, depth: int) -> Json:
    if isinstance(value, dict):
        return {key: _shape(part, depth - 1) for key, part in value.items()} if depth else {}
    if isinstance(value, list | tuple):
        shapes = {canonical(_shape(part, depth - 1), "shape") for part in value} if depth else set()
        return [shape.decode() for shape in sorted(shapes)]
    return "number" if type(value) in {int, float} else type(value).__name__
