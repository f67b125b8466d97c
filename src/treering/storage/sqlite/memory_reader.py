"""Reading for the memory: events of its kinds as they are followed, and events by position."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from treering.model.codec import encode
from treering.model.queries import FollowedEvents
from treering.storage.encoding import GONE, bounded, name_key
from treering.storage.memory_documents import FOLDED_KINDS, MEMORIES
from treering.storage.runs import state_after
from treering.storage.sqlite.reader import find_scope
from treering.storage.sqlite.rows import (
    EVENT,
    PAYLOAD_BYTES,
    POSITION,
    WITH_CONTENT,
    fetch_all,
    fetch_value,
    key_of_names,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from treering.memory.records import IndexName
    from treering.model.events import Event
    from treering.model.queries import Mark
    from treering.model.scopes import Scope
    from treering.storage.sqlite.reader import Reader
    from treering.storage.sqlite.rows import Row

LOOKED_AT_MAX: Final = 20_000
"""Positions of all scopes that one step looks at: those of other kinds are passed over quickly."""

_LIVE: Final = f"""
SELECT {EVENT}
FROM events AS e
CROSS {WITH_CONTENT}
WHERE e.position > :after AND e.position <= :until AND e.scope = :scope AND e.flags & {GONE} = 0
"""
_IN_ORDER: Final = "ORDER BY e.position LIMIT :limit"
REMEMBERED: Final = f"""
{_LIVE} AND e.kind IN ({{folded}})
  AND (e.run IS NULL OR EXISTS (
    SELECT 1 FROM runs AS r
    WHERE r.session = e.session AND r.run = e.run AND r.state = {state_after("run.ended")}
  ))
{_IN_ORDER}
"""
ON_SHELF: Final[dict[IndexName, str]] = {
    "events": f"{_LIVE} AND e.kind NOT IN ({{folded}}) {_IN_ORDER}",
    "memories": f"{_LIVE} AND e.kind IN ({{memories}}) {_IN_ORDER}",
}
_LAG: Final = f"""
SELECT count(*)
FROM events AS e
WHERE e.position > :after AND e.scope = :scope AND e.flags & {GONE} = 0
"""
LAG: Final[dict[IndexName, str]] = {
    "events": f"{_LAG} AND e.kind NOT IN ({{folded}})",
    "memories": f"{_LAG} AND e.kind IN ({{memories}})",
}
# Most events are of other kinds. The order of time by kind has all up to its mark but expired ones,
# so everything before the next entry is passed over; up to the mark, without an entry.
_BEFORE_NEXT: Final = """
SELECT coalesce(
  min(t.position) - 1,
  (SELECT value FROM ledger WHERE name = 'timed_position'),
  0
)
FROM times_by_kind AS t
WHERE t.scope = :scope AND t.kind IN ({kinds}) AND t.position > :after
"""
AT_POSITIONS: Final = f"""
SELECT {EVENT}
FROM json_each(CAST(? AS TEXT)) AS one
CROSS JOIN events AS e ON e.position = one.value
CROSS {WITH_CONTENT}
WHERE e.scope = ? AND e.flags & {GONE} = 0
"""
_SESSIONS: Final = """
SELECT e.position, e.session
FROM json_each(CAST(? AS TEXT)) AS one
CROSS JOIN events AS e ON e.position = one.value
WHERE e.scope = ?
"""


class MemoryReader:
    """Answers reads of events for the memory."""

    def __init__(self, reader: Reader) -> None:
        self._database = reader.database
        self._to_events = reader.to_events

    def remembered_after(self, scope: Scope, mark: Mark, *, limit: int) -> FollowedEvents[Event]:
        """Return events that the memory folds, and those that vouch for erasures."""
        rows, last, more = self._of_kinds(REMEMBERED, scope, position_of(mark), limit, FOLDED_KINDS)
        return FollowedEvents(self._to_events(rows), [row[:1] for row in rows], (last,), more)

    def shelved_after(
        self, scope: Scope, shelf: IndexName, position: int, *, limit: int
    ) -> tuple[list[tuple[int, Event]], int, bool]:
        """Return events of an index with their sessions' numbers, where to continue, whether to."""
        kinds = MEMORIES if shelf == "memories" else ()
        rows, last, more = self._of_kinds(ON_SHELF[shelf], scope, position, limit, kinds)
        return (
            [(row[1], event) for row, event in zip(rows, self._to_events(rows), strict=True)],
            last,
            more,
        )

    def shelf_lag(self, scope: Scope, shelf: IndexName, position: int) -> int:
        """Return how many events of an index's kinds come after a position."""
        with self._database.reading() as connection:
            bindings = {"after": position, "scope": find_scope(connection, scope)[0]}
            return int(fetch_value(connection, self._filled(connection, LAG[shelf]), bindings))

    def events_at_positions(self, scope: Scope, positions: Sequence[int]) -> list[Event]:
        """Return events of a scope by position; erased ones are left out."""
        with self._database.reading() as connection:
            number = find_scope(connection, scope)[0]
            rows = fetch_all(connection, AT_POSITIONS, (encode(list(positions)), number))
        by_position = {row[POSITION]: row for row in rows}
        return self._to_events(
            [by_position[position] for position in positions if position in by_position]
        )

    def sessions_at_positions(self, scope: Scope, positions: Sequence[int]) -> dict[int, int]:
        """Return the number of the session of the event at each position."""
        with self._database.reading() as connection:
            number = find_scope(connection, scope)[0]
            return dict(fetch_all(connection, _SESSIONS, (encode(list(positions)), number)))

    def _of_kinds(
        self,
        statement: str,
        scope: Scope,
        after: int,
        limit: int,
        kinds: Sequence[str],
    ) -> tuple[list[Row], int, bool]:
        """Return rows of a stretch, where it ends, and whether more follow.

        With ``kinds``, a stretch that is not the last begins at the next event of one of them.
        """
        with self._database.reading() as connection, connection:
            newest = fetch_value(connection, "SELECT max(position) FROM events") or 0
            if newest <= after:
                return [], after, False
            number = find_scope(connection, scope)[0]
            if kinds and newest - after > LOOKED_AT_MAX:
                next_of = _BEFORE_NEXT.format(kinds=_numbers(connection, kinds))
                bindings = {"scope": number, "after": after}
                after = max(after, fetch_value(connection, next_of, bindings))
            last = min(newest, after + LOOKED_AT_MAX)
            bindings = {"after": after, "until": last, "scope": number, "limit": limit}
            rows = fetch_all(connection, self._filled(connection, statement), bindings)
        page = bounded(rows, PAYLOAD_BYTES)
        if len(page) == limit or len(page) < len(rows):
            last = page[-1][POSITION]
        last = max(last, after)
        return page, last, last < newest

    def _filled(self, connection: apsw.Connection, statement: str) -> str:
        """Return a statement with the numbers of the kinds in it."""
        kinds = {"folded": FOLDED_KINDS, "memories": MEMORIES}
        return statement.format_map(
            {name: _numbers(connection, of) for name, of in kinds.items() if name in statement}
        )


def position_of(mark: Mark) -> int:
    """Return the position that a mark is all of; 0 for the beginning."""
    return mark[0] if mark else 0


def _numbers(connection: apsw.Connection, kinds: Sequence[str]) -> str:
    """Return the numbers of those kinds that have events, with commas between."""
    keys = _keys(key_of_names(connection), tuple(kinds))
    marks = ", ".join("?" * len(kinds))
    rows = fetch_all(connection, f"SELECT id FROM names WHERE key IN ({marks})", keys)
    return ", ".join(str(row[0]) for row in rows)


@lru_cache(maxsize=16)
def _keys(key: bytes, kinds: tuple[str, ...]) -> list[bytes]:
    """Return the hashes that kinds are found by."""
    return [name_key(key, kind) for kind in kinds]
