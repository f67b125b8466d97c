-- Which documents are near a vector, by an index (HNSW) of the extension vector, if the server has
-- it. Nothing here needs it until somebody asks for neighbours on a large shelf.
--
-- Each shelf of a scope has a table and an index of its own, of one embedder's vectors: made when
-- first asked for, filled a little with each question, and dropped as a whole, files and all, in the
-- transaction that takes anything out of the shelf. So an erasure has no index to write anew, and no
-- question passes by the vectors of other scopes. None of these tables is logged: vectors get into no
-- archive by them. A crash empties all of them together with what is noted here.
CREATE UNLOGGED TABLE memory_neighbours (
  relation text COLLATE "C" PRIMARY KEY,
  embedder text COLLATE "C" NOT NULL,
  dimensions integer NOT NULL,
  newest bigint NOT NULL           -- the number of the last document that was entered
);
ALTER TABLE memory_neighbours ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION neighbours_relation(a_scope text, a_shelf text) RETURNS text
LANGUAGE sql STABLE
AS $$
  SELECT 'memory_near_'
    || left(encode(sha256(convert_to(ROW(a_scope, a_shelf)::text, 'UTF8')), 'hex'), 32)
$$;

CREATE FUNCTION drop_neighbours() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
  near text := neighbours_relation(old.scope, old.shelf);
BEGIN
  DELETE FROM memory_neighbours WHERE relation = near;
  IF FOUND THEN
    EXECUTE format('DROP TABLE %I.%I', current_schema(), near);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER neighbours AFTER UPDATE OF generation OR DELETE ON memory_shelves
FOR EACH ROW EXECUTE FUNCTION drop_neighbours();

-- A vector as it is kept: 4 bytes of scale, which no cosine depends on, then 8 bits a number.
CREATE FUNCTION levels_of(packed bytea, part integer, dimensions integer) RETURNS real[]
LANGUAGE sql IMMUTABLE
AS $$
  SELECT array_agg(
    ((get_byte(packed, part * (dimensions + 4) + 4 + at) # 128) - 128)::real ORDER BY at
  )
  FROM generate_series(0, dimensions - 1) AS at
$$;

-- As for a search (0005), the owner looks on behalf of whoever asks, after the policies have let him
-- read a row of the scope: what an index behind policies returns would have to be filtered later.
CREATE TYPE neighbours_order AS (
  scope text,
  shelf text,
  embedder text,
  vector bytea,
  documents bigint,
  build_ms bigint
);
CREATE TYPE neighbours_found AS (numbers bigint[], cosines double precision[]);

CREATE FUNCTION admit_nearest(
  _ neighbours_order, a_scope text, a_shelf text, a_embedder text, a_vector bytea, a_limit bigint,
  a_build_ms bigint
) RETURNS neighbours_order
LANGUAGE plpgsql STABLE SECURITY INVOKER
AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM memory_shelves AS s WHERE s.scope = a_scope AND s.shelf = a_shelf) THEN
    RETURN ROW(a_scope, a_shelf, a_embedder, a_vector, a_limit, a_build_ms)::neighbours_order;
  END IF;
  RETURN NULL;
END
$$;

-- Enters documents for a while. Whoever calls keeps others out of the shelf.
CREATE FUNCTION enter_neighbours(a neighbours_order, a_relation text, a_extension text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
  deadline timestamptz := clock_timestamp() + a.build_ms * interval '1 millisecond';
  near text := format('%I.%I', current_schema(), a_relation);
  size integer := length(a.vector) - 4;
  entered bigint;
  last bigint;
BEGIN
  SELECT m.newest INTO entered
  FROM memory_neighbours AS m
  WHERE m.relation = a_relation AND m.embedder = a.embedder AND m.dimensions = size;
  IF entered IS NULL THEN
    DELETE FROM memory_neighbours WHERE relation = a_relation;
    -- There is one that nothing is noted of after a crash: it is empty.
    IF to_regclass(near) IS NOT NULL THEN
      EXECUTE format('DROP TABLE %s', near);
    END IF;
    EXECUTE format(
      'CREATE UNLOGGED TABLE %s (number bigint NOT NULL, near %I.halfvec(%s) NOT NULL)',
      near, a_extension, size
    );
    -- No samples are kept of what can be erased.
    EXECUTE format('ALTER TABLE %s ALTER COLUMN near SET STATISTICS 0', near);
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', near);
    EXECUTE format(
      'CREATE INDEX ON %s USING hnsw (near %I.halfvec_cosine_ops) WITH (ef_construction = 40)',
      near, a_extension
    );
    entered := 0;
    INSERT INTO memory_neighbours VALUES (a_relation, a.embedder, size, entered);
  END IF;
  LOOP
    EXECUTE format($query$
      WITH page AS MATERIALIZED (
        SELECT d.number, d.embedder, d.vectors
        FROM memory_documents AS d
        WHERE d.scope = $1 AND d.shelf = $2 AND d.number > $3
        ORDER BY d.number
        LIMIT 50
      ), entered AS (
        INSERT INTO %s (number, near)
        SELECT p.number, levels_of(p.vectors, part, $5)::%I.halfvec
        FROM page AS p
        CROSS JOIN LATERAL generate_series(0, length(p.vectors) / ($5 + 4) - 1) AS part
        WHERE p.embedder = $4
      )
      SELECT max(p.number) FROM page AS p
    $query$, near, a_extension)
    INTO last
    USING a.scope, a.shelf, entered, a.embedder, size;
    EXIT WHEN last IS NULL;
    entered := last;
    EXIT WHEN clock_timestamp() > deadline;
  END LOOP;
  UPDATE memory_neighbours SET newest = entered WHERE relation = a_relation;
END
$$;

-- NULL if there is no index, or if it is not up with the shelf. Cosines are measured on the vectors
-- themselves; the index only says which. Several of one document may be near.
CREATE FUNCTION run_nearest(a neighbours_order) RETURNS neighbours_found
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
  relation_name text;
  extension text;
  near text;
  answer neighbours_found;
BEGIN
  IF a.scope IS NULL OR a.shelf NOT IN ('events', 'memories') THEN
    RETURN NULL;
  END IF;
  -- Older ones cannot go on when the first that they find are not enough.
  SELECT n.nspname INTO extension
  FROM pg_extension AS e
  JOIN pg_namespace AS n ON n.oid = e.extnamespace
  WHERE e.extname = 'vector' AND string_to_array(e.extversion, '.')::integer[] >= ARRAY[0, 8];
  IF extension IS NULL THEN
    RETURN NULL;
  END IF;
  relation_name := neighbours_relation(a.scope, a.shelf);
  near := format('%I.%I', current_schema(), relation_name);
  IF a.build_ms > 0 THEN
    PERFORM enter_neighbours(a, relation_name, extension);
  END IF;
  IF to_regclass(near) IS NULL THEN
    RETURN NULL;
  END IF;
  -- Locked before what is noted of it is read: nobody drops it in between.
  BEGIN
    EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', near);
  EXCEPTION WHEN undefined_table THEN
    RETURN NULL;
  END;
  IF NOT EXISTS (
    SELECT 1
    FROM memory_neighbours AS m
    JOIN memory_shelves AS s ON s.scope = a.scope AND s.shelf = a.shelf AND s.newest <= m.newest
    WHERE m.relation = relation_name AND m.embedder = a.embedder
      AND m.dimensions = length(a.vector) - 4
  ) THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('hnsw.ef_search', least(greatest(a.documents, 40), 1000)::text, true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true);
  EXECUTE format($query$
    WITH close AS MATERIALIZED (
      SELECT n.number, 1 - (n.near OPERATOR(%2$I.<=>) $1::%2$I.halfvec) AS cosine
      FROM %1$s AS n
      ORDER BY n.near OPERATOR(%2$I.<=>) $1::%2$I.halfvec
      LIMIT $2 * 4
    ), best AS (
      SELECT c.number, max(c.cosine) AS cosine
      FROM close AS c
      GROUP BY c.number
      ORDER BY max(c.cosine) DESC, c.number
      LIMIT $2
    )
    SELECT coalesce(array_agg(b.number ORDER BY b.cosine DESC, b.number), '{}'),
      coalesce(array_agg(b.cosine ORDER BY b.cosine DESC, b.number), '{}')
    FROM best AS b
  $query$, near, extension)
  INTO answer
  USING levels_of(a.vector, 0, length(a.vector) - 4), a.documents;
  RETURN answer;
END
$$;

CREATE AGGREGATE nearest_documents(
  a_scope text, a_shelf text, a_embedder text, a_vector bytea, a_limit bigint, a_build_ms bigint
) (SFUNC = admit_nearest, STYPE = neighbours_order, FINALFUNC = run_nearest);

DO $$
DECLARE
  routine text;
BEGIN
  -- Whoever calls could else put tables of his own before the ledger's.
  FOREACH routine IN ARRAY ARRAY[
    'drop_neighbours', 'admit_nearest', 'enter_neighbours', 'run_nearest'
  ] LOOP
    EXECUTE format('ALTER FUNCTION %I SET search_path = %I, pg_temp', routine, current_schema());
  END LOOP;
END
$$;
ALTER FUNCTION run_nearest(neighbours_order) SET enable_seqscan = off;
REVOKE ALL ON FUNCTION
  neighbours_relation(text, text),
  drop_neighbours(),
  levels_of(bytea, integer, integer),
  admit_nearest(neighbours_order, text, text, text, bytea, bigint, bigint),
  enter_neighbours(neighbours_order, text, text),
  run_nearest(neighbours_order),
  nearest_documents(text, text, text, bytea, bigint, bigint)
FROM PUBLIC;
