-- The events of each key of a record, and those that vouch for erasures in each session. Only
-- numbers and keyed hashes, written with their events.
CREATE TABLE record_keys (
  name bigint NOT NULL,            -- hash of the records' name; 0 for erasures
  part bigint NOT NULL,            -- hash of the key's first part; of erasures, the session
  position bigint NOT NULL,
  scope text COLLATE "C" NOT NULL,
  key bytea NOT NULL,
  PRIMARY KEY (scope, name, part, key, position)
);
INSERT INTO record_keys (scope, name, part, key, position)
SELECT e.scope, 0, e.session, '', e.position
FROM events AS e
WHERE e.kind IN ('ledger.redacted', 'ledger.expired', 'ledger.forgotten');
ALTER TABLE record_keys ENABLE ROW LEVEL SECURITY;
