-- How far each follower has come that keeps its place in the ledger. Half-empty pages, so that a
-- new place lies beside the old one and no index changes.
CREATE TABLE cursors (
  scope text COLLATE "C" NOT NULL,
  follower text COLLATE "C" NOT NULL,
  cursor text NOT NULL,
  PRIMARY KEY (scope, follower)
) WITH (fillfactor = 50);
ALTER TABLE cursors ENABLE ROW LEVEL SECURITY;

-- When a server takes over, nothing is held there at first. It is noted since when it serves, so
-- that whoever held something gets the time to find back.
CREATE FUNCTION note_entry() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  INSERT INTO ledger (name, value)
  VALUES ('entered_ms', (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value;
  RETURN NULL;
END
$$;
CREATE TRIGGER entering AFTER UPDATE ON ledger
FOR EACH ROW WHEN (new.name = 'epoch') EXECUTE FUNCTION note_entry();
