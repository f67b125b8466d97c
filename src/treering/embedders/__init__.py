"""Texts as vectors: a table of words by default, a small model or an endpoint by choice."""
