"""The memory as a contributor: what is known of what the user just said, for one model call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from treering.context.texts import said_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.memory.memory import Memory
    from treering.model.events import Event

TOKENS_DEFAULT: Final = 800
EVENTS_LOOKED_AT: Final = 20


class ContributorView(Protocol):
    """What a contributor may look at."""

    memory_ids: list[str]

    @property
    def session_id(self) -> str:
        """Return the session that the call is made in."""

    @property
    def run_id(self) -> str | None:
        """Return the run that the call is made for; None if nobody makes one."""

    def events(self, *, last: int) -> list[Event]:
        """Return the last events that the model could be shown."""


class MemoryContributor:
    """Puts what is recalled before a model call. Give it to ``turn.context(contributors=[…])``."""

    name = "memory"

    def __init__(
        self,
        memory: Memory,
        *,
        user: str | None,
        session_id: str | None,
        limit: int,
        max_tokens: int = TOKENS_DEFAULT,
    ) -> None:
        self._memory = memory
        self._user = user
        self._session_id = session_id
        self._limit = limit
        self._max_tokens = max_tokens

    def extend(self, working: ContributorView) -> Sequence[str]:
        """Return the block for what was said last; what is in it counts as used."""
        query = _last_said(working.events(last=EVENTS_LOOKED_AT))
        # A group is a group, whether or not whoever made this has said so.
        session_id = working.session_id if self._session_id is None else self._session_id
        found = self._memory.recall(
            query, user=self._user, session_id=session_id, limit=self._limit, record=False
        )
        text, ids = found.block(self._max_tokens)
        working.memory_ids.extend(ids)
        if working.run_id is not None and ids:
            self._memory.note_recalled(
                ids, user=self._user, session_id=session_id, run_id=working.run_id
            )
        return [text] if text else []


def _last_said(events: Sequence[Event]) -> str | None:
    for event in reversed(events):
        if event.kind == "conversation.user":
            return said_in(event).strip() or None
    return None
