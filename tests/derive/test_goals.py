"""Goals, from the events of a timeline."""

from __future__ import annotations

from typing import Any

import pytest

from builders import NOON
from derive.folds import goals
from derive.timelines import erased, redone, timeline, told, undone
from treering.model.views import Goal


def added(name: Any = "g1", run_id: str | None = None, **content: Any) -> dict[str, Any]:
    return told("goal.added", run_id, id=name, **({"description": "ship it"} | content))


def updated(name: Any = "g1", run_id: str | None = None, **content: Any) -> dict[str, Any]:
    return told("goal.updated", run_id, id=name, **content)


def removed(name: Any = "g1", run_id: str | None = None) -> dict[str, Any]:
    return told("goal.removed", run_id, id=name)


def shown(*events: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(goal.id, goal.description, goal.status) for goal in goals(timeline(*events))]


def test_a_goal_is_active_when_it_is_added() -> None:
    assert goals(timeline(added(parent="g0", progress=0.5))) == [
        Goal(
            id="g1",
            description="ship it",
            status="active",
            parent="g0",
            progress=0.5,
            created_ms=NOON + 10,
            updated_ms=NOON + 10,
            event_ids=("e1",),
        )
    ]


def test_an_update_changes_what_it_states_and_nothing_else() -> None:
    (goal,) = goals(timeline(added(), updated(progress=1), updated(status="done", progress=2)))

    assert (goal.description, goal.status, goal.progress) == ("ship it", "done", 2)
    assert (goal.created_ms, goal.updated_ms) == (NOON + 10, NOON + 30)
    assert goal.event_ids == ("e1", "e3")


def test_a_goal_that_is_added_again_is_replaced_in_its_place() -> None:
    events = added("a"), updated("a", status="done"), added("b"), added("a", description="anew")

    assert shown(*events) == [("a", "anew", "active"), ("b", "ship it", "active")]


def test_a_goal_that_was_removed_comes_back_at_the_end() -> None:
    assert shown(added("a"), removed("a")) == []
    assert [goal[0] for goal in shown(added("a"), added("b"), removed("a"), added("a"))] == [
        "b",
        "a",
    ]


def test_what_is_said_of_unknown_goals_is_ignored() -> None:
    assert shown(updated("x", status="done"), removed("x"), told("goal.added"), added("")) == []


@pytest.mark.parametrize("state", ["failed", "interrupted", None])
def test_goals_of_runs_that_did_not_end_well_do_not_count(state: str | None) -> None:
    end = [told(f"run.{state}", "r1")] if state else []

    assert shown(added("a"), added("b", "r1"), updated("a", "r1", status="done"), *end) == [
        ("a", "ship it", "active")
    ]


def test_goals_of_a_run_that_ended_well_count_where_they_were_said() -> None:
    events = (
        added("a", "r1"),
        added("b"),
        updated("b", "r1", status="from the run"),
        updated("b", status="from outside"),
        told("run.ended", "r1"),
    )

    assert shown(*events) == [("a", "ship it", "active"), ("b", "ship it", "from outside")]


def test_a_run_sees_its_own_goals() -> None:
    events = timeline(added("a", "r1"), added("b", "r2"))

    assert [goal.id for goal in goals(events, run_id="r1")] == ["a"]


def test_undone_goals_come_back_with_a_redo() -> None:
    events = [added("a"), updated("a", status="done"), undone(2)]

    assert shown(*events) == [("a", "ship it", "active")]
    assert shown(*events, redone(3)) == [("a", "ship it", "done")]


def test_erased_events_say_nothing() -> None:
    assert shown(added("a"), erased(updated("a", status="done"))) == [("a", "ship it", "active")]
    assert shown(erased(added("a")), updated("a", status="done")) == []
    assert shown(added("a"), erased(removed("a"))) == [("a", "ship it", "active")]


def test_values_that_cannot_be_are_left_out() -> None:
    events = added(7, description=["no text"], status=None, parent={}), updated(7, status=1)

    (goal,) = goals(timeline(*events))

    assert (goal.id, goal.description, goal.status, goal.parent) == ("7", "", "active", None)


def test_an_id_may_stand_in_the_refs() -> None:
    event = {"kind": "goal.added", "run_id": None, "refs": {"id": "g1"}, "payload": "odd"}

    assert shown(event) == [("g1", "", "active")]
