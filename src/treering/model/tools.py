"""Tool calls: their statuses, synthetic results, and records safe to show, with queries on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b, sha256
from typing import Annotated, Final, Literal, TypedDict, get_args

import msgspec

from treering.errors import InvalidCursor, InvalidInput
from treering.model.codec import Json, canonical
from treering.model.fields import check_name, check_time
from treering.model.queries import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, check_range, pack, unpack
from treering.model.scopes import Scope
from treering.model.views import RunState

Order = Literal["time", "slowest"]
"""time: by the start of the call. slowest: longest first, of calls with a known duration."""
ORDERS: Final[tuple[str, ...]] = ("time", "slowest")

FAILING: Final[tuple[Status, ...]] = ("failed", "synthetic")
"""The statuses that ``failing`` selects."""
TOOLS_MAX: Final = 1_000
"""The number of tools in statistics: those called most."""


class ToolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call, from its start to its outcome. Its type has no input and no output.

    Those are in the payloads of its events: ``ledger.event(scope, record.call_event_id)``.
    """

    position: int
    """The ledger position of its first event."""
    scope: str
    session_id: str
    run_id: str | None
    turn_id: str | None
    agent_id: str
    call_id: str | None
    tool: str | None
    status: Status
    is_synthetic: bool
    """Whether the outcome replaces one that never came."""
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
    """The real outcome, if it became known after a synthetic one."""
    late_event_id: str | None
    run_state: RunState | None
    """The state of its run; None if it has none."""

    @property
    def at_ms(self) -> int:
        """Return its place in the time order: its start, else its end."""
        return self.started_ms or self.ended_ms or 0


class ToolStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics on the calls of one tool.

    Durations only include calls that the tool itself ended, ok or failed: a synthetic outcome says
    nothing about the tool's duration.
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
    """The time of its last call."""


class ToolFilters(TypedDict, total=False):
    """The filters of ``ledger.tool_calls`` that a query takes as they are."""

    session_id: str | None
    call_id: str | None
    tool: str | None
    run_id: str | None
    since_ms: int | None
    until_ms: int | None


class ToolQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query for tool records of one scope."""

    scope: Scope
    session_id: str | None = None
    call_id: str | None = None
    """Only within a session: call ids of different sessions are unrelated."""
    tool: str | None = None
    statuses: tuple[Status, ...] = ()
    """Empty for any status."""
    reason: Reason | None = None
    run_id: str | None = None
    since_ms: int | None = None
    """Inclusive."""
    until_ms: int | None = None
    """Inclusive."""
    order: Order = "time"
    limit: int = PAGE_ITEMS_DEFAULT
    backwards: bool = False
    """Return the latest records instead of the earliest; pages are still in forward order."""
    after: ToolPoint | None = None
    """Continue from here, in the direction of the query."""


class ToolPoint(msgspec.Struct, frozen=True, array_like=True):
    """A point in the order of a query: a time or a duration, and a position."""

    rank: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    position: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def check_tool_query(query: ToolQuery) -> ToolQuery:
    """Return ``query`` if it is valid. Raises InvalidInput otherwise."""
    if query.session_id is not None:
        check_name(query.session_id, "session_id")
    for field in ("call_id", "tool", "run_id"):
        _check_text(getattr(query, field), field)
    if type(query.limit) is not int or not 1 <= query.limit <= PAGE_ITEMS_MAX:
        raise InvalidInput(
            f"a page has 1 to {PAGE_ITEMS_MAX} items, not {query.limit}",
            hint="continue with next_cursor",
        )
    _check_times(query.since_ms, query.until_ms)
    if query.call_id is not None and query.session_id is None:
        raise InvalidInput(
            "a call id is only unique within its session", hint="name the session, too"
        )
    if query.order not in ORDERS:
        raise InvalidInput(f"invalid order: {query.order}", hint=f"use {' or '.join(ORDERS)}")
    if query.order == "slowest" and query.backwards:
        raise InvalidInput("the order slowest has no last records", hint="ask for the first ones")
    return query


def parse_statuses(given: str | Iterable[str] | None) -> tuple[Status, ...]:
    """Return the named statuses without repeats; ``failing`` selects several."""
    if given is None:
        return ()
    statuses: list[Status] = []
    for name in (given,) if isinstance(given, str) or not isinstance(given, Iterable) else given:
        if name == "failing":
            statuses.extend(FAILING)
        elif name in STATUSES:
            statuses.append(name)  # type: ignore[arg-type]
        else:
            raise InvalidInput(
                f"invalid status: {name}", hint=f"use {', '.join(STATUSES)} or failing"
            )
    return tuple(sorted(set(statuses), key=STATUSES.index))


def _point_of(query: ToolQuery, record: ToolRecord) -> ToolPoint:
    """Return the position of ``record`` in the order of ``query``."""
    rank = record.at_ms if query.order == "time" else record.duration_ms or 0
    return ToolPoint(rank, record.position)


def make_tool_cursor(query: ToolQuery, record: ToolRecord) -> str:
    """Return an opaque cursor that continues ``query`` after ``record``."""
    return pack((_fingerprint(query), _point_of(query, record)))


def read_tool_cursor(query: ToolQuery, cursor: str) -> ToolPoint:
    """Return the position in ``cursor``. Raises InvalidCursor if it belongs to another query."""
    _check_text(cursor, "after")
    fingerprint, point = unpack(cursor, tuple[bytes, ToolPoint])
    if fingerprint != _fingerprint(query):
        raise InvalidCursor(
            "the cursor belongs to another query",
            hint="keep scope, filters, times, order and direction unchanged",
        )
    return point


def _check_times(since: int | None, until: int | None) -> None:
    for bound in (since, until):
        if bound is not None:
            check_time(bound)
    check_range(since, until)


def _check_text(text: str | None, field: str) -> None:
    """Raise InvalidInput if no event can contain ``text``. Imported ids may be unusual."""
    if text is None:
        return
    if type(text) is not str:
        raise InvalidInput(f"{field} is a {type(text).__name__}, not text", hint="pass plain text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInput(f"{field} {text!r} holds a lone surrogate", hint="remove it")


def _fingerprint(query: ToolQuery) -> bytes:
    """Return a digest of the fields that must not change between pages."""
    same = msgspec.structs.replace(query, limit=PAGE_ITEMS_DEFAULT, after=None)
    # Personalized, so that cursors of other kinds of queries do not match.
    return blake2b(msgspec.json.encode(same), digest_size=6, person=b"tool records").digest()


Status = Literal["open", "ok", "failed", "synthetic"]
"""open: no outcome yet; synthetic: the tool gave none, so one was substituted."""
STATUSES: Final[tuple[str, ...]] = get_args(Status)

Reason = Literal["missing_result", "interrupted", "crashed", "timeout", "denied", "aborted"]
"""Why a result is synthetic."""
REASONS: Final[tuple[str, ...]] = get_args(Reason)

SHAPE_DEPTH_MAX: Final = 8
"""The depth of an input's shape; deeper values are ignored."""

_TEXTS: Final[dict[str, str]] = {
    "missing_result": "[treering] {tool} gave no result; none was recorded before the run ended.",
    "interrupted": "[treering] {tool} was interrupted; it may have done part of its work.",
    "crashed": "[treering] {tool} has no result: its process died; it may have done its work.",
    "timeout": "[treering] {tool} gave no result in time; it may still be at work.",
    "denied": "[treering] {tool} was not run: it is not allowed here.",
    "aborted": "[treering] {tool} was given up because the run failed.",
}


class SyntheticPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of synthetic results."""

    texts: Mapping[str, str] = {}
    """Texts by reason, which override the defaults; ``{tool}`` and ``{reason}`` are filled in."""

    def __post_init__(self) -> None:
        if not isinstance(self.texts, Mapping):
            raise InvalidInput("texts is not a mapping", hint="write SyntheticPolicy(texts={…})")
        for reason, text in self.texts.items():
            check_reason(reason)
            if not isinstance(text, str) or not text.strip():
                raise InvalidInput(f"the text for {reason} is not text", hint="write a sentence")
            canonical(text, f"the text for {reason}")

    def text(self, tool: str, reason: Reason) -> str:
        """Return the text that replaces the result of ``tool``."""
        template = self.texts.get(reason) or _TEXTS[reason]
        return template.replace("{tool}", tool).replace("{reason}", reason)


def check_reason(reason: str) -> Reason:
    """Return ``reason`` if it is a reason for a synthetic result. Raises InvalidInput otherwise."""
    if reason not in REASONS:
        raise InvalidInput(f"invalid reason: {reason}", hint=f"use one of {', '.join(REASONS)}")
    return reason  # type: ignore[return-value]


def shape_hash(value: Json) -> str:
    """Return a hash of the names and types in ``value``, without its values.

    Calls of the same shape share it.
    """
    return sha256(canonical(_shape(value, SHAPE_DEPTH_MAX), "shape")).hexdigest()[:16]


def _shape(value: Json, depth: int) -> Json:
    if isinstance(value, dict):
        return {key: _shape(part, depth - 1) for key, part in value.items()} if depth else {}
    if isinstance(value, list | tuple):
        shapes = {canonical(_shape(part, depth - 1), "shape") for part in value} if depth else set()
        return [shape.decode() for shape in sorted(shapes)]
    return "number" if type(value) in {int, float} else type(value).__name__
