-- How far each follower has come that keeps its place in the ledger.
CREATE TABLE cursors (
  scope INTEGER NOT NULL,
  follower TEXT NOT NULL,
  cursor TEXT NOT NULL,
  PRIMARY KEY (scope, follower)
) STRICT;
