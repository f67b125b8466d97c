"""The values: events, kinds, scopes, queries, receipts. Pure: no disk, no clock, no randomness."""
