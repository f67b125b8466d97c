"""Ledgers that several contracts are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said
from clocks import Clock
from treering.storage.sqlite import indexes

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger
    from treering.memory.memory import Memory


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Have ledgers that are opened from now on go by a clock that the test sets."""
    clock = Clock()
    monkeypatch.setattr("treering.app.now_ms", clock)
    return clock


@pytest.fixture(autouse=True)
def _index_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ledgers in memory index events at once: in a file all of a small ledger is not yet."""
    if "kept_in" in request.fixturenames and request.getfixturevalue("kept_in") == "memory":
        monkeypatch.setattr(indexes, "LAG_EVENTS_MAX", 2)


@pytest.fixture
def memory(ledger: Ledger) -> Memory:
    """Return the memory of an empty scope, on every database in turn."""
    return ledger.memory(HERE)


@pytest.fixture
def source(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Return a ledger with all that can happen to events."""
    ledger = open_ledger()
    ledger.append(run_of("r1", "a", "b", ts_ms=NOON))
    ledger.append([called(session_id="s2", ts_ms=NOON), said("x", scope=ELSEWHERE)])
    ledger.append([said("large", event_id="big", payload={"t": "long " * 5_000})])
    ledger.append([said("named", event_id="mine", refs={"é": [1]}, user_id="u1", origin="kernel")])
    ledger.redact(HERE, event_id="mine")
    ledger.expire(HERE, now_ms=NOON + 45 * DAY)
    ledger.append([said("after", session_id="s2")])
    return ledger
