-- One row for each tool call, derived from its events as far as the ledger's tools_seen says; from
-- now on laid out as on a server. Only numbers: tools, call ids and runs are keyed hashes, and every
-- text is read from the events, so that nothing in here can outlive what is erased there.
DROP TABLE tool_calls;
DROP TABLE tool_extras;
DELETE FROM ledger WHERE name = 'tools_seen';
CREATE TABLE tool_calls (
  scope INTEGER NOT NULL,
  position INTEGER NOT NULL,       -- of the first event that is known of it
  session INTEGER NOT NULL,
  call INTEGER,                    -- NULL if it has no call id
  tool INTEGER NOT NULL,           -- 0 if nobody named it
  run INTEGER,
  status INTEGER NOT NULL,         -- 0 open, 1 ok, 2 failed, 3 synthetic
  reason INTEGER,                  -- why it is synthetic: see model/tools.py, from 0
  at_ms INTEGER NOT NULL,          -- when it started, else when it ended
  started_ms INTEGER,
  ended_ms INTEGER,
  duration_ms INTEGER,
  output_bytes INTEGER,
  call_seq INTEGER,
  result_seq INTEGER,
  late_seq INTEGER,
  PRIMARY KEY (scope, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_calls_by_call ON tool_calls (scope, session, call, position)
WHERE call IS NOT NULL;
CREATE INDEX tool_calls_in_session ON tool_calls (scope, session, status, at_ms, position);
CREATE INDEX tool_calls_in_scope ON tool_calls (scope, status, at_ms, position);
CREATE INDEX tool_calls_of_tool ON tool_calls (scope, tool, status, at_ms, position);
CREATE INDEX tool_calls_by_reason ON tool_calls (scope, reason, at_ms, position)
WHERE reason IS NOT NULL;
CREATE INDEX tool_calls_of_run ON tool_calls (scope, run, at_ms, position) WHERE run IS NOT NULL;
CREATE INDEX tool_calls_slowest ON tool_calls (scope, status, duration_ms, position)
WHERE duration_ms IS NOT NULL;
-- These two hold all that statistics are made of.
CREATE INDEX tool_calls_measured ON tool_calls (
  scope, tool, status, duration_ms, position, at_ms, output_bytes
);
CREATE INDEX tool_calls_measured_in_session ON tool_calls (
  scope, session, tool, status, duration_ms, position, at_ms, output_bytes
);

-- Results that came when their call had its outcome already: they count if that is erased.
CREATE TABLE tool_extras (
  scope INTEGER NOT NULL,
  session INTEGER NOT NULL,
  call INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (scope, session, call, seq)
) STRICT, WITHOUT ROWID;
