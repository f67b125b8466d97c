"""Older events, read as if they had been written today. Stored bytes are never rewritten.

Each step lifts the content of one schema version to the next. An event of a newer version than
this program knows is shown as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from treering.model.events import SCHEMA_VERSION

Step: TypeAlias = Callable[[str, Any], Any]
"""Takes the kind and the payload; returns the payload of the next version."""

STEPS: Final[Mapping[int, Step]] = {}
"""The step away from each older version."""


def upcast(kind: str, payload: Any, version: int, steps: Mapping[int, Step] = STEPS) -> Any:
    """Return ``payload`` of schema ``version`` as the current version has it."""
    for older in range(version, SCHEMA_VERSION if steps is STEPS else max(steps, default=0) + 1):
        step = steps.get(older)
        payload = payload if step is None else step(kind, payload)
    return payload
