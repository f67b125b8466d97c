-- Snapshots are kept by view: counts are kept apart from the views that are folded from
-- events. Only numbers: every text is read from the events. Without these it takes longer, and no
-- more.
DROP TABLE snapshots;
CREATE TABLE snapshots (
  session bigint NOT NULL,
  view bigint NOT NULL,            -- 0 those folded from events, 1 counts
  seq bigint NOT NULL,
  scope text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (scope, session, view, seq)
);
ALTER TABLE snapshots ENABLE ROW LEVEL SECURITY;
