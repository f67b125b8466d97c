"""Memories kept and forgotten, from the events of a timeline."""

from __future__ import annotations

from typing import Any

import pytest

from builders import NOON
from derive.folds import memories
from derive.timelines import erased, timeline, told, undone
from treering.model.views import MemoryRecord


def did(verb: str, name: str = "m1", run_id: str | None = None, **content: Any) -> dict[str, Any]:
    return told(f"memory.{verb}", run_id, id=name, **content)


def states(*events: dict[str, Any]) -> list[tuple[str, str]]:
    return [(found.id, found.state) for found in memories(timeline(*events))]


def test_a_memory_is_told_without_its_text() -> None:
    events = timeline(
        did("stored", key="home", category="place", text="lives in Ghent"),
        did("revised", category="town"),
    )

    assert memories(events) == [
        MemoryRecord(
            id="m1",
            key="home",
            category="town",
            state="kept",
            created_ms=NOON + 10,
            updated_ms=NOON + 20,
            event_ids=("e1", "e2"),
        )
    ]


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("revised", "kept"),
        ("superseded", "superseded"),
        ("archived", "archived"),
        ("restored", "kept"),
        ("forgotten", "forgotten"),
        ("stored", "kept"),
    ],
)
def test_the_last_event_says_what_became_of_a_memory(verb: str, state: str) -> None:
    assert states(did("stored"), did("archived"), did(verb)) == [("m1", state)]


def test_a_memory_that_was_stored_elsewhere_is_known_from_the_first_that_names_it() -> None:
    assert states(did("archived", "b"), did("stored", "a")) == [("b", "archived"), ("a", "kept")]


def test_a_memory_that_is_stored_again_begins_anew_in_its_place() -> None:
    events = did("stored", "a", key="k"), did("stored", "b"), did("forgotten", "a")

    first, _ = memories(timeline(*events, did("stored", "a")))

    assert (first.id, first.state, first.key, first.created_ms) == ("a", "kept", None, NOON + 40)


def test_refusals_recalls_and_what_does_not_count_are_ignored() -> None:
    events = (
        did("refused"),
        did("recalled"),
        told("memory.stored"),
        erased(did("stored")),
        did("stored", "a", "r1"),
        told("run.interrupted", "r1"),
        did("stored", "b"),
    )

    assert states(*events) == [("b", "kept")]
    assert states(*events, undone(7)) == []
