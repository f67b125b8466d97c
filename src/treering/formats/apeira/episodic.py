"""Episodic: the append-only log of one Apeira session, and its state as Apeira stores it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from treering.errors import InvalidInput
from treering.formats.apeira.json import JsonParseError, copy, parse, stringify
from treering.formats.apeira.slices import (
    check_episode,
    check_start,
    load_episodes,
    load_lines,
    make_slice,
    new_episode,
    next_after,
    normalize_items,
    select,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.formats.apeira.slices import Episode, Normalize, Slice


class Episodic:
    """A log of episodes: plain dicts, numbered from 1, never changed.

    Both the episodes passed in and those returned are copies.
    """

    __hash__ = None  # type: ignore[assignment]  # It is mutable.

    def __init__(self, jsonl: str | Sequence[Mapping[str, Any]] | None = None) -> None:
        """Create an empty log, or one from JSONL or from episodes, whose ids are kept.

        Lines that are not episodes are left out; a last episode reports them.
        """
        self._episodes = load_lines(jsonl) if isinstance(jsonl, str) else load_episodes(jsonl or ())
        self._next_id = next_after(max((episode["id"] for episode in self._episodes), default=0))
        self._next_id = max(self._next_id, 1)

    def __repr__(self) -> str:
        return f"Episodic({len(self._episodes)} episodes)"

    def __len__(self) -> int:
        return len(self._episodes)

    def __eq__(self, other: object) -> bool:
        """Return whether both serialize to the same bytes."""
        return isinstance(other, Episodic) and self.to_jsonl() == other.to_jsonl()

    # Writing.

    def append(self, episode: Mapping[str, Any]) -> Episode:
        """Add an episode and return it with its id; its source defaults to ``runtime``."""
        check_episode(episode)
        added = new_episode(episode, self._next_id)
        self._next_id = next_after(self._next_id)
        self._episodes.append(added)
        return _copy_of(added)

    def append_items(
        self, items: Sequence[Any], *, source: str | None = None, turn_id: str | None = None
    ) -> list[Episode]:
        """Add an episode for each of ``items``: messages, calls and outputs."""
        meta = {} if source is None else {"source": source}
        meta |= {} if turn_id is None else {"turnId": turn_id}
        return [
            self.append({"meta": meta, "payload": {"item": item}, "type": "item"}) for item in items
        ]

    # Reading.

    def read(
        self,
        *,
        from_id: float | None = None,
        type: str | Sequence[str] | None = None,  # noqa: A002  (the original's word)
        turn_id: str | None = None,
        limit: float | None = None,
    ) -> list[Episode]:
        """Return the matching episodes, oldest first; the last 100 if no filter is given.

        ``from_id`` is exclusive, so 0 returns the whole log. ``limit`` is applied last and counts
        from the end; a limit that is not a positive number returns nothing.
        """
        episodes = select(
            self._episodes, from_id=from_id, of_types=type, turn_id=turn_id, limit=limit
        )
        return [_copy_of(episode) for episode in episodes]

    def to_jsonl(self) -> str:
        """Return the log as one line per episode, without a final newline."""
        return "\n".join(map(stringify, self._episodes))

    def fork(self) -> Episodic:
        """Return a new log that starts with the same episodes."""
        return Episodic(self._episodes)

    def slice(
        self,
        *,
        start: Mapping[str, Any] | None = None,
        max_tokens: float | None = None,
        reserve_output_tokens: float | None = None,
        turn_id: str | None = None,
        normalize: Normalize | None = None,
        extensions: Sequence[Any] = (),
    ) -> Slice:
        """Return the items for one model call, followed by ``extensions``, which are not stored.

        ``start`` is ``{"type": "beginning"}`` or ``{"type": "last-boundary", "reason": …}``. If the
        last turn used more than the budget, the slice starts at the last checkpoint or interrupt,
        else at the given turn, else it is empty.
        """
        return make_slice(
            self.read(from_id=0),
            start=check_start(start),
            max_tokens=max_tokens,
            reserve_output_tokens=reserve_output_tokens,
            turn_id=turn_id,
            normalize=normalize or normalize_items,
            extensions=extensions,
        )


def _copy_of(episode: Episode) -> Episode:
    copied: Episode = copy(episode)
    return copied


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of one session."""

    context: dict[str, Any]
    episodic: Episodic


def load_state(stored: str | Mapping[str, Any]) -> SessionState:
    """Return the state in ``stored``, as text or parsed. Raises InvalidInput otherwise."""
    state = _parsed(stored) if isinstance(stored, str) else stored
    if not isinstance(state, Mapping):
        raise InvalidInput(
            f"a session state is an object, not a {type(state).__name__}",
            hint="give {context, episodic}",
        )
    context, log = state.get("context"), state.get("episodic")
    if log is None and "items" in state:
        raise InvalidInput(
            "the session state has the old format, with items instead of episodic",
            hint='convert them: Episodic().append_items(state["items"], source="user")',
        )
    if not isinstance(log, str):
        raise InvalidInput(
            f"episodic of a session state is JSONL, not {_described(log)}", hint="give its text"
        )
    if not isinstance(context, Mapping):
        raise InvalidInput(
            f"context of a session state is an object, not {_described(context)}",
            hint="give {} if it is empty",
        )
    return SessionState(context=copy(dict(context)), episodic=Episodic(log))


def save_state(state: SessionState) -> str:
    """Return ``state`` as Apeira stores it."""
    return stringify({"context": copy(state.context), "episodic": state.episodic.to_jsonl()})


def storage_key(agent: str, session_id: str) -> str:
    """Return the key under which Apeira stores the state of a session."""
    return stringify([agent, session_id])


def _parsed(text: str) -> Any:
    try:
        return parse(text)
    except JsonParseError as error:
        raise InvalidInput(
            f"the session state is not JSON: {error}", hint="pass the stored text unchanged"
        ) from error


def _described(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
