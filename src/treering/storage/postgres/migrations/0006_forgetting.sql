-- What runs are called is forgotten with the last of their events. So no samples are kept of it
-- from now on, and those that were taken go: to set a column's type drops them.
ALTER TABLE runs ALTER COLUMN run_id TYPE text COLLATE "C";
ALTER TABLE runs ALTER COLUMN run_id SET STATISTICS 0;
ALTER TABLE events ALTER COLUMN run_id TYPE text COLLATE "C";
ALTER TABLE events ALTER COLUMN run_id SET STATISTICS 0;

-- Whoever may erase may also forget what sessions and runs are called, and not rename them: a name
-- goes only when nothing is left of what had it. The owner is bound by nothing here, as elsewhere.
CREATE FUNCTION check_forgetting() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  IF (SELECT pg_has_role(c.relowner, 'MEMBER') FROM pg_class AS c WHERE c.oid = tg_relid) THEN
    RETURN new;
  END IF;
  CASE tg_argv[0]
    WHEN 'sessions' THEN
      IF old.name IS NOT NULL AND new.name IS NULL AND new.salt IS NULL AND NOT EXISTS (
        SELECT 1 FROM events AS e
        WHERE e.scope = old.scope AND e.session = old.id AND e.flags < 64
          AND NOT starts_with(e.kind, 'ledger.')
      ) THEN
        RETURN new;
      END IF;
    WHEN 'heads' THEN
      IF EXISTS (
        SELECT 1 FROM sessions AS s
        WHERE s.scope = old.scope AND s.id = old.session AND s.key = new.key AND s.name IS NULL
      ) THEN
        RETURN new;
      END IF;
    WHEN 'runs' THEN
      IF new.run_id = 'forgotten:' || old.first_seq AND NOT EXISTS (
        SELECT 1 FROM events AS e
        WHERE e.scope = old.scope AND e.session = old.session AND e.run_id = old.run_id
          AND e.flags < 64
      ) THEN
        RETURN new;
      END IF;
    WHEN 'events' THEN
      IF old.flags >= 64 AND starts_with(new.run_id, 'forgotten:') THEN
        RETURN new;
      END IF;
  END CASE;
  RAISE EXCEPTION 'a name is only ever forgotten, with the last of what had it'
    USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER forgetting BEFORE UPDATE OF key, name, salt ON sessions
FOR EACH ROW EXECUTE FUNCTION check_forgetting('sessions');
CREATE TRIGGER forgetting BEFORE UPDATE OF key ON heads
FOR EACH ROW EXECUTE FUNCTION check_forgetting('heads');
CREATE TRIGGER forgetting BEFORE UPDATE OF run_id ON runs
FOR EACH ROW EXECUTE FUNCTION check_forgetting('runs');
CREATE TRIGGER forgetting BEFORE UPDATE OF run_id ON events
FOR EACH ROW EXECUTE FUNCTION check_forgetting('events');

DO $$
DECLARE
  part text;
BEGIN
  FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'events'::regclass LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN run_id SET STATISTICS 0', part);
  END LOOP;
  -- Whoever updates could else put tables of his own before the ledger's.
  EXECUTE format('ALTER FUNCTION check_forgetting() SET search_path = %I, pg_temp', current_schema());
END
$$;
