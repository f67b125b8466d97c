"""Why a fact was not believed, in words."""

from __future__ import annotations

from typing import Final

REASONS: Final = {
    "empty": "it says nothing",
    "too_long": "it is too long for one fact",
    "fragment": "it is a fragment, not a statement",
    "filler": "it is a greeting or an acknowledgement",
    "question": "it is a question",
    "code": "it is code or a line of a log",
    "noise": "it is about the conversation or its machinery",
    "transient": "it is only true for the moment",
    "generic": "it would be true of anybody",
    "instruction": "it instructs its reader",
    "external": "it came from a tool",
    "unsupported": "an agent said so, without support",
    "secret": "it holds a secret",
    "evidence_erased": "its evidence was erased meanwhile",
    "erased_before": "it was learned before, and erased",
}


def in_words(reason: str | None) -> str:
    """Return a reason in plain words; an unknown one as it is."""
    return REASONS.get(reason or "", reason or "no reason was given")
