from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from postgres_places import Place
from postgres_server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Return a server whose files, log and roles belong to the tests."""
    with Server() as server:
        server.create_database("treering")
        yield server


@pytest.fixture
def place(server: Server) -> Place:
    """Return a fresh ledger of two partitions, with its roles."""
    place = Place(server)
    place.administration.init(partitions=2)
    return place
