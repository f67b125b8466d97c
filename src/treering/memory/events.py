"""Builds the events that change the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.memory.records import MEMORY_SESSION
from treering.model.codec import REFS_BYTES_MAX, decode, encode
from treering.model.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.derive.fact_rows import FactRow
    from treering.derive.memory_state import FactPayload
    from treering.model.scopes import Scope

AGENT: Final = "treering"
RECALLED_BYTES_MAX: Final = REFS_BYTES_MAX - 512
"""Bytes of ids in one event; the rest is left for the run's refs."""
UPHELD_SESSION: Final = f"{MEMORY_SESSION}:upheld"
"""The session that repeats forgettings and supersessions whose own session was erased."""
_SUMMARIES: Final = {
    "memory.stored": "fact learnt",
    "memory.revised": "fact revised",
    "memory.superseded": "fact no longer holds",
    "memory.archived": "fact archived",
    "memory.restored": "fact believed again",
    "memory.forgotten": "fact rejected",
}


def fact_event(
    scope: Scope,
    kind: str,
    content: FactPayload,
    *,
    session: str | None,
    user: str | None,
    event_id: str | None = None,
    summary: str | None = None,
) -> NewEvent:
    """Return the event that states a fact. It is the only place that holds the fact's text."""
    payload = {name: value for name, value in decode(encode(content)).items() if value is not None}
    return NewEvent(
        scope=scope,
        session_id=session or MEMORY_SESSION,
        kind=kind,
        agent_id=AGENT,
        user_id=user,
        event_id=event_id,
        summary=summary or f"{_SUMMARIES[kind]} ({content.category})",
        payload=payload,
        refs={"memory_ids": [content.id]},
    )


def fact_change_event(
    scope: Scope,
    kind: str,
    fact_id: str,
    *,
    session: str | None,
    user: str | None,
    **payload: Any,
) -> NewEvent:
    """Return the event that changes a fact's state; it holds ids and numbers only."""
    given = {name: value for name, value in payload.items() if value is not None}
    return NewEvent(
        scope=scope,
        session_id=session or MEMORY_SESSION,
        kind=kind,
        agent_id=AGENT,
        user_id=user,
        summary=_SUMMARIES[kind],
        payload={"id": fact_id, **given},
        refs={"memory_ids": [fact_id]},
    )


def upheld_event(scope: Scope, row: FactRow, user: str | None) -> NewEvent:
    """Return the event that repeats, in a session of its own, that a fact no longer holds."""
    if row.state == "superseded":
        details = {"by": row.superseded_by, "valid_to_ms": row.valid_to_ms}
        event = fact_change_event(
            scope, "memory.superseded", row.id, session=UPHELD_SESSION, user=user, **details
        )
    else:
        event = fact_change_event(
            scope, "memory.forgotten", row.id, session=UPHELD_SESSION, user=user, reason=row.reason
        )
    return event


def recall_events(
    scope: Scope,
    ids: Sequence[str],
    *,
    session: str | None,
    user: str | None,
    run_id: str | None = None,
) -> list[NewEvent]:
    """Return the events that record a recall: one, unless the ids are too long for one."""
    batches: list[list[str]] = [[]]
    room = RECALLED_BYTES_MAX
    for fact_id in ids:
        size = len(encode(fact_id)) + 1
        if size > room and batches[-1]:
            batches.append([])
            room = RECALLED_BYTES_MAX
        batches[-1].append(fact_id)
        room -= size
    return [
        recall_event(scope, part, session=session, user=user, run_id=run_id) for part in batches
    ]


def recall_event(
    scope: Scope,
    ids: Sequence[str],
    *,
    session: str | None,
    user: str | None,
    run_id: str | None = None,
) -> NewEvent:
    """Return the event that records which memories were recalled: ids, not the query.

    It belongs to no run: the memories were shown, whatever becomes of the turn.
    """
    noun = "memory" if len(ids) == 1 else "memories"
    return NewEvent(
        scope=scope,
        session_id=session or MEMORY_SESSION,
        kind="memory.recalled",
        agent_id=AGENT,
        user_id=user,
        summary=f"{len(ids)} {noun} recalled",
        refs={"memory_ids": list(ids)} | ({} if run_id is None else {"run_id": run_id}),
    )


def user_event(scope: Scope, kind: str, summary: str, payload: dict[str, Any]) -> NewEvent:
    """Return the event that changes handles or users."""
    return NewEvent(
        scope=scope,
        session_id=MEMORY_SESSION,
        kind=kind,
        agent_id=AGENT,
        user_id=payload["user"],
        summary=summary,
        payload=payload,
    )
