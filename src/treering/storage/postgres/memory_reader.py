"""Reading for the memory: events of its kinds as they are followed, and events by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.model.queries import FollowedEvents
from treering.storage.corruption import corrupt_on_error
from treering.storage.encoding import GONE
from treering.storage.memory_documents import FOLDED_KINDS, MEMORIES
from treering.storage.postgres.following import IN_ORDER, Which, mark_of, settled, unsettled
from treering.storage.postgres.rows import EVENT, fetch
from treering.storage.runs import state_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.memory.records import IndexName
    from treering.model.events import Event
    from treering.model.queries import Mark
    from treering.model.scopes import Scope
    from treering.storage.encoding import Row
    from treering.storage.postgres.reader import Reader
    from treering.storage.postgres.server import Connection

_FOLDED, _TOLD = (", ".join(f"'{kind}'" for kind in kinds) for kinds in (FOLDED_KINDS, MEMORIES))
_OF_MEMORY: Final = f"e.flags & {GONE} = 0 AND e.kind IN ({_FOLDED})"
_BY_KIND: Final = f"{IN_ORDER}, e.kind"
REMEMBERED: Final = Which(
    f"""
{_OF_MEMORY} AND (e.run_id IS NULL OR EXISTS (
  SELECT 1 FROM runs AS r
  WHERE r.scope = e.scope AND r.session = e.session AND r.run_id = e.run_id
    AND r.state = {state_after("run.ended")}
))
""",
    _BY_KIND,
)
SHELVED: Final[dict[IndexName, Which]] = {
    "events": Which(f"e.flags & {GONE} = 0 AND NOT (e.kind IN ({_FOLDED}))"),
    "memories": Which(f"{_OF_MEMORY} AND e.kind IN ({_TOLD})", _BY_KIND),
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
_SESSIONS: Final = """
SELECT e.position, e.session
FROM events AS e
WHERE e.scope = %s AND e.position = ANY(%s::bigint[])
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
            rows, more = settled(connection, scope, mark, REMEMBERED, limit=limit)
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

    def sessions_at_positions(self, scope: Scope, positions: Sequence[int]) -> dict[int, int]:
        """Return the number of the session of the event at each position."""
        rows = self._server.fetch(_SESSIONS, (scope, list(positions)), scope)
        return {row[0]: row[1] for row in rows}
