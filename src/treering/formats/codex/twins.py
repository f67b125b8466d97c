"""Texts that a rollout has more than once, each time in another lane.

A file has each text as an item of the model's input or output, as an event for the user interface
and, in newer files, as a completed item of the turn. Two texts are one if they are the same, near
each other, in different lanes; a text that comes twice in the same lane was said twice.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec

Lane = Literal["item", "event", "turn"]
Role = Literal["user", "assistant", "thinking"]

WINDOW_RECORDS: Final = 64
"""Twins are at most this many records apart."""
SAYINGS_MAX: Final = 64
"""Texts that are remembered for their twins."""
WRAPPED_LINES_MAX: Final = 100
"""A user's text of up to this many lines is looked for inside of another."""
WRAPPING_LINES_MAX: Final = 1_000
"""A text is looked for among no more lines of another, from its end."""

_WRAPPERS: Final = (
    *("environment_context", "user_instructions", "instructions", "turn_aborted", "skill"),
    *("user_shell_command", "subagent_notification", "permissions instructions", "model_switch"),
    *("collaboration_mode", "apps_instructions", "skills_instructions", "plugins_instructions"),
    *("personality_spec", "realtime_conversation", "environment_update", "hook_prompt"),
)
_WRAPPED: Final = re.compile(
    rf"\s*<({'|'.join(_WRAPPERS)})(?: [^>]{{0,200}})?>.*?</\1>\s*", re.DOTALL | re.IGNORECASE
)
_GUIDE: Final = re.compile(r"\s*# AGENTS\.md instructions\b[^\n]*\n\s*(?=<INSTRUCTIONS>)")


class LaneText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text that may come again in another lane."""

    role: Role
    lane: Lane
    text: str
    more: dict[str, Any] = {}
    """What else is known of it."""


class _Heard(msgspec.Struct, array_like=True):
    """A text that was read, and the lanes it came in."""

    role: str
    mark: str
    lanes: list[str]
    at: int
    lines: int = 0
    """How many lines of another text it may be; 0 if it is not looked for in others."""


class Twins(msgspec.Struct):
    """The latest texts, and the lanes they came in."""

    heard: list[_Heard] = []

    def repeats(self, saying: LaneText, at: int) -> bool:
        """Whether ``saying``, in record number ``at``, came in another lane before."""
        while self.heard and self.heard[0].at < at - WINDOW_RECORDS:
            del self.heard[0]
        role, lane, mark = saying.role, saying.lane, _mark(saying.text)
        for heard in self.heard:
            if heard.mark == mark and heard.role == role and lane not in heard.lanes:
                heard.lanes.append(lane)
                return True
        if role == "user" and lane == "item":
            # An item wraps the user's words in further context for the model.
            for heard in self.heard:
                if (
                    heard.role == role
                    and lane not in heard.lanes
                    and _is_within(heard, saying.text)
                ):
                    heard.lanes.append(lane)
                    return True
        return False

    def add(self, saying: LaneText, at: int) -> None:
        """Remember a text."""
        may_be_wrapped = saying.role == "user" and saying.lane != "item"
        lines = (
            len(saying.text.strip().split("\n")) if may_be_wrapped and saying.text.strip() else 0
        )
        lines = lines if lines <= WRAPPED_LINES_MAX else 0
        self.heard.append(_Heard(saying.role, _mark(saying.text), [saying.lane], at, lines))
        if len(self.heard) > SAYINGS_MAX:
            del self.heard[0]


def unwrapped(text: str) -> str:
    """Return what is left of a user's item without what was put around it."""
    start = 0
    while True:
        guide = _GUIDE.match(text, start)
        wrapper = _WRAPPED.match(text, guide.end() if guide else start)
        if not wrapper:
            return text if start == 0 else text[start:]
        start = wrapper.end()


def _is_within(heard: _Heard, text: str) -> bool:
    """Whether ``text`` has the words as lines of their own; only their digest is known."""
    lines = text.rsplit("\n", WRAPPING_LINES_MAX)[-WRAPPING_LINES_MAX:] if heard.lines else []
    return any(
        _mark("\n".join(lines[at : at + heard.lines])) == heard.mark
        for at in range(len(lines) - heard.lines + 1)
    )


@lru_cache(maxsize=2)  # A text that does not come again is remembered next.
def _mark(text: str) -> str:
    return sha256(text.strip().encode()).hexdigest()[:16]
