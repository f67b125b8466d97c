"""Walls: what a group learns stays in it, and what is known of its members stays out.

What is said where nobody is named stays there, too; but what is known of people comes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.errors import InvalidInput, NotFound
from treering.model.sessions import GROUP_PREFIX, LOGS, SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.memory_factory import Recorder
    from treering.model.scopes import Scope
    from treering.model.sessions import Attribution


def is_walled(
    settings: SessionSettings, settings_of: Callable[[str], SessionSettings | None]
) -> bool:
    """Whether a session keeps to itself what it learns, or the one whose agent began it does."""
    seen: set[str] = set()
    while settings.walls is None and settings.spawned_by not in {None, *seen}:
        origin = settings.spawned_by or ""
        seen.add(origin)
        settings = settings_of(origin) or SessionSettings()
    return settings.walls is not None and not settings.walls.cross_user_memory


class Walls:
    """Knows which sessions of a scope keep to themselves what is learnt in them."""

    def __init__(self, recorder: Recorder, scope: Scope) -> None:
        self._recorder = recorder
        self._scope = scope

    def around(self, session: str | None) -> str | None:
        """Return the session itself if it keeps to itself what it learns, else None."""
        if session is None:
            return None
        settings = self._recorder.settings(self._scope, session)
        if settings is None:
            # A group in which nothing was said yet: what is known of its members stays out of it.
            return session if session.startswith(GROUP_PREFIX) else None
        walled = is_walled(settings, lambda one: self._recorder.settings(self._scope, one))
        return session if walled else None

    def seen_from(self, session: str | None, user: str | None) -> set[str | None]:
        """Return the walls behind which is looked for ``user`` in a session; None is in the open.

        In a group only behind its own.
        """
        around = self.around(session)
        if around is not None:
            return {around}
        own = None if session is None else self.attribution(session).wall
        # What logs tell is nobody's whose name is known.
        logs = {LOGS} if user is None else set()
        return {None, *({own} - {LOGS}), *logs}

    def attribution(self, session: str) -> Attribution:
        """Return whose is what a session tells without naming a user."""
        return self._recorder.attribution(self._scope, session)

    def opened(self, session: str | None) -> str | None:
        """Return the session if it is there, else None.

        The first event of a session says what it is: that is not for the memory to write.
        """
        there = session is not None and self._recorder.settings(self._scope, session) is not None
        return session if there else None

    def origin(self, session: str | None, evidence: Sequence[str]) -> tuple[str | None, int | None]:
        """Return the session that a fact belongs to, and when its evidence was recorded last.

        Raises NotFound if there is no such session or evidence, InvalidInput if that is from behind
        a wall that the fact would leave, or from outside of one that it would enter.
        """
        if session is not None and self.opened(session) is None:
            raise NotFound(
                f"no session {session} in scope {self._scope}",
                hint="open it first, or leave session_id out",
            )
        if not evidence:
            return session, None
        places = self._recorder.places(self._scope, evidence)
        for one in evidence:
            if one not in places:
                raise NotFound(
                    f"no event {one} in scope {self._scope}", hint="cite events of the same scope"
                )
        sessions = list(dict.fromkeys(places[one][0] for one in evidence))
        home = sessions[0] if session is None else session
        walls = {self.around(one) for one in [home, *sessions]}
        if len(walls) > 1:
            raise InvalidInput(
                "a group's facts have the group's own events for evidence, and no others do",
                hint="learn it in the session whose events say so",
            )
        return home, max(places[one][1] for one in evidence)
