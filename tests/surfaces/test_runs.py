"""Runs found in the ledger, on every database."""

from __future__ import annotations

import pytest

from builders import ELSEWHERE, HERE, NOON, run_of, said
from treering import Ledger, NewEvent, NotFound
from treering.ledger import runs
from treering.ledger.runs import safe_events
from treering.model.scopes import parse_scope
from treering.surfaces.cli.finding import find_calls, find_run_id

SCOPE = parse_scope(HERE)


def test_runs_come_the_newest_first_page_after_page(ledger: Ledger) -> None:
    for number in range(5):
        ledger.append(run_of(f"run-{number}", "hi", session_id=f"s{number}", ts_ms=NOON + number))
    ledger.append(run_of("run-9", scope=ELSEWHERE, ts_ms=NOON + 9))

    page = ledger.runs(SCOPE, limit=3)

    assert [(run.run_id, run.state, run.events) for run in page.items] == [
        ("run-4", "ended", 3),
        ("run-3", "ended", 3),
        ("run-2", "ended", 3),
    ]
    assert page.has_more
    assert not ledger.runs(SCOPE, limit=5).has_more


def test_more_runs_than_a_page_holds_are_looked_through(ledger: Ledger) -> None:
    for number in range(0, 1_200, 100):
        ledger.append(
            [
                event
                for one in range(number, number + 100)
                for event in run_of(f"run-{one:04}", session_id="s1", ts_ms=NOON + one)
            ]
        )

    assert find_run_id(ledger, SCOPE, "run-0000") == "run-0000"
    assert ledger.run(SCOPE, "run-0000").run_id == "run-0000"
    with pytest.raises(NotFound, match="run-01 is ambiguous: 100 runs match"):
        find_run_id(ledger, SCOPE, "run-01")
    with pytest.raises(NotFound, match="no run run-9999"):
        find_run_id(ledger, SCOPE, "run-9999")


def test_a_run_is_read_between_the_events_of_others(ledger: Ledger) -> None:
    one, two = run_of("run-1", "a", "b"), run_of("run-2", "x")
    mixed = [one[0], two[0], one[1], two[1], one[2], two[2], one[3]]
    ledger.append([*mixed, said("outside")])
    session_id = ledger.run(SCOPE, "run-1").session_id
    headers = ledger.run_headers(SCOPE, session_id, "run-1")

    events = [(event.run_seq, header.kind) for event, header in safe_events(headers, None)]

    assert events == [
        (1, "run.started"),
        (2, "conversation.user"),
        (3, "conversation.user"),
        (4, "run.ended"),
    ]
    assert ledger.run_view(SCOPE, "run-1", events_max=10).kept == 4


def test_a_list_goes_on_where_a_page_ended(ledger: Ledger) -> None:
    for number in range(5):
        ledger.append(run_of(f"run-{number}", ts_ms=NOON + number, end="run.failed"))
    overlapping = run_of("run-5", ts_ms=NOON - 1)
    overlapping[-1] = said("run over", kind="run.failed", run_id="run-5", ts_ms=NOON + 9)
    ledger.append(overlapping)

    found, cursor = [], None
    for _ in range(3):
        page = ledger.runs(SCOPE, failing=True, limit=2, after=cursor)
        found += [(run.run_id, run.state) for run in page.items]
        cursor = page.next_cursor

    assert found == [(f"run-{number}", "failed") for number in (4, 3, 2, 1, 0, 5)]
    assert cursor is None


def test_a_list_that_was_cut_says_where_to_go_on(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append([event for one in range(501) for event in run_of(f"run-{one}", ts_ms=NOON + one)])

    monkeypatch.setattr(runs, "PAGES_MAX", 1)
    page = ledger.runs(SCOPE, failing=True, limit=5)
    rest = ledger.runs(SCOPE, limit=5, after=page.next_cursor)

    assert (page.items, page.has_more) == ([], True)
    assert [run.run_id for run in rest.items] == ["run-0"]
    with pytest.raises(NotFound, match=r"no run run-0 among the latest of .* not searched"):
        ledger.run(SCOPE, "run-0")


def test_an_id_that_says_when_it_was_made_is_found_without_a_search(ledger: Ledger) -> None:
    with ledger.session("s1", scope=HERE, agent="lyria").turn() as run:
        pass

    assert find_run_id(ledger, SCOPE, run.run_id, runs_max=0) == run.run_id
    with pytest.raises(NotFound, match="no run ffffffff-ffff-7000-8000-000000000000"):
        find_run_id(ledger, SCOPE, "ffffffff-ffff-7000-8000-000000000000")
    with pytest.raises(NotFound, match="no run ffffffff-ffff-7000-8000-000000000000"):
        ledger.run(SCOPE, "ffffffff-ffff-7000-8000-000000000000")


def test_a_search_that_was_cut_says_so(ledger: Ledger) -> None:
    ledger.append([event for one in range(501) for event in run_of(f"run-{one}", ts_ms=NOON + one)])

    with pytest.raises(NotFound, match=r"no run run-0 among the latest of .* not searched"):
        find_run_id(ledger, SCOPE, "run-0", runs_max=500)


def calls(count: int, **fields: str) -> list[NewEvent]:
    """Return tool calls, numbered."""
    return [
        said(
            "called",
            kind="tool.call",
            ts_ms=NOON + one,
            refs={"call_id": f"call-{one:04}"},
            **fields,
        )
        for one in range(count)
    ]


def test_a_call_is_looked_for_page_after_page_and_no_further_than_it_says(ledger: Ledger) -> None:
    ledger.append(calls(1_001))
    ledger.append(calls(1, session_id="s2"))

    assert [one.session_id for one in find_calls(ledger, SCOPE, "call-1000")] == ["s1"]
    assert len(find_calls(ledger, SCOPE, "call-0000", session_id="s1", pages_max=0)) == 1
    with pytest.raises(NotFound, match="2 sessions have a call call-0000"):
        find_calls(ledger, SCOPE, "call-0000")
    with pytest.raises(NotFound, match=r"no call call-9 among the latest of .* not searched"):
        find_calls(ledger, SCOPE, "call-9", pages_max=1)


def test_of_many_calls_of_a_run_the_first_are_shown_and_the_rest_counted(ledger: Ledger) -> None:
    ledger.append([run_of("run-1")[0], *calls(5, run_id="run-1"), *calls(2, run_id="run-2")])

    shown = ledger.run_view(SCOPE, "run-1", events_max=2)

    assert [record.call_id for record in shown.calls] == ["call-0000", "call-0001"]
    assert shown.calls_left_out == 3
