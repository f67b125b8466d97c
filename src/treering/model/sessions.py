"""What a session is allowed, by the mode it was opened in."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec

from treering.model.codec import sound_fields

Mode = Literal["main", "group", "queue"]
"""main: one person; group: many, with few tools; queue: messages one at a time, in order."""
MODES: Final[tuple[str, ...]] = get_args(Mode)

GROUP_TOOLS: Final = (
    "web_search",
    "web_browse",
    "code_execute_sandboxed",
    "weather",
    "calculator",
)
"""What a group may use when nobody says otherwise."""

PATIENCE_S: Final[dict[str, float]] = {"main": 0.0, "group": 60.0, "queue": 60.0}
"""How long a second run waits for the first when nobody says otherwise; 0 refuses it at once."""


class Charter(msgspec.Struct, frozen=True, kw_only=True):
    """What a session was opened as."""

    mode: Mode = "main"
    channel: str | None = None
    participants: tuple[str, ...] = ()
    key: str | None = None
    """The name that another system knows the session by."""
    tools: tuple[str, ...] | None = None
    """The tools that may run; None is all of them, or a group's default."""

    def permits(self, tool: str) -> bool:
        """Whether ``tool`` may run in the session."""
        allowed = self.tools
        if allowed is None:
            allowed = GROUP_TOOLS if self.mode == "group" else None
        return allowed is None or tool in allowed


ERASED_CHARTER: Final = Charter(tools=GROUP_TOOLS)
"""What a session is taken for whose opening was erased: with the fewest tools."""


def charter_of(payload: Any) -> Charter:
    """Return the charter that a session.opened event holds, as far as it can be read."""
    return msgspec.convert(sound_fields(Charter, payload), Charter)
