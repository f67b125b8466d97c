"""A store that counts, for tests about what reading costs."""

from __future__ import annotations

from typing import Any


class Counted:
    """A store that counts what is read from it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        def counting(*given: Any, **named: Any) -> Any:
            answer = found(*given, **named)
            self.read += len(answer) if isinstance(answer, list) else 0
            return answer

        return counting
