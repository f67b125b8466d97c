"""What later events say of earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from derive.timelines import asked, redone, timeline, told, undone
from treering.derive.visible import LaterChanges, visible

if TYPE_CHECKING:
    from treering import Event


def seen(events: list[Event]) -> LaterChanges:
    later_changes = LaterChanges()
    for event in reversed(events):
        later_changes.add(event)
    return later_changes


def test_an_undo_hides_what_it_names_and_reaches_as_far() -> None:
    later_changes = seen(timeline(asked(), asked(), asked(), undone(2), asked()))

    assert [later_changes.is_undone(seq) for seq in range(1, 6)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert [later_changes.invalid_from(seq) for seq in range(1, 6)] == [None, 2, 2, None, None]


def test_a_redo_reaches_to_the_undo_that_it_takes_back() -> None:
    later_changes = seen(timeline(asked(), asked(), undone(2), asked(), redone(3)))

    assert not any(later_changes.is_undone(seq) for seq in range(1, 6))
    assert [later_changes.invalid_from(seq) for seq in range(1, 6)] == [None, None, 3, 3, None]


def test_an_erasure_reaches_everything_before_it() -> None:
    later_changes = seen(timeline(asked(), asked(), told("ledger.redacted"), asked()))

    assert [later_changes.invalid_from(seq) for seq in range(1, 5)] == [1, 1, None, None]


marks = st.lists(
    st.one_of(st.just(asked()), st.integers(1, 12).map(undone), st.integers(1, 12).map(redone)),
    max_size=14,
)


@given(marks)
def test_it_hides_what_does_not_count(story: list[dict[str, Any]]) -> None:
    events = timeline(*story)
    later_changes = seen(events)

    assert [event for event in events if not later_changes.is_undone(event.seq)] == visible(events)


@given(marks, st.integers(1, 14))
def test_what_counts_of_a_past_that_nothing_reaches_stays_the_same(
    story: list[dict[str, Any]], seq: int
) -> None:
    events = timeline(*story)
    past = events[:seq]

    if seen(events).invalid_from(seq) is None:
        assert [event for event in visible(events) if event.seq <= seq] == visible(past)
