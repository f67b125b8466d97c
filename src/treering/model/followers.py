"""Followers: events in the order they are followed, and how far somebody has come."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Mark = tuple[int, ...]
"""A place in the order in which events are followed; the empty one is before them all."""

Item = TypeVar("Item")


class FollowStep(msgspec.Struct, frozen=True):
    """How far one step of catching up came."""

    events: int
    """Events that were looked at."""
    more: bool
    """There is more to look at: take another."""


class FollowedEvents(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    """Events as they are followed, each with its mark."""

    items: list[Item]
    marks: list[Mark]
    last: Mark
    """The mark looked at last, whether or not an event of the scope stands there."""
    more: bool
    """There may be more behind ``last`` already."""
