"""The ledger in a coroutine: the same names, and no event loop waits for a disk.

    await ledger.search("x", scope=…) ─► lane of the session ─► a thread ─► the same call
                                         one call at a time, in the order of the awaits

The one engine is synchronous. Calls about one session are carried out in order, those about
several sessions at the same time. A call that has begun is completed even if its task is
cancelled: when CancelledError arrives, the call is recorded or never will be.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from treering.app import open as open_ledger
from treering.errors import Closed
from treering.ledger.admin import LedgerAdmin
from treering.ledger.import_access import ImportAccess
from treering.ledger.keyed_records import KeyedRecords
from treering.ledger.keys import LedgerKeys
from treering.ledger.ledger import Ledger
from treering.ledger.sessions import Session
from treering.memory.identity import UserIdentities
from treering.memory.memory import Memory
from treering.spine.calls import ToolCall
from treering.spine.runs import Run
from treering.spine.tool_functions import current_run

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterator
    from types import TracebackType

__all__ = ["AsyncLedger", "AsyncObject", "Lanes", "open"]

THREADS_MAX: Final = 64
"""Calls that are carried out at the same time; others wait."""
ITEMS_AT_ONCE: Final = 100

_HANDLES: Final = (
    Ledger, Session, Run, ToolCall, Memory, KeyedRecords, LedgerAdmin, LedgerKeys, ImportAccess,
    UserIdentities,
)  # fmt: skip
"""Classes whose methods are awaited."""
_DIRECT: Final = frozenset({
    "session", "group_session", "memory", "records", "turn", "tool", "new_event",
})  # fmt: skip
"""Methods that only make a handle or a value: they are not awaited."""
_AWAITED: Final = frozenset({"settings", "key", "isolation", "memory_refs", "turn_wait_s"})
"""Properties that read the ledger: they are awaited."""
_ASIDE: Final = frozenset({"interrupt", "start", "take"})
"""Methods outside the order: they may wait for a turn that other calls have to end."""
_FOLLOWING: Final = frozenset({"follow", "follow_events"})

Result = TypeVar("Result")


class Lanes:
    """Carries out calls in threads: those of one lane one at a time, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[_Call]] = {}
        """Calls by lane; a lane that is here has a thread."""
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0
        self._closed = False

    async def run(
        self, lane: Hashable, function: Callable[..., Result], /, *args: Any, **kwargs: Any
    ) -> Result:
        """Return what ``function`` returns, with the context variables of the caller.

        ``lane`` None is a lane of its own. If the task is cancelled, a call that waits is
        withdrawn, and one that has begun is waited for.
        """
        call = _Call(asyncio.get_running_loop(), partial(function, *args, **kwargs))
        self._put(call if lane is None else lane, call)
        try:
            await asyncio.wait([call.future])
        except asyncio.CancelledError:
            if not call.withdraw():
                while not call.future.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([call.future])
                call.future.exception()  # Retrieved here, since nobody else does.
            raise
        result: Result = call.future.result()
        return result

    def _put(self, lane: Hashable, call: _Call) -> None:
        with self._lock:
            if self._closed:
                raise Closed("the ledger is closed", hint="open it again")
            if self._pid != os.getpid():
                # Threads do not survive a fork.
                self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="treering-aio")
                self._waiting, self._pid = {}, os.getpid()
            if lane in self._waiting:
                self._waiting[lane].append(call)
                return
            self._waiting[lane] = deque([call])
            pool = self._pool
        if pool is not None:
            pool.submit(self._carry_out, lane)

    def _carry_out(self, lane: Hashable) -> None:
        while True:
            with self._lock:
                calls = self._waiting[lane]
                if not calls:
                    del self._waiting[lane]
                    return
                call = calls.popleft()
            call.carry_out()

    def close(self) -> None:
        """Complete the waiting calls, and end the threads."""
        with self._lock:
            pool, pid, self._closed = self._pool, self._pid, True
        if pool is not None and pid == os.getpid():
            pool.shutdown()


class _Call:
    """A call on its way: it waits, has begun, or was withdrawn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Any]) -> None:
        self._loop = loop
        self._work = work
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._state: Literal["waiting", "begun", "withdrawn"] = "waiting"
        self.future: asyncio.Future[Any] = loop.create_future()

    def withdraw(self) -> bool:
        """Withdraw the call; return False if it has begun."""
        with self._lock:
            if self._state == "waiting":
                self._state = "withdrawn"
            return self._state == "withdrawn"

    def carry_out(self) -> None:
        """Do the work and hand the result to the loop, unless the call was withdrawn."""
        with self._lock:
            if self._state == "withdrawn":
                return
            self._state = "begun"
        try:
            settle = partial(self._settle, self._context.run(self._work), None)
        except BaseException as error:  # noqa: BLE001  (raised where it was awaited)
            settle = partial(self._settle, None, error)
        # The loop may be gone by now; what was recorded is recorded.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(settle)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, StopIteration):
            self.future.set_exception(RuntimeError("the call raised StopIteration"))
        else:
            self.future.set_exception(error)


class AsyncObject:
    """A ledger, session, run, tool call, memory or records, whose methods are awaited.

    ``sync`` is the object itself. Methods that return an iterator return an asynchronous one.
    """

    def __init__(self, sync: Any, lanes: Lanes, lane: Hashable = None) -> None:
        self.sync = sync
        self._lanes = lanes
        own = _lane_of(sync)
        self._lane = lane if own is None else own
        self._before: contextvars.Token[Run | None] | None = None

    def __repr__(self) -> str:
        return f"Async{self.sync!r}"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(n for n in dir(self.sync) if not n.startswith("_"))})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        kind: Any = type(self.sync)
        match _sort_of(kind, name):
            case "value":
                return self._wrapped(getattr(self.sync, name))
            case "awaited":
                return self._property(name)
            case "direct":
                return partial(self._direct, name)
            case "iterator":
                return partial(self._items, name)
        return partial(self._call, name)

    async def __aenter__(self) -> Self:
        # A run may wait for another run of its session, which has to end in the lane.
        lane = None if isinstance(self.sync, Run) else self._lane
        await self._lanes.run(lane, self.sync.__enter__)
        if isinstance(self.sync, Run):
            # The thread has a copy of the context; the block sees this one.
            self._before = current_run.set(self.sync)
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
        await self._lanes.run(self._lane, self.sync.__exit__, kind, error, trace)

    async def _property(self, name: str) -> Any:
        return self._wrapped(await self._lanes.run(self._lane, getattr, self.sync, name))

    def _direct(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return self._wrapped(getattr(self.sync, name)(*_plain(args), **_plain_names(kwargs)))

    async def _call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        lane = None if name in _ASIDE else self._lane
        if lane is None and name == "append":
            lane = _lane_of_append(*args, **kwargs)
        method = getattr(self.sync, name)
        return self._wrapped(
            await self._lanes.run(lane, method, *_plain(args), **_plain_names(kwargs))
        )

    def _items(self, name: str, /, *args: Any, **kwargs: Any) -> AsyncItems:
        method = getattr(self.sync, name)
        stop = None
        if name in _FOLLOWING:
            stop = kwargs.setdefault("stop", threading.Event())
        lane = None if stop is not None else self._lane
        return AsyncItems(self._lanes, lane, partial(method, *args, **kwargs), stop)

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, Session):
            return AsyncObject(value, self._lanes)
        return AsyncObject(value, self._lanes, self._lane) if isinstance(value, _HANDLES) else value


class AsyncItems:
    """An iterator of the ledger, asynchronously."""

    def __init__(
        self,
        lanes: Lanes,
        lane: Hashable,
        make: Callable[[], Iterator[Any]],
        stop: threading.Event | None,
    ) -> None:
        self._lanes = lanes
        self._lane = self if lane is None else lane
        self._make = make
        self._stop = stop
        self._iterator: Iterator[Any] | None = None
        self._items: deque[Any] = deque()
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
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

    async def _next(self) -> list[Any]:
        if self._stop is None:
            return await self._lanes.run(self._lane, self._take, ITEMS_AT_ONCE)
        step = asyncio.ensure_future(self._lanes.run(self._lane, self._take, 1))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            self._stop.set()  # A follower waits for news: have it end, then wait for it.
            await asyncio.wait([step])
            raise

    async def aclose(self) -> None:
        """End it early."""
        self._ended = True
        self._items.clear()
        if self._stop is not None:
            self._stop.set()
        await self._lanes.run(self._lane, self._close)

    def _take(self, count: int) -> list[Any]:
        if self._iterator is None:
            self._iterator = iter(self._make())
        return list(islice(self._iterator, count))

    def _close(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


class AsyncLedger(AsyncObject):
    """An open ledger in a coroutine. Made by ``treering.aio.open``."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger, Lanes())

    @property
    def lanes(self) -> Lanes:
        """Return what carries out its calls."""
        return self._lanes

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Complete pending calls, interrupt open runs, close the database."""
        lanes = Lanes()
        try:
            await lanes.run(None, self._close)
        finally:
            lanes.close()

    def _close(self) -> None:
        self._lanes.close()
        self.sync.close()


class _LedgerOpening:
    """A ledger that is about to be opened: awaited, or entered."""

    def __init__(self, make: Callable[[], Ledger]) -> None:
        self._make = make
        self._opened: AsyncLedger | None = None

    def __await__(self) -> Generator[Any, None, AsyncLedger]:
        return self._open().__await__()

    async def _open(self) -> AsyncLedger:
        lanes = Lanes()
        try:
            return AsyncLedger(await lanes.run(None, self._make))
        finally:
            lanes.close()

    async def __aenter__(self) -> AsyncLedger:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def open(*args: Any, **kwargs: Any) -> _LedgerOpening:  # noqa: A001  (the same name as treering.open)
    """Open a ledger as ``treering.open`` does: ``await`` it, or use ``async with``."""
    return _LedgerOpening(partial(open_ledger, *args, **kwargs))


def sync_ledger(ledger: Ledger | AsyncLedger) -> tuple[Ledger, Lanes]:
    """Return the synchronous ledger behind a sync or async one, and the lanes of its calls."""
    if isinstance(ledger, AsyncLedger):
        synchronous: Ledger = ledger.sync
        return synchronous, ledger.lanes
    return ledger, Lanes()


@cache
def _sort_of(kind: Any, name: str) -> str:
    """Return the sort of an attribute: value, awaited, direct, iterator or call."""
    found = inspect.getattr_static(kind, name, None)
    if name in _DIRECT:
        return "direct"
    if found is None or isinstance(found, cached_property):
        return "value"
    if isinstance(found, property) or not callable(found):
        return "awaited" if name in _AWAITED else "value"
    returned = str(getattr(found, "__annotations__", {}).get("return", ""))
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
    places = {(getattr(one, "scope", None), getattr(one, "session_id", None)) for one in listed}
    return places.pop() if len(places) == 1 else None


def _plain(values: tuple[Any, ...]) -> list[Any]:
    return [value.sync if isinstance(value, AsyncObject) else value for value in values]


def _plain_names(values: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(values, _plain(tuple(values.values())), strict=True))
