"""The table of runs: derived again from their events and compared with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.storage.postgres.rows import session_name
from treering.storage.runs import OPEN_RUNS_MAX

if TYPE_CHECKING:
    from treering.storage.encoding import Row
    from treering.storage.postgres.server import Connection

# Asked first at every opening: planning the joins with all partitions of events takes milliseconds.
_ANY_OPEN: Final = "SELECT 1 FROM runs WHERE state = 0 LIMIT 1"
# From the few open runs, by their index, to the details.
OPEN: Final = f"""
SELECT
  r.scope,
  {session_name("s")},
  r.run_id,
  r.first_seq,
  CASE first.kind WHEN 'run.started' THEN first.event_name END,
  coalesce(latest.recorded_ms, 0)
FROM runs AS r
JOIN sessions AS s ON s.scope = r.scope AND s.id = r.session
LEFT JOIN LATERAL (
  SELECT e.kind, e.event_name
  FROM events AS e
  WHERE e.scope = r.scope AND e.session = r.session AND e.seq BETWEEN r.first_seq AND r.first_seq
  ORDER BY e.seq
  LIMIT 1
) AS first ON true
LEFT JOIN LATERAL (
  SELECT e.recorded_ms
  FROM events AS e
  WHERE e.scope = r.scope AND e.session = r.session
  ORDER BY e.seq DESC
  LIMIT 1
) AS latest ON true
WHERE r.state = 0
  AND (NOT %(owned)s OR first.kind = 'run.started' AND strpos(first.event_name, '@') > 0)
"""
_IN_ORDER: Final = """
ORDER BY first.event_name IS NULL, r.scope, r.session, r.first_seq LIMIT %(limit)s
"""
ALL_OPEN: Final = f"{OPEN} {_IN_ORDER}"
OPEN_IN_SCOPE: Final = f"{OPEN} AND r.scope = %(scope)s {_IN_ORDER}"
OPEN_IN_SESSION: Final = f"""
{OPEN} AND r.scope = %(scope)s AND r.session = %(session)s {_IN_ORDER}
"""
RUNNING: Final = f"""
SELECT {session_name("s")}
FROM sessions AS s
JOIN (SELECT DISTINCT session FROM runs WHERE scope = %(scope)s AND state = 0) AS r
  ON r.session = s.id
WHERE s.scope = %(scope)s
"""
STORED: Final = "SELECT scope, session, run_id, state, first_seq, last_seq FROM runs"
DERIVED: Final = """
SELECT
  e.scope,
  e.session,
  e.run_id,
  coalesce(max(CASE e.kind
    WHEN 'run.ended' THEN 1 WHEN 'run.failed' THEN 2 WHEN 'run.interrupted' THEN 3
  END), 0)::smallint,
  min(e.seq),
  max(CASE WHEN e.kind IN ('run.ended', 'run.failed', 'run.interrupted') THEN e.seq END)
FROM events AS e
WHERE e.run_id IS NOT NULL
GROUP BY e.scope, e.session, e.run_id
"""
"""The states of runs, derived from their events."""


def open_runs(
    connection: Connection, scope: str | None, session: int | None, *, owned: bool
) -> list[Row]:
    """Return the open runs, of one scope and one session if they are given."""
    if scope is None and connection.execute(_ANY_OPEN).fetchone() is None:
        return []
    statement = OPEN_IN_SESSION if session is not None else OPEN_IN_SCOPE
    return connection.execute(
        ALL_OPEN if scope is None else statement,
        {"limit": OPEN_RUNS_MAX, "scope": scope, "session": session, "owned": owned},
        binary=True,
    ).fetchall()


def rebuild(connection: Connection) -> None:
    """Derive the states of runs again from their events. Call inside a transaction."""
    # No run begins or ends meanwhile: to do so reads this table first.
    connection.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
    connection.execute("SET LOCAL enable_seqscan = on")
    connection.execute("DELETE FROM runs")
    connection.execute(
        f"INSERT INTO runs (scope, session, run_id, state, first_seq, last_seq) {DERIVED}"
    )
