-- What was ever opened: how many sessions a scope has, and the exclusive or of their geneses; and,
-- in the table ledger, how many scopes there are. So one that is gone is missed, even if nothing
-- else refers to it.
ALTER TABLE scopes
  ADD COLUMN sessions bigint NOT NULL DEFAULT 0,
  ADD COLUMN digest bit(256) NOT NULL DEFAULT B'0'::bit(256);
UPDATE scopes AS s
SET sessions = found.sessions, digest = found.digest
FROM (
  SELECT n.scope, count(*) AS sessions,
    bit_xor(('x' || encode(n.genesis, 'hex'))::bit(256)) AS digest
  FROM sessions AS n
  GROUP BY n.scope
) AS found
WHERE found.scope = s.scope;
INSERT INTO ledger (name, value) SELECT 'scopes', count(*) FROM scopes;

-- Counted at the end of the transaction: whoever opens sessions in one scope waits for nobody's
-- appends, only for the commit itself.
CREATE FUNCTION count_session() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
  UPDATE scopes AS s
  SET sessions = s.sessions + 1,
    digest = s.digest # ('x' || encode(new.genesis, 'hex'))::bit(256)
  WHERE s.scope = new.scope;
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER counting AFTER INSERT ON sessions
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION count_session();

CREATE FUNCTION count_scope() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
  UPDATE ledger SET value = value::bigint + 1 WHERE name = 'scopes';
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER counting AFTER INSERT ON scopes
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION count_scope();

DO $$
DECLARE
  routine text;
BEGIN
  -- Whoever opens a session could else put tables of his own before the ledger's.
  FOREACH routine IN ARRAY ARRAY['count_session', 'count_scope'] LOOP
    EXECUTE format('ALTER FUNCTION %I SET search_path = %I, pg_temp', routine, current_schema());
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION count_session(), count_scope() FROM PUBLIC;
