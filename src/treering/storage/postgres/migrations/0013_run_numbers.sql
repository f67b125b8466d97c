-- An event gets its number in its run on the server, under the lock of its session. A writer that was
-- overtaken needs one call more, not a transaction of several. The number is in the digest of the
-- header, so the client sends the JSON before and after it.
--
-- The run was at a_counted when its session was at a_counted_seq; both are 0 if that is not known.
CREATE FUNCTION append_event_in_run(
  a_lock bigint, a_scope_lock bigint, a_epoch bigint, a_session bigint, a_repeatable boolean, a_expected bigint,
  a_key bytea, a_sealed bigint,
  a_event_id bytea, a_event_name text, a_scope text, a_kind text, a_source text, a_origin text,
  a_run_id text, a_run_seq bigint, a_turn_id text, a_agent_id text, a_user_id text,
  a_ts_ms bigint, a_recorded_ms bigint, a_flags bigint, a_schema_version bigint,
  a_payload_bytes bigint, a_summary text, a_refs bytea, a_payload bytea, a_salt bytea,
  a_content_digest bytea, a_header_before bytea, a_header_after bytea, a_counted bigint,
  a_counted_seq bigint, a_run_state bigint, a_run_starts boolean,
  OUT outcome integer, OUT at_position bigint, OUT at_seq bigint, OUT at_link bytea,
  OUT at_run_seq bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
  ready boolean;
BEGIN
  ready := set_config('treering.scope', a_scope, true) IS NOT NULL;
  ready := pg_advisory_xact_lock(a_lock)::text IS NOT NULL;
  -- Ordered by seq, for the reason that append_event orders by the id. A run that is not known has
  -- no first seq, and nothing is read.
  at_run_seq := 1 + greatest(a_counted, (
    SELECT max(e.run_seq)
    FROM (
      SELECT e.run_seq, e.run_id
      FROM events AS e
      WHERE e.scope = a_scope AND e.session = a_session AND e.seq > a_counted_seq
        AND e.seq >= (
          SELECT r.first_seq FROM runs AS r
          WHERE r.scope = a_scope AND r.session = a_session AND r.run_id = a_run_id
        )
      ORDER BY e.seq
    ) AS e
    WHERE e.run_id = a_run_id
  ));
  IF a_run_seq < at_run_seq THEN
    -- The number that its author states is taken, maybe by the same event.
    outcome := 7;
    RETURN;
  END IF;
  at_run_seq := coalesce(a_run_seq, at_run_seq);
  SELECT a.outcome, a.at_position, a.at_seq, a.at_link
  INTO outcome, at_position, at_seq, at_link
  FROM append_event(
    a_lock, a_scope_lock, a_epoch, a_session, a_repeatable, a_expected, a_key, a_sealed, a_event_id,
    a_event_name, a_scope, a_kind, a_source, a_origin, a_run_id, at_run_seq, a_turn_id, a_agent_id,
    a_user_id, a_ts_ms, a_recorded_ms, a_flags, a_schema_version, a_payload_bytes, a_summary, a_refs,
    a_payload, a_salt, a_content_digest,
    sha256(a_header_before || convert_to(at_run_seq::text, 'UTF8') || a_header_after),
    a_run_state, a_run_starts
  ) AS a;
END
$$;
