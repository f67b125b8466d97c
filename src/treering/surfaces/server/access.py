"""Access control: every request passes here, whichever application answers it.

    request ─► Host ─► Origin, Sec-Fetch-Site ─► token (Bearer or cookie) ─► application
               421     403                       401 if a Bearer is wrong    grant_of(scope)

A browser page of another site can neither reach the server by a name that it controls (Host), nor
read or send anything with the user's cookie (Origin, Sec-Fetch-Site, SameSite). An application
asks ``grant_of`` for the caller's grant: None if no token came, or an outdated cookie, which a
browser keeps sending: it must be able to log in again. A link on a page of another site may lead to
a page of ours, without any token. An application names the route of a request with ``name_route``
for the log: a path may hold names of sessions.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders

from treering.errors import InvalidInput, NotAuthenticated, NotPermitted, TreeringError
from treering.surfaces.server.problems import Problem, answer_problem, problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from treering.surfaces.server.grants import Grant, Right, TokenSet

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
FETCH_SITES: Final = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of our own pages, and of addresses that a user typed."""
_BEARER: Final = "bearer "
_GRANT: Final = "treering.grant"
_CHECK: Final = "treering.check"
_REFUSAL: Final = "treering.refusal"
_ROUTE: Final = "treering.route"
_SAFE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_log = logging.getLogger("treering.server")


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, and under which other address people reach it."""

    host: str
    port: int
    public_url: str | None = None

    @property
    def url(self) -> str:
        """Return the address to open: the public one, or where it listens."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        return f"http://{_named(self.host)}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Return the names that a Host header may give, without a port."""
        public = () if self.public_url is None else (urlsplit(self.public_url).hostname or "",)
        return frozenset({*LOOPBACK_NAMES, _named(self.host), *map(_named, public)})

    @property
    def origins(self) -> frozenset[str]:
        """Return the origins of our own pages."""
        own = {f"http://{name}:{self.port}" for name in (*LOOPBACK_NAMES, _named(self.host))}
        if self.public_url is not None:
            parts = urlsplit(self.public_url)
            own.add(f"{parts.scheme}://{parts.netloc}")
        return frozenset(own)

    @property
    def cookie(self) -> str:
        """Return the name of the cookie; browsers share cookies between ports."""
        return f"treering-{self.port}"

    @property
    def is_secure(self) -> bool:
        """Return whether browsers reach it by https."""
        return self.url.startswith("https:")


def check_public_url(url: str) -> str:
    """Return the address that people reach the server by. Raise InvalidInput."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        raise InvalidInput(
            f"{url} is not the address of a server", hint="write https://treering.example.org"
        )
    return url


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def grant_of(scope: Scope) -> Grant | None:
    """Return what the caller of a request may do; None if the request carries no token."""
    grant: Grant | None = scope.get(_GRANT)
    return grant


def refusal_of(scope: Scope) -> str | None:
    """Return why the cookie of a request is not accepted; None if none came."""
    refusal: str | None = scope.get(_REFUSAL)
    return refusal


def name_route(scope: Scope, route: str) -> None:
    """Name the route of a request for the log, which never shows what was asked for."""
    scope[_ROUTE] = route


class AccessCheck:
    """An ASGI application around another: refuses, finds the grant, and logs."""

    def __init__(self, app: ASGIApp, *, tokens: TokenSet, address: ServerAddress) -> None:
        self._app = app
        self._tokens = tokens
        self._address = address
        self._hosts = address.hosts
        self._origins = address.origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its grant, or answer with a problem."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        guarded = _guarded(scope, send)
        try:
            headers = Headers(scope=scope)
            token = self._token(headers, scope["method"])
            if token is not None:
                scope[_CHECK] = partial(self._tokens.grant_of, token)
                try:
                    scope[_GRANT] = self._tokens.grant_of(token)
                except NotAuthenticated as error:
                    if "authorization" in headers:
                        raise
                    scope[_REFUSAL] = str(error)
        except _WrongHost:
            problem = Problem(
                code="wrong_host",
                message="the server does not have this name",
                hint="start it with --public-url if it has another",
            )
            await answer_problem(problem)(scope, receive, guarded)
        except TreeringError as error:
            await answer_problem(problem_of(error))(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _token(self, headers: Headers, method: str) -> str | None:
        """Return the caller's token. Raise if the request may not pass."""
        if _host_name(headers.get("host", "")) not in self._hosts:
            raise _WrongHost
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site")
        if site not in FETCH_SITES and origin is None and method == "GET" and _is_link(headers):
            return None
        if (origin is not None and origin not in self._origins) or (
            site is not None and site not in FETCH_SITES
        ):
            raise NotPermitted(
                "the request comes from a page of another site",
                hint="call the server from its own pages, or from a program",
            )
        authorization = headers.get("authorization")
        if authorization is not None:
            if not authorization.lower().startswith(_BEARER):
                raise NotAuthenticated(
                    "the token is not a bearer token", hint="send Authorization: Bearer <token>"
                )
            return authorization[len(_BEARER) :].strip()
        return self._cookie(headers.get("cookie"))

    def _cookie(self, header: str | None) -> str | None:
        if header is None:
            return None
        try:
            morsel = SimpleCookie(header).get(self._address.cookie)
        except CookieError:
            return None
        return None if morsel is None else morsel.value


class Protected:
    """An ASGI application around another that needs a right."""

    def __init__(self, app: ASGIApp, right: Right) -> None:
        self._app = app
        self._right = right

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if its token has the right; the application asks ``grant_of``."""
        if scope["type"] == "http":
            try:
                check_right(scope, self._right)
            except TreeringError as error:
                await answer_problem(problem_of(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_right(scope: Scope, right: Right) -> Grant:
    """Return the caller's grant. Raise unless a token came, and has ``right``."""
    grant = grant_of(scope)
    if grant is None:
        raise NotAuthenticated("a token is required", hint="send Authorization: Bearer <token>")
    grant.check(right, ())
    return grant


def check_again(scope: Scope) -> None:
    """Raise NotAuthenticated if the token of a long request has expired or was removed."""
    scope[_CHECK]()


class _WrongHost(Exception):
    """The Host header gives a name that is not ours."""


def _guarded(scope: Scope, send: Send) -> Send:
    """Return ``send`` that adds headers which protect browsers, and logs when an answer begins."""
    started = time.perf_counter()

    async def safe_send(message: Message) -> None:
        if message["type"] == "http.response.start":
            took_ms = (time.perf_counter() - started) * 1e3
            grant = grant_of(scope)
            _log.info(
                "%s %s %d %.1f ms %s",
                scope["method"],
                scope.get(_ROUTE, "-"),
                message["status"],
                took_ms,
                "-" if grant is None else grant.id,
            )
            headers = MutableHeaders(scope=message)
            for name, value in _SAFE_HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return safe_send


def _is_link(headers: Headers) -> bool:
    """Return whether a browser follows a link to open a page."""
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )


def _host_name(header: str) -> str:
    """Return the name in a Host header, in lower case and without its port."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdigit() else header).lower()


def _named(host: str) -> str:
    """Return a host as a URL writes it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host.lower()
