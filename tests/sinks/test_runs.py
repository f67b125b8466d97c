"""Runs found in the ledger, on every database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import ELSEWHERE, HERE, NOON, run_of, said
from treering import InvalidInput, NotFound
from treering.model.scopes import parse_scope
from treering.sinks.rundown import rundown
from treering.sinks.runs import find_run, recent_runs, safe_events_of

if TYPE_CHECKING:
    from treering import Ledger

SCOPE = parse_scope(HERE)


def test_runs_come_the_newest_first_page_after_page(ledger: Ledger) -> None:
    for number in range(5):
        ledger.append(run_of(f"run-{number}", "hi", session_id=f"s{number}", ts_ms=NOON + number))
    ledger.append(run_of("run-9", scope=ELSEWHERE, ts_ms=NOON + 9))

    found = recent_runs(ledger, SCOPE, limit=3)

    assert [(run.run_id, run.state, run.events) for run in found.runs] == [
        ("run-4", "ended", 3),
        ("run-3", "ended", 3),
        ("run-2", "ended", 3),
    ]
    assert found.has_more
    assert not recent_runs(ledger, SCOPE, limit=5).has_more


def test_more_runs_than_a_page_holds_are_looked_through(ledger: Ledger) -> None:
    for number in range(0, 1_200, 100):
        ledger.append(
            [
                event
                for one in range(number, number + 100)
                for event in run_of(f"run-{one:04}", session_id="s1", ts_ms=NOON + one)
            ]
        )

    found = find_run(ledger, SCOPE, "run-0000")

    assert found.run_id == "run-0000"
    with pytest.raises(InvalidInput, match="100 runs begin with run-01"):
        find_run(ledger, SCOPE, "run-01")
    with pytest.raises(NotFound, match="no run run-9999"):
        find_run(ledger, SCOPE, "run-9999")


def test_a_run_is_read_between_the_events_of_others(ledger: Ledger) -> None:
    one, two = run_of("run-1", "a", "b"), run_of("run-2", "x")
    mixed = [one[0], two[0], one[1], two[1], one[2], two[2], one[3]]
    ledger.append([*mixed, said("outside")])
    started = find_run(ledger, SCOPE, "run-1")

    events = [(event.run_seq, header.kind) for event, header in safe_events_of(ledger, started)]

    assert events == [
        (1, "run.started"),
        (2, "conversation.user"),
        (3, "conversation.user"),
        (4, "run.ended"),
    ]
    assert rundown(ledger, started, limit=10).kept == 4
