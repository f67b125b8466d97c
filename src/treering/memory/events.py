"""The events by which the memory changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.memory.records import MEMORY_SESSION
from treering.model.codec import REFS_BYTES_MAX, decode, encode
from treering.model.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.derive.memory_state import FactPayload, FactRow
    from treering.model.scopes import Scope

AGENT: Final = "treering"
RECALLED_BYTES_MAX: Final = REFS_BYTES_MAX - 512
"""Ids that one event names: what is left is for the run's."""
UPHELD: Final = f"{MEMORY_SESSION}:upheld"
"""The session in which is recorded what other sessions no longer say."""
_SUMMARIES: Final = {
    "memory.stored": "fact learnt",
    "memory.revised": "fact told anew",
    "memory.superseded": "fact no longer holds",
    "memory.archived": "fact archived",
    "memory.restored": "fact believed again",
    "memory.forgotten": "fact rejected",
}


def told(
    scope: Scope,
    kind: str,
    content: FactPayload,
    *,
    session: str | None,
    user: str | None,
    event_id: str | None = None,
    summary: str | None = None,
) -> NewEvent:
    """Return the event that tells a fact: it is the one place where its text stands."""
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


def changed(
    scope: Scope,
    kind: str,
    fact_id: str,
    *,
    session: str | None,
    user: str | None,
    **payload: Any,
) -> NewEvent:
    """Return the event that changes how a fact stands: ids and numbers only."""
    stated = {name: value for name, value in payload.items() if value is not None}
    return NewEvent(
        scope=scope,
        session_id=session or MEMORY_SESSION,
        kind=kind,
        agent_id=AGENT,
        user_id=user,
        summary=_SUMMARIES[kind],
        payload={"id": fact_id, **stated},
        refs={"memory_ids": [fact_id]},
    )


def upheld(scope: Scope, row: FactRow, user: str | None) -> NewEvent:
    """Return the event that says again, in a place of its own, that a fact no longer holds."""
    if row.state == "superseded":
        told_so = {"by": row.superseded_by, "valid_to_ms": row.valid_to_ms}
        event = changed(scope, "memory.superseded", row.id, session=UPHELD, user=user, **told_so)
    else:
        event = changed(
            scope, "memory.forgotten", row.id, session=UPHELD, user=user, reason=row.reason
        )
    return event


def recallings(
    scope: Scope,
    ids: Sequence[str],
    *,
    session: str | None,
    user: str | None,
    run_id: str | None = None,
) -> list[NewEvent]:
    """Return the events that say what was recalled: one, unless the ids are too long for that."""
    parts: list[list[str]] = [[]]
    room = RECALLED_BYTES_MAX
    for one in ids:
        size = len(encode(one)) + 1
        if size > room and parts[-1]:
            parts.append([])
            room = RECALLED_BYTES_MAX
        parts[-1].append(one)
        room -= size
    return [recalled(scope, part, session=session, user=user, run_id=run_id) for part in parts]


def recalled(
    scope: Scope,
    ids: Sequence[str],
    *,
    session: str | None,
    user: str | None,
    run_id: str | None = None,
) -> NewEvent:
    """Return the event that says what was recalled, and for which run: ids, not the question.

    It belongs to no run: what was shown was shown, whatever becomes of the turn.
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


def identity(scope: Scope, kind: str, summary: str, payload: dict[str, Any]) -> NewEvent:
    """Return the event that says who somebody is."""
    return NewEvent(
        scope=scope,
        session_id=MEMORY_SESSION,
        kind=kind,
        agent_id=AGENT,
        user_id=payload["user"],
        summary=summary,
        payload=payload,
    )
