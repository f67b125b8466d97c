"""Read and write Apeira's append-only session logs, byte for byte.

episodic = Episodic(jsonl)
to_session(episodic, ledger.session("s1", scope="acme/app", agent="lyria"))
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from treering.derive.visible import visible
from treering.errors import DuplicateEvent
from treering.formats.apeira.episodic import (
    Episodic,
    SessionState,
    Slice,
    SliceExtent,
    load_state,
    next_after,
    normalize_items,
    save_state,
    storage_key,
)
from treering.formats.apeira.events import context_of, entry_of, episode_of, item_in, name_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.formats.apeira.episodic import Episode
    from treering.formats.apeira.events import EpisodeEvent
    from treering.ledger.sessions import Session
    from treering.model.events import Header, NewEvent

__all__ = [
    "Episodic",
    "SessionState",
    "Slice",
    "SliceExtent",
    "from_session",
    "load_state",
    "normalize_items",
    "save_state",
    "state_from_session",
    "storage_key",
    "to_session",
]
BATCH: Final = 500
"""Episodes per append."""
_DIGEST_DIGITS: Final = 24


def to_session(episodic: Episodic, session: Session) -> list[Header]:
    """Record each episode in ``session``, in order; already recorded ones are left unchanged.

    Raises DuplicateEvent at an episode that was recorded before with other content: a log that was
    cleared or edited belongs in a session of its own. Earlier episodes stay recorded.
    """
    pairs: list[tuple[Episode, NewEvent]] = []
    tools: dict[str, str] = {}
    occurrences: dict[int, int] = {}
    for episode in episodic.read(from_id=float("-inf")):
        number = episode["id"]
        occurrences[number] = occurrences.get(number, 0) + 1
        event_id = event_id_of(session.session_id, number, occurrences[number])
        entry = entry_of(episode, tools)
        pairs.append((episode, _event(session, episode, entry, event_id)))
        item = item_in(episode)
        call_id, tool = name_in(item, "call_id"), name_in(item, "name")
        if item.get("type") == "function_call" and call_id and tool:
            tools.setdefault(call_id, tool)
    headers: list[Header] = []
    for start in range(0, len(pairs), BATCH):
        headers += _record(session, pairs[start : start + BATCH])
    return headers


def from_session(session: Session) -> Episodic:
    """Return ``session`` as a log; imported episodes are unchanged, byte for byte.

    Failed runs are left out, as Apeira discards a failed turn; so are undone turns, erased events,
    and events about runs and sessions.
    """
    episodes: list[Episode] = []
    upcoming, mixed = 1, False
    for event in visible(list(session.events())):
        episode = None if event.redacted or event.expired else episode_of(event)
        if episode is None:
            continue
        # An imported episode keeps its id, unless episodes numbered here precede it.
        mixed = mixed or "id" not in episode
        if mixed:
            episode["id"] = max(episode.get("id", upcoming), upcoming)
        upcoming = max(upcoming, next_after(episode["id"]))
        episodes.append(episode)
    return Episodic(episodes)


def state_from_session(session: Session) -> SessionState:
    """Return ``session`` as Apeira stores it: its log and the context it was imported with."""
    contexts = [context_of(event) for event in session.events(kinds=["ops.observation"])]
    latest = next((context for context in reversed(contexts) if context is not None), None)
    return SessionState(context=latest or {}, episodic=from_session(session))


def _event(session: Session, episode: Episode, entry: EpisodeEvent, event_id: str) -> NewEvent:
    meta: Any = episode["meta"]
    return session.new_event(
        entry.kind,
        entry.summary,
        payload=entry.payload,
        refs=entry.refs,
        event_id=event_id,
        turn_id=name_in(meta, "turnId") if isinstance(meta, dict) else None,
        source=entry.source,
        origin=entry.origin,
    )


def _record(session: Session, pairs: Sequence[tuple[Episode, NewEvent]]) -> list[Header]:
    try:
        return session.append([event for _, event in pairs])
    except DuplicateEvent as error:
        if len(pairs) > 1:
            # Retry one by one, to name the duplicate and to record the episodes before it.
            return [header for pair in pairs for header in _record(session, [pair])]
        episode, _ = pairs[0]
        raise DuplicateEvent(
            f"episode {episode['id']} is in session {session.session_id} already, "
            "with other content",
            hint="import the changed log into a new session",
        ) from error


def event_id_of(session_id: str, number: int, occurrence: int) -> str:
    """Return the id of an episode's event, the same for every import."""
    session_digest = sha256(session_id.encode()).hexdigest()[:_DIGEST_DIGITS]
    suffix = "" if occurrence == 1 else f":{occurrence}"
    return f"apeira:{session_digest}:{number}{suffix}"
