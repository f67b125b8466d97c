"""Tool records: one for each call, safe to show, and what can be asked of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec

from treering.errors import InvalidCursor, InvalidInput
from treering.model.cursors import pack, unpack
from treering.model.fields import check_name, check_time
from treering.model.queries import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX
from treering.model.runs import RunState
from treering.model.scopes import Scope
from treering.model.tools import STATUSES, Reason, Status

Order = Literal["time", "slowest"]
"""time: by the start of the call. slowest: the longest first, of those whose time is known."""
ORDERS: Final[tuple[str, ...]] = ("time", "slowest")

FAILING: Final[tuple[Status, ...]] = ("failed", "synthetic")
"""What ``failing`` stands for."""
TOOLS_MAX: Final = 1_000
"""So many tools are told apart in statistics: those that were called most."""


class ToolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call, from its intent to its outcome. It has no input and no output, by type.

    Those are in the payloads of its events: ``ledger.event(scope, record.call_event_id)``.
    """

    position: int
    """Order in the whole ledger of the first that was recorded of it."""
    scope: str
    session_id: str
    run_id: str | None
    turn_id: str | None
    agent_id: str
    call_id: str | None
    tool: str | None
    status: Status
    is_synthetic: bool
    """Whether the outcome was put in the place of one that never came."""
    reason: Reason | None
    """Why it is synthetic."""
    error_class: str | None
    started_ms: int | None
    """None if only a result is known."""
    ended_ms: int | None
    duration_ms: int | None
    input_bytes: int | None
    output_bytes: int | None
    input_shape: str | None
    call_event_id: str | None
    result_event_id: str | None
    late_status: Status | None
    """How it ended in truth, if that became known after a synthetic outcome."""
    late_event_id: str | None
    run_state: RunState | None
    """What became of its run; None if it has none."""

    @property
    def at_ms(self) -> int:
        """Return its place in the order of time: its start, else its end."""
        return self.started_ms or self.ended_ms or 0


class ToolStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the calls of one tool.

    Times are of calls that the tool itself ended, ok or failed: a synthetic outcome says nothing
    about how long the tool took.
    """

    tool: str | None
    calls: int
    ok: int
    failed: int
    synthetic: int
    open: int
    p50_ms: int | None
    p90_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    total_ms: int
    output_bytes: int
    last_ms: int
    """When it was last called."""


class ToolQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Tool records of one scope."""

    scope: Scope
    session_id: str | None = None
    call_id: str | None = None
    """Within a session: call ids of different sessions have nothing to do with each other."""
    tool: str | None = None
    statuses: tuple[Status, ...] = ()
    """Any, if none is named."""
    reason: Reason | None = None
    run_id: str | None = None
    since_ms: int | None = None
    """Inclusive."""
    until_ms: int | None = None
    """Inclusive."""
    order: Order = "time"
    limit: int = PAGE_ITEMS_DEFAULT
    backwards: bool = False
    """Take the latest instead of the earliest; pages still read forwards."""
    after: ToolPlace | None = None
    """Go on from here, in the direction of the query."""


class ToolPlace(msgspec.Struct, frozen=True, array_like=True):
    """A point in the order of a query: a time or a duration, and a position."""

    rank: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    position: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def check_tool_query(query: ToolQuery) -> ToolQuery:
    """Return ``query`` if it can be answered. Raises InvalidInput otherwise."""
    if query.session_id is not None:
        check_name(query.session_id, "session_id")
    for field in ("call_id", "tool", "run_id"):
        _check_text(getattr(query, field), field)
    if type(query.limit) is not int or not 1 <= query.limit <= PAGE_ITEMS_MAX:
        raise InvalidInput(
            f"a page has 1 to {PAGE_ITEMS_MAX} items, not {query.limit}",
            hint="read on with next_cursor",
        )
    _check_times(query.since_ms, query.until_ms)
    if query.call_id is not None and query.session_id is None:
        raise InvalidInput("a call is known within its session", hint="name the session, too")
    if query.order not in ORDERS:
        raise InvalidInput(f"invalid order: {query.order}", hint=f"use {' or '.join(ORDERS)}")
    if query.order == "slowest" and query.backwards:
        raise InvalidInput(
            "the slowest come first, there are no last ones", hint="ask for the first so many"
        )
    return query


def parse_statuses(given: str | Iterable[str] | None) -> tuple[Status, ...]:
    """Return the statuses that are named: none, one, several, or ``failing``, each once."""
    if given is None:
        return ()
    found: list[Status] = []
    for name in (given,) if isinstance(given, str) or not isinstance(given, Iterable) else given:
        if name == "failing":
            found.extend(FAILING)
        elif name in STATUSES:
            found.append(name)  # type: ignore[arg-type]
        else:
            raise InvalidInput(
                f"invalid status: {name}", hint=f"use {', '.join(STATUSES)} or failing"
            )
    return tuple(sorted(set(found), key=STATUSES.index))


def place_of(query: ToolQuery, record: ToolRecord) -> ToolPlace:
    """Return where ``record`` stands in the order of ``query``."""
    rank = record.at_ms if query.order == "time" else record.duration_ms or 0
    return ToolPlace(rank, record.position)


def make_tool_cursor(query: ToolQuery, record: ToolRecord) -> str:
    """Return an opaque cursor that continues ``query`` behind ``record``."""
    return pack((_fingerprint(query), place_of(query, record)))


def read_tool_cursor(query: ToolQuery, cursor: str) -> ToolPlace:
    """Return the place in ``cursor``. Raises InvalidCursor if another query made it."""
    _check_text(cursor, "after")
    fingerprint, place = unpack(cursor, tuple[bytes, ToolPlace])
    if fingerprint != _fingerprint(query):
        raise InvalidCursor(
            "the cursor belongs to another query",
            hint="keep scope, filters, times, order and direction as they were",
        )
    return place


def _check_times(since: int | None, until: int | None) -> None:
    for bound in (since, until):
        if bound is not None:
            check_time(bound)
    if since is not None and until is not None and since > until:
        raise InvalidInput(
            f"the time range is empty: {since} is after {until}", hint="swap the two times"
        )


def _check_text(text: str | None, field: str) -> None:
    """Raise InvalidInput if ``text`` can stand in no event. It may be an odd one: imports are."""
    if text is None:
        return
    if type(text) is not str:
        raise InvalidInput(f"{field} is a {type(text).__name__}, not text", hint="give plain text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInput(f"{field} {text!r} holds a lone surrogate", hint="remove it")


def _fingerprint(query: ToolQuery) -> bytes:
    """Return a digest of all that must stay the same between pages."""
    same = msgspec.structs.replace(query, limit=PAGE_ITEMS_DEFAULT, after=None)
    # Named, so that no cursor of another sort of query is taken for one of these.
    return hashlib.blake2b(
        msgspec.json.encode(same), digest_size=6, person=b"tool records"
    ).digest()
