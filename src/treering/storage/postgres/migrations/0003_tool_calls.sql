-- One row for each tool call, derived from its events as far as tool_marks says. Only numbers:
-- tools, call ids and runs are keyed hashes, and every text is read from the events, so that
-- nothing in here can outlive what is erased there.
CREATE TABLE tool_calls (
  position bigint NOT NULL,        -- of the first event that is known of it
  session bigint NOT NULL,
  call bigint,                     -- NULL if it has no call id
  tool bigint NOT NULL,            -- 0 if nobody named it
  run bigint,
  at_ms bigint NOT NULL,           -- when it started, else when it ended
  started_ms bigint,
  ended_ms bigint,
  duration_ms bigint,
  output_bytes bigint,
  call_seq bigint,
  result_seq bigint,
  late_seq bigint,
  status smallint NOT NULL,        -- 0 open, 1 ok, 2 failed, 3 synthetic
  reason smallint,                 -- why it is synthetic: see model/tools.py, from 0
  scope text COLLATE "C" NOT NULL,
  PRIMARY KEY (scope, position)
);
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
CREATE INDEX tool_calls_measured ON tool_calls (scope, tool, status, duration_ms, position)
INCLUDE (at_ms, output_bytes);
CREATE INDEX tool_calls_measured_in_session
ON tool_calls (scope, session, tool, status, duration_ms, position)
INCLUDE (at_ms, output_bytes);

-- Results that came when their call had its outcome already: they count if that is erased.
CREATE TABLE tool_extras (
  session bigint NOT NULL,
  call bigint NOT NULL,
  seq bigint NOT NULL,
  scope text COLLATE "C" NOT NULL,
  PRIMARY KEY (scope, session, call, seq)
);

-- How far the tool calls of each scope have been followed.
CREATE TABLE tool_marks (
  epoch integer NOT NULL,
  xid xid8 NOT NULL,
  position bigint NOT NULL,
  scope text COLLATE "C" PRIMARY KEY
);

ALTER TABLE tool_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE tool_extras ENABLE ROW LEVEL SECURITY;
ALTER TABLE tool_marks ENABLE ROW LEVEL SECURITY;
