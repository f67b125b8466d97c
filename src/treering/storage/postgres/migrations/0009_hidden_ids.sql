-- Since when no id of this ledger is made of words that can be guessed from it. A ledger that is new
-- does not say, for it never held such ids.
INSERT INTO ledger (name, value)
SELECT 'rekeyed_ms', (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE EXISTS (SELECT 1 FROM events) OR EXISTS (SELECT 1 FROM cursors);

-- What was erased before, and may still have such an id: see ledger/rekeying.py.
CREATE TABLE legacy_events (
  scope text COLLATE "C" NOT NULL,
  session bigint NOT NULL,
  seq bigint NOT NULL,
  expired boolean NOT NULL,        -- by then; what expires later has its id hidden at once
  PRIMARY KEY (scope, session, seq)
);
ALTER TABLE legacy_events ENABLE ROW LEVEL SECURITY;
INSERT INTO legacy_events (scope, session, seq, expired)
SELECT scope, session, seq, flags >= 64 FROM events WHERE flags & 2 <> 0 OR flags >= 64;

-- Bookmarks of logs held digests of words. They are made again, encrypted.
DELETE FROM cursors WHERE follower LIKE 'bookmark:%';

-- Words were hashed without a key. They are hashed again when somebody recalls something.
TRUNCATE memory_documents;
DELETE FROM memory_shelves;

-- Whoever may erase may also hide the id of what has expired, and change no other.
CREATE FUNCTION check_hiding() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  IF new.flags >= 64 OR (
    SELECT pg_has_role(c.relowner, 'MEMBER') FROM pg_class AS c WHERE c.oid = tg_relid
  ) THEN
    RETURN new;
  END IF;
  RAISE EXCEPTION 'an id is only ever hidden, with what it stood for'
    USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER hiding BEFORE UPDATE OF event_id ON events
FOR EACH ROW EXECUTE FUNCTION check_hiding();
