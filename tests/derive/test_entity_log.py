"""Trails keep what matters: cleared at any time, they tell what all events tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.folds import goals, memories, schedules
from derive.timelines import timeline, told
from treering.derive.entity_log import GOALS, MEMORIES, SCHEDULES, SLACK, EntityLog, run_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering import Event

RUNS: Final = ["r1", "r2", None]
ENDS: Final = ["run.ended", "run.ended", "run.failed"]
things = {"id": st.sampled_from("ab")}
goal_words = st.fixed_dictionaries(
    things, optional={"status": st.sampled_from("xy"), "progress": st.integers(0, 2)}
)
memory_words = st.fixed_dictionaries(things, optional={"key": st.sampled_from("kl")})


def stories(verbs: dict[str, int], words: st.SearchStrategy[dict[str, Any]]) -> Any:
    """Return events of some kinds, each as likely as it says, in runs that end once."""
    kinds = [kind for kind, share in verbs.items() for _ in range(share)]
    told_of = st.tuples(st.sampled_from(kinds), st.sampled_from(RUNS), words)
    over: st.SearchStrategy[Any] = st.tuples(
        st.sampled_from(ENDS), st.sampled_from(RUNS[:2]), st.just({})
    )
    return st.lists(st.tuples(st.one_of(told_of, told_of, told_of, over), st.booleans()))


goal_stories = stories({"goal.added": 2, "goal.updated": 3, "goal.removed": 1}, goal_words)
schedule_stories = stories(
    {"schedule.added": 1, "schedule.fired": 3, "schedule.removed": 1}, st.fixed_dictionaries(things)
)
memory_stories = stories(
    {"memory.stored": 2, "memory.revised": 2, "memory.archived": 1, "memory.forgotten": 1},
    memory_words,
)


@given(goal_stories)
def test_a_trail_of_goals_tells_what_all_events_tell(story: Any) -> None:
    entity_log, events, read = followed(GOALS, story)

    assert entity_log.values(GOALS, read) == goals(events)
    for run in RUNS:
        assert entity_log.for_run(run).values(GOALS, read) == goals(events, run_id=run)


@given(schedule_stories)
def test_a_trail_of_schedules_tells_what_all_events_tell(story: Any) -> None:
    entity_log, events, read = followed(SCHEDULES, story)

    assert entity_log.values(SCHEDULES, read) == schedules(events)


@given(memory_stories)
def test_a_trail_of_memories_tells_what_all_events_tell(story: Any) -> None:
    entity_log, events, read = followed(MEMORIES, story)

    assert entity_log.values(MEMORIES, read) == memories(events)


@pytest.mark.parametrize("times", [1_000, 5_000])
def test_a_trail_stays_short_however_often_a_thing_changes(times: int) -> None:
    story = [(("schedule.added", None, {"id": "a"}), False)]
    story += [(("schedule.fired", None, {"id": "a"}), False)] * times
    events = timeline(*(told(kind, run, **words) for (kind, run, words), _ in story))
    entity_log, longest = EntityLog(), 0

    for event in events:
        entity_log.take(event, SCHEDULES.kinds, hidden=False)
        longest = max(longest, len(entity_log.kept))
        if entity_log.is_long:
            entity_log.compact(SCHEDULES, lambda seqs: [events[seq - 1] for seq in seqs])

    assert longest <= SLACK + 5
    (found,) = entity_log.values(SCHEDULES, lambda seqs: [events[seq - 1] for seq in seqs])
    assert found.fired == times


def test_the_number_of_a_run_is_the_same_in_every_process() -> None:
    assert run_number("r1") == 0x83DD8A0C5B69BD30


def followed(noun: Any, story: list[Any]) -> tuple[EntityLog, list[Event], Any]:
    """Return a trail that followed a story and was cleared as often as the story says."""
    attempts = {"r1": 0, "r2": 0}
    stated = []
    for (kind, run, words), _ in story:
        # A run takes nothing after its end: then it is the next one.
        stated.append(told(kind, run and f"{run}.{attempts[run]}", **words))
        if kind in ENDS:
            attempts[run] += 1
    for content in stated:
        # Those that are still open go by their short names, to be asked for.
        name, _, attempt = (content["run_id"] or "").partition(".")
        if name and int(attempt) == attempts[name]:
            content["run_id"] = name
    events = timeline(*stated)

    def read(seqs: Sequence[int]) -> list[Event]:
        return [events[seq - 1] for seq in seqs]

    entity_log = EntityLog()
    for event, (_, cleared) in zip(events, story, strict=True):
        entity_log.take(event, noun.kinds, hidden=False)
        if cleared:
            entity_log.compact(noun, read)
    return entity_log, events, read
