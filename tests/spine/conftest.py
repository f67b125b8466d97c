"""Ledgers that several handles, ledger objects and processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postgres_server import Places
    from treering import Ledger, Session


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a fresh main session."""
    return ledger.session("s1", scope=HERE, agent="lyria", user="u1")


@pytest.fixture
def location(request: pytest.FixtureRequest, shared_database: str, tmp_path: Path) -> str:
    """Return where a ledger is that others can open too, on each database in turn."""
    if shared_database == "file":
        return str(tmp_path / "shared.db")
    places: Places = request.getfixturevalue("postgres")
    return places.fresh()


@pytest.fixture
def open_shared(location: str) -> Iterator[Callable[[], Ledger]]:
    """Open ledgers at one place, each with a store of its own."""
    opened: list[Ledger] = []

    def opening() -> Ledger:
        opened.append(treering.open(location))
        return opened[-1]

    yield opening
    for ledger in opened:
        ledger.close()
