"""The table of runs, derived from their events and compared with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.model.events import REDACTED
from treering.storage.runs import RUN_OPEN
from treering.storage.sqlite.indexes import position_at
from treering.storage.sqlite.rows import session_name

if TYPE_CHECKING:
    import apsw


# From the few open runs, by their index, to what is recorded about them.
_FROM_OPEN: Final = f"""
runs AS r INDEXED BY runs_open
LEFT JOIN events AS first ON first.position = {position_at("r.session", "r.first_seq")}
"""
# Runs that nobody ends may be many, and have no owner. So runs with one are also found from their
# starts, where those are fewer.
_STARTS: Final = """
SELECT t.position
FROM scopes
CROSS JOIN times_by_kind AS t ON t.scope = scopes.id AND t.kind = :started
UNION ALL
SELECT e.position
FROM events AS e
WHERE e.position > (SELECT value FROM ledger WHERE name = 'timed_position') AND e.kind = :started
"""
_FROM_STARTS: Final = f"""
({_STARTS}) AS t
CROSS JOIN events AS first ON first.position = t.position AND first.event_name IS NOT NULL
CROSS JOIN runs AS r ON r.session = first.session AND r.run = first.run AND r.first_seq = first.seq
"""
_COUNT: Final = f"SELECT count(*) FROM runs INDEXED BY runs_open WHERE state = {RUN_OPEN}"
STARTS_ARE_FEWER: Final = f"""
SELECT (SELECT count(*) FROM (SELECT 1 FROM ({_STARTS}) LIMIT ({_COUNT}))) < ({_COUNT})
"""
_SELECTED: Final = f"""
SELECT
  scopes.name,
  {session_name("s")},
  coalesce(n.name, '{REDACTED}'),
  r.first_seq,
  CASE first.kind WHEN :started THEN first.event_name END,
  coalesce(latest.recorded_ms, 0)
FROM {{source}}
CROSS JOIN sessions AS s ON s.id = r.session
CROSS JOIN scopes ON scopes.id = s.scope
CROSS JOIN names AS n ON n.id = r.run
LEFT JOIN heads AS h ON h.session = r.session
LEFT JOIN events AS latest ON latest.position = {position_at("r.session", "h.seq")}
WHERE r.state = {RUN_OPEN}
  AND (NOT :owned OR first.kind = :started AND instr(first.event_name, '@'))
"""
_IN_ORDER: Final = "ORDER BY first.event_name IS NULL, r.session, r.first_seq LIMIT :limit"
ALL_OPEN, ALL_STARTED = (
    f"""
{_SELECTED.format(source=source)}
  AND scopes.name = coalesce(:scope, scopes.name) AND (:name IS NULL OR s.name = :name)
{_IN_ORDER}
"""
    for source in (_FROM_OPEN, _FROM_STARTS)
)
OPEN_IN_SESSION: Final = f"""
{_SELECTED.format(source=_FROM_OPEN)} AND r.session = :session
{_IN_ORDER}
"""
RUNNING: Final = f"""
SELECT {session_name("s")}
FROM (SELECT DISTINCT session FROM runs INDEXED BY runs_open WHERE state = {RUN_OPEN}) AS r
CROSS JOIN sessions AS s ON s.id = r.session
CROSS JOIN scopes ON scopes.id = s.scope
WHERE scopes.name = ?
"""


def rebuild(connection: apsw.Connection) -> None:
    """Derive the states of runs from their events again. Call inside a write transaction."""
    connection.execute("DELETE FROM runs")
    derived = DERIVED.format(own="TRUE")
    connection.execute(f"INSERT INTO runs (session, run, state, first_seq, last_seq) {derived}")


STORED: Final = """
SELECT e.session, e.run, e.state, e.first_seq, e.last_seq
FROM runs AS e
WHERE {own}
"""
"""The states of runs, as they are stored; ``own`` is a condition on the session."""
# The three kinds are looked for once, and not compared by name with that of every event.
DERIVED: Final = """
SELECT
  e.session,
  e.run,
  max(CASE
    WHEN e.kind IN (SELECT id FROM names WHERE name = 'run.ended') THEN 1
    WHEN e.kind IN (SELECT id FROM names WHERE name = 'run.failed') THEN 2
    WHEN e.kind IN (SELECT id FROM names WHERE name = 'run.interrupted') THEN 3
    ELSE 0
  END),
  min(e.seq),
  max(CASE
    WHEN e.kind IN (
      SELECT id FROM names WHERE name IN ('run.ended', 'run.failed', 'run.interrupted')
    )
    THEN e.seq
  END)
FROM events AS e
WHERE e.run IS NOT NULL AND {own}
GROUP BY e.session, e.run
"""
"""The states of runs, as their events have it; ``own`` is a condition on the events."""
DIFFERENCES: Final = f"""
WITH derived AS MATERIALIZED ({DERIVED.format(own="{events}")}),
stored AS ({STORED.format(own="{sessions}")})
SELECT
  (SELECT count(*) FROM (SELECT * FROM stored EXCEPT SELECT * FROM derived))
  + (SELECT count(*) FROM (SELECT * FROM derived EXCEPT SELECT * FROM stored))
"""
"""How many states are stored and not derived, or derived and not stored."""
