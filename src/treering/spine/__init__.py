"""The spine: carries what a run does, in order, to the ledger and then to every sink."""
