-- Since when no id of this ledger is made of words that can be guessed from it. A ledger that is new
-- does not say, for it never held such ids.
INSERT INTO ledger (name, value)
SELECT 'rekeyed_ms', CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE EXISTS (SELECT 1 FROM events) OR EXISTS (SELECT 1 FROM cursors);

-- What was erased before, and may still have such an id: see ledger/rekeying.py. 0 stands for the
-- bookmarks of logs, which held digests of words. They are made again, encrypted.
CREATE TABLE legacy_events (
  position INTEGER PRIMARY KEY,
  expired INTEGER NOT NULL         -- by then; what expires later has its id hidden at once
) STRICT;
INSERT INTO legacy_events (position, expired)
SELECT position, flags >= 64 FROM events WHERE flags & 2 OR flags >= 64;
INSERT INTO legacy_events (position, expired)
SELECT 0, 0 WHERE EXISTS (SELECT 1 FROM cursors WHERE follower LIKE 'bookmark:%');
DELETE FROM cursors WHERE follower LIKE 'bookmark:%';
