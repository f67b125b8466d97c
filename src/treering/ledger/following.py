"""Following: what is there already, then what comes, in order, from a cursor that survives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, Generic, TypeVar

import msgspec

from treering.errors import InvalidCursor
from treering.model.cursors import pack, unpack
from treering.model.kinds import RUN_ENDS

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from treering.ledger.ports import EventStore
    from treering.model.events import Header
    from treering.model.scopes import Scope

PAGE: Final = 500
Item = TypeVar("Item", bound="Header")
WAIT_S: Final = 0.5
Position = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Follower(Generic[Item]):
    """An endless iterator over the events of a scope. Keep ``cursor`` to go on after a restart.

    Delivery is at least once: an event whose handling was cut short comes again.
    """

    def __init__(
        self,
        store: EventStore,
        scope: Scope,
        *,
        after_position: Callable[..., tuple[list[Item], int]],
        of_run: Callable[[Scope, str, str], Iterator[Item]],
        after: str | None,
        committed: bool,
        idle_seconds: float | None,
        stop: threading.Event | None,
    ) -> None:
        self._store = store
        self._scope = scope
        self._after_position = after_position
        self._of_run = of_run
        self._position = _read_position(after, scope) if after else 0
        self._committed = committed
        self._idle_seconds = idle_seconds
        self._stop = stop
        self._items = self._deliver()

    @property
    def cursor(self) -> str:
        """Return where to go on, once the last event delivered has been dealt with."""
        return pack((self._scope, self._position))

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return next(self._items)

    def close(self) -> None:
        """Stop following."""
        self._items.close()  # type: ignore[attr-defined]

    def _deliver(self) -> Iterator[Item]:
        looked = self._position
        while not (self._stop is not None and self._stop.is_set()):
            events, looked = self._after_position(self._scope, looked, limit=PAGE)
            for event in events:
                yield from self._one(event)
            if not events:
                self._position = max(self._position, looked)
                if looked >= self._store.last_position() and not self._wait(looked):
                    return

    def _one(self, event: Item) -> Iterator[Item]:
        if not self._committed or event.run_id is None:
            self._position = event.position
            yield event
        elif event.kind == "run.ended":
            # The whole run comes now, so a cursor before its end brings all of it again.
            for part in self._of_run(self._scope, event.session_id, event.run_id):
                if part.seq == event.seq:
                    self._position = event.position
                yield part
        elif event.kind in RUN_ENDS:
            self._position = event.position

    def _wait(self, seen: int) -> bool:
        """Wait for news; return False when it is time to end."""
        start = time.monotonic()
        while self._store.last_position() <= seen:
            idle = time.monotonic() - start
            if self._stop is not None and self._stop.is_set():
                return False
            if self._idle_seconds is not None and idle >= self._idle_seconds:
                return False
            left = WAIT_S if self._idle_seconds is None else self._idle_seconds - idle
            self._store.wait(seen, min(WAIT_S, left))
        return True


def _read_position(cursor: str, scope: Scope) -> int:
    name, position = unpack(cursor, tuple[str, Position])
    if name != scope:
        raise InvalidCursor("the cursor belongs to another scope", hint="follow that scope")
    return position
