"""Limits of the server, in one place."""

from __future__ import annotations

from typing import Final

import msgspec

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
