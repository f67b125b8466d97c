"""A log of episodes brought into a session of the ledger, and a session told as such a log."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from treering.derive.visible import visible
from treering.errors import DuplicateEvent
from treering.formats.apeira.episodic import Episodic
from treering.formats.apeira.events import (
    context_of,
    entry_of,
    episode_of,
    item_in,
    name_in,
)
from treering.formats.apeira.reading import next_after
from treering.formats.apeira.states import SessionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.formats.apeira.events import EpisodeEvent
    from treering.formats.apeira.reading import Episode
    from treering.ledger.sessions import Session
    from treering.model.events import Header, NewEvent

BATCH: Final = 500
"""Episodes that are recorded at once."""
_DIGEST_DIGITS: Final = 24


def to_session(episodic: Episodic, session: Session) -> list[Header]:
    """Record each episode in ``session``, in order; those that are there already stay as they are.

    Raises DuplicateEvent at an episode that was recorded before and reads otherwise now: a log that
    was cleared or edited belongs into a session of its own. What stood before it stays recorded.
    """
    stated: list[tuple[Episode, NewEvent]] = []
    tools: dict[str, str] = {}
    taken: dict[int, int] = {}
    for episode in episodic.read(from_id=float("-inf")):
        number = episode["id"]
        taken[number] = taken.get(number, 0) + 1
        event_id = event_id_of(session.session_id, number, taken[number])
        entry = entry_of(episode, tools)
        stated.append((episode, _event(session, episode, entry, event_id)))
        item = item_in(episode)
        call_id, tool = name_in(item, "call_id"), name_in(item, "name")
        if item.get("type") == "function_call" and call_id and tool:
            tools.setdefault(call_id, tool)
    headers: list[Header] = []
    for start in range(0, len(stated), BATCH):
        headers += _record(session, stated[start : start + BATCH])
    return headers


def from_session(session: Session) -> Episodic:
    """Return what happened in ``session`` as a log: imported episodes to the byte, all else told.

    Runs that did not end well are left out, as Apeira discards a failed turn; so are turns that
    were undone, what was erased, and what tells of runs and sessions themselves.
    """
    episodes: list[Episode] = []
    upcoming, mixed = 1, False
    for event in visible(list(session.events())):
        episode = None if event.redacted or event.expired else episode_of(event)
        if episode is None:
            continue
        # An episode keeps the id it came with, unless others have been numbered in between.
        mixed = mixed or "id" not in episode
        if mixed:
            episode["id"] = max(episode.get("id", upcoming), upcoming)
        upcoming = max(upcoming, next_after(episode["id"]))
        episodes.append(episode)
    return Episodic(episodes)


def state_from_session(session: Session) -> SessionState:
    """Return ``session`` as Apeira stores it: its log, and the context it was imported with."""
    contexts = [context_of(event) for event in session.events(kinds=["ops.observation"])]
    latest = next((one for one in reversed(contexts) if one is not None), None)
    return SessionState(context=latest or {}, episodic=from_session(session))


def _event(session: Session, episode: Episode, entry: EpisodeEvent, event_id: str) -> NewEvent:
    told: Any = episode["meta"]
    return session.new_event(
        entry.kind,
        entry.summary,
        payload=entry.payload,
        refs=entry.refs,
        event_id=event_id,
        turn_id=name_in(told, "turnId") if isinstance(told, dict) else None,
        source=entry.source,
        origin=entry.origin,
    )


def _record(session: Session, stated: Sequence[tuple[Episode, NewEvent]]) -> list[Header]:
    try:
        return session.append([event for _, event in stated])
    except DuplicateEvent as error:
        if len(stated) > 1:
            # One by one, to say which it is, and to keep what stands before it.
            return [header for one in stated for header in _record(session, [one])]
        episode, _ = stated[0]
        raise DuplicateEvent(
            f"episode {episode['id']} is in session {session.session_id} already, "
            "and reads otherwise there",
            hint="bring the changed log into a session of its own",
        ) from error


def event_id_of(session_id: str, number: int, occurrence: int) -> str:
    """Return the id of an episode's event: the same whenever it is brought in."""
    place = sha256(session_id.encode()).hexdigest()[:_DIGEST_DIGITS]
    again = "" if occurrence == 1 else f":{occurrence}"
    return f"apeira:{place}:{number}{again}"
