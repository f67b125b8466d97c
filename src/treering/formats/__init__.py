"""Formats: other systems' logs and doors, each read and written as its owner does."""
