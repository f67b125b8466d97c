-- Erasable text lives only in append-only rowid tables: it is set to NULL in place and its rows
-- never grow and are never deleted, because a page that is rebalanced leaves copies of its rows
-- behind. No index holds erasable text: ids and names are indexed by keyed hashes.

CREATE TABLE ledger (
  name TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT;

CREATE TABLE scopes (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  key BLOB NOT NULL                -- keys the hashes of ids, names and blobs of the scope
) STRICT;

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL,
  key BLOB NOT NULL,               -- keyed hash of name
  name TEXT,
  salt BLOB,
  genesis BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_by_key ON sessions (scope, key);
CREATE INDEX sessions_by_genesis ON sessions (genesis);

-- Where each session's chain ends. Apart from sessions, because these rows grow.
CREATE TABLE heads (
  session INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL,
  link BLOB NOT NULL
) STRICT;

-- Kinds, sources, origins, runs, turns, agents and users, each text once.
CREATE TABLE names (
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL,
  name TEXT
) STRICT;
CREATE UNIQUE INDEX names_by_key ON names (key);

CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL,
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  event_id BLOB NOT NULL,          -- the UUID, or a keyed hash of event_name
  event_name TEXT,                 -- an id that is no UUID
  kind INTEGER NOT NULL,
  source INTEGER NOT NULL,
  origin INTEGER,
  run INTEGER,
  run_seq INTEGER,
  turn INTEGER,
  agent INTEGER NOT NULL,
  user INTEGER,
  ts_ms INTEGER NOT NULL,
  recorded_ms INTEGER NOT NULL,
  flags INTEGER NOT NULL,          -- see rows.py; 64 and above is expired
  schema_version INTEGER NOT NULL,
  payload_bytes INTEGER NOT NULL,
  content_digest BLOB NOT NULL,
  link BLOB NOT NULL,
  summary TEXT,
  refs BLOB                        -- canonical JSON
) STRICT;
CREATE UNIQUE INDEX events_by_seq ON events (session, seq);
CREATE UNIQUE INDEX events_by_id ON events (scope, event_id);

-- The orders of time. The newest events are not in them yet: they are entered many at a time, so
-- that one append touches no page of theirs, and read by position until then (see indexes.py).
CREATE TABLE times_by_session (
  session INTEGER NOT NULL,
  ts_ms INTEGER NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (session, ts_ms, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE times_by_kind (
  scope INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ts_ms INTEGER NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (scope, kind, ts_ms, position)
) STRICT, WITHOUT ROWID;

-- Payloads, apart, so that a header is read without touching them.
CREATE TABLE contents (
  position INTEGER PRIMARY KEY,
  salt BLOB,
  payload BLOB,                    -- canonical JSON, or the stub of a blob
  blob INTEGER
) STRICT;
CREATE INDEX contents_by_blob ON contents (blob) WHERE blob IS NOT NULL;

CREATE TABLE blobs (
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL,
  key BLOB,                        -- HMAC of the content; NULL once erased
  body BLOB                        -- zstd
) STRICT;
CREATE UNIQUE INDEX blobs_by_key ON blobs (scope, key) WHERE key IS NOT NULL;

-- Derived from run.* events.
CREATE TABLE runs (
  session INTEGER NOT NULL,
  run INTEGER NOT NULL,
  state INTEGER NOT NULL,          -- 0 open, 1 ended, 2 failed, 3 interrupted
  first_seq INTEGER NOT NULL,
  last_seq INTEGER,
  PRIMARY KEY (session, run)
) STRICT;
CREATE INDEX runs_open ON runs (session) WHERE state = 0;

CREATE TABLE retention (
  scope INTEGER NOT NULL,
  kind TEXT NOT NULL,
  days INTEGER,                    -- NULL is forever
  PRIMARY KEY (scope, kind)
) STRICT;

CREATE VIEW episodic_events AS
SELECT
  e.position AS id,
  CASE
    WHEN e.flags & 32 THEN e.event_name
    ELSE lower(
      substr(hex(e.event_id), 1, 8) || '-' || substr(hex(e.event_id), 9, 4) || '-' ||
      substr(hex(e.event_id), 13, 4) || '-' || substr(hex(e.event_id), 17, 4) || '-' ||
      substr(hex(e.event_id), 21, 12)
    )
  END AS event_id,
  e.ts_ms AS ts_ms,
  scopes.name AS scope,
  sessions.name AS session_id,
  agents.name AS agent_id,
  kinds.name AS type,
  CASE WHEN e.flags & 2 THEN '[REDACTED]' ELSE e.summary END AS summary,
  CASE
    WHEN e.flags & 4 THEN '"[REDACTED]"'
    ELSE CAST(c.payload AS TEXT)
  END AS payload_json,
  CAST(e.refs AS TEXT) AS refs_json,
  (e.flags & 2) <> 0 AS redacted,
  'openclaw-mem.episodic.v0' AS schema_version,
  strftime('%Y-%m-%dT%H:%M:%f', e.recorded_ms / 1000.0, 'unixepoch') || '+00:00' AS created_at
FROM events AS e
JOIN contents AS c ON c.position = e.position
JOIN sessions ON sessions.id = e.session
JOIN scopes ON scopes.id = e.scope
JOIN names AS agents ON agents.id = e.agent
JOIN names AS kinds ON kinds.id = e.kind
WHERE e.flags < 64;
