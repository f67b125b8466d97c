"""The ledger on PostgreSQL, for a team that has outgrown one file."""
