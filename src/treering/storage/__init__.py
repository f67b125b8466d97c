"""Databases. The only rooms that know SQL."""
