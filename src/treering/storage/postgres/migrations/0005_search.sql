-- The words of events, in their one spelling and without the rest, as far as search_marks says. Rows
-- are never changed: what is erased is deleted, and its table is then written anew.
CREATE TABLE search_documents (
  session bigint NOT NULL,
  seq bigint NOT NULL,
  number bigint NOT NULL,          -- counts the documents of a scope
  ts_ms bigint NOT NULL,
  scope text COLLATE "C" NOT NULL,
  words tsvector NOT NULL,         -- see storage/postgres/search_queries.py
  grams tsvector NOT NULL,         -- apart, so that words are read without them
  PRIMARY KEY (scope, session, seq)
) PARTITION BY HASH (scope);
CREATE INDEX search_documents_by_words ON search_documents USING gin (words)
WITH (gin_pending_list_limit = 1024);
CREATE INDEX search_documents_by_grams ON search_documents USING gin (grams)
WITH (gin_pending_list_limit = 1024);
ALTER TABLE search_documents
  ALTER COLUMN words SET STATISTICS 0,
  ALTER COLUMN grams SET STATISTICS 0;

-- How far the documents of each scope have followed its events, and how many there were.
CREATE TABLE search_marks (
  epoch integer NOT NULL,
  xid xid8 NOT NULL,
  position bigint NOT NULL,
  number bigint NOT NULL,
  scope text COLLATE "C" PRIMARY KEY
);

ALTER TABLE search_documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE search_marks ENABLE ROW LEVEL SECURITY;

-- Behind the policies no index of words can be used: an operator that is not proved to be silent
-- might tell of rows before they are left out. So this looks on behalf of whoever asks, and at one
-- scope: one that he is held to, or, of an application, the one that it states. The scope is hidden
-- from the planner, which would else read all that the scope has.
--
-- Each of a_words has to match the words, or the one of a_grams beside it, if that is not NULL, the
-- grams. The newest are ranked: that reads all of a document.
CREATE FUNCTION search_scope(
  a_scope text, a_words text[], a_grams text[], a_before bigint, a_since_ms bigint,
  a_before_ms bigint, a_limit bigint
) RETURNS TABLE (session bigint, seq bigint, number bigint, rank real)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
DECLARE
  conditions text := '';
BEGIN
  IF EXISTS (SELECT 1 FROM grants AS g WHERE g.role = session_user) THEN
    IF NOT EXISTS (
      SELECT 1 FROM grants AS g WHERE g.role = session_user AND g.scope = a_scope
    ) THEN
      RETURN;
    END IF;
  ELSIF a_scope IS DISTINCT FROM current_setting('treering.scope', true) THEN
    RETURN;
  END IF;
  FOR at IN 1 .. array_length(a_words, 1) LOOP
    conditions := conditions || format(
      CASE
        WHEN a_grams[at] IS NULL THEN ' AND d.words @@ ($2)[%1$s]::tsquery'
        ELSE ' AND (d.words @@ ($2)[%1$s]::tsquery OR d.grams @@ ($3)[%1$s]::tsquery)'
      END,
      at
    );
  END LOOP;
  RETURN QUERY EXECUTE format($query$
    WITH found AS MATERIALIZED (
      SELECT d.session, d.seq, d.number
      FROM search_documents AS d
      WHERE d.scope || '' = $1 AND d.number < $4 AND d.ts_ms >= $5 AND d.ts_ms < $6 %s
      ORDER BY d.number DESC
      LIMIT $7
    ), newest AS MATERIALIZED (
      SELECT f.session, f.seq FROM found AS f ORDER BY f.number DESC LIMIT 100
    ), ranked AS MATERIALIZED (
      SELECT d.session, d.seq, ts_rank(d.words, ($2)[1]::tsquery, 1) AS rank
      FROM newest AS n
      JOIN search_documents AS d ON d.scope = $1 AND d.session = n.session AND d.seq = n.seq
    )
    SELECT f.session, f.seq, f.number, coalesce(r.rank, 0)
    FROM found AS f
    LEFT JOIN ranked AS r ON r.session = f.session AND r.seq = f.seq
    ORDER BY f.number DESC
  $query$, conditions)
  USING a_scope, a_words, a_grams, a_before, a_since_ms, a_before_ms, a_limit;
END
$$;

DO $$
DECLARE
  parts integer := (SELECT value FROM ledger WHERE name = 'partitions');
  part text;
BEGIN
  FOR remainder IN 0 .. parts - 1 LOOP
    part := 'search_documents_' || lpad(remainder::text, 2, '0');
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF search_documents FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
      part, parts, remainder
    );
    EXECUTE format(
      'ALTER TABLE %I ALTER COLUMN words SET STATISTICS 0, ALTER COLUMN grams SET STATISTICS 0',
      part
    );
    -- A query of a partition itself goes by the partition's policies: there are none.
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', part);
  END LOOP;
  EXECUTE format(
    'ALTER FUNCTION search_scope(text, text[], text[], bigint, bigint, bigint, bigint)'
    ' SET search_path = %I, pg_temp', current_schema()
  );
END
$$;
REVOKE ALL ON FUNCTION search_scope(text, text[], text[], bigint, bigint, bigint, bigint) FROM PUBLIC;
