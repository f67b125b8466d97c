-- Cluster and epoch come from one snapshot. Read one after the other, a connection could see the
-- cluster that another had just noted with the epoch from before, and its events would be followed
-- before those that came first.
CREATE OR REPLACE FUNCTION enter_epoch() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
  here text;
  noted text;
  epoch integer;
BEGIN
  SELECT c.value, e.value INTO noted, epoch
  FROM ledger AS c, ledger AS e WHERE c.name = 'cluster' AND e.name = 'epoch';
  IF pg_is_in_recovery() THEN
    RETURN epoch;
  END IF;
  here := (SELECT system_identifier FROM pg_control_system())::text
    || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
  IF here = noted THEN
    RETURN epoch;
  END IF;
  IF current_setting('transaction_read_only')::boolean THEN
    -- Nothing was written here yet, so all that there is was written before.
    RETURN epoch + 1;
  END IF;
  UPDATE ledger SET value = here WHERE name = 'cluster' AND value <> here;
  IF FOUND THEN
    UPDATE ledger SET value = (value::integer + 1)::text WHERE name = 'epoch';
  END IF;
  RETURN (SELECT value FROM ledger WHERE name = 'epoch')::integer;
END
$$;
DO $$
BEGIN
  EXECUTE format(
    'ALTER FUNCTION enter_epoch() SET search_path = %I, pg_temp', current_schema()
  );
END
$$;

-- The head is read, locked and moved by one statement. The advisory lock still comes first: a
-- transaction gets its xid with its first write, so within a session xids go up with seq.
CREATE OR REPLACE FUNCTION append_event(
  a_lock bigint, a_scope_lock bigint, a_epoch bigint, a_session bigint, a_repeatable boolean, a_expected bigint,
  a_key bytea, a_sealed bigint,
  a_event_id bytea, a_event_name text, a_scope text, a_kind text, a_source text, a_origin text,
  a_run_id text, a_run_seq bigint, a_turn_id text, a_agent_id text, a_user_id text,
  a_ts_ms bigint, a_recorded_ms bigint, a_flags bigint, a_schema_version bigint,
  a_payload_bytes bigint, a_summary text, a_refs bytea, a_payload bytea, a_salt bytea,
  a_content_digest bytea, a_header_digest bytea, a_run_state bigint, a_run_starts boolean,
  OUT outcome integer, OUT at_position bigint, OUT at_seq bigint, OUT at_link bytea
)
LANGUAGE plpgsql
AS $$
DECLARE
  run_was smallint;
  ready boolean;
BEGIN
  outcome := 0;
  -- Expressions, for PL/pgSQL evaluates them without a statement of their own.
  ready := set_config('treering.scope', a_scope, true) IS NOT NULL;
  ready := pg_advisory_xact_lock(a_lock)::text IS NOT NULL;
  -- Ordered by the id, although there is only one: a plan that is made while the table is empty
  -- would otherwise use any index that begins with the scope, for ever.
  IF a_repeatable AND (
    SELECT true FROM events AS e
    WHERE e.scope = a_scope AND e.event_id BETWEEN a_event_id AND a_event_id
    ORDER BY e.event_id LIMIT 1
  ) THEN
    outcome := 1;
    RETURN;
  END IF;
  IF a_sealed > 0 THEN
    -- Shared by all writers that seal; to take a key out of use waits until they are done.
    ready := pg_advisory_xact_lock_shared(a_scope_lock)::text IS NOT NULL;
  END IF;
  IF a_sealed IS DISTINCT FROM
    coalesce((SELECT s.round FROM seals AS s WHERE s.scope = a_scope), 0)
  THEN
    outcome := 6;
    RETURN;
  END IF;
  IF a_run_id IS NOT NULL THEN
    run_was := (
      SELECT r.state FROM runs AS r
      WHERE r.scope = a_scope AND r.session = a_session AND r.run_id = a_run_id
    );
    IF run_was > 0 OR (a_run_starts AND run_was IS NOT NULL) THEN
      outcome := CASE WHEN a_run_starts THEN 4 ELSE 5 END;
    END IF;
  END IF;
  IF outcome = 0 THEN
    UPDATE heads AS h
    SET seq = h.seq + 1,
      link = sha256(h.link || int8send(h.seq + 1) || a_header_digest || a_content_digest)
    WHERE h.scope = a_scope AND h.session = a_session AND h.key = a_key
      AND h.seq = coalesce(a_expected, h.seq)
    RETURNING h.seq, h.link INTO at_seq, at_link;
  END IF;
  IF at_seq IS NULL THEN
    -- A session that is gone or has moved on is the first reason to refuse, before its runs.
    SELECT h.seq + 1 INTO at_seq
    FROM heads AS h WHERE h.scope = a_scope AND h.session = a_session AND h.key = a_key;
    outcome := CASE
      WHEN at_seq IS NULL THEN 2
      WHEN at_seq <> a_expected + 1 THEN 3
      ELSE outcome
    END;
    RETURN;
  END IF;
  IF a_run_id IS NOT NULL AND run_was IS NULL THEN
    INSERT INTO runs (scope, session, run_id, state, first_seq, last_seq)
    VALUES (
      a_scope, a_session, a_run_id, a_run_state, at_seq,
      CASE WHEN a_run_state > 0 THEN at_seq END
    );
  ELSIF a_run_state > 0 THEN
    UPDATE runs AS r SET state = a_run_state, last_seq = at_seq
    WHERE r.scope = a_scope AND r.session = a_session AND r.run_id = a_run_id;
  END IF;
  INSERT INTO events (
    session, seq, ts_ms, recorded_ms, run_seq, epoch, payload_bytes, flags, schema_version, scope,
    event_id, kind, source, agent_id, content_digest, link, salt, event_name, origin, run_id,
    turn_id, user_id, summary, refs, payload
  ) VALUES (
    a_session, at_seq, a_ts_ms, a_recorded_ms, a_run_seq, a_epoch, a_payload_bytes, a_flags,
    a_schema_version, a_scope, a_event_id, a_kind, a_source, a_agent_id, a_content_digest, at_link,
    a_salt, a_event_name, a_origin, a_run_id, a_turn_id, a_user_id, a_summary, a_refs, a_payload
  ) RETURNING position INTO at_position;
END
$$;
