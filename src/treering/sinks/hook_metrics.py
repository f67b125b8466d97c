"""Metrics of hook functions: calls, times and failures."""

from __future__ import annotations

import threading
from typing import Final

import msgspec

FUNCTIONS_MAX: Final = 1_000
"""The number of functions counted by name; later ones are counted together."""
THE_REST: Final = "(others)"


class HookMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one function for one hook."""

    hook: str
    function: str
    calls: int = 0
    errors: int = 0
    timeouts: int = 0
    last_error: str | None = None
    """The class of the last error."""
    total_ms: float = 0.0
    max_ms: float = 0.0


class HookCounts:
    """The metrics of all hooks of a registry; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str], HookMetrics] = {}

    def add(
        self,
        hook: str,
        function: str,
        *,
        ms: float = 0.0,
        error: str | None = None,
        timed_out: bool = False,
    ) -> None:
        """Count one call; ``error`` is the class of its error."""
        with self._lock:
            if (hook, function) not in self._rows and len(self._rows) >= FUNCTIONS_MAX:
                hook, function = THE_REST, THE_REST
            row = self._rows.get((hook, function)) or HookMetrics(hook=hook, function=function)
            self._rows[hook, function] = msgspec.structs.replace(
                row,
                calls=row.calls + 1,
                errors=row.errors + (error is not None),
                timeouts=row.timeouts + timed_out,
                last_error=error or row.last_error,
                total_ms=row.total_ms + ms,
                max_ms=max(row.max_ms, ms),
            )

    def rows(self) -> list[HookMetrics]:
        """Return the metrics so far, by hook and function."""
        with self._lock:
            return [self._rows[key] for key in sorted(self._rows)]
