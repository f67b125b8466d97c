"""MCP over HTTP: ``/mcp`` of ``treering serve``, for the tokens and scopes of that server.

    AccessCheck ─► McpEndpoint ─────────────► session manager ─► handlers of server.py
    (the server)   right, scope, toolbox      (the SDK's)        toolbox of the request

One address serves one scope: ``/mcp?scope=acme/app``; a token for a single scope needs no name.
Requests share no state, so a client survives a restart of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.routing import Route

from treering.errors import InvalidScope, TreeringError, Unsupported
from treering.model.scopes import Scope, parse_scope
from treering.surfaces.mcp.toolbox import LateLedger, Toolbox
from treering.surfaces.server.access import check_right, name_route
from treering.surfaces.server.problems import Problem, answer_problem, problem_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import Receive, Send
    from starlette.types import Scope as Connection

    from treering.ledger.ledger import Ledger
    from treering.surfaces.server.grants import Grant

PATH: Final = "/mcp"
_TOOLBOX: Final = "treering.toolbox"


class McpEndpoint:
    """Answers MCP requests over HTTP; the protocol is loaded at the first of them."""

    def __init__(self, ledger: Ledger, *, is_read_only: bool = False) -> None:
        self._late = ServedLedger(read=lambda: ledger, write=lambda: ledger)
        self._is_read_only = is_read_only
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._running: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @property
    def route(self) -> Route:
        """Return the route to mount in the server."""
        return Route(PATH, endpoint=self)

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer a request."""
        name_route(scope, PATH)
        try:
            grant = check_right(scope, "read")
            if scope["method"] != "POST":
                await _refuse_method(scope, receive, send)
                return
            scope[_TOOLBOX] = self._toolbox(scope, grant)
            manager = await self._started()
        except TreeringError as error:
            await answer_problem(problem_of(error))(scope, receive, send)
        else:
            await manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Live as long as the server; at its end, open requests are answered or cancelled."""
        try:
            yield
        finally:
            self._ending.set()
            if self._running is not None:
                await self._running

    def _toolbox(self, scope: Connection, grant: Grant) -> Toolbox:
        name = _scope_of(scope, grant)
        grant.check("read", [name])
        writes = "write" in grant.rights and not self._is_read_only
        return Toolbox(self._late, name, writes=writes)

    async def _started(self) -> StreamableHTTPSessionManager:
        """Return the session manager; the first call starts it. Raise Unsupported without mcp."""
        async with self._starting:
            if self._manager is None:
                if find_spec("mcp") is None:
                    raise Unsupported(
                        "MCP needs mcp, which is not installed",
                        hint="pip install 'treering[mcp]' where the server runs",
                    )
                # In a thread: it takes half a second, during which others want answers.
                await asyncio.to_thread(import_module, "treering.surfaces.mcp.server")
                ready = asyncio.Event()
                self._running = asyncio.create_task(self._run(ready))
                await ready.wait()
            assert self._manager is not None  # noqa: S101  (what was waited for)
            return self._manager

    async def _run(self, ready: asyncio.Event) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415  (loaded when it is used)

        from treering.surfaces.mcp.server import make_server  # noqa: PLC0415

        manager = StreamableHTTPSessionManager(
            make_server(_toolbox_of), json_response=True, stateless=True
        )
        async with manager.run():
            self._manager = manager
            ready.set()
            await self._ending.wait()


class ServedLedger(LateLedger):
    """The ledger of a server; the server opens and closes it."""

    def drop(self) -> None:
        """Leave it open."""


def _scope_of(scope: Connection, grant: Grant) -> Scope:
    """Return the scope of a request. Raise InvalidScope if it is not clear."""
    named = parse_qs(scope["query_string"].decode("latin-1")).get("scope", [])
    if len(named) == 1:
        return parse_scope(named[0])
    if not named and len(grant.scopes) == 1:
        return parse_scope(grant.scopes[0])
    raise InvalidScope("name one scope", hint=f"as in {PATH}?scope=acme/app")


def _toolbox_of(context: Any) -> Toolbox:
    toolbox: Toolbox = context.request.scope[_TOOLBOX]
    return toolbox


async def _refuse_method(scope: Connection, receive: Receive, send: Send) -> None:
    problem = Problem(
        code="method_not_allowed",
        message="the server sends no messages of its own",
        hint="send requests with POST",
    )
    await answer_problem(problem, {"Allow": "POST"})(scope, receive, send)
