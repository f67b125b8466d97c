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
def copies(_copies: Places) -> Iterator[Places]:
    """Give out fresh ledgers of two partitions, with their roles; they are gone after the test."""
    yield _copies
    _copies.clear()


@pytest.fixture
def place(server: Server, copies: Places) -> Place:
    """Return a fresh ledger of two partitions, with its roles."""
    return Place(server, database=copies.copy(), schema=copies.schema)


@pytest.fixture(scope="module")
def lasting_place(server: Server, _copies: Places) -> Iterator[Place]:
    """Return one ledger for all tests of a module that leave it as it is."""
    with _copies.lasting() as database:
        yield Place(server, database=database, schema=_copies.schema)
