"""Projections: whatever is derived from the events can be derived again, to the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builders import HERE, NOON, said
from ports import store_of
from treering.ledger.views import SNAPSHOT_EVENTS

if TYPE_CHECKING:
    from treering import Ledger
    from treering.ledger.records import Projection


def record(ledger: Ledger) -> None:
    """Record something of each sort that is derived from, and erase a part of it."""
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Please look at the config of the parser")
        with turn.tool("git_log", {"n": 1}) as call:
            call.finish("done")
        turn.assistant("I did.")
    refs = {"call_id": "c1", "tool": "grep"}
    ledger.append(
        [
            said("called", kind="tool.call", refs=refs),
            said("late", kind="tool.result", refs=refs | {"status": "ok"}, event_id="gone"),
            said("later", kind="tool.result", refs=refs | {"status": "failed"}),
            said("again", kind="tool.result", refs=refs | {"status": "failed"}),
            *(said(f"n{n}", session_id="long", ts_ms=NOON + n) for n in range(SNAPSHOT_EVENTS)),
            said("used", kind="usage.reported", session_id="long", payload={"model": "m"}),
            said("goal", kind="goal.added", session_id="long", payload={"id": "g", "title": "t"}),
        ]
    )
    ledger.memory(HERE).learn("Lives in Porto", user="ann")
    ledger.records(HERE, "settings").put("theme", "dark")


def ask(ledger: Ledger) -> None:
    """Ask for all that is derived, so that it follows the events."""
    ledger.tool_calls(HERE)
    ledger.search("parser", scope=HERE)
    ledger.search("config", scope=HERE, mode="hybrid")
    ledger.memory(HERE).facts()
    session = ledger.session("long", scope=HERE, agent="lyria")
    session.usage()
    session.summary()


def projections(ledger: Ledger) -> dict[str, Projection]:
    """Return all of them by name, with what the memory has folded stored as well."""
    ledger._memory_factory.close()
    ledger._memory_factory.scope_memories.clear()
    return {one.name: one for one in store_of(ledger).projections}


def rows_of(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of all of them."""
    return {name: one.rows() for name, one in projections(ledger).items()}


def test_every_projection_that_is_dropped_comes_back_the_same(ledger: Ledger) -> None:
    """Promise 6, for each that there is: one that is added is in the list, and so in here."""
    record(ledger)
    ask(ledger)
    ledger.redact(HERE, event_id="gone")
    ask(ledger)
    rows = rows_of(ledger)
    assert set(rows) == {"runs", "tool_calls", "snapshots", "record_keys", "search", "memory"}
    assert all(rows.values())

    for name, projection in projections(ledger).items():
        projection.drop()
        # An append asks for the states of runs and for keys, so they are there at once.
        assert not projection.rows() or name in {"runs", "record_keys"}
        ask(ledger)
        assert rows_of(ledger) == rows, name
    assert ledger.admin.verify(derived=True).intact

    ledger.admin.rebuild()
    ask(ledger)
    assert rows_of(ledger) == rows


def test_the_lag_of_every_projection_is_the_events_that_it_has_not_followed(ledger: Ledger) -> None:
    record(ledger)
    behind = ledger.admin.lags(HERE)
    ask(ledger)

    assert set(behind) == set(projections(ledger))
    assert behind["tool_calls"] == 6
    assert behind["search"] > SNAPSHOT_EVENTS
    assert behind["memory"] > SNAPSHOT_EVENTS
    assert not any(ledger.admin.lags(HERE).values())
