"""What later events say of earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from derive.timelines import asked, redone, timeline, told, undone
from treering.derive.later_changes import LaterChanges
from treering.derive.visible import visible

if TYPE_CHECKING:
    from treering import Event


def seen(events: list[Event]) -> LaterChanges:
    hindsight = LaterChanges()
    for event in reversed(events):
        hindsight.look(event)
    return hindsight


def test_an_undo_hides_what_it_names_and_reaches_as_far() -> None:
    hindsight = seen(timeline(asked(), asked(), asked(), undone(2), asked()))

    assert [hindsight.hides(seq) for seq in range(1, 6)] == [False, True, True, False, False]
    assert [hindsight.reaches(seq) for seq in range(1, 6)] == [None, 2, 2, None, None]


def test_a_redo_reaches_to_the_undo_that_it_takes_back() -> None:
    hindsight = seen(timeline(asked(), asked(), undone(2), asked(), redone(3)))

    assert not any(hindsight.hides(seq) for seq in range(1, 6))
    assert [hindsight.reaches(seq) for seq in range(1, 6)] == [None, None, 3, 3, None]


def test_an_erasure_reaches_everything_before_it() -> None:
    hindsight = seen(timeline(asked(), asked(), told("ledger.redacted"), asked()))

    assert [hindsight.reaches(seq) for seq in range(1, 5)] == [1, 1, None, None]


marks = st.lists(
    st.one_of(
        st.just(asked()),
        st.integers(1, 12).map(undone),
        st.integers(1, 12).map(redone),
    ),
    max_size=14,
)


@given(marks)
def test_it_hides_what_does_not_count(story: list[dict[str, Any]]) -> None:
    events = timeline(*story)
    hindsight = seen(events)

    assert [event for event in events if not hindsight.hides(event.seq)] == visible(events)


@given(marks, st.integers(1, 14))
def test_what_counts_of_a_past_that_nothing_reaches_stays_the_same(
    story: list[dict[str, Any]], seq: int
) -> None:
    events = timeline(*story)
    past = events[:seq]

    if seen(events).reaches(seq) is None:
        assert [event for event in visible(events) if event.seq <= seq] == visible(past)
