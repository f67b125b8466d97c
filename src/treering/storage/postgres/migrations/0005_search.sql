-- The words of events, in their one spelling and without the rest, as far as search_marks says. Rows
-- are never changed: what is erased is deleted, and its table is then written anew. Parted by session
-- as well, so that a large scope is not written anew as a whole: a search looks into every part
-- anyhow. What waits to be entered into an index is read by every search, so each has little of it.
CREATE TABLE search_documents (
  session bigint NOT NULL,
  seq bigint NOT NULL,
  number bigint NOT NULL,          -- counts the documents of a scope
  ts_ms bigint NOT NULL,
  scope text COLLATE "C" NOT NULL,
  words tsvector NOT NULL,         -- see storage/postgres/search_index.py
  grams tsvector NOT NULL,         -- apart, so that words are read without them
  PRIMARY KEY (scope, session, seq)
) PARTITION BY HASH (scope, session);
CREATE INDEX search_documents_by_words ON search_documents USING gin (words)
WITH (gin_pending_list_limit = 64);
CREATE INDEX search_documents_by_grams ON search_documents USING gin (grams)
WITH (gin_pending_list_limit = 64);
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
-- might tell of rows before they are left out. So the owner looks on behalf of whoever asks, and the
-- policies have to say before whether he may.
--
-- An aggregate has these two steps, and lets nobody between them. The first runs as whoever calls,
-- whichever way he became that (SET ROLE, a function of another's, an expression of an index that
-- is being rebuilt), and reads a row of the scope: the same policies decide as for the tables. The
-- second runs as the owner and takes nothing but what the first has let through: nobody else may
-- call it, for an aggregate calls its parts in the name of its own owner. A single function of the
-- owner's could not do this: in it current_user is the owner, and session_user and the role that
-- was set need not be who calls.
CREATE TYPE search_order AS (
  scope text,
  words text[],
  grams text[],
  before bigint,
  since_ms bigint,
  before_ms bigint,
  hits bigint
);
CREATE TYPE search_hit AS (session bigint, seq bigint, number bigint, rank real);

CREATE FUNCTION admit_search(
  _ search_order, a_scope text, a_words text[], a_grams text[], a_before bigint, a_since_ms bigint,
  a_before_ms bigint, a_limit bigint
) RETURNS search_order
LANGUAGE plpgsql STABLE SECURITY INVOKER
AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM search_marks AS m WHERE m.scope = a_scope) THEN
    RETURN ROW(
      a_scope, a_words, a_grams, a_before, a_since_ms, a_before_ms, a_limit
    )::search_order;
  END IF;
  RETURN NULL;
END
$$;

-- Each of the words has to match those of a document, or the one of the grams beside it, if that is
-- not NULL, its grams. The newest are ranked: that reads all of a document. The scope is hidden from
-- the planner, which would else read all that the scope has.
CREATE FUNCTION run_search(a search_order) RETURNS search_hit[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
DECLARE
  conditions text := '';
  hits search_hit[];
BEGIN
  IF a.scope IS NULL OR coalesce(cardinality(a.words), 0) = 0 THEN
    RETURN '{}';
  END IF;
  FOR at IN 1 .. array_length(a.words, 1) LOOP
    conditions := conditions || format(
      CASE
        WHEN a.grams[at] IS NULL THEN ' AND d.words @@ ($2)[%1$s]::tsquery'
        ELSE ' AND (d.words @@ ($2)[%1$s]::tsquery OR d.grams @@ ($3)[%1$s]::tsquery)'
      END,
      at
    );
  END LOOP;
  EXECUTE format($query$
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
    SELECT array_agg(
      ROW(f.session, f.seq, f.number, coalesce(r.rank, 0))::search_hit ORDER BY f.number DESC
    )
    FROM found AS f
    LEFT JOIN ranked AS r ON r.session = f.session AND r.seq = f.seq
  $query$, conditions)
  INTO hits
  USING a.scope, a.words, a.grams, a.before, a.since_ms, a.before_ms, a.hits;
  RETURN coalesce(hits, '{}');
END
$$;

CREATE AGGREGATE search_scope(
  a_scope text, a_words text[], a_grams text[], a_before bigint, a_since_ms bigint,
  a_before_ms bigint, a_limit bigint
) (SFUNC = admit_search, STYPE = search_order, FINALFUNC = run_search);

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
  -- Whoever calls could else put tables of his own before the ledger's.
  FOREACH part IN ARRAY ARRAY['admit_search', 'run_search'] LOOP
    EXECUTE format('ALTER FUNCTION %I SET search_path = %I, pg_temp', part, current_schema());
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION
  admit_search(search_order, text, text[], text[], bigint, bigint, bigint, bigint),
  run_search(search_order),
  search_scope(text, text[], text[], bigint, bigint, bigint, bigint)
FROM PUBLIC;
