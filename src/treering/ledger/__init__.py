"""The ledger: keeps events and proves what it kept. Reaches the world through its ports only."""
