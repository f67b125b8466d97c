"""The ``episodes`` commands: extract transcripts to a spool, and ingest spools into a ledger."""
