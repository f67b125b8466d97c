-- The events of each key of a record, and those that vouch for erasures in each session. Only
-- numbers and keyed hashes, written with their events.
CREATE TABLE record_keys (
  scope INTEGER NOT NULL,
  name INTEGER NOT NULL,           -- hash of the records' name; 0 for erasures
  part INTEGER NOT NULL,           -- hash of the key's first part; of erasures, the session
  key BLOB NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (scope, name, part, key, position)
) STRICT, WITHOUT ROWID;
INSERT INTO record_keys (scope, name, part, key, position)
SELECT e.scope, 0, e.session, x'', e.position
FROM events AS e
JOIN names AS k ON k.id = e.kind
WHERE k.name IN ('ledger.redacted', 'ledger.expired', 'ledger.forgotten');
