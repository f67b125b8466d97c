"""The ledger in a coroutine: the same names, and no event loop waits for a disk.

    await ledger.search("x", scope=…) ─► lane of the session ─► a thread ─► the same call
                                         one call at a time, in the order of the awaits

There is one engine, which is synchronous. Calls about one session are carried out in order, those
about several sessions at the same time. ``treering.aio`` has the types of all calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import weakref
from collections import deque
from functools import cache, cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from treering.app import open as open_ledger
from treering.ledger.admin import LedgerAdmin
from treering.ledger.import_access import ImportAccess
from treering.ledger.keyed_records import KeyedRecords
from treering.ledger.keys import LedgerKeys
from treering.ledger.ledger import Ledger
from treering.ledger.sessions import Session
from treering.memory.identity import UserIdentities
from treering.memory.memory import Memory
from treering.spine.off_loop import DaemonThread, Lanes, after_loop, in_event_loop, off_loop
from treering.spine.runs import Run, ToolCall
from treering.spine.tool_functions import current_run

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Generator, Hashable, Iterator
    from types import TracebackType

ITEMS_AT_ONCE: Final = 100
DIRECT: Final = frozenset({
    "session", "group_session", "memory", "records", "turn", "tool", "new_event",
})  # fmt: skip
"""Methods that only make a handle or a value: they are not awaited."""
AWAITED: Final = frozenset({"settings", "key", "isolation", "memory_refs", "turn_wait_s"})
"""Properties that read the ledger: they are awaited."""
_ASIDE: Final = frozenset({"interrupt", "start", "take"})
"""Methods that have no place in the order: they may wait for a turn, which others have to end."""
_FOLLOWING: Final = frozenset({"follow", "follow_events"})

Item = TypeVar("Item")


class AsyncObject:
    """A ledger, session, run, tool call, memory or records, whose methods are awaited.

    ``sync`` is the object itself. Methods that return an iterator return an asynchronous one.
    """

    def __init__(self, sync: Any, lanes: Lanes, lane: Hashable = None) -> None:
        self.sync = sync
        self._lanes = lanes
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one it was entered in, or opened."""
        own = _lane_of(sync)
        self._lane = lane if own is None else own
        self._before: contextvars.Token[weakref.ref[Run] | None] | None = None

    def __repr__(self) -> str:
        return f"Async{self.sync!r}"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(n for n in dir(self.sync) if not n.startswith("_"))})

    if not TYPE_CHECKING:  # The types of calls are in aio.pyi; what is not there is an error.

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            kind: Any = type(self.sync)
            match sort_of(kind, name):
                case "value":
                    return self._wrapped(getattr(self.sync, name))
                case "awaited":
                    return self._run(self._lane, getattr, self.sync, name)
                case "direct":
                    method = getattr(self.sync, name)
                    return lambda *args, **kwargs: self._wrapped(
                        method(*_plain(args), **_plain_names(kwargs))
                    )
                case "iterator":
                    return partial(self._items, name)
            return partial(self._call, name)

    async def __aenter__(self) -> Self:
        # A run may wait for another run of its session, which has to end in the lane.
        lane = self if isinstance(self.sync, Run) else self._lane
        self._loop = asyncio.get_running_loop()
        try:
            await self._lanes.run(lane, self.sync.__enter__)
        except asyncio.CancelledError as error:
            if isinstance(self.sync, Run):  # It may have begun, and its block will not end it.
                await self._leave(type(error), error, error.__traceback__)
            raise
        except GeneratorExit as error:  # The loop is closed, and the run may still begin.
            if isinstance(self.sync, Run):
                self._lanes.after_loop(lane, self.sync.__exit__, type(error), error, None)
            raise
        if isinstance(self.sync, Run):
            # The thread has a copy of the context; the block sees this one.
            self._before = current_run.set(weakref.ref(self.sync))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            with contextlib.suppress(ValueError):  # It was entered in another task.
                current_run.reset(self._before)
            self._before = None
        await self._leave(kind, error, trace)

    async def _leave(self, *error: Any) -> None:
        if not in_event_loop(self._loop):
            self._lanes.after_loop(self._lane, self.sync.__exit__, *error)
            return
        # A task that is cancelled once more still has to end what it began.
        await self._lanes.complete(self._lane, self.sync.__exit__, *error)

    async def _run(self, lane: Hashable, act: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return self._wrapped(await self._lanes.run(lane, act, *_plain(args), **_plain_names(named)))

    async def _call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        lane = None if name in _ASIDE else self._lane
        if lane is None and name == "append":
            lane = _lane_of_append(*args, **kwargs)
        return await self._run(lane, getattr(self.sync, name), *args, **kwargs)

    def _items(self, name: str, /, *args: Any, **kwargs: Any) -> AsyncItems[Any]:
        method = getattr(self.sync, name)
        stop = None
        if name in _FOLLOWING:
            stop = kwargs.setdefault("stop", threading.Event())
        lane = None if stop is not None else self._lane
        return AsyncItems(self._lanes, lane, partial(method, *args, **kwargs), stop)

    def _wrapped(self, value: Any) -> Any:
        for handle, kind in ASYNC.items():
            if isinstance(value, handle):
                lane = None if handle is Session else self._lane
                return kind(value, self._lanes, lane)
        return value


class AsyncSession(AsyncObject):
    """A session in a coroutine."""


class AsyncRun(AsyncObject):
    """A run, or turn, in a coroutine: entered with ``async with``."""


class AsyncToolCall(AsyncObject):
    """A tool call in a coroutine: entered with ``async with``."""


class AsyncMemory(AsyncObject):
    """A memory in a coroutine."""


class AsyncUserIdentities(AsyncObject):
    """The users of a memory in a coroutine."""


class AsyncKeyedRecords(AsyncObject):
    """Keyed records in a coroutine."""


class AsyncLedgerAdmin(AsyncObject):
    """The administration of a ledger in a coroutine."""


class AsyncLedgerKeys(AsyncObject):
    """The keys of a ledger in a coroutine."""


class AsyncImportAccess(AsyncObject):
    """What importers need of a ledger, in a coroutine."""


class AsyncItems(Generic[Item]):
    """An iterator of the ledger, asynchronously.

    A follower waits for news in a thread of its own: neither other calls nor the end of the ledger
    wait for it. Closing the ledger ends it with Closed, as without coroutines.
    """

    def __init__(
        self,
        lanes: Lanes,
        lane: Hashable,
        make: Callable[[], Iterator[Item]],
        stop: threading.Event | None,
    ) -> None:
        self._lanes = lanes
        self._lane = self if lane is None else lane
        self._make = make
        self._stop = stop
        self._thread = None if stop is None else DaemonThread()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._iterator: Iterator[Item] | None = None
        self._items: deque[Item] = deque()
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        if not self._items and not self._ended:
            try:
                self._items.extend(await self._next())
            except asyncio.CancelledError:
                await self.aclose()
                raise
        if not self._items:
            self._ended = True
            raise StopAsyncIteration
        return self._items.popleft()

    async def _next(self) -> list[Item]:
        self._loop = asyncio.get_running_loop()
        if self._stop is None:
            return await self._lanes.run(self._lane, self._take, ITEMS_AT_ONCE)
        step = asyncio.ensure_future(off_loop(self._thread, self._take, 1))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            self._stop.set()  # A follower waits for news: have it end, then wait for it.
            await asyncio.gather(step, return_exceptions=True)
            raise
        except GeneratorExit:
            self._stop.set()  # The loop is closed: nobody hears what comes.
            raise

    async def aclose(self) -> None:
        """End it early."""
        self._ended = True
        self._items.clear()
        if self._stop is not None:
            self._stop.set()
        if not in_event_loop(self._loop):
            if self._thread is None:
                self._lanes.after_loop(self._lane, self._close)
            else:
                self._thread.submit(self._close)
        elif self._thread is None:
            await self._lanes.run(self._lane, self._close)
        else:
            await off_loop(self._thread, self._close)

    def _take(self, count: int) -> list[Item]:
        if self._iterator is None:
            self._iterator = iter(self._make())
        return list(islice(self._iterator, count))

    def _close(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


class AsyncLedger(AsyncObject):
    """An open ledger in a coroutine. Made by ``treering.aio.open``."""

    def __init__(self, ledger: Ledger, lanes: Lanes | None = None, lane: Hashable = None) -> None:
        super().__init__(ledger, lanes or Lanes(), lane)
        self._loop = asyncio.get_running_loop()

    @property
    def lanes(self) -> Lanes:
        """Return what carries out its calls."""
        return self._lanes

    async def __aenter__(self) -> Self:
        return self

    async def _leave(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Complete pending calls, interrupt open runs, close the database."""
        if in_event_loop(self._loop):
            await off_loop(None, self._close)
        else:
            after_loop(self._close)

    def _close(self) -> None:
        self._lanes.close()
        self.sync.close()


class LedgerOpening:
    """A ledger that is about to be opened: awaited, or entered."""

    def __init__(self, make: Callable[[], Ledger]) -> None:
        self._make = make
        self._opened: AsyncLedger | None = None

    def __await__(self) -> Generator[Any, None, AsyncLedger]:
        return self._open().__await__()

    async def _open(self) -> AsyncLedger:
        return AsyncLedger(await off_loop(None, self._make))

    async def __aenter__(self) -> AsyncLedger:
        self._opened = await self._open()
        return await self._opened.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)


def open(*args: Any, **kwargs: Any) -> LedgerOpening:  # noqa: A001  (the same name as treering.open)
    """Open a ledger as ``treering.open`` does: ``await`` it, or use ``async with``."""
    return LedgerOpening(partial(open_ledger, *args, **kwargs))


def sync_ledger(ledger: Ledger | AsyncLedger) -> tuple[Ledger, Lanes]:
    """Return the synchronous ledger behind a sync or async one, and the lanes of its calls."""
    if isinstance(ledger, AsyncLedger):
        synchronous: Ledger = ledger.sync
        return synchronous, ledger.lanes
    return ledger, Lanes()


ASYNC: Final[dict[type, type[AsyncObject]]] = {
    Ledger: AsyncLedger,
    Session: AsyncSession,
    Run: AsyncRun,
    ToolCall: AsyncToolCall,
    Memory: AsyncMemory,
    UserIdentities: AsyncUserIdentities,
    KeyedRecords: AsyncKeyedRecords,
    LedgerAdmin: AsyncLedgerAdmin,
    LedgerKeys: AsyncLedgerKeys,
    ImportAccess: AsyncImportAccess,
}
"""Classes whose methods are awaited."""


@cache
def sort_of(kind: Any, name: str) -> str:
    """Return the sort of an attribute: value, awaited, direct, iterator or call."""
    attribute = inspect.getattr_static(kind, name, None)
    if name in DIRECT:
        return "direct"
    if attribute is None or isinstance(attribute, cached_property):
        return "value"
    if isinstance(attribute, property) or not callable(attribute):
        return "awaited" if name in AWAITED else "value"
    returned = str(getattr(attribute, "__annotations__", {}).get("return", ""))
    return "iterator" if returned.startswith(("Iterator", "Follower")) else "call"


def _lane_of(sync: Any) -> Hashable:
    """Return the lane of a handle, None if its calls need no order."""
    match sync:
        case Session():
            return (sync.scope, sync.session_id)
        case Run():
            return (sync.session.scope, sync.session.session_id)
        case KeyedRecords():
            return (sync.scope, sync.session_id)
    return None


def _lane_of_append(events: Any = (), **_: Any) -> Hashable:
    """Return the lane of an append: that of its session, if all events share one."""
    listed = events if isinstance(events, list | tuple) else ()
    places = {
        (getattr(event, "scope", None), getattr(event, "session_id", None)) for event in listed
    }
    return places.pop() if len(places) == 1 else None


def _plain(values: tuple[Any, ...]) -> list[Any]:
    return [value.sync if isinstance(value, AsyncObject) else value for value in values]


def _plain_names(values: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(values, _plain(tuple(values.values())), strict=True))
