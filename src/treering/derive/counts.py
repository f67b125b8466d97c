"""Counts: how many events of which kind a timeline has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.derive.entity_log import run_number
from treering.model.kinds import RUN_ENDS
from treering.model.views import Counts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.model.events import Header


def counts(headers: Iterable[Header]) -> Counts:
    """Return the counts of a whole timeline.

    Nothing is ignored: failed runs, undone turns and erased events are counted.
    """
    tally = EventCounter()
    for header in headers:
        tally.take(header)
    return tally.counts()


class EventCounter(msgspec.Struct, array_like=True):
    """Counts up to some point of a timeline."""

    kinds: dict[str, int] = {}
    erased: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    open_runs: set[int] = set()
    """Run numbers of open runs."""

    def take(self, header: Header) -> None:
        """Count one event."""
        self.kinds[header.kind] = self.kinds.get(header.kind, 0) + 1
        self.erased += header.redacted
        at_ms = header.ts_ms
        self.first_ms = at_ms if self.first_ms is None else min(self.first_ms, at_ms)
        self.last_ms = at_ms if self.last_ms is None else max(self.last_ms, at_ms)
        if header.run_id is None:
            return
        if header.kind in RUN_ENDS:
            self.open_runs.discard(run_number(header.run_id))
        else:
            self.open_runs.add(run_number(header.run_id))

    def counts(self) -> Counts:
        """Return the counts so far."""
        return Counts(
            events=sum(self.kinds.values()),
            by_kind=dict(sorted(self.kinds.items())),
            erased=self.erased,
            turns=self.kinds.get("conversation.user", 0),
            tool_calls=self.kinds.get("tool.call", 0),
            open_runs=len(self.open_runs),
            first_ms=self.first_ms,
            last_ms=self.last_ms,
        )
