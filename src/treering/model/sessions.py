"""What a session is allowed, by the mode it was opened in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from treering.errors import InvalidInput
from treering.model.codec import sound_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

Mode = Literal["main", "group", "queue"]
"""main: one person; group: many, with few tools; queue: messages one at a time, in order."""
MODES: Final[tuple[str, ...]] = get_args(Mode)

SessionState = Literal["running", "open", "idle", "closed", "pruned"]
"""running: a turn is under way; idle: nobody wrote lately; pruned: closed, and its past gone."""
SESSION_STATES: Final[tuple[str, ...]] = get_args(SessionState)


class SessionOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A session at a glance."""

    session_id: str
    scope: str
    title: str | None
    """As it was named; else the beginning of what the user said first."""
    state: SessionState
    mode: Mode
    agent: str
    user: str | None
    model: str | None
    """The one that was named last."""
    created_ms: int
    updated_ms: int
    event_count: int
    """Its own, without those that it shares with the session it was forked from."""
    parent: str | None = None
    """The session that it was forked from."""
    forked_seq: int | None = None
    """Up to here their past is one."""
    spawned_by: str | None = None
    """The session whose agent began it, as its subagent's."""
    imported_from: str | None = None
    """The format of the log that it was taken from."""


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


IDLE_MINUTES: Final = 30
"""A session is idle that nobody has written to for so long."""

BrowserAccess = Literal["full", "read_only", "none"]


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a group keeps away from, unless the group was opened otherwise."""

    sandbox: bool = True
    """Code runs in a sandbox."""
    file_access: bool = False
    """Personal files may be read."""
    browser_access: BrowserAccess = "read_only"
    cross_user_memory: bool = False
    """What is remembered of one person may reach another."""

    def __post_init__(self) -> None:
        """Raise InvalidInput for what could not be read again."""
        for name in ("sandbox", "file_access", "cross_user_memory"):
            if not isinstance(value := getattr(self, name), bool):
                raise InvalidInput(f"{name} is {value!r}", hint="give True or False")
        if self.browser_access not in get_args(BrowserAccess):
            raise InvalidInput(
                f"browser_access is {self.browser_access!r}",
                hint=f"use {' or '.join(get_args(BrowserAccess))}",
            )


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a session was opened as."""

    mode: Mode = "main"
    channel: str | None = None
    participants: tuple[str, ...] = ()
    key: str | None = None
    """The name that another system knows the session by."""
    tools: tuple[str, ...] | None = None
    """The tools that may run; None is all of them, or a group's default."""
    isolation: Isolation | None = None
    """None is none, or a group's default."""
    title: str | None = None
    spawned_by: str | None = None
    """The session whose agent began this one, as its subagent's."""
    spawned_call: str | None = None
    """The tool call there that began it."""

    @property
    def walls(self) -> Isolation | None:
        """Return what the session is isolated from; None if it is not."""
        return self.isolation or (Isolation() if self.mode == "group" else None)

    @property
    def sole_participant(self) -> str | None:
        """Return the one person that the agent talks to; None if they are several, or unknown."""
        is_alone = self.mode != "group" and len(self.participants) == 1
        return self.participants[0] if is_alone else None

    def permits(self, tool: str) -> bool:
        """Whether ``tool`` may run in the session."""
        allowed = self.tools
        if allowed is None:
            allowed = GROUP_TOOLS if self.mode == "group" else None
        return allowed is None or tool in allowed


LOGS: Final = "treering:logs"
"""Behind this wall stands what logs tell without naming a user: it is whoever's logs they are."""


class Attribution(msgspec.Struct, frozen=True, gc=False):
    """Whose is what a session tells without naming a user."""

    user: str | None = None
    wall: str | None = None
    """The session that keeps it to itself, or LOGS; None, and no user: it is the scope's."""


COMMON: Final = Attribution()


def attribution_of(
    session_id: str, settings: SessionSettings, *, user: str | None, is_imported: bool
) -> Attribution:
    """Return whose is what a session tells without naming a user, by how it was opened.

    ``user`` is whom its opening names: then whoever names nobody means the scope.
    """
    if settings.walls is not None:
        return COMMON if settings.walls.cross_user_memory else Attribution(wall=session_id)
    if user is not None:
        return COMMON
    if settings.sole_participant is not None:
        return Attribution(user=settings.sole_participant)
    return Attribution(wall=LOGS if is_imported else session_id)


ERASED_SESSION: Final = SessionSettings(tools=GROUP_TOOLS, isolation=Isolation())
"""What a session is taken for whose opening was erased: with the fewest tools, behind walls."""
ERASED_GROUP: Final = SessionSettings(mode="group", tools=GROUP_TOOLS, isolation=Isolation())
"""The same for one whose id says that it is a group's."""
GROUP_PREFIX: Final = "group:"


def mentions(text: str, names: Iterable[str]) -> bool:
    """Whether ``text`` calls one of ``names``: as a word of its own, with or without an @."""
    folded = text.casefold()
    return any(
        re.search(rf"(?<![\w@])@?{re.escape(name.casefold().lstrip('@'))}(?!\w)", folded)
        for name in names
        if name.strip("@ ")
    )


def settings_of(payload: Any) -> SessionSettings:
    """Return the settings that a session.opened event holds; defaults where it cannot be read."""
    return msgspec.convert(sound_fields(SessionSettings, payload), SessionSettings)
