"""Events in the order in which followers read them, and a follower's progress."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Mark = tuple[int, ...]
"""A position in the order of followed events; the empty tuple precedes all."""

Item = TypeVar("Item")


class FollowStep(msgspec.Struct, frozen=True):
    """The progress of one step of catching up."""

    events: int
    """The number of events examined."""
    more: bool
    """Whether there are more events: take another step."""


class FollowedEvents(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    """A batch of followed events, each with its mark."""

    items: list[Item]
    marks: list[Mark]
    last: Mark
    """The last mark examined, whether or not its event is in the scope."""
    more: bool
    """Whether there may be events after ``last``."""
