"""What most processes of tests need: loaded once, by the server that forks them."""

from __future__ import annotations

import gc

import hypothesis
import pytest

import broken.ledgers
import broken.stories
import builders
import concurrency.processes
import concurrency.run_works
import postgres_places
import postgres_writers
import treering.app
import treering.storage.postgres.store

__all__ = [
    "broken",
    "builders",
    "concurrency",
    "hypothesis",
    "postgres_places",
    "postgres_writers",
    "pytest",
    "treering",
]

gc.freeze()  # No process has to look through what all share.
