"""Ledgers that several handles, ledger objects and processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import HERE

if TYPE_CHECKING:
    from treering import Ledger, Session


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a fresh main session."""
    return ledger.session("s1", scope=HERE, agent="lyria", user="u1")
