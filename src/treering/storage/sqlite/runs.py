"""The table of runs, made anew from their events and compared with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import apsw


def rebuild(connection: apsw.Connection) -> None:
    """Make the states of runs anew from their events. Call inside a write transaction."""
    connection.execute("DELETE FROM runs")
    connection.execute(f"INSERT INTO runs (session, run, state, first_seq, last_seq) {DERIVED}")


STORED: Final = "SELECT session, run, state, first_seq, last_seq FROM runs"
DERIVED: Final = """
SELECT
  e.session,
  e.run,
  coalesce(max(CASE k.name
    WHEN 'run.ended' THEN 1 WHEN 'run.failed' THEN 2 WHEN 'run.interrupted' THEN 3
  END), 0),
  min(e.seq),
  max(CASE WHEN k.name IN ('run.ended', 'run.failed', 'run.interrupted') THEN e.seq END)
FROM events AS e
JOIN names AS k ON k.id = e.kind
WHERE e.run IS NOT NULL
GROUP BY e.session, e.run
"""
"""The states of runs, as their events have it."""
