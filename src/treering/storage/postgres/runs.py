"""The table of runs, made anew from their events and compared with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treering.storage.postgres.connections import Connection

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
"""The states of runs, as their events have it."""


def rebuild(connection: Connection) -> None:
    """Make the states of runs anew from their events. Call inside a transaction."""
    # Nobody appends meanwhile: whoever records an event of a run reads this table before.
    connection.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
    connection.execute("SET LOCAL enable_seqscan = on")
    connection.execute("DELETE FROM runs")
    connection.execute(
        f"INSERT INTO runs (scope, session, run_id, state, first_seq, last_seq) {DERIVED}"
    )
