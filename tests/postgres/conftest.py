from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from postgres_places import Place
from postgres_server import Places, Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Return a server whose files, log and roles belong to the tests."""
    with Server() as server:
        server.create_database("treering")
        yield server


@pytest.fixture(scope="session")
def _copies(server: Server) -> Iterator[Places]:
    with closing(Places(server.url("treering"), with_roles=True)) as places:
        yield places


@pytest.fixture
def place(server: Server, _copies: Places) -> Iterator[Place]:
    """Return a fresh ledger of two partitions, with its roles."""
    yield Place(server, database=_copies.copy(), schema=_copies.schema)
    _copies.clear()
