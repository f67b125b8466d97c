"""The scopes of a ledger, with how much each holds and when it was last written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.errors import InvalidCursor, InvalidInput
from treering.ledger.records import shared_seq
from treering.memory.records import MEMORY_SESSION
from treering.model.fields import check_list
from treering.model.queries import Page, check_limit, pack, unpack
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ports import EventStore


class ScopeOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A scope at a glance."""

    scope: str
    session_count: int
    """Sessions of subagents and pruned ones included."""
    event_count: int
    """Events recorded so far, redacted and expired ones included."""
    updated_ms: int
    """When its last event was recorded."""


def scope_names(store: EventStore) -> list[Scope]:
    """Return the scopes that have sessions, by name; only those that this user may see."""
    return sorted({Scope(session.scope) for session in store.sessions.records()})


def asked_scopes(
    store: EventStore, scope: str | Sequence[str] | None, *, all_scopes: bool
) -> list[Scope]:
    """Return the scopes that are named, or all of them.

    Raise NotPermitted if a role that is held to one scope asks for all.
    """
    if not all_scopes:
        named = [scope or ""] if isinstance(scope, str | None) else check_list(scope, "scope")
        return list(dict.fromkeys(map(parse_scope, named)))
    check_all_scopes(scope)
    return scope_names(store)


def check_all_scopes(scope: str | Sequence[str] | None) -> None:
    """Raise InvalidInput if a scope is named beside ``all_scopes=True``."""
    if scope is not None:
        raise InvalidInput(
            "all_scopes=True cannot be combined with a scope", hint="drop one of the two"
        )


def list_scopes(store: EventStore, *, limit: int, after: str | None) -> Page[ScopeOutline]:
    """Return one page of the scopes that have sessions, by name."""
    check_limit(limit)
    last_name = "" if after is None else _read_cursor(after)
    counts: dict[str, tuple[int, int]] = {}
    for session in store.sessions.records():
        if session.scope > last_name:
            sessions, events = counts.get(session.scope, (0, 0))
            is_talk = not session.session_id.startswith(MEMORY_SESSION)
            counts[session.scope] = (
                sessions + is_talk,
                events + session.head_seq - shared_seq(session),
            )
    names = sorted(counts)
    items = [_outline(store, Scope(name), *counts[name]) for name in names[:limit]]
    has_more = len(names) > limit
    return Page(
        items=items, has_more=has_more, next_cursor=pack((items[-1].scope,)) if has_more else None
    )


def _outline(store: EventStore, scope: Scope, sessions: int, events: int) -> ScopeOutline:
    latest = store.sessions.heads(scope, before_position=None, limit=1)
    return ScopeOutline(
        scope=scope,
        session_count=sessions,
        event_count=events,
        updated_ms=latest[0].updated_ms if latest else 0,
    )


def _read_cursor(cursor: str) -> str:
    (name,) = unpack(cursor, tuple[str])
    if not name:
        raise InvalidCursor("the cursor names no scope", hint="use the next_cursor of a page")
    return name
