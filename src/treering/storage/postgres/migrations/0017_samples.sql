-- No samples are kept of ids, keyed hashes and times that an erasure takes away: the planner's own
-- table would hold them, and its file goes on holding what was taken out of it.
DO $$
DECLARE
  found record;
BEGIN
  FOR found IN
    SELECT part.oid, a.attname
    FROM (
      VALUES
        ('cursors', ARRAY['follower', 'cursor']),
        ('events', ARRAY['event_id']),
        ('heads', ARRAY['key']),
        ('memory_documents', ARRAY['ts_ms']),
        ('record_keys', ARRAY['name', 'part', 'key']),
        ('search_documents', ARRAY['ts_ms']),
        ('sessions', ARRAY['key']),
        ('snapshots', ARRAY['body']),
        ('tool_calls', ARRAY[
          'call', 'tool', 'run', 'at_ms', 'started_ms', 'ended_ms', 'duration_ms', 'output_bytes'
        ]),
        ('tool_extras', ARRAY['call'])
    ) AS erasable (relation, columns)
    CROSS JOIN LATERAL (
      SELECT erasable.relation::regclass AS oid
      UNION ALL
      SELECT inhrelid FROM pg_inherits WHERE inhparent = erasable.relation::regclass
    ) AS part
    JOIN pg_attribute AS a ON a.attrelid = part.oid AND a.attname = ANY(erasable.columns)
  LOOP
    EXECUTE format(
      'ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', found.oid::regclass, found.attname
    );
  END LOOP;
  -- Samples that were taken before go with the next scrub.
  IF EXISTS (SELECT FROM events) THEN
    INSERT INTO scrubs (relation) VALUES ('pg_statistic') ON CONFLICT DO NOTHING;
  END IF;
END
$$;
