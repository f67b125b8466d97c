-- A view at a seq, so that it is not derived from the beginning; from now on laid out as on a server,
-- and by view: counts are kept apart from those that are folded from events. Only
-- numbers, and no text that may be erased: rows come and go.
DROP TABLE snapshots;
CREATE TABLE snapshots (
  scope INTEGER NOT NULL,
  session INTEGER NOT NULL,
  view INTEGER NOT NULL,           -- 0 those folded from events, 1 counts
  seq INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (scope, session, view, seq)
) STRICT;
