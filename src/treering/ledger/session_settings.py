"""The settings of a session: as a handle gives them, and as they were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.errors import InvalidInput
from treering.ledger.people import OPENINGS
from treering.memory.records import MEMORY_SESSION
from treering.model.codec import decode, encode
from treering.model.events import Event, Header
from treering.model.fields import check_list, check_name, check_text
from treering.model.kinds import IMPORTED
from treering.model.parts import SessionOpened
from treering.model.queries import Query
from treering.model.scopes import Scope
from treering.model.sessions import (
    COMMON,
    ERASED_GROUP,
    ERASED_SESSION,
    GROUP_PREFIX,
    MODES,
    Attribution,
    Isolation,
    SessionSettings,
    attribution_of,
    settings_of,
)
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ports import EventStore
    from treering.model.sessions import Mode


def stated(
    *,
    mode: Mode | None = None,
    channel: str | None = None,
    participants: Sequence[str] = (),
    key: str | None = None,
    tools: Sequence[str] | None = None,
    isolation: Isolation | None = None,
    title: str | None = None,
    spawned_by: str | None = None,
    spawned_call: str | None = None,
) -> SessionSettings:
    """Return the arguments of a handle as settings. Raise InvalidInput if a value is wrong."""
    if mode is not None and mode not in MODES:
        raise InvalidInput(f"invalid mode: {mode}", hint=f"use {' or '.join(MODES)}")
    if isolation is not None and not isinstance(isolation, Isolation):
        raise InvalidInput(
            f"isolation is a {type(isolation).__name__}", hint="give a treering.Isolation"
        )
    people = check_list(participants, "participants")
    return SessionSettings(
        mode=mode or "main",
        channel=None if channel is None else check_text(channel, "channel"),
        participants=tuple(check_text(person, "participant") for person in people),
        key=None if key is None else check_text(key, "key"),
        tools=None if tools is None else _tool_names(tools),
        isolation=isolation,
        title=None if title is None else check_title(title),
        spawned_by=None if spawned_by is None else check_name(spawned_by, "spawned_by"),
        spawned_call=None if spawned_call is None else check_text(spawned_call, "spawned_call"),
    )


def agree(
    given: SessionSettings, recorded: SessionSettings, *, mode: Mode | None, session_id: str
) -> SessionSettings:
    """Return the recorded settings of a session, overridden by those of a handle.

    ``mode`` is the one that the handle insists on. Raises InvalidInput if it is another.
    """
    if recorded is ERASED_SESSION and mode is not None:
        return given  # The recorded ones are erased.
    if mode not in {None, recorded.mode}:
        raise InvalidInput(
            f"session {session_id} was opened as {recorded.mode}, not {mode}",
            hint="leave mode out, or use another session",
        )
    return SessionSettings(
        mode=mode or recorded.mode,
        channel=given.channel or recorded.channel,
        participants=given.participants or recorded.participants,
        key=given.key or recorded.key,
        tools=recorded.tools if given.tools is None else given.tools,
        isolation=given.isolation or recorded.isolation,
        title=given.title or recorded.title,
        spawned_by=recorded.spawned_by or given.spawned_by,
        spawned_call=recorded.spawned_call or given.spawned_call,
    )


def opening(agent: str, settings: SessionSettings) -> dict[str, Any]:
    """Return what the event says that opens a session of ``agent``, as fields of a NewEvent."""
    part = SessionOpened(
        channel=settings.channel,
        mode=settings.mode,
        spawned_by=settings.spawned_by,
        spawned_call=settings.spawned_call,
    )
    return {
        "kind": "session.opened",
        "summary": f"session opened by {agent}",
        "payload": decode(encode(settings)),
        "refs": part.as_refs(),
    }


def read_settings(store: EventStore, scope: Scope, session_id: str) -> SessionSettings | None:
    """Return the settings that a session was opened with; None if it has no events."""
    first = store.reader.by_seq(Event, scope, session_id, after_seq=0, limit=1)
    return _settings(store, first[0]) if first else None


def read_attribution(store: EventStore, scope: Scope, session_id: str) -> Attribution:
    """Return who owns facts of a session that names no user.

    Facts of a subagent belong to the owner of the session that started it.
    """
    seen: set[str] = set()
    while session_id != MEMORY_SESSION and not session_id.startswith(f"{MEMORY_SESSION}:"):
        seen.add(session_id)
        first = store.reader.by_seq(Event, scope, session_id, after_seq=0, limit=1)
        settings = _settings(store, first[0]) if first else SessionSettings()
        user = first[0].user_id if first and first[0].kind in OPENINGS else None
        origin = settings.spawned_by
        if user is None and settings.walls is None and origin not in {None, *seen}:
            session_id = origin or ""
            continue
        imported = Query(scope=scope, session_id=session_id, kinds=(IMPORTED,), limit=1)
        is_imported = bool(store.reader.by_time(Header, imported))
        return attribution_of(session_id, settings, user=user, is_imported=is_imported)
    return COMMON


def _settings(store: EventStore, opening: Event) -> SessionSettings:
    """Return the settings in the first event of a session, or their erased form."""
    scope, session_id = Scope(opening.scope), opening.session_id
    cut = store.sessions.cut(scope, session_id) if opening.seq > 1 else None
    if opening.redacted or opening.seq > (cut.seq + 1 if cut else 1):
        # An erased event keeps its kind: one that opened nothing took no settings with it.
        first = store.reader.records(scope, session_id, after_seq=0, limit=1)
        if first and first[0].kind not in OPENINGS:
            return SessionSettings()
        remaining = settings_after_forgetting(store, scope, session_id)
        erased = ERASED_GROUP if session_id.startswith(GROUP_PREFIX) else ERASED_SESSION
        return remaining or erased
    return settings_of(opening.payload if opening.kind in OPENINGS else None)


def settings_after_forgetting(
    store: EventStore, scope: Scope, session_id: str
) -> SessionSettings | None:
    """Return the settings of a session whose opening was erased to forget a participant.

    The event that vouches for the erasure has them, without that participant.
    """
    for event in reversed(store.reader.covers(scope, session_id)):
        payload = event.payload if isinstance(event.payload, dict) else {}
        if event.kind == "ledger.forgotten" and "charter" in payload:
            return settings_of(payload["charter"])
    return None


def check_title(title: str) -> str:
    """Return a title as one line. Raises InvalidInput if there is nothing in it."""
    if not isinstance(title, str) or not title.strip():
        raise InvalidInput("a title is a text", hint="give a few words")
    return shorten(check_text(title, "title"))


def _tool_names(tools: Sequence[str]) -> tuple[str, ...]:
    return tuple(check_name(tool, "tool name") for tool in check_list(tools, "tools"))
