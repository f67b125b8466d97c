"""Taking things in: what is recorded, and what must not be."""
