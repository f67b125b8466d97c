"""Events that are appended again: the same is a no-op, another under its id is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.errors import DuplicateEvent
from treering.ledger.chain import content_digest
from treering.model.events import REDACTED, Header
from treering.storage.sqlite import rows
from treering.storage.sqlite.sql import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from treering.ledger.records import Draft

_STATED: Final = (
    "session_id", "kind", "source", "origin", "run_id", "run_seq", "turn_id", "agent_id",
    "user_id", "visibility",
)  # fmt: skip
"""Fields that the caller states; a time that was filled in is not among them."""


def stored_header(
    connection: apsw.Connection, scope: int, key: bytes
) -> tuple[Header, bytes] | None:
    """Return the header and salt of the event with this id, or None."""
    row = fetch_one(
        connection,
        f"SELECT {rows.HEADER}, c.salt, scopes.name, coalesce(sessions.name, ?)"
        " FROM events AS e JOIN contents AS c ON c.position = e.position"
        " JOIN sessions ON sessions.id = e.session JOIN scopes ON scopes.id = e.scope"
        " WHERE e.scope = ? AND e.event_id = ?",
        (REDACTED, scope, key),
    )
    if row is None:
        return None
    *columns, salt, scope_name, session_name = row
    ids = {columns[at] for at in rows.NAME_COLUMNS if columns[at]}
    marks = ", ".join("?" * len(ids))
    names: dict[int, str] = dict(
        fetch_all(connection, f"SELECT id, name FROM names WHERE id IN ({marks})", list(ids))
    )
    sessions = {columns[rows.SESSION]: (scope_name, session_name)}
    return rows.headers([tuple(columns)], {0: "", **names}, sessions)[0], salt


def same_draft(draft: Draft, placed: Draft) -> bool:
    """Whether two drafts of one call say the same."""
    digest = content_digest(draft.salt, placed.field("summary"), placed.refs, placed.payload)
    return digest == draft.content_digest and _same_fields(draft, placed.field)


def same_stored(draft: Draft, header: Header, salt: bytes) -> bool:
    """Whether a draft says what was recorded."""
    digest = content_digest(salt, draft.field("summary"), draft.refs, draft.payload)
    return digest == header.content_digest and _same_fields(
        draft, lambda name: getattr(header, name)
    )


def taken(draft: Draft) -> DuplicateEvent:
    """Return the error for an id that another event has."""
    return DuplicateEvent(
        f"event_id already exists: {draft.event_id}",
        hint="give another id, or leave it out to have one made",
    )


def _same_fields(draft: Draft, other: Callable[[str], object]) -> bool:
    same_time = not draft.given_ts or draft.field("ts_ms") == other("ts_ms")
    return same_time and all(draft.field(name) == other(name) for name in _STATED)
