"""Older events, read as if they had been written today. Stored bytes are never rewritten.

Each step lifts the content of one schema version to the next. An event of a newer version than
this program knows is shown as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Step: TypeAlias = Callable[[str, Any], Any]
"""Takes the kind and the payload; returns the payload of the next version."""

STEPS: Final[Mapping[int, Step]] = {}
"""The step away from each older version."""


def upcast(kind: str, payload: Any, version: int, steps: Mapping[int, Step] = STEPS) -> Any:
    """Return ``payload`` of schema ``version`` as the current version has it."""
    while version in steps:
        payload = steps[version](kind, payload)
        version += 1
    return payload
