"""What can be asked of a ledger, and the pages that answer it."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Generic, TypeVar

import msgspec

from treering.errors import InvalidCursor, InvalidInput
from treering.model.cursors import pack, unpack
from treering.model.scopes import Scope

PAGE_ITEMS_MAX: Final = 1_000
"""The largest page; ask again with its cursor for more."""
PAGE_ITEMS_DEFAULT: Final = 50

Item = TypeVar("Item")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one scope by time: ordered by ``(ts_ms, position)``."""

    scope: Scope
    session_id: str | None = None
    kinds: tuple[str, ...] = ()
    turn_id: str | None = None
    since_ms: int | None = None
    """Inclusive."""
    until_ms: int | None = None
    """Inclusive."""
    limit: int = PAGE_ITEMS_DEFAULT
    backwards: bool = False
    """Take the latest instead of the earliest; pages still read forwards."""
    after: TimelinePoint | None = None
    """Go on from here, in the direction of the query."""


class TimelinePoint(msgspec.Struct, frozen=True, array_like=True):
    """A point in the time order of a scope."""

    ts_ms: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    position: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Page(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """Some of what a query finds, and how to go on."""

    items: list[Item]
    has_more: bool
    next_cursor: str | None


def check_query(query: Query) -> Query:
    """Return ``query`` if it can be answered. Raises InvalidInput otherwise."""
    if not 1 <= query.limit <= PAGE_ITEMS_MAX:
        raise InvalidInput(
            f"a page has 1 to {PAGE_ITEMS_MAX} items, not {query.limit}",
            hint="read on with next_cursor",
        )
    if (
        query.since_ms is not None
        and query.until_ms is not None
        and query.since_ms > query.until_ms
    ):
        raise InvalidInput(
            f"the time range is empty: {query.since_ms} is after {query.until_ms}",
            hint="swap the two times",
        )
    return query


def make_cursor(query: Query, place: TimelinePoint) -> str:
    """Return an opaque cursor that continues ``query`` behind ``place``."""
    return pack((_fingerprint(query), place))


def read_cursor(query: Query, cursor: str) -> TimelinePoint:
    """Return the place in ``cursor``. Raises InvalidCursor if another query made it."""
    fingerprint, place = unpack(cursor, tuple[bytes, TimelinePoint])
    if fingerprint != _fingerprint(query):
        raise InvalidCursor(
            "the cursor belongs to another query",
            hint="keep scope, session, kinds, times and direction as they were",
        )
    return place


def make_seq_cursor(scope: Scope, session_id: str, seq: int) -> str:
    """Return an opaque cursor that continues a session behind ``seq``."""
    return pack((scope, session_id, seq))


def read_seq_cursor(scope: Scope, session_id: str, cursor: str) -> int:
    """Return the seq in ``cursor``. Raises InvalidCursor if another session's reading made it."""
    *whose, seq = unpack(cursor, tuple[str, str, int])
    if whose != [scope, session_id]:
        raise InvalidCursor(
            "the cursor belongs to another session", hint="keep scope and session as they were"
        )
    return seq


def _fingerprint(query: Query) -> bytes:
    """Return a digest of all that must stay the same between pages."""
    same: tuple[object, ...] = (
        query.scope,
        query.session_id,
        query.kinds,
        query.since_ms,
        query.until_ms,
        query.backwards,
    )
    if query.turn_id is not None:  # Left out otherwise: cursors given earlier stay good.
        same = (*same, query.turn_id)
    return hashlib.blake2b(msgspec.json.encode(same), digest_size=6).digest()
