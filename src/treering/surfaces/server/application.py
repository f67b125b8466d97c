"""The HTTP application over one ledger.

    AccessCheck ─► Starlette ─┬─► /v1   Api: route ─► right and scope ─► handler in a thread
    (access.py)               └─► more  mounted by others: wrap it in access.Protected

``more`` are Starlette routes that others mount beside ``/v1``, such as ``/mcp``. They are behind
the same check of Host, Origin and token. ``lifespans`` live as long as the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount

from treering.errors import Busy, InvalidInput, ReadOnly, TooLarge, TreeringError
from treering.model.scopes import Scope as LedgerScope
from treering.surfaces.server.access import (
    AccessCheck,
    ServerAddress,
    check_again,
    check_right,
    name_route,
)
from treering.surfaces.server.live import Hub, Stream
from treering.surfaces.server.problems import (
    Limits,
    Problem,
    answer_problem,
    json_response,
    problem_of,
    unexpected,
)
from treering.surfaces.server.routes import (
    SCOPE,
    Request,
    Route,
    Router,
    describe_routes,
    read_body,
    read_query,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp, Receive, Scope, Send

    from treering.ledger.ledger import Ledger
    from treering.surfaces.server.grants import Grant, TokenSet

BASE: Final = "/v1"
PROTOBUF: Final = "application/x-protobuf"
LARGE_BYTES: Final = 256 * 1024
"""A body of this size takes about a millisecond to read."""
LOGIN_BYTES_MAX: Final = 4_096
_MONTH_S: Final = 30 * 86_400
_log = logging.getLogger("treering.server")


class LoginArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token of a browser."""

    token: str


class Application:
    """One ledger as an ASGI application, with the streams that end with it."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        tokens: TokenSet,
        address: ServerAddress,
        limits: Limits | None = None,
        is_read_only: bool = False,
        more: Sequence[BaseRoute] = (),
        lifespans: Sequence[Callable[[], AbstractAsyncContextManager[None]]] = (),
    ) -> None:
        from treering.surfaces.server.table import ROUTES  # noqa: PLC0415  (it names everything)

        self.limits = limits or Limits()
        self.pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="treering-http")
        self.hub = Hub(ledger, self.limits)
        self._lifespans = lifespans
        self.api = Api(self, ledger, Router(ROUTES), tokens, address, is_read_only=is_read_only)
        inner = Starlette(
            routes=[Mount(BASE, app=self.api), *more],
            lifespan=lambda _: self._living(),
            exception_handlers={404: lambda *_: _not_allowed([])},
        )
        self.asgi: ASGIApp = AccessCheck(inner, tokens=tokens, address=address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self.asgi(scope, receive, send)

    def end_streams(self) -> None:
        """End all live streams, so that the server can end."""
        self.hub.end()

    @contextlib.asynccontextmanager
    async def _living(self) -> AsyncIterator[None]:
        try:
            async with contextlib.AsyncExitStack() as stack:
                for lifespan in self._lifespans:
                    await stack.enter_async_context(lifespan())
                yield
        finally:
            self.end_streams()
            # Calls that a client no longer waits for are still completed.
            await asyncio.get_running_loop().run_in_executor(None, self.pool.shutdown)


class Api:
    """Answers the routes of the table."""

    def __init__(
        self,
        application: Application,
        ledger: Ledger,
        router: Router,
        tokens: TokenSet,
        address: ServerAddress,
        *,
        is_read_only: bool,
    ) -> None:
        self._limits = application.limits
        self._pool = application.pool
        self._hub = application.hub
        self._ledger = ledger
        self._router = router
        self._tokens = tokens
        self._address = address
        self._is_read_only = is_read_only
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; every error is an answer, too."""
        label = "-"
        response: Response | Stream
        try:
            route, names = self._find(scope)
            label = f"{BASE}{route.path}"
            name_route(scope, label)
            response = await self._answer(route, names, scope, receive)
        except TreeringError as error:
            response = answer_problem(problem_of(error))
        except _NotAllowed as error:
            response = _not_allowed(error.methods)
        except Exception as error:  # noqa: BLE001  (whatever it is, the client gets an answer)
            _log.error("%s %s failed: %s", scope["method"], label, type(error).__name__)
            response = answer_problem(unexpected(error))
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> tuple[Route, dict[str, str]]:
        raw = scope.get("raw_path") or scope["path"].encode()
        # The raw path, since a name in it may hold an encoded slash.
        path = raw.decode("latin-1").partition("?")[0].removeprefix(scope.get("root_path", ""))
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        match = self._router.find(method, path)
        if isinstance(match, list):
            raise _NotAllowed(match)
        return match

    async def _answer(
        self, route: Route, names: dict[str, str], scope: Scope, receive: Receive
    ) -> Response | Stream:
        """Return the answer to a request."""
        if route.serving == "login":
            # The caller is unknown until the login: read little.
            return self._login(await self._arguments(route, scope, receive, LOGIN_BYTES_MAX))
        if route.serving == "openapi":
            return json_response(describe_routes(self._router.routes, self._address))
        if route.right is None:
            return json_response(route.answer(_public_request(self._ledger, names)))
        # The one place that every route passes: first the right, then the scopes it names.
        grant = check_right(scope, route.right)
        if self._is_read_only and route.right != "read":
            raise ReadOnly("the server is read-only", hint="start it without --read-only")
        arguments = await self._arguments(route, scope, receive, self._limits.body_bytes_max)
        grant.check(route.right, route.scopes_of(names, arguments))
        if route.serving == "stream":
            return await self._stream(scope, names, arguments, grant)
        request = Request(ledger=self._ledger, grant=grant, names=names, arguments=arguments)
        if route.serving == "otlp":
            await self._carry_out(lambda: route.answer(request))
            return _taken(Headers(scope=scope))
        body = await self._carry_out(lambda: msgspec.json.encode(route.answer(request)))
        return Response(body, media_type="application/json")

    async def _arguments(self, route: Route, scope: Scope, receive: Receive, bytes_max: int) -> Any:
        if route.method == "GET":
            return read_query(scope["query_string"].decode("latin-1"), route.arguments)
        headers = Headers(scope=scope)
        sort = _content_type(headers)
        if sort != "application/json" and not (route.serving == "otlp" and sort == PROTOBUF):
            raise InvalidInput(
                "the body is not JSON", hint="send it with Content-Type: application/json"
            )
        try:
            async with asyncio.timeout(self._limits.body_s):
                body = await _body(headers, receive, bytes_max)
        except TimeoutError as error:
            raise Busy("the request took too long to arrive", hint="send it again") from error
        if route.serving == "otlp":
            limit = self._limits.body_bytes_max
            return await self._carry_out(partial(_read_spans, body, headers, limit))
        if len(body) < LARGE_BYTES:
            return read_body(body, route.arguments)
        # In a thread: meanwhile others are answered, and live events sent.
        return await self._carry_out(partial(read_body, body, route.arguments))

    async def _carry_out(self, work: Callable[[], Any]) -> Any:
        """Return the result of a call of the ledger, made in a thread. Raise Busy."""
        if self._busy >= self._limits.threads + self._limits.waiting_max:
            raise Busy("the server is overloaded", hint="ask again later")
        self._busy += 1
        try:
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
            running.add_done_callback(self._done)
        except BaseException:
            self._busy -= 1
            raise
        try:
            # A call that takes longer is not interrupted: it completes what it writes.
            return await asyncio.wait_for(asyncio.shield(running), self._limits.answer_s)
        except TimeoutError as error:
            raise Busy(
                f"no answer within {self._limits.answer_s:g} seconds",
                hint="ask again; events with your own ids are not recorded twice",
            ) from error

    def _done(self, running: asyncio.Future[Any]) -> None:
        self._busy -= 1
        if not running.cancelled():
            running.exception()  # Otherwise asyncio reports errors that nobody waits for.

    async def _stream(
        self, scope: Scope, names: dict[str, str], arguments: Any, grant: Grant
    ) -> Stream:
        stream = Stream(
            self._hub,
            arguments,
            last_event_id=Headers(scope=scope).get("last-event-id"),
            scope=LedgerScope(names[SCOPE]) if SCOPE in names else None,
            covers=grant.covers,
            check=partial(check_again, scope),
        )
        await stream.prepare()
        return stream

    def _login(self, arguments: LoginArguments) -> Response:
        """Exchange a token for a cookie that scripts cannot read and other sites cannot send."""
        grant = self._tokens.grant_of(arguments.token)
        response = json_response({"name": grant.name, "rights": grant.rights})
        response.set_cookie(
            self._address.cookie, arguments.token, max_age=_MONTH_S, httponly=True,
            samesite="strict", secure=self._address.is_secure,
        )  # fmt: skip
        return response


def _content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _read_spans(body: bytes, headers: Headers, bytes_max: int) -> Any:
    """Return the spans of a request. Raise InvalidInput, or TooLarge once it is unpacked."""
    from treering.formats import otel  # noqa: PLC0415  (few servers are asked)
    from treering.surfaces.server.writing import SpanArguments  # noqa: PLC0415

    if headers.get("content-encoding", "").strip().lower() == "gzip":
        unpacking = zlib.decompressobj(wbits=31)
        try:
            body = unpacking.decompress(body, bytes_max)
        except zlib.error as error:
            raise InvalidInput("the body is not gzip", hint="send it again") from error
        if unpacking.unconsumed_tail:
            raise TooLarge(f"the body is larger than {bytes_max} bytes", hint="send it in parts")
    is_json = _content_type(headers) == "application/json"
    return SpanArguments(spans=(otel.spans_in_json if is_json else otel.spans_in_protobuf)(body))


def _taken(headers: Headers) -> Response:
    """Return the answer to recorded spans: an empty message, JSON or protobuf as the request."""
    if _content_type(headers) == PROTOBUF:
        return Response(b"", media_type=PROTOBUF)
    return Response(b"{}", media_type="application/json")


class _NotAllowed(Exception):
    """The path does not accept this method; it accepts ``methods``, or none."""

    def __init__(self, methods: list[str]) -> None:
        super().__init__(methods)
        self.methods = methods


async def _body(headers: Headers, receive: Receive, bytes_max: int) -> bytes:
    """Return the body of a request. Raise TooLarge, if its length says so before it is read."""
    length = headers.get("content-length", "0")
    parts: list[bytes] = []
    size = int(length) if length.isdigit() else 0
    more = size <= bytes_max
    if more:
        size = 0
    while more and size <= bytes_max:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidInput("the request ended early", hint="send it again")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    if size > bytes_max:
        raise TooLarge(f"the body is larger than {bytes_max} bytes", hint="send it in parts")
    return b"".join(parts)


def _not_allowed(methods: list[str]) -> Response:
    if methods:
        problem = Problem(
            code="method_not_allowed",
            message="the path does not take this method",
            hint=f"use {' or '.join(methods)}",
        )
        return answer_problem(problem, {"Allow": ", ".join(methods)})
    problem = Problem(
        code="not_found", message="no such path", hint="see /v1/openapi.json for the paths"
    )
    return answer_problem(problem)


def _public_request(ledger: Ledger, names: dict[str, str]) -> Request:
    from treering.surfaces.server.grants import Grant  # noqa: PLC0415

    return Request(
        ledger=ledger, grant=Grant(id="-", name="public", rights=()), names=names, arguments=None
    )
