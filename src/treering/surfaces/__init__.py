"""Where people and programs meet the ledger."""
