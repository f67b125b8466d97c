"""Following on a server: the next events of a scope, for all that is derived from them.

A transaction that began early may commit late, with positions below committed ones. So events are
followed in the order of their transactions, and are settled when none is open that began before.
Events that others may still overtake are entered, too, and skipped when they are read as settled.
A lock of the scope separates followers and erasures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.errors import InvalidCursor
from treering.storage.encoding import Row, bounded
from treering.storage.postgres.rows import EVENT, PAYLOAD_BYTES, fetch

if TYPE_CHECKING:
    from treering.model.queries import Mark
    from treering.model.scopes import Scope
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.server import Connection

STEP_EVENTS: Final = 500
"""Events that are entered in one transaction."""
UNSETTLED_MAX: Final = 2_000
"""Events that are read before they have settled; others wait."""
EPOCHS_MAX: Final = 2**31
AFTER: Final = "(e.epoch, e.xid, e.position) > (%(epoch)s::int, %(xid)s::text::xid8, %(position)s)"
SETTLED: Final = (
    "(e.epoch, e.xid) < ((SELECT enter_epoch()), pg_snapshot_xmin(pg_current_snapshot()))"
)
IN_ORDER: Final = "ORDER BY e.epoch, e.xid, e.position"
MARK: Final = "e.epoch, e.xid::text::bigint"
"""What a row has after its own columns."""
_READ: Final = "SELECT epoch, xid::text::bigint, position FROM {table} WHERE scope = %s"
_WRITE: Final = """
INSERT INTO {table} (scope, epoch, xid, position) VALUES (%s, %s::int, %s::text::xid8, %s)
ON CONFLICT (scope) DO UPDATE
SET (epoch, xid, position) = (excluded.epoch, excluded.xid, excluded.position)
"""
_ENTERED: Final = """
SELECT d.session, d.seq
FROM {table} AS d
WHERE d.scope = %s AND (d.session, d.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
"""


class Which(NamedTuple):
    """Which events are followed, and an order that only their index has.

    Plans are made once, even while the tables are empty and any index would do.
    """

    condition: str
    order: str = IN_ORDER
    columns: str = EVENT

    def statement(self, horizon: str) -> str:
        """Return the SQL that reads a page of them; ``horizon`` is one more condition, or empty."""
        upto = f"AND {horizon}" if horizon else ""
        return f"SELECT {self.columns}, {MARK} {self.behind()} {upto} {self.order} LIMIT %(limit)s"

    def behind(self) -> str:
        """Return the part of the SQL that says which rows are after a mark."""
        return f"FROM events AS e WHERE e.scope = %(scope)s AND {AFTER} AND {self.condition}"


class FollowedRows(NamedTuple):
    """The next events after a mark."""

    rows: list[Row]
    last: Mark
    """The mark of the last one that has settled."""
    passed: int
    """How many were read, those included that had been entered before they settled."""
    more: bool


def next_events(
    connection: Connection, scope: Scope, after: Mark, which: Which, table: str
) -> FollowedRows:
    """Return the next events that ``table`` does not hold. Call with the lock of the scope."""
    rows, more = settled(connection, scope, after, which, limit=STEP_EVENTS)
    last = mark_of(rows[-1]) if rows else after
    if not more:
        # No horizon here: it has moved since the settled ones were read.
        rows = rows + unsettled(connection, scope, last, which)
    places = [row[1] for row in rows], [row[2] for row in rows]
    entered = set(fetch(connection, _ENTERED.format(table=table), (scope, *places)))
    new = [row for row in rows if (row[1], row[2]) not in entered]
    return FollowedRows(new, last, len(rows), more)


def settled(
    connection: Connection, scope: Scope, after: Mark, which: Which, *, limit: int
) -> tuple[list[Row], bool]:
    """Return settled events after a mark, and whether there may be more."""
    return _page(connection, which, which.statement(SETTLED), place(scope, after, limit))


def unsettled(
    connection: Connection, scope: Scope, after: Mark, which: Which, *, limit: int = UNSETTLED_MAX
) -> list[Row]:
    """Return events after a mark, settled or not."""
    return _page(connection, which, which.statement(""), place(scope, after, limit))[0]


def _page(
    connection: Connection, which: Which, statement: str, values: dict[str, Any]
) -> tuple[list[Row], bool]:
    rows = fetch(connection, statement, values)
    # Headers have no payloads that would fill the memory.
    page = bounded(rows, PAYLOAD_BYTES) if which.columns == EVENT else rows
    return page, len(rows) == values["limit"] or len(page) < len(rows)


def mark_of(row: Row) -> Mark:
    """Return the mark of a followed event."""
    return (*row[-2:], row[0])


def place(scope: Scope, mark: Mark, limit: int = 0) -> dict[str, Any]:
    """Return the parameters to continue after a mark. Raise InvalidCursor if it is not one."""
    if len(mark) not in {0, 3} or (mark and mark[0] >= EPOCHS_MAX):
        raise InvalidCursor("the cursor belongs to another ledger", hint="follow that one")
    epoch, xid, position = mark or (0, 0, 0)
    return {
        "scope": scope, "epoch": epoch, "xid": str(xid), "position": position, "limit": limit,
    }  # fmt: skip


def read_mark(connection: Connection, table: str, scope: Scope) -> Mark:
    """Return the mark of a scope in a table of marks."""
    rows = fetch(connection, _READ.format(table=table), (scope,))
    return tuple(rows[0]) if rows else ()


def write_mark(connection: Connection, table: str, scope: Scope, mark: Mark) -> None:
    """Set the mark of a scope."""
    epoch, xid, position = mark
    connection.execute(_WRITE.format(table=table), (scope, epoch, str(xid), position))


def lock(connection: Connection, cache: IdCache, scope: Scope, name: str) -> None:
    """Lock what is derived from a scope, by the name of the lock, until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (cache.lock_of(scope, name),))
