-- What was ever opened: how many sessions a scope has, and the exclusive or of their geneses. The
-- rows scopes and sessions of the table ledger say up to which id each of them is counted. So one
-- that is gone is missed, even if nothing else refers to it.
ALTER TABLE scopes ADD COLUMN sessions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scopes ADD COLUMN digest BLOB NOT NULL
  DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000';
INSERT INTO ledger (name, value) VALUES ('scopes', 0), ('sessions', 0);
