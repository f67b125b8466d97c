-- Who counts the events of a run. A writer that was overtaken in its session had to look through all
-- events since its own for others of its run, in a statement that opens every partition. Now it only
-- has to see that the run is still its own:
--
--   NULL    nobody counts the run
--   0       several do: each looks at the events
--   others  a number drawn by the one writer that does. Whoever else adds to the run sets it to 0.
ALTER TABLE runs ADD COLUMN writer bigint;

-- A program of an earlier version does not set it, and would make two events of one number. Those that
-- have the ledger open have to fail instead: they call the functions as they were, or take positions
-- from the sequence by its old name.
ALTER SEQUENCE positions RENAME TO event_positions;
DROP FUNCTION append_event_in_run;
DROP FUNCTION append_event;

-- The head is read, locked and moved by one statement. The advisory lock still comes first: a
-- transaction gets its xid with its first write, so within a session xids go up with seq.
--
-- a_writer is NULL for an event that has its number from elsewhere.
CREATE FUNCTION append_event(
  a_lock bigint, a_scope_lock bigint, a_epoch bigint, a_session bigint, a_repeatable boolean, a_expected bigint,
  a_key bytea, a_sealed bigint,
  a_event_id bytea, a_event_name text, a_scope text, a_kind text, a_source text, a_origin text,
  a_run_id text, a_run_seq bigint, a_turn_id text, a_agent_id text, a_user_id text,
  a_ts_ms bigint, a_recorded_ms bigint, a_flags bigint, a_schema_version bigint,
  a_payload_bytes bigint, a_summary text, a_refs bytea, a_payload bytea, a_salt bytea,
  a_content_digest bytea, a_header_digest bytea, a_run_state bigint, a_run_starts boolean,
  a_writer bigint,
  OUT outcome integer, OUT at_position bigint, OUT at_seq bigint, OUT at_link bytea,
  OUT at_writer bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
  run_was smallint;
  run_writer bigint;
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
    SELECT r.state, r.writer INTO run_was, run_writer
    FROM runs AS r
    WHERE r.scope = a_scope AND r.session = a_session AND r.run_id = a_run_id;
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
  at_writer := CASE
    WHEN run_writer IS NULL THEN a_writer
    WHEN run_writer = a_writer THEN run_writer
    ELSE 0
  END;
  IF a_run_id IS NOT NULL AND run_was IS NULL THEN
    INSERT INTO runs (scope, session, run_id, state, first_seq, last_seq, writer)
    VALUES (
      a_scope, a_session, a_run_id, a_run_state, at_seq,
      CASE WHEN a_run_state > 0 THEN at_seq END, at_writer
    );
  ELSIF a_run_state > 0 OR at_writer IS DISTINCT FROM run_writer THEN
    UPDATE runs AS r
    SET state = a_run_state, last_seq = CASE WHEN a_run_state > 0 THEN at_seq END,
      writer = at_writer
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

-- An event gets its number in its run on the server, under the lock of its session. The number is in
-- the digest of the header, so the client sends the JSON before and after it.
--
-- The run was at a_counted when its session was at a_counted_seq; both are 0 if that is not known. It
-- is still there if a_is_own and the run has that writer; otherwise a_writer is a new number.
CREATE FUNCTION append_event_in_run(
  a_lock bigint, a_scope_lock bigint, a_epoch bigint, a_session bigint, a_repeatable boolean, a_expected bigint,
  a_key bytea, a_sealed bigint,
  a_event_id bytea, a_event_name text, a_scope text, a_kind text, a_source text, a_origin text,
  a_run_id text, a_run_seq bigint, a_turn_id text, a_agent_id text, a_user_id text,
  a_ts_ms bigint, a_recorded_ms bigint, a_flags bigint, a_schema_version bigint,
  a_payload_bytes bigint, a_summary text, a_refs bytea, a_payload bytea, a_salt bytea,
  a_content_digest bytea, a_header_before bytea, a_header_after bytea, a_counted bigint,
  a_counted_seq bigint, a_run_state bigint, a_run_starts boolean, a_writer bigint,
  a_is_own boolean,
  OUT outcome integer, OUT at_position bigint, OUT at_seq bigint, OUT at_link bytea,
  OUT at_writer bigint, OUT at_run_seq bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
  ready boolean;
  others bigint;
BEGIN
  ready := set_config('treering.scope', a_scope, true) IS NOT NULL;
  ready := pg_advisory_xact_lock(a_lock)::text IS NOT NULL;
  IF a_is_own AND coalesce(a_run_seq > a_counted, true)
    AND NOT a_repeatable AND a_sealed = 0 AND a_run_state = 0 AND NOT a_run_starts
  THEN
    -- The usual event, as the client's own statement records it, wherever the head is.
    outcome := 0;
    at_run_seq := coalesce(a_run_seq, a_counted + 1);
    WITH head AS (
      UPDATE heads AS h
      SET seq = h.seq + 1,
        link = sha256(
          h.link || int8send(h.seq + 1)
          || sha256(a_header_before || convert_to(at_run_seq::text, 'UTF8') || a_header_after)
          || a_content_digest
        )
      WHERE h.scope = a_scope AND h.session = a_session AND h.key = a_key
        AND h.seq = coalesce(a_expected, h.seq)
        AND NOT EXISTS (SELECT FROM seals AS s WHERE s.scope = a_scope)
        AND (
          SELECT r.state = 0 AND r.writer = a_writer
          FROM runs AS r
          WHERE r.scope = a_scope AND r.session = a_session AND r.run_id = a_run_id
        )
      RETURNING h.seq, h.link
    )
    INSERT INTO events (
      session, seq, ts_ms, recorded_ms, run_seq, epoch, payload_bytes, flags, schema_version,
      scope, event_id, kind, source, agent_id, content_digest, link, salt, event_name, origin,
      run_id, turn_id, user_id, summary, refs, payload
    )
    SELECT
      a_session, head.seq, a_ts_ms, a_recorded_ms, at_run_seq, a_epoch, a_payload_bytes, a_flags,
      a_schema_version, a_scope, a_event_id, a_kind, a_source, a_agent_id, a_content_digest,
      head.link, a_salt, a_event_name, a_origin, a_run_id, a_turn_id, a_user_id, a_summary,
      a_refs, a_payload
    FROM head
    RETURNING position, seq, link INTO at_position, at_seq, at_link;
    IF FOUND THEN
      at_writer := a_writer;
      RETURN;
    END IF;
  END IF;
  -- Ordered by seq, for the reason that append_event orders by the id. A run that is not known, or is
  -- the writer's own, has no first seq here, and nothing is read.
  others := (
    SELECT max(e.run_seq)
    FROM (
      SELECT e.run_seq, e.run_id
      FROM events AS e
      WHERE e.scope = a_scope AND e.session = a_session AND e.seq > a_counted_seq
        AND e.seq >= (
          SELECT r.first_seq FROM runs AS r
          WHERE r.scope = a_scope AND r.session = a_session AND r.run_id = a_run_id
            AND (a_is_own AND r.writer = a_writer) IS NOT TRUE
        )
      ORDER BY e.seq
    ) AS e
    WHERE e.run_id = a_run_id
  );
  at_run_seq := 1 + greatest(a_counted, others);
  IF a_run_seq < at_run_seq THEN
    -- The number that its author states is taken, maybe by the same event.
    outcome := 7;
    RETURN;
  END IF;
  at_run_seq := coalesce(a_run_seq, at_run_seq);
  SELECT a.outcome, a.at_position, a.at_seq, a.at_link, a.at_writer
  INTO outcome, at_position, at_seq, at_link, at_writer
  FROM append_event(
    a_lock, a_scope_lock, a_epoch, a_session, a_repeatable, a_expected, a_key, a_sealed, a_event_id,
    a_event_name, a_scope, a_kind, a_source, a_origin, a_run_id, at_run_seq, a_turn_id, a_agent_id,
    a_user_id, a_ts_ms, a_recorded_ms, a_flags, a_schema_version, a_payload_bytes, a_summary, a_refs,
    a_payload, a_salt, a_content_digest,
    sha256(a_header_before || convert_to(at_run_seq::text, 'UTF8') || a_header_after),
    a_run_state, a_run_starts, a_writer
  ) AS a;
  IF outcome = 0 AND at_writer = 0 AND a_counted > 0 AND others IS NULL AND a_run_state = 0 THEN
    -- Nobody else has added to it since this writer did, so the others may be gone.
    UPDATE runs AS r SET writer = a_writer
    WHERE r.scope = a_scope AND r.session = a_session AND r.run_id = a_run_id;
    at_writer := a_writer;
  END IF;
END
$$;
