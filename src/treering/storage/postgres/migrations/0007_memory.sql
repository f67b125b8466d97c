-- What the memory is told of events by: where they stand, and those of its own kinds in the order
-- in which they are followed, so that nobody looks through all the others.
CREATE INDEX events_by_position ON events (scope, position);
CREATE INDEX events_remembered ON events (scope, epoch, xid, position, kind)
WHERE kind IN (
  'episode.written', 'ledger.expired', 'ledger.forgotten', 'ledger.redacted', 'memory.archived',
  'memory.forgotten', 'memory.recalled', 'memory.refused', 'memory.restored', 'memory.revised',
  'memory.stored', 'memory.superseded', 'user.linked', 'user.merged', 'user.unlinked'
);

-- What was folded from the events of a scope up to its mark. Only numbers, hashes and ids.
CREATE TABLE memory_rows (
  scope text COLLATE "C" NOT NULL,
  sort text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (scope, sort, key)
);
ALTER TABLE memory_rows
  ALTER COLUMN key SET STATISTICS 0,
  ALTER COLUMN body SET STATISTICS 0;
CREATE TABLE memory_marks (
  epoch integer NOT NULL,
  xid xid8 NOT NULL,
  position bigint NOT NULL,
  scope text COLLATE "C" PRIMARY KEY
);

-- How far each shelf has followed the events, and what stands on it.
CREATE TABLE memory_shelves (
  epoch integer NOT NULL,
  xid xid8 NOT NULL,
  position bigint NOT NULL,
  newest bigint NOT NULL,          -- the number of the last document
  documents bigint NOT NULL,
  generation bigint NOT NULL,      -- counts up when documents are taken out
  scope text COLLATE "C" NOT NULL,
  shelf text COLLATE "C" NOT NULL,
  PRIMARY KEY (scope, shelf)
);

-- Hashes of words, and vectors. Rows are never changed: what is erased is deleted, and its table is
-- then written anew. Parted by session as well, so that no large scope is written anew as a whole.
CREATE TABLE memory_documents (
  number bigint NOT NULL,          -- counts the documents of a shelf
  position bigint NOT NULL,
  session bigint NOT NULL,
  seq bigint NOT NULL,
  ts_ms bigint NOT NULL,
  scope text COLLATE "C" NOT NULL,
  shelf text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  embedder text COLLATE "C" NOT NULL,  -- empty if there are no vectors
  terms bytea NOT NULL,
  vectors bytea NOT NULL,
  PRIMARY KEY (scope, session, seq)
) PARTITION BY HASH (scope, session);
CREATE INDEX memory_documents_by_number ON memory_documents (scope, shelf, number);
ALTER TABLE memory_documents
  ALTER COLUMN terms SET STATISTICS 0,
  ALTER COLUMN vectors SET STATISTICS 0,
  ALTER COLUMN vectors SET STORAGE EXTERNAL;

ALTER TABLE memory_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_marks ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_shelves ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_documents ENABLE ROW LEVEL SECURITY;

DO $$
DECLARE
  parts integer := (SELECT value FROM ledger WHERE name = 'partitions');
  part text;
BEGIN
  FOR remainder IN 0 .. parts - 1 LOOP
    part := 'memory_documents_' || lpad(remainder::text, 2, '0');
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF memory_documents FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
      part, parts, remainder
    );
    EXECUTE format(
      'ALTER TABLE %I ALTER COLUMN terms SET STATISTICS 0, ALTER COLUMN vectors SET STATISTICS 0,'
      ' ALTER COLUMN vectors SET STORAGE EXTERNAL',
      part
    );
    -- A query of a partition itself goes by the partition's policies: there are none.
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', part);
  END LOOP;
END
$$;
