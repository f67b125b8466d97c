"""The viewer's pages and files over HTTP, behind the access control of the server.

request ─► /static/…  a file of the package: the same for everybody
         └► a page     grant? no ─► the page to log in
                        yes ─► scope of the address ─► screen, in a thread ─► frame
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import time
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount

from treering.errors import NotFound, TreeringError
from treering.model.queries import PAGE_ITEMS_MAX
from treering.surfaces.server.access import grant_of, name_route, refusal_of
from treering.surfaces.server.problems import STATUS_DEFAULT, STATUSES, problem_of, unexpected
from treering.surfaces.server.routes import Request, Route, Router, read_query
from treering.surfaces.viewer import (
    compare,
    files,
    home,
    memory,
    search,
    session,
    session_details,
    tools,
    trust,
    usage,
)
from treering.surfaces.viewer.catalogue import Catalogue
from treering.surfaces.viewer.frame import bare, framed, login_page, problem_page, theme_of
from treering.surfaces.viewer.parts import Markup
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from treering.ledger.ledger import Ledger

    Screen = Callable[[PageRequest], PageBody | Markup | Response]

STATIC: Final = "/static/"
HOME: Final = "/sessions"
DAY_MS: Final = 86_400_000
LIVE_S: Final = 2.0
"""How old the number of live sessions in the frame may be."""
_SMALL_BYTES: Final = 1_024
"""Less is not worth compressing."""
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_log = logging.getLogger("treering.server")


class StaticFile(NamedTuple):
    """A file of the package, as it is sent."""

    content: bytes
    compressed: bytes
    media_type: str
    etag: str


class ViewerSite:
    """The pages over one ledger, as an ASGI application."""

    def __init__(
        self, ledger: Ledger, clock: Callable[[], int], *, is_read_only: bool = False
    ) -> None:

        self._ledger = ledger
        self._clock = clock
        self._is_read_only = is_read_only
        self._catalogue = Catalogue(ledger)
        self._router = Router(SCREENS)
        self._files = _static_files()
        self._live: dict[str, tuple[float, int]] = {}

    @property
    def route(self) -> BaseRoute:
        """Return its route: it answers every path that no other route does."""
        return Mount("", app=self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with a file or a page."""
        headers = Headers(scope=scope)
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0]
        response: Response
        if scope["method"] not in {"GET", "HEAD"}:
            response = Response(status_code=405, headers={"Allow": "GET, HEAD"})
        elif path.startswith(STATIC):
            response = self._file(path.removeprefix(STATIC), headers)
        elif path == "/":
            response = RedirectResponse(HOME)
        else:
            page = await run_in_threadpool(self._page, path, scope, headers)
            response = (
                _small(page, headers) if isinstance(page, Response) else _sent(*page, headers)
            )
        await response(scope, receive, send)

    def _file(self, name: str, headers: Headers) -> Response:
        file = self._files.get(name)
        if file is None:
            return Response("no such file", 404)
        given = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if file.etag in headers.get("if-none-match", ""):
            return Response(status_code=304, headers=given)
        content = file.content
        if _takes_gzip(headers):
            content, given["Content-Encoding"] = file.compressed, "gzip"
        return Response(content, media_type=file.media_type, headers=given)

    def _page(self, path: str, scope: Scope, headers: Headers) -> Response | tuple[Markup, int]:
        """Return the HTML of a page and its status, or what a screen answers by itself."""
        theme = theme_of(_cookies(headers))
        grant = grant_of(scope)
        if grant is None:
            page = login_page(refusal_of(scope))
            return bare(page, theme=theme), page.status
        query = scope["query_string"].decode("latin-1")
        asked = PageRequest(
            ledger=self._ledger,
            grant=grant,
            catalogue=self._catalogue,
            names={},
            arguments=ViewArguments(),
            path=path,
            query=dict(parse_qsl(query)),
            now_ms=self._clock(),
            is_read_only=self._is_read_only,
            theme=theme,
        )
        match = self._router.find("GET", path)
        if not isinstance(match, list):
            name_route(scope, match[0].path)
        made, request = self._screen(asked, query)
        status = made.status if isinstance(made, PageBody) else 200
        if isinstance(made, Response):
            return made
        if isinstance(made, Markup):
            return made, status
        return framed(made, request, live=self._count_live(request)), status

    def _screen(
        self, asked: PageRequest, query: str
    ) -> tuple[PageBody | Markup | Response, PageRequest]:
        """Return what a path shows, or an error page; and the request."""
        try:
            match = self._router.find("GET", asked.path)
            if isinstance(match, list):
                raise NotFound("there is no such page", hint="choose one above")  # noqa: TRY301
            route, names = match
            arguments = read_query(_without_blanks(query), route.arguments)
            # Every page passes here: the token must cover the scope of its address.
            asked.grant.check("read", route.scopes_of({}, arguments))
            request = replace(asked, names=names, arguments=arguments)
            request.period  # noqa: B018  (a bad one is refused here)
            return route.answer(request), request
        except TreeringError as error:
            status = STATUSES.get(error.code, STATUS_DEFAULT)
            return problem_page(problem_of(error), status), asked
        except Exception as error:  # noqa: BLE001  (whatever it is, the browser gets an answer)
            _log.error("a page failed: %s", type(error).__name__)
            return problem_page(unexpected(error), STATUS_DEFAULT), asked

    def _count_live(self, request: PageRequest) -> int:
        """Return how many sessions run now in the scopes that a token covers."""
        grant = request.grant
        at, count = self._live.get(grant.id, (0.0, 0))
        now = time.monotonic()
        if not at or now - at > LIVE_S:
            running = self._ledger.sessions(
                request.all_scopes,
                since_ms=max(request.now_ms - DAY_MS, 1),
                state="running",
                limit=PAGE_ITEMS_MAX,
            )
            count = len(running.items)
            self._live[grant.id] = (now, count)
        return count


def _sent(page: Markup, status: int, headers: Headers) -> Response:
    """Return a page, compressed if it is worth it and the browser takes it."""
    content = page.encode()
    given = {"Vary": "Accept-Encoding, Cookie"}
    if len(content) > _SMALL_BYTES and _takes_gzip(headers):
        content, given["Content-Encoding"] = gzip.compress(content, 6, mtime=0), "gzip"
    return Response(content, status, media_type="text/html", headers=given)


def _small(response: Response, headers: Headers) -> Response:
    """Return what a screen answers by itself, compressed if it is JSON and worth it."""
    content = bytes(response.body)
    if response.media_type != "application/json" or len(content) <= _SMALL_BYTES:
        return response
    if not _takes_gzip(headers):
        return response
    given = {"Vary": "Accept-Encoding, Cookie", "Content-Encoding": "gzip"}
    packed = gzip.compress(content, 6, mtime=0)
    return Response(packed, response.status_code, media_type=response.media_type, headers=given)


def _takes_gzip(headers: Headers) -> bool:
    return "gzip" in headers.get("accept-encoding", "")


def _cookies(headers: Headers) -> dict[str, str]:
    try:
        return {
            name: cookie.value for name, cookie in SimpleCookie(headers.get("cookie", "")).items()
        }
    except CookieError:
        return {}


def _without_blanks(query: str) -> str:
    """Return a query string without fields that a form left blank."""
    return "&".join(part for part in query.split("&") if part.partition("=")[2])


def _static_files() -> dict[str, StaticFile]:
    contents: dict[str, StaticFile] = {}
    for entry in resources.files(__package__).joinpath("static").iterdir():
        media_type = _TYPES.get(entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            compressed = gzip.compress(content, 9, mtime=0)
            contents[entry.name] = StaticFile(content, compressed, media_type, etag)
    return contents


def _page(path: str, answer: Screen, arguments: type[ViewArguments] = ViewArguments) -> Route:
    """Return a row; scripts fetch what ``answer`` returns as Markup or as a response."""
    return Route(
        method="GET",
        path=path,
        right="read",
        answer=cast("Callable[[Request], Any]", answer),
        result=PageBody,
        arguments=arguments,
        scopes=lambda asked: asked.named_scopes(),
    )


SCREENS: Final = (
    _page("/sessions", home.sessions_page, home.SessionListArguments),
    _page("/sessions/{session_id}", session.session_page, session.SessionArguments),
    _page("/sessions/{session_id}/rows", session.rows, session.RowsArguments),
    _page("/sessions/{session_id}/find", session.find, session.FindArguments),
    _page("/sessions/{session_id}/outline", session.session_outline),
    _page("/sessions/{session_id}/picture", session.picture, session.PictureArguments),
    _page("/sessions/{session_id}/export", session.export, session.ExportArguments),
    _page(
        "/sessions/{session_id}/event", session_details.event_drawer, session_details.EventArguments
    ),
    _page(
        "/sessions/{session_id}/context",
        session_details.model_view,
        session_details.ModelViewArguments,
    ),
    _page("/sessions/{session_id}/tree", session_details.fork_tree),
    _page("/sessions/{session_id}/fork", session.fork_plan, session.ForkPlanArguments),
    _page("/search", search.search_page, search.SearchPageArguments),
    _page("/files", files.files_page, files.FilesArguments),
    _page("/tools", tools.tools_page, tools.ToolsArguments),
    _page("/usage", usage.usage_page, usage.UsageArguments),
    _page("/memory", memory.memory_page, memory.MemoryArguments),
    _page("/memory/{fact_id}", memory.fact_page),
    _page("/compare", compare.compare_page, compare.CompareArguments),
    _page("/trust", trust.trust_page, trust.TrustArguments),
)
"""Every screen of the viewer."""
