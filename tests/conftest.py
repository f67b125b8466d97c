"""Fixtures that every test may ask for, and how hard Hypothesis looks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import treering
from postgres_server import Places, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering import Ledger

settings.register_profile("dev", max_examples=40, stateful_step_count=25, deadline=None)
settings.register_profile(
    "ci",
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own ledger and keys out of every test."""
    home = tmp_path_factory.mktemp("home")
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(home / variable.lower()))
    for variable in ("TREERING_DB", "TREERING_SCOPE", "TREERING_EPISODES"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Places]:
    """Give out fresh places on a PostgreSQL server: the one that is named, or one of our own."""
    if given := os.environ.get("TREERING_TEST_POSTGRES"):
        places = Places(given)
        yield places
        places.clear()
    else:
        with Server() as server:
            server.create_database("treering")
            yield Places(server.url("treering"))


@pytest.fixture(params=["file", "memory", "postgres"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Ledger]]:
    """Open fresh ledgers, on every database in turn."""
    opened: list[Ledger] = []
    # Asked for by name, so that no server starts for the other databases.
    places: Places | None = (
        request.getfixturevalue("postgres") if request.param == "postgres" else None
    )

    def opening() -> Ledger:
        if places:
            opened.append(treering.open(places.fresh()))
        elif request.param == "memory":
            opened.append(treering.open(":memory:"))
        else:
            opened.append(treering.open(tmp_path / f"{len(opened)}.db"))
        return opened[-1]

    yield opening
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Return an empty ledger, on every database in turn."""
    return open_ledger()
