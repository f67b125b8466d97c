"""Why a fact was not believed, in words."""

from __future__ import annotations

from typing import Final

REASONS: Final = {
    "empty": "it says nothing",
    "too_long": "it is too long for one fact",
    "fragment": "it is a fragment, no statement",
    "filler": "it is a greeting or an acknowledgement",
    "question": "it is a question",
    "code": "it is code or a line of a log",
    "noise": "it is about the conversation or its machinery",
    "transient": "it holds for the moment only",
    "generic": "it would be true of anybody",
    "instruction": "it tells its reader what to do",
    "external": "it came from a tool",
    "unsupported": "an agent said so, and nothing that was said supports it",
    "secret": "it holds a secret",
    "evidence_erased": "its evidence was erased meanwhile",
    "erased_before": "it was learnt before, and erased",
}


def in_words(reason: str | None) -> str:
    """Return a reason as people say it; one that has no words stands for itself."""
    return REASONS.get(reason or "", reason or "no reason was given")
