"""Following a scope: its events so far, then new ones, from a cursor that can be stored."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, Generic, TypeVar

import msgspec

from treering.errors import InvalidCursor
from treering.model.kinds import RUN_ENDS
from treering.model.queries import Mark, pack, unpack

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from treering.ledger.ports import EventStore
    from treering.model.events import Header
    from treering.model.scopes import Scope

PAGE: Final = 500
Item = TypeVar("Item", bound="Header")
WAIT_S: Final = 0.5
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Follower(Generic[Item]):
    """An endless iterator over the events of a scope. Store ``cursor`` to continue after a restart.

    Delivery is at least once: an event whose handling was interrupted comes again.
    """

    def __init__(
        self,
        store: EventStore,
        scope: Scope,
        part: type[Item],
        *,
        after: str | None,
        committed: bool,
        idle_s: float | None,
        stop: threading.Event | None,
    ) -> None:
        self._store = store
        self._scope = scope
        self._part = part
        self._mark = mark_of(after, scope) if after else ()
        self._committed = committed
        self._idle_s = idle_s
        self._stop = stop
        self._left = 0
        self._items = self._deliver()

    @property
    def left(self) -> int:
        """Return how many events were read already and come next, without waiting."""
        return self._left

    @property
    def cursor(self) -> str:
        """Return the cursor after the last event that was delivered."""
        return cursor_at(self._scope, self._mark)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return next(self._items)

    def close(self) -> None:
        """Stop following."""
        self._items.close()  # type: ignore[attr-defined]

    def _deliver(self) -> Iterator[Item]:
        seen = self._mark
        while not (self._stop is not None and self._stop.is_set()):
            page = self._store.reader.followed(self._part, self._scope, seen, limit=PAGE)
            seen = page.last
            self._left = len(page.items)
            for event, mark in zip(page.items, page.marks, strict=True):
                self._left -= 1
                yield from self._one(event, mark)
            if not page.items:
                self._mark = max(self._mark, seen)
                if not page.more and not self._wait(seen):
                    return

    def _one(self, event: Item, mark: Mark) -> Iterator[Item]:
        if not self._committed or event.run_id is None:
            self._mark = mark
            yield event
        elif event.kind == "run.ended":
            # The whole run comes now, so a cursor before its end brings all of it again.
            run = event.session_id, event.run_id
            for member in self._store.reader.by_run(self._part, self._scope, *run):
                if member.seq == event.seq:
                    self._mark = mark
                yield member
        elif event.kind in RUN_ENDS:
            self._mark = mark

    def _wait(self, seen: Mark) -> bool:
        """Wait for new events; return False when it is time to end."""
        start = time.monotonic()
        left = WAIT_S if self._idle_s is None else self._idle_s
        while not self._store.wait(self._scope, seen, min(WAIT_S, left)):
            idle = time.monotonic() - start
            if self._stop is not None and self._stop.is_set():
                return False
            if self._idle_s is not None:
                left = self._idle_s - idle
                if left <= 0:
                    return False
        return True


def cursor_at(scope: Scope, mark: Mark) -> str:
    """Return the cursor that continues after ``mark``."""
    return pack((scope, mark))


def mark_of(cursor: str, scope: Scope) -> Mark:
    """Return the mark that a cursor continues after. Raise InvalidCursor."""
    name, mark = unpack(cursor, tuple[str, _Number | tuple[_Number, ...]])
    if name != scope:
        raise InvalidCursor("the cursor belongs to another scope", hint="follow that scope")
    # Version 0.1 kept a position, which is all there is to a mark in a file.
    return (mark,) if isinstance(mark, int) else mark
