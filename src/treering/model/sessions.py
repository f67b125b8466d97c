"""The modes and permissions of sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypedDict, get_args

import msgspec

from treering.errors import InvalidInput
from treering.model.codec import valid_fields

Mode = Literal["main", "group", "queue"]
"""main: one person; group: several people, few tools; queue: messages one at a time, in order."""
MODES: Final[tuple[str, ...]] = get_args(Mode)

SessionState = Literal["running", "open", "idle", "closed", "pruned"]
"""running: a turn is active; idle: no recent events; pruned: closed, and its events expired."""
SESSION_STATES: Final[tuple[str, ...]] = get_args(SessionState)


class SessionOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A short description of a session."""

    session_id: str
    scope: str
    title: str | None
    """Its title, or else the start of the user's first message."""
    state: SessionState
    mode: Mode
    agent: str
    user: str | None
    model: str | None
    """The last model named."""
    created_ms: int
    updated_ms: int
    event_count: int
    """Its own events, without those shared with the session it was forked from."""
    parent: str | None = None
    """The session that it was forked from."""
    forked_seq: int | None = None
    """The last seq of the shared events."""
    spawned_by: str | None = None
    """The session that started it as a subagent."""
    imported_from: str | None = None
    """The format of the log that it was imported from."""
    has_content: bool = True
    """False if all that was recorded in it is erased, but for its opening and such erasures."""


GROUP_TOOLS: Final = ("web_search", "web_browse", "code_execute_sandboxed", "weather", "calculator")
"""The default tools of a group."""

TURN_WAIT_S: Final[dict[str, float]] = {"main": 0.0, "group": 60.0, "queue": 60.0}
"""How long a second run waits for the first by default; 0 refuses it at once."""

IDLE_MINUTES: Final = 30
"""A session without events for this long is idle."""
PRUNE_DAYS: Final = 90
"""A session is old that nobody has written to for so long."""

BrowserAccess = Literal["full", "read_only", "none"]


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """The restrictions on the agent of a group session; these are the defaults."""

    sandbox: bool = True
    """Whether code runs in a sandbox."""
    file_access: bool = False
    """Whether personal files may be read."""
    browser_access: BrowserAccess = "read_only"
    cross_user_memory: bool = False
    """Whether memories of one person may be shown to another."""

    def __post_init__(self) -> None:
        """Raise InvalidInput for values that could not be read again."""
        for name in ("sandbox", "file_access", "cross_user_memory"):
            if not isinstance(value := getattr(self, name), bool):
                raise InvalidInput(f"{name} is {value!r}", hint="use True or False")
        if self.browser_access not in get_args(BrowserAccess):
            raise InvalidInput(
                f"browser_access is {self.browser_access!r}",
                hint=f"use {' or '.join(get_args(BrowserAccess))}",
            )


class SessionOptions(TypedDict, total=False):
    """The settings that ``ledger.session`` takes besides the mode."""

    channel: str | None
    participants: Sequence[str]
    key: str | None
    tools: Sequence[str] | None
    isolation: Isolation | None
    title: str | None
    spawned_by: str | None
    spawned_call: str | None


class SessionFilters(TypedDict, total=False):
    """The filters of ``ledger.sessions`` by name."""

    agent: str | None
    prefix: str | None
    text: str | None


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a session was opened with."""

    mode: Mode = "main"
    channel: str | None = None
    participants: tuple[str, ...] = ()
    key: str | None = None
    """The session's name in another system."""
    tools: tuple[str, ...] | None = None
    """The tools that may run; None allows all, or a group's default."""
    isolation: Isolation | None = None
    """None means no isolation, or a group's default."""
    title: str | None = None
    spawned_by: str | None = None
    """The session that started this one as a subagent."""
    spawned_call: str | None = None
    """The parent's tool call that started it."""

    @property
    def walls(self) -> Isolation | None:
        """Return the session's isolation, or None."""
        return self.isolation or (Isolation() if self.mode == "group" else None)

    @property
    def sole_participant(self) -> str | None:
        """Return the only person the agent talks to; None if there are several or it is unknown."""
        is_alone = self.mode != "group" and len(self.participants) == 1
        return self.participants[0] if is_alone else None

    def permits(self, tool: str) -> bool:
        """Return whether ``tool`` may run in the session."""
        allowed = self.tools
        if allowed is None:
            allowed = GROUP_TOOLS if self.mode == "group" else None
        return allowed is None or tool in allowed


LOGS: Final = "treering:logs"
"""The wall around statements of imported logs that name no user: they belong to the logs' owner."""


class Attribution(msgspec.Struct, frozen=True, gc=False):
    """The owner of statements in a session that name no user."""

    user: str | None = None
    wall: str | None = None
    """The session that they stay in, or LOGS; with neither wall nor user, they belong to the
    scope."""


COMMON: Final = Attribution()


def attribution_of(
    session_id: str, settings: SessionSettings, *, user: str | None, is_imported: bool
) -> Attribution:
    """Return the owner of statements that name no user, by how the session was opened.

    ``user`` is the user named at its opening: then statements without a user belong to the scope.
    """
    if settings.walls is not None:
        return COMMON if settings.walls.cross_user_memory else Attribution(wall=session_id)
    if user is not None:
        return COMMON
    if settings.sole_participant is not None:
        return Attribution(user=settings.sole_participant)
    return Attribution(wall=LOGS if is_imported else session_id)


ERASED_SESSION: Final = SessionSettings(tools=GROUP_TOOLS, isolation=Isolation())
"""The settings of a session whose opening was erased: fewest tools, isolated."""
ERASED_GROUP: Final = SessionSettings(mode="group", tools=GROUP_TOOLS, isolation=Isolation())
"""The same for a session whose id is that of a group."""
GROUP_PREFIX: Final = "group:"


def mentions(text: str, names: Iterable[str]) -> bool:
    """Return whether ``text`` mentions one of ``names`` as a word, with or without an @."""
    folded = text.casefold()
    return any(
        re.search(rf"(?<![\w@])@?{re.escape(name.casefold().lstrip('@'))}(?!\w)", folded)
        for name in names
        if name.strip("@ ")
    )


def settings_of(payload: Any) -> SessionSettings:
    """Return the settings in a session.opened event; invalid fields are ignored."""
    return msgspec.convert(valid_fields(SessionSettings, payload), SessionSettings)
