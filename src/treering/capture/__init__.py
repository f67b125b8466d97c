"""Capture: import logs, ingest spools, install hooks, and mask secrets on the way."""
