-- Where each fork leaves its parent: its own events begin behind seq.
CREATE TABLE forks (
  session bigint NOT NULL,
  parent bigint NOT NULL,          -- a session of the same scope
  seq bigint NOT NULL,
  scope text COLLATE "C" NOT NULL,
  link bytea NOT NULL,             -- the parent's, at seq
  PRIMARY KEY (scope, session)
);
CREATE INDEX forks_by_parent ON forks (scope, parent);

-- What folding a session has come to at some of its seqs, so that nobody folds all of it again.
-- Only numbers: every text is read from the events. Without these it takes longer, and no more.
CREATE TABLE snapshots (
  session bigint NOT NULL,
  seq bigint NOT NULL,
  scope text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (scope, session, seq)
);

ALTER TABLE forks ENABLE ROW LEVEL SECURITY;
ALTER TABLE snapshots ENABLE ROW LEVEL SECURITY;
