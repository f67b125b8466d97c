"""What narrows tool calls down, as the ledger calls it and as receipts do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from treering.surfaces.cli.opening import Span, read_span
from treering.surfaces.cli.options import require

if TYPE_CHECKING:
    from collections.abc import Sequence


class CallFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls to show: of which session, tool and time, with which outcome."""

    session_id: str | None
    tool: str | None
    span: Span
    status: list[str] = []
    reason: str | None = None
    run_id: str | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether it narrows them down at all."""
        return any(self.filters().values())

    def window(self) -> dict[str, Any]:
        """Return what statistics take, as the ledger calls it."""
        return {
            "session_id": self.session_id,
            "tool": self.tool,
            "since_ms": self.span.since_ms,
            "until_ms": self.span.until_ms,
        }

    def arguments(self) -> dict[str, Any]:
        """Return all of it, as the ledger calls it."""
        more = {"status": self.status, "reason": self.reason, "run_id": self.run_id}
        return {**self.window(), **more}

    def window_filters(self) -> dict[str, Any]:
        """Return what statistics take, as receipts call it."""
        named = {"session_id": self.session_id, "tool": self.tool}
        return {**named, **msgspec.structs.asdict(self.span)}

    def filters(self) -> dict[str, Any]:
        """Return all of it, as receipts call it."""
        more = {"status": self.status, "reason": self.reason, "run_id": self.run_id}
        return {**self.window_filters(), **more}


def read_filters(
    *,
    session_id: str | None,
    tool: str | None,
    since: str | None,
    until: str | None,
    statuses: Sequence[str] = (),
    failing: bool = False,
    reason: str | None = None,
    run_id: str | None = None,
) -> CallFilters:
    """Return the filters that a command line gives. Raises InvalidInput if one makes no sense."""
    return CallFilters(
        session_id=session_id,
        tool=tool,
        span=read_span(since, until),
        status=[*statuses, *(["failing"] if failing else [])],
        reason=reason,
        run_id=None if run_id is None else require(run_id, "run").strip(),
    )
