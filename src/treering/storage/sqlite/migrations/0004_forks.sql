-- Where forks leave their parents: a session's own events begin behind the seq that stands here.
CREATE TABLE forks (
  session INTEGER PRIMARY KEY,
  parent INTEGER NOT NULL,
  seq INTEGER NOT NULL,            -- of the parent's own last event that the fork shares
  link BLOB NOT NULL               -- the parent's there
) STRICT;
CREATE INDEX forks_by_parent ON forks (parent, session);

-- What a view was at a seq, so that it is not derived from the beginning. Only numbers, and no
-- text that may be erased: rows come and go.
CREATE TABLE snapshots (
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT;
