"""Fixtures that every test may ask for, and how hard Hypothesis looks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import treering

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


@pytest.fixture(params=["file", "memory"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Ledger]]:
    """Open fresh ledgers, on every database in turn."""
    opened: list[Ledger] = []

    def opening() -> Ledger:
        path = ":memory:" if request.param == "memory" else tmp_path / f"{len(opened)}.db"
        opened.append(treering.open(path))
        return opened[-1]

    yield opening
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Return an empty ledger, on every database in turn."""
    return open_ledger()
