"""Convert older events to the current schema on reading. Stored bytes are never rewritten.

Each step converts the content of one schema version to the next. An event of a newer version than
this program knows is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Step: TypeAlias = Callable[[str, Any], Any]
"""Takes the kind and the payload; returns the payload of the next version."""

STEPS: Final[Mapping[int, Step]] = {}
"""The step from each older version."""


def upcast(kind: str, payload: Any, version: int, steps: Mapping[int, Step] = STEPS) -> Any:
    """Return ``payload`` of schema ``version`` in the current version."""
    while version in steps:
        payload = steps[version](kind, payload)
        version += 1
    return payload
