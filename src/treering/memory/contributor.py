"""The memory as a contributor: recalls what the last message is about, for one model call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from treering.context.texts import message_text
from treering.derive.search_texts import own_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.memory.memory import Memory
    from treering.model.events import Event

TOKENS_DEFAULT: Final = 800
EVENTS_LOOKED_AT: Final = 20


class ContributorView(Protocol):
    """What a contributor may read."""

    memory_ids: list[str]

    @property
    def session_id(self) -> str:
        """Return the session of the model call."""

    @property
    def run_id(self) -> str | None:
        """Return the run of the model call; None outside a run."""

    def events(self, *, last: int) -> list[Event]:
        """Return the last events that the model could see."""


class MemoryContributor:
    """Adds recalled memories to a model call, as in ``turn.context(contributors=[…])``."""

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
        """Return a block about the user's last message; the memories in it count as used."""
        query = _last_said(working.events(last=EVENTS_LOOKED_AT))
        # Without a session given, the call's own: a group must never see other memories.
        session_id = working.session_id if self._session_id is None else self._session_id
        result = self._memory.recall(
            query, user=self._user, session_id=session_id, limit=self._limit, record=False
        )
        # The model sees the turns of its own session anyway.
        others = [hit for hit in result.turn_hits if hit.session_id != working.session_id]
        result = msgspec.structs.replace(result, turn_hits=others)
        text, ids = result.block(self._max_tokens)
        working.memory_ids.extend(ids)
        if working.run_id is not None and ids:
            self._memory.note_recalled(
                ids, user=self._user, session_id=session_id, run_id=working.run_id
            )
        return [text] if text else []


def _last_said(events: Sequence[Event]) -> str | None:
    for event in reversed(events):
        if event.kind == "conversation.user":
            return own_words(message_text(event)).strip() or None
    return None
