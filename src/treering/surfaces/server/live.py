"""Live events: one follower of a scope, many clients.

    ledger.follow ─► Channel (one thread for each scope) ─► Subscription (a bounded queue) ─► client
                     encodes each event once                 one for each client

A client first catches up from its cursor by pages, then joins the channel; marks say which events
it has. A client whose queue is full is dropped: its stream ends, and it resumes by its cursor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from starlette.responses import Response

from treering.errors import Busy, InvalidInput, TreeringError
from treering.ledger.following import cursor_at, mark_of
from treering.model.kinds import stored_kinds
from treering.model.queries import Mark, pack, unpack
from treering.model.scopes import Scope, parse_scope
from treering.surfaces.server.problems import Limits, answer_problem, problem_of
from treering.surfaces.server.reading import Arguments
from treering.surfaces.shared.texts import scope_names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from starlette.types import Receive, Send
    from starlette.types import Scope as Connection

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event, Header

END: Final = "end"
"""In place of a cursor: only new events."""
PAGE: Final = 500
MEDIA_TYPE: Final = "text/event-stream; charset=utf-8"
SCOPES_POLL_S: Final = 1.0
"""How often a stream over all scopes looks for new ones."""
ROOM_S: Final = 0.5
"""How often a channel that waits for the loop checks whether to stop."""
SLOW_S: Final = 30.0
"""How long a client may take to accept what is sent to it."""
_READERS: Final = 8
"""Threads that read pages for clients which catch up."""
_log = logging.getLogger("treering.server")


class StreamArguments(Arguments, frozen=True, kw_only=True):
    """What to follow, and where to begin."""

    after: str | None = None
    """A cursor, or ``end`` for new events only; from the beginning if left out. ``Last-Event-ID``
    goes before it."""
    session_id: str | None = None
    kinds: tuple[str, ...] = ()
    payloads: bool = False


class StreamAllArguments(StreamArguments, frozen=True, kw_only=True):
    """The same for several scopes; all that the token covers if none is named."""

    scopes: tuple[str, ...] = ()


class LiveEvent(msgspec.Struct, frozen=True, gc=False):
    """One event on its way to clients."""

    mark: Mark
    """Where it is in the order of the scope's followers."""
    session_id: str
    kind: str
    id: bytes
    """The line with the cursor of its scope."""
    body: bytes
    """The lines of the message after its id."""


Form = Literal["headers", "events"]


class Subscription:
    """The queue of one client in one or more channels."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[tuple[Scope, LiveEvent]] = deque()
        self._news = asyncio.Event()
        self.is_over = False
        """Whether it has ended: the server stops, or the client is too slow."""

    def put(self, scope: Scope, items: Iterable[LiveEvent]) -> None:
        """Add events; end the subscription if they do not fit."""
        if self.is_over:
            return  # What comes after a gap must not be sent.
        self._items.extend((scope, item) for item in items)
        if len(self._items) > self._size:
            self._items.clear()
            self.is_over = True
        self._news.set()

    def end(self) -> None:
        """End it after what is in the queue."""
        self.is_over = True
        self._news.set()

    async def take(self, timeout_s: float) -> list[tuple[Scope, LiveEvent]]:
        """Return the events in the queue; none if none come in time, or it has ended."""
        if not self._items and not self.is_over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), timeout_s)
        self._news.clear()
        taken = list(self._items)
        self._items.clear()
        return taken


class Channel:
    """Follows one scope while somebody listens, in one thread."""

    def __init__(self, ledger: Ledger, scope: Scope, form: Form, after: str) -> None:
        self._ledger = ledger
        self._scope = scope
        self._form = form
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._room = threading.Semaphore(PAGE)
        """Bounds what waits for the loop, however much is recorded at once."""
        self.listeners: set[Subscription] = set()
        threading.Thread(
            target=self._run, name=f"treering-live {scope}", args=(after,),
            daemon=True,
        ).start()  # fmt: skip

    def close(self) -> None:
        """Stop following."""
        self._stop.set()

    def _run(self, after: str) -> None:
        follow = self._ledger.follow if self._form == "headers" else self._ledger.follow_events
        try:
            follower = follow(self._scope, after=after, stop=self._stop)
            for event in follower:
                live = live_event(event, follower.cursor)
                while not self._room.acquire(timeout=ROOM_S):
                    if self._stop.is_set():
                        return
                self._loop.call_soon_threadsafe(self._deliver, live)
        except (TreeringError, RuntimeError) as error:
            # Clients resume by their cursors once the ledger, or the loop, is back.
            if not self._stop.is_set():
                _log.warning("following %s ended: %s", self._form, type(error).__name__)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    def _deliver(self, live: LiveEvent) -> None:
        self._room.release()
        for subscription in self.listeners:
            subscription.put(self._scope, (live,))

    def _end(self) -> None:
        for subscription in self.listeners:
            subscription.end()


class Hub:
    """All channels and clients of a server."""

    def __init__(self, ledger: Ledger, limits: Limits) -> None:
        self._ledger = ledger
        self.limits = limits
        self._channels: dict[tuple[Scope, Form], Channel] = {}
        self._subscriptions: set[Subscription] = set()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="treering-catch-up")
        self._listed: asyncio.Future[list[Scope]] | None = None
        self._listed_s = 0.0
        self._is_over = False

    def subscribe(self) -> Subscription:
        """Return a new client's queue. Raise Busy if there are too many clients."""
        if self._is_over or len(self._subscriptions) >= self.limits.streams_max:
            raise Busy("the server has too many live clients", hint="connect again later")
        subscription = Subscription(self.limits.queue_events_max)
        self._subscriptions.add(subscription)
        return subscription

    async def listen(self, subscription: Subscription, scope: Scope, form: Form) -> None:
        """Add a channel to a subscription: what is recorded from now on comes."""
        key = (scope, form)
        if key not in self._channels:
            after = await self.read(self._ledger.end_cursor, scope)
            if key not in self._channels:  # Another client may have made it meanwhile.
                self._channels[key] = Channel(self._ledger, scope, form, after)
        self._channels[key].listeners.add(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Remove a client, and channels that nobody listens to any more."""
        self._subscriptions.discard(subscription)
        for key, channel in list(self._channels.items()):
            channel.listeners.discard(subscription)
            if not channel.listeners:
                channel.close()
                del self._channels[key]

    def end(self) -> None:
        """End all streams; clients resume from their cursors after the next start."""
        self._is_over = True
        for subscription in self._subscriptions:
            subscription.end()
        for channel in self._channels.values():
            channel.close()
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def read(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a read, made in a thread. Raise Busy if the server stops."""
        if self._is_over:
            raise Busy("the server is stopping", hint="connect again later")
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *arguments)

    async def pages(self, scope: Scope, form: Form, after: Mark) -> AsyncIterator[list[LiveEvent]]:
        """Yield the events after a cursor, a page at a time."""
        while True:
            page: list[LiveEvent] = await self.read(self._page, scope, form, after)
            if page:
                yield page
                after = page[-1].mark
            if len(page) < PAGE:
                return

    def _page(self, scope: Scope, form: Form, after: Mark) -> list[LiveEvent]:
        follow = self._ledger.follow if form == "headers" else self._ledger.follow_events
        follower = follow(scope, after=cursor_at(scope, after), idle_s=0)
        return [live_event(event, follower.cursor) for event in islice(follower, PAGE)]

    def end_of(self, scope: Scope) -> Mark:
        """Return the mark after all events of a scope."""
        return mark_of(self._ledger.end_cursor(scope), scope)

    async def scopes(self, covers: Callable[[str], bool], *, age_s: float = 0.0) -> list[Scope]:
        """Return the scopes that a token covers, as they were ``age_s`` ago at most.

        Raise InvalidInput if they are too many.
        """
        now_s = asyncio.get_running_loop().time()
        if self._listed is None or now_s - self._listed_s >= age_s:
            # One list for all clients: making it reads every session.
            self._listed_s = now_s
            self._listed = asyncio.ensure_future(self.read(self._scope_names))
        names = [scope for scope in await asyncio.shield(self._listed) if covers(scope)]
        if len(names) > self.limits.scopes_max:
            raise InvalidInput(
                f"a stream follows at most {self.limits.scopes_max} scopes",
                hint="name some of them as scopes",
            )
        return names

    def _scope_names(self) -> list[Scope]:
        return [Scope(name) for name in scope_names(self._ledger)]


class Stream:
    """One live client: an ASGI response of server-sent events."""

    status_code = 200

    def __init__(
        self,
        hub: Hub,
        arguments: StreamArguments,
        *,
        last_event_id: str | None,
        scope: Scope | None,
        covers: Callable[[str], bool],
        check: Callable[[], object],
    ) -> None:
        """Begin where the arguments say; ``scope`` is None if several are followed.

        ``check`` raises once the client's token is no longer good.
        """
        self._hub = hub
        self._form: Form = "events" if arguments.payloads else "headers"
        self._session_id = arguments.session_id
        self._kinds = frozenset(stored_kinds(arguments.kinds))
        self._is_single = scope is not None
        self._named = [scope] if scope is not None else _named_scopes(arguments)
        self._covers = covers
        self._check = check
        after = last_event_id or arguments.after
        self._from_end = after == END
        self._marks: dict[Scope, Mark] = {}
        """How far the client has read in each scope."""
        if after is not None and not self._from_end:
            self._marks = _marks(after, scope)

    async def prepare(self) -> None:
        """Find where to begin in each scope. Raise InvalidInput, so that no stream begins."""
        named = self._named or await self._hub.scopes(self._covers)
        # A cursor may name scopes that the token does not cover: they are left out.
        given, self._marks = self._marks, {}
        for scope in named:
            end = await self._hub.read(self._hub.end_of, scope) if self._from_end else ()
            self._marks[scope] = given.get(scope, end)

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Send events until the client leaves, is too slow, or the server ends."""
        if connection["method"] == "HEAD":
            await Response(media_type=MEDIA_TYPE)(connection, receive, send)
            return
        try:
            subscription = self._hub.subscribe()
        except Busy as error:
            await answer_problem(problem_of(error))(connection, receive, send)
            return
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": [
                        (b"content-type", MEDIA_TYPE.encode()),
                        (b"cache-control", b"no-store"),
                        (b"x-accel-buffering", b"no"),
                    ],
                }
            )
            sending = asyncio.create_task(self._send_all(subscription, send))
            leaving = asyncio.create_task(_left(receive))
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if not sending.done():
                sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, TimeoutError, TreeringError, OSError):
                await sending
            with contextlib.suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._hub.leave(subscription)

    async def _send_all(self, subscription: Subscription, send: Send) -> None:
        # Sent at once, so that clients and proxies know that the stream works.
        await _send(send, b"retry: 1000\n\n")
        for scope in list(self._marks):
            await self._catch_up(scope, send)
        for scope in list(self._marks):
            await self._join(scope, subscription, send)
        await _send(send, b": caught up\n" + self._id() + b"\n")
        heartbeat_s = self._hub.limits.heartbeat_s
        clock = asyncio.get_running_loop().time
        looked = sent = checked = clock()
        while not subscription.is_over:
            taken = await subscription.take(heartbeat_s if self._named else SCOPES_POLL_S)
            if await self._forward(taken, send):
                sent = clock()
            if not self._named and clock() - looked >= SCOPES_POLL_S:
                looked = clock()
                await self._find_new_scopes(subscription, send)
            if clock() - checked >= heartbeat_s:
                checked = clock()
                self._check()
            if clock() - sent >= heartbeat_s:
                # With the cursor: a client whose filter finds little resumes near the end, too.
                sent = clock()
                await _send(send, b": \n" + self._id() + b"\n")

    async def _find_new_scopes(self, subscription: Subscription, send: Send) -> None:
        for scope in await self._hub.scopes(self._covers, age_s=SCOPES_POLL_S):
            if scope not in self._marks:
                self._marks[scope] = ()
                await self._join(scope, subscription, send)

    async def _catch_up(self, scope: Scope, send: Send) -> None:
        async for page in self._hub.pages(scope, self._form, self._marks[scope]):
            await self._forward([(scope, live) for live in page], send)

    async def _join(self, scope: Scope, subscription: Subscription, send: Send) -> None:
        """Subscribe to a channel, then send what was recorded before."""
        await self._hub.listen(subscription, scope, self._form)
        await self._catch_up(scope, send)

    async def _forward(self, events: list[tuple[Scope, LiveEvent]], send: Send) -> bool:
        """Send the events that pass the filter, and note how far the client has read."""
        parts: list[bytes] = []
        for scope, live in events:
            if live.mark <= self._marks[scope]:
                continue  # It came while the client caught up.
            self._marks[scope] = live.mark
            if self._wants(live):
                parts += (live.id if self._is_single else self._id(), live.body)
        if parts:
            await _send(send, b"".join(parts))
        return bool(parts)

    def _wants(self, live: LiveEvent) -> bool:
        return (self._session_id is None or live.session_id == self._session_id) and (
            not self._kinds or live.kind in self._kinds
        )

    def _id(self) -> bytes:
        """Return the line with the cursor, which a client sends back as ``Last-Event-ID``."""
        if self._is_single:
            [(scope, mark)] = self._marks.items()
            return f"id: {cursor_at(scope, mark)}\n".encode()
        return f"id: {pack([*self._marks.items()])}\n".encode()


def live_event(event: Header | Event, cursor: str) -> LiveEvent:
    """Return an event as clients get it; ``cursor`` continues after it."""
    body = msgspec.json.encode(event)
    return LiveEvent(
        mark_of(cursor, Scope(event.scope)),
        event.session_id,
        event.kind,
        f"id: {cursor}\n".encode(),
        b"event: " + event.kind.encode() + b"\ndata: " + body + b"\n\n",
    )


def _named_scopes(arguments: StreamArguments) -> list[Scope]:
    named = arguments.scopes if isinstance(arguments, StreamAllArguments) else ()
    return [parse_scope(scope) for scope in dict.fromkeys(named)]


def _marks(cursor: str, scope: Scope | None) -> dict[Scope, Mark]:
    """Return how far a client has read in each scope. Raise InvalidCursor."""
    if scope is not None:
        return {scope: mark_of(cursor, scope)}
    return {Scope(name): mark for name, mark in unpack(cursor, list[tuple[str, Mark]])}


async def _send(send: Send, body: bytes) -> None:
    """Send a part of the stream. Raise TimeoutError if the client does not accept it."""
    async with asyncio.timeout(SLOW_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _left(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
