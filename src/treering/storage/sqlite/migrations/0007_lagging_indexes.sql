-- The indexes by seq and by id. The newest events are not in them yet: they are entered many at a
-- time, so that one append touches no page of theirs (see indexes.py). The row indexed_position of
-- the table ledger says up to which event they are complete.
CREATE TABLE seqs_by_session (
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE ids_by_scope (
  scope INTEGER NOT NULL,
  event_id BLOB NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (scope, event_id)
) STRICT, WITHOUT ROWID;
-- Not from the old indexes, which may be damaged. An event that was doubled behind the ledger's back
-- is left out: verify reports it.
INSERT OR IGNORE INTO seqs_by_session (session, seq, position)
SELECT session, seq, position FROM events NOT INDEXED ORDER BY session, seq;
INSERT OR IGNORE INTO ids_by_scope (scope, event_id, position)
SELECT scope, event_id, position FROM events NOT INDEXED ORDER BY scope, event_id;
INSERT INTO ledger (name, value)
SELECT 'indexed_position', coalesce(max(position), 0) FROM events;
DROP INDEX events_by_seq;
DROP INDEX events_by_id;
