"""Ledgers that several handles, ledger objects and processes share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from builders import HERE
from listeners import Log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Ledger, Session


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a fresh main session."""
    return ledger.session("s1", scope=HERE, agent="lyria", user="u1")


@pytest.fixture
def log() -> Iterator[Log]:
    """Return what is logged meanwhile."""
    kept = Log()
    logger = logging.getLogger("treering.spine")
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)
