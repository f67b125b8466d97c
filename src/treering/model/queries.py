"""Queries on a ledger's events, pages of results, cursors, and the progress of followers."""

from __future__ import annotations

import hashlib
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypedDict, TypeVar

import msgspec

from treering.errors import InvalidCursor, InvalidInput
from treering.lazy import LazyModule
from treering.model.scopes import Scope

if TYPE_CHECKING:
    import base64
    from collections.abc import Callable, Iterator, Sequence
else:
    base64 = LazyModule("base64")

PAGE_ITEMS_MAX: Final = 1_000
"""The largest page; use its cursor to get more."""
PAGE_ITEMS_DEFAULT: Final = 50
VIEW_ITEMS_DEFAULT: Final = 200
"""Events of one run that a view shows."""

Item = TypeVar("Item")


class EventFilters(TypedDict, total=False):
    """The filters of ``ledger.headers`` and ``ledger.events``."""

    session_id: str | None
    kinds: str | Sequence[str]
    turn_id: str | None
    since_ms: int | None
    until_ms: int | None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query for events of one scope, ordered by ``(ts_ms, position)``."""

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
    """Return the latest events instead of the earliest; pages are still in forward order."""
    after: TimelinePoint | None = None
    """Continue from here, in the direction of the query."""


class TimelinePoint(msgspec.Struct, frozen=True, array_like=True):
    """A point in the time order of a scope."""

    ts_ms: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    position: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class SessionTally(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of a stretch of a session."""

    kinds: dict[str, int]
    erased: int
    first_ms: int | None
    last_ms: int | None
    runs: dict[str, bool]
    """Runs by id: whether the stretch leaves them open.

    Those that began and ended in it may be left out.
    """


class Page(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """A part of a query's results, with a cursor for the rest."""

    items: list[Item]
    has_more: bool
    next_cursor: str | None


def items_of(
    read: Callable[[str | None], Page[Item]],
    *,
    after: str | None = None,
    pages_max: int | None = None,
) -> Iterator[Item]:
    """Return the items of all pages that ``read`` returns, or of the first few."""
    for _ in count() if pages_max is None else range(pages_max):
        page = read(after)
        yield from page.items
        after = page.next_cursor
        if after is None:
            return


def check_query(query: Query) -> Query:
    """Return ``query`` if it is valid. Raises InvalidInput otherwise."""
    check_limit(query.limit)
    check_range(query.since_ms, query.until_ms)
    return query


def check_limit(limit: int) -> None:
    """Raise InvalidInput if a page cannot have this many items."""
    if not 1 <= limit <= PAGE_ITEMS_MAX:
        raise InvalidInput(
            f"a page has 1 to {PAGE_ITEMS_MAX} items, not {limit}", hint="continue with next_cursor"
        )


def check_range(since_ms: int | None, until_ms: int | None) -> None:
    """Raise InvalidInput if no time is within the range."""
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise InvalidInput(
            f"the time range is empty: {since_ms} is after {until_ms}", hint="swap the two times"
        )


def make_cursor(query: Query, point: TimelinePoint) -> str:
    """Return an opaque cursor that continues ``query`` after ``point``."""
    return pack((_fingerprint(query), point))


def read_cursor(query: Query, cursor: str) -> TimelinePoint:
    """Return the point in ``cursor``. Raises InvalidCursor if it belongs to another query."""
    fingerprint, point = unpack(cursor, tuple[bytes, TimelinePoint])
    if fingerprint != _fingerprint(query):
        raise InvalidCursor(
            "the cursor belongs to another query",
            hint="keep scope, session, kinds, times and direction unchanged",
        )
    return point


def make_seq_cursor(scope: Scope, session_id: str, seq: int) -> str:
    """Return an opaque cursor that continues a session after ``seq``."""
    return pack((scope, session_id, seq))


def read_seq_cursor(scope: Scope, session_id: str, cursor: str) -> int:
    """Return the seq in ``cursor``. Raises InvalidCursor if it belongs to another session."""
    *owner, seq = unpack(cursor, tuple[str, str, int])
    if owner != [scope, session_id]:
        raise InvalidCursor(
            "the cursor belongs to another session", hint="keep scope and session unchanged"
        )
    return seq


def _fingerprint(query: Query) -> bytes:
    """Return a digest of the fields that must not change between pages."""
    fields: tuple[object, ...] = (
        query.scope,
        query.session_id,
        query.kinds,
        query.since_ms,
        query.until_ms,
        query.backwards,
    )
    if query.turn_id is not None:  # Otherwise left out, so that older cursors stay valid.
        fields = (*fields, query.turn_id)
    return hashlib.blake2b(msgspec.json.encode(fields), digest_size=6).digest()


Parts = TypeVar("Parts")


def pack(parts: Any) -> str:
    """Return ``parts`` as a cursor."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(parts)).decode().rstrip("=")


def unpack(cursor: str, parts: type[Parts]) -> Parts:
    """Return the parts that were packed. Raises InvalidCursor if the cursor is invalid."""
    try:
        body = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(body, type=parts)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursor("the cursor is damaged", hint="pass the cursor unchanged") from error


Mark = tuple[int, ...]
"""A position in the order of followed events; the empty tuple precedes all."""


class FollowStep(msgspec.Struct, frozen=True):
    """The progress of one step of catching up."""

    events: int
    """The number of events examined."""
    more: bool
    """Whether there are more events: take another step."""


class FollowedEvents(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    """A batch of followed events, each with its mark."""

    items: list[Item]
    marks: list[Mark]
    last: Mark
    """The last mark examined, whether or not its event is in the scope."""
    more: bool
    """Whether there may be events after ``last``."""
