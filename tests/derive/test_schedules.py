"""Schedules, from the events of a timeline."""

from __future__ import annotations

from typing import Any

from builders import NOON
from derive.folds import schedules
from derive.timelines import erased, timeline, told, undone
from treering.model.views import Schedule


def added(name: Any = "j1", run_id: str | None = None, **content: Any) -> dict[str, Any]:
    return told("schedule.added", run_id, id=name, **content)


def fired(name: Any = "j1", run_id: str | None = None) -> dict[str, Any]:
    return told("schedule.fired", run_id, job_id=name, prompt="go")


def fires(*events: dict[str, Any]) -> list[tuple[str, int]]:
    return [(found.id, found.fired) for found in schedules(timeline(*events))]


def test_a_schedule_is_told_as_it_was_added_and_how_often_it_fired() -> None:
    content: dict[str, Any] = {
        "schedule_type": "cron",
        "prompt": "look around",
        "spec": {"hour": 7},
    }

    assert schedules(timeline(added(**content), fired(), fired())) == [
        Schedule(
            id="j1",
            created_ms=NOON + 10,
            fired=2,
            last_fired_ms=NOON + 30,
            event_ids=("e1", "e3"),
            **content,
        )
    ]


def test_a_schedule_that_never_fired_says_so() -> None:
    (found,) = schedules(timeline(added(prompt=7)))

    assert (found.fired, found.last_fired_ms, found.prompt) == (0, None, None)


def test_a_schedule_may_fire_by_either_name() -> None:
    assert fires(added(), told("schedule.fired", id="j1"), fired()) == [("j1", 2)]


def test_a_schedule_that_is_added_again_counts_from_nothing_in_its_place() -> None:
    assert fires(added("a"), added("b"), fired("a"), added("a")) == [("a", 0), ("b", 0)]


def test_a_schedule_that_was_removed_is_not_told_and_does_not_fire() -> None:
    assert fires(added(), told("schedule.removed", id="j1"), fired()) == []
    assert fires(fired("x"), told("schedule.removed", id="x")) == []


def test_what_does_not_count_does_not_fire() -> None:
    events = added(), fired("j1", "r1"), told("run.failed", "r1"), erased(fired()), fired()

    assert fires(*events) == [("j1", 1)]
    assert fires(*events, undone(5)) == [("j1", 0)]
