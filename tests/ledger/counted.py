"""A store that counts, for tests about what reading costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from treering.model.queries import SessionTally


class Counted:
    """A store, or a part of one, that counts what is asked of it and what is read from it."""

    def __init__(self, store: Any, whole: Counted | None = None) -> None:
        self._store = store
        self._whole = whole or self
        self.asked: Counter[str] = Counter()
        """Calls, by method."""
        self.items: Counter[str] = Counter()
        """Items of the lists that were returned and events that were counted, by method."""

    @property
    def read(self) -> int:
        """Return how many items were read in all."""
        return self.items.total()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return Counted(found, self._whole)

        def counting(*given: Any, **named: Any) -> Any:
            answer = found(*given, **named)
            self._whole.asked[name] += 1
            self._whole.items[name] += len(answer) if isinstance(answer, list) else 0
            if isinstance(answer, SessionTally):
                self._whole.items[name] += sum(answer.kinds.values())
            return answer

        return counting
