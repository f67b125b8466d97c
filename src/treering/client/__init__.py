"""A ledger on a server: the same calls, over HTTP."""
