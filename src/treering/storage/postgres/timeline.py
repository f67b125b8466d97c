"""Order by time: of a session, and of the kinds of a scope, merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.storage.encoding import EXPIRED

if TYPE_CHECKING:
    from treering.model.queries import Query
    from treering.model.scopes import Scope
    from treering.storage.encoding import Row
    from treering.storage.postgres.connections import Connection

# Skips from one kind to the next, however many events each has.
_KINDS: Final = f"""
WITH RECURSIVE found AS (
  (SELECT min(kind) AS kind FROM events WHERE scope = %(scope)s AND flags < {EXPIRED})
  UNION ALL
  SELECT (
    SELECT min(e.kind) FROM events AS e
    WHERE e.scope = %(scope)s AND e.flags < {EXPIRED} AND e.kind > found.kind
  )
  FROM found
  WHERE found.kind IS NOT NULL
)
SELECT kind FROM found WHERE kind IS NOT NULL
"""


def page(connection: Connection, query: Query, session: int | None, columns: str) -> list[Row]:
    """Return rows of ``query`` in its direction; of one session if that is given."""
    direction, beyond = ("DESC", "<") if query.backwards else ("ASC", ">")
    window = ""
    if query.turn_id is not None:
        window += " AND e.turn_id = %(turn)s"
    if query.since_ms is not None:
        window += " AND e.ts_ms >= %(since)s"
    if query.until_ms is not None:
        window += " AND e.ts_ms <= %(until)s"
    if query.after is not None:
        window += f" AND (e.ts_ms, e.position) {beyond} (%(ts_ms)s, %(position)s)"
    values: dict[str, Any] = {
        "scope": query.scope,
        "session": session,
        "kinds": list(query.kinds),
        "turn": query.turn_id,
        "since": query.since_ms,
        "until": query.until_ms,
        "ts_ms": query.after.ts_ms if query.after else None,
        "position": query.after.position if query.after else None,
        "limit": query.limit,
    }
    order = f"ORDER BY e.ts_ms {direction}, e.position {direction} LIMIT %(limit)s"
    if session is not None:
        among = " AND e.kind = ANY(%(kinds)s::text[])" if query.kinds else ""
        text = (
            f"SELECT {columns} FROM events AS e WHERE e.scope = %(scope)s"
            f" AND e.session = %(session)s AND e.flags < {EXPIRED}{among}{window} {order}"
        )
    else:
        values["kinds"] = values["kinds"] or kinds_of(connection, query.scope)
        text = (
            f"SELECT {columns} FROM unnest(%(kinds)s::text[]) AS k (kind) CROSS JOIN LATERAL ("
            " SELECT * FROM events AS e WHERE e.scope = %(scope)s AND e.kind = k.kind"
            f" AND e.flags < {EXPIRED}{window} {order}) AS e {order}"
        )
    return connection.execute(text, values, binary=True).fetchall()


def kinds_of(connection: Connection, scope: Scope) -> list[str]:
    """Return the kinds of a scope's events."""
    rows = connection.execute(_KINDS, {"scope": scope}, binary=True).fetchall()
    return [row[0] for row in rows]
