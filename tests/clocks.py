"""A clock that tests set."""

from __future__ import annotations

from builders import DAY, NOON


class Clock:
    """Tells NOON until it is moved."""

    def __init__(self) -> None:
        self.now_ms = NOON

    def __call__(self) -> int:
        return self.now_ms

    def wait(self, days: float) -> int:
        """Let days go by; return what time it is then."""
        self.now_ms += int(days * DAY)
        return self.now_ms
