"""Walls: what a group learns stays in the group, and what is known of its members stays out.

Facts from a session that names no user stay in that session, but facts about people are recalled
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from treering.errors import InvalidInput, NotFound
from treering.model.sessions import GROUP_PREFIX, LOGS, SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.memory_factory import Recorder
    from treering.model.scopes import Scope
    from treering.model.sessions import Attribution


class Owner(NamedTuple):
    """Who the turns of a session belong to if they name no user."""

    user: str | None
    wall: str | None
    is_group: bool


def is_walled(
    settings: SessionSettings, settings_of: Callable[[str], SessionSettings | None]
) -> bool:
    """Return whether a session, or the parent of a subagent, keeps its facts to itself."""
    seen: set[str] = set()
    while settings.walls is None and settings.spawned_by not in {None, *seen}:
        origin = settings.spawned_by or ""
        seen.add(origin)
        settings = settings_of(origin) or SessionSettings()
    return settings.walls is not None and not settings.walls.cross_user_memory


class Walls:
    """Finds the sessions of a scope that keep their facts to themselves."""

    def __init__(self, recorder: Recorder, scope: Scope) -> None:
        self._recorder = recorder
        self._scope = scope

    def wall_of(self, session: str | None) -> str | None:
        """Return the session if it keeps its facts to itself, else None."""
        if session is None:
            return None
        settings = self._recorder.settings(self._scope, session)
        if settings is None:
            # A group without any events yet: facts about its members stay out of it.
            return session if session.startswith(GROUP_PREFIX) else None
        walled = is_walled(settings, lambda one: self._recorder.settings(self._scope, one))
        return session if walled else None

    def visible_walls(self, session: str | None, user: str | None) -> set[str | None]:
        """Return the walls to search for ``user`` in a session; None is for facts without a wall.

        In a group, only its own.
        """
        around = self.wall_of(session)
        if around is not None:
            return {around}
        own = None if session is None else self.attribution(session).wall
        # Facts from logs belong to nobody in particular, so a named user does not get them.
        logs = {LOGS} if user is None else set()
        return {None, *({own} - {LOGS}), *logs}

    def attribution(self, session: str) -> Attribution:
        """Return who the facts of a session belong to when it names no user."""
        return self._recorder.attribution(self._scope, session)

    def owner(self, session: str) -> Owner:
        """Return who may see the turns of a session: its user, or only those in it."""
        wall = self.wall_of(session)
        if wall is not None:
            return Owner(None, wall, is_group=True)
        attribution = self.attribution(session)
        user = attribution.user or self._recorder.opened_for(self._scope, session)
        return Owner(user, None if user is not None else attribution.wall, is_group=False)

    def existing_session(self, session: str | None) -> str | None:
        """Return the session if it exists, else None.

        The memory must not write the first event of a session, which holds its settings.
        """
        exists = session is not None and self._recorder.settings(self._scope, session) is not None
        return session if exists else None

    def origin_of(
        self, session: str | None, evidence: Sequence[str]
    ) -> tuple[str | None, int | None]:
        """Return the session a fact belongs to, and when its latest evidence was recorded.

        Raise NotFound if the session or an event does not exist, InvalidInput if the evidence
        crosses a wall.
        """
        if session is not None and self.existing_session(session) is None:
            raise NotFound(
                f"no session {session} in scope {self._scope}",
                hint="open it first, or leave session_id out",
            )
        if not evidence:
            return session, None
        places = self._recorder.places(self._scope, evidence)
        for event_id in evidence:
            if event_id not in places:
                raise NotFound(
                    f"no event {event_id} in scope {self._scope}",
                    hint="cite events of the same scope",
                )
        sessions = list(dict.fromkeys(places[event_id][0] for event_id in evidence))
        home = sessions[0] if session is None else session
        walls = {self.wall_of(session_id) for session_id in [home, *sessions]}
        if len(walls) > 1:
            raise InvalidInput(
                "a group's facts cite only the group's events, and no other facts cite them",
                hint="learn it in the session whose events say so",
            )
        return home, max(places[event_id][1] for event_id in evidence)
