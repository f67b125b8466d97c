"""Reading for the memory: events of its kinds as they are followed, and events by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.errors import InvalidCursor
from treering.model.queries import FollowedEvents
from treering.storage.corruption import corrupt_on_error
from treering.storage.encoding import GONE, bounded
from treering.storage.memory_documents import FOLDED_KINDS, MEMORIES
from treering.storage.postgres.rows import EVENT, PAYLOAD_BYTES
from treering.storage.postgres.sql import fetch
from treering.storage.runs import state_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.memory.records import IndexName
    from treering.model.events import Event
    from treering.model.queries import Mark
    from treering.model.scopes import Scope
    from treering.storage.encoding import Row
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.reader import Reader

UNSETTLED_MAX: Final = 2_000
"""Events that are read before they have settled; others wait."""

_FOLDED, _TOLD = (", ".join(f"'{kind}'" for kind in kinds) for kinds in (FOLDED_KINDS, MEMORIES))
_OF_MEMORY: Final = f"e.kind IN ({_FOLDED})"
BEHIND: Final = f"""
FROM events AS e
WHERE e.scope = %(scope)s AND e.flags & {GONE} = 0
  AND (e.epoch, e.xid, e.position) > (%(epoch)s::int, %(xid)s::text::xid8, %(position)s)
"""
_SETTLED: Final = (
    "AND (e.epoch, e.xid) < ((SELECT enter_epoch()), pg_snapshot_xmin(pg_current_snapshot()))"
)
_IN_ORDER: Final = "ORDER BY e.epoch, e.xid, e.position"
_EVENTS: Final = f"SELECT {EVENT}, e.epoch, e.xid::text::bigint {BEHIND}"


class Which(NamedTuple):
    """Which events are followed, and an order that only their index has.

    Plans are made once, even while the tables are empty and any index would do.
    """

    condition: str
    order: str

    def statement(self, horizon: str) -> str:
        """Return the SQL that reads a page of them."""
        return f"{_EVENTS} AND {self.condition} {horizon} {self.order} LIMIT %(limit)s"


REMEMBERED: Final = Which(
    f"""
{_OF_MEMORY} AND (e.run_id IS NULL OR EXISTS (
  SELECT 1 FROM runs AS r
  WHERE r.scope = e.scope AND r.session = e.session AND r.run_id = e.run_id
    AND r.state = {state_after("run.ended")}
))
""",
    f"{_IN_ORDER}, e.kind",
)
SHELVED: Final[dict[IndexName, Which]] = {
    "events": Which(f"NOT ({_OF_MEMORY})", _IN_ORDER),
    "memories": Which(f"{_OF_MEMORY} AND e.kind IN ({_TOLD})", f"{_IN_ORDER}, e.kind"),
}
"""Which events are on which shelf."""
# Ordered, although there is only one row: a plan made while the table was empty may
# otherwise use any index of the scope.
AT_POSITIONS: Final = f"""
SELECT found.*
FROM unnest(%(positions)s::bigint[]) AS one (position)
CROSS JOIN LATERAL (
  SELECT {EVENT}
  FROM events AS e
  WHERE e.scope = %(scope)s AND e.position BETWEEN one.position AND one.position
    AND e.flags & {GONE} = 0
  ORDER BY e.position
  LIMIT 1
) AS found
"""


class MemoryReader:
    """Reads events for the memory."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._server = reader.server
        self._cache = reader.cache
        self.end = reader.end

    def remembered_after(self, scope: Scope, mark: Mark, *, limit: int) -> FollowedEvents[Event]:
        """Return the events that the memory is folded from, and the events that vouch for erasures.

        After the settled events come those that others may still overtake.
        """

        def look(connection: Connection) -> FollowedEvents[Event]:
            rows, more = stretch(connection, scope, mark, REMEMBERED, limit=limit)
            last = mark_of(rows[-1]) if rows else mark
            if not more:
                # No horizon here: it has moved on since the settled ones were read.
                rows += unsettled(connection, scope, last, REMEMBERED)
            events = self._reader.to_events(connection, scope, rows)
            return FollowedEvents(events, [mark_of(row) for row in rows], last, more)

        with corrupt_on_error(self._server.address.shown):
            return self._server.read(look, scope)

    def events_at_positions(self, scope: Scope, positions: Sequence[int]) -> list[Event]:
        """Return the events of a scope at ``positions`` that exist and are not erased."""

        def look(connection: Connection) -> list[Row]:
            asked = {"scope": scope, "positions": list(positions)}
            rows = fetch(connection, AT_POSITIONS, asked)
            by_position = {row[0]: row for row in rows}
            return [by_position[position] for position in positions if position in by_position]

        return self._reader.read(scope, look, self._reader.to_events)


def stretch(
    connection: Connection, scope: Scope, after: Mark, which: Which, *, limit: int
) -> tuple[list[Row], bool]:
    """Return settled events after a mark, and whether there may be more."""
    rows = fetch(connection, which.statement(_SETTLED), place(scope, after, limit))
    page = bounded(rows, PAYLOAD_BYTES)
    return page, len(rows) == limit or len(page) < len(rows)


def unsettled(
    connection: Connection, scope: Scope, after: Mark, which: Which, *, limit: int = UNSETTLED_MAX
) -> list[Row]:
    """Return events after a mark, settled or not."""
    rows = fetch(connection, which.statement(""), place(scope, after, limit))
    return bounded(rows, PAYLOAD_BYTES)


def mark_of(row: Row) -> Mark:
    """Return the mark of a followed event."""
    return (*row[-2:], row[0])


def place(scope: Scope, mark: Mark, limit: int) -> dict[str, Any]:
    """Return the parameters to continue after a mark."""
    if len(mark) not in {0, 3}:
        raise InvalidCursor("the mark belongs to another ledger", hint="begin with an empty one")
    epoch, xid, position = mark or (0, 0, 0)
    return {
        "scope": scope, "epoch": epoch, "xid": str(xid), "position": position, "limit": limit,
    }  # fmt: skip
