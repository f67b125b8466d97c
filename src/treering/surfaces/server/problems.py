"""Errors as HTTP answers: the status of each code, one JSON object for all; and the limits."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from treering.errors import Conflict, OutcomeUnknown, TreeringError

STATUS_DEFAULT: Final = 500
STATUSES: Final = {
    code: status
    for status, codes in (
        (400, "invalid invalid_scope invalid_kind invalid_cursor"),
        (401, "not_authenticated"),
        (403, "not_permitted read_only disabled tool_denied"),
        (404, "not_found"),
        (405, "method_not_allowed"),
        (409, "conflict duplicate run_closed run_interrupted run_active"),
        (413, "too_large"),
        (421, "wrong_host"),
        (422, "sensitive"),
        (501, "unsupported"),
        (503, "busy unavailable closed outcome_unknown ledger_moved"),
        (507, "storage_full"),
    )
    for code in codes.split()
}
"""The HTTP status of each code; any other is a bug of the server."""

RETRY_S: Final = {503: "1"}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, as every error answer says it."""

    code: str
    message: str
    hint: str | None
    current_seq: int | None = None
    """In a conflict: the last seq of the session."""
    event_ids: list[str] | None = None
    """In an unknown outcome: the events that may be recorded; send them again."""


def problem_of(error: TreeringError) -> Problem:
    """Return what an error answer says."""
    return Problem(
        code=error.code,
        message=str(error),
        hint=error.hint,
        current_seq=error.current_seq if isinstance(error, Conflict) else None,
        event_ids=list(error.event_ids) if isinstance(error, OutcomeUnknown) else None,
    )


def unexpected(error: BaseException) -> Problem:
    """Return the answer to a bug: only its type, since its text may quote content."""
    return Problem(
        code="error",
        message=f"unexpected {type(error).__name__}",
        hint="this is a bug in treering: please report it",
    )


def answer_problem(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return a problem with the status of its code."""
    status = STATUSES.get(problem.code, STATUS_DEFAULT)
    more = dict(headers or {})
    if status == STATUSES["not_authenticated"]:
        more["WWW-Authenticate"] = 'Bearer realm="treering"'
    if status in RETRY_S:
        more["Retry-After"] = RETRY_S[status]
    return json_response(problem, status=status, headers=more)


def json_response(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return ``value`` as JSON."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )


BATCH_EVENTS_MAX: Final = 10_000
"""Events that one request may record."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one server."""

    body_bytes_max: int = 16 * 1024 * 1024
    body_s: float = 30.0
    """How long a client may take to send its request."""
    answer_s: float = 60.0
    """How long an answer may take; then the client may ask again."""
    threads: int = 16
    """Calls of the ledger at the same time."""
    waiting_max: int = 512
    """Calls that wait for a thread; more are refused."""
    streams_max: int = 2_000
    queue_events_max: int = 2_000
    """Events that wait for one live client; a slower one is dropped, and resumes by its cursor."""
    heartbeat_s: float = 15.0
    scopes_max: int = 100
    """Scopes that one stream over all scopes follows."""
    graceful_s: int = 10
    """How long running requests may take when the server stops."""
