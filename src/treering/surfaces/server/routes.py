"""Routes as a table: one row defines the routing, the check of rights, and the description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin
from urllib.parse import parse_qsl, unquote

import msgspec

from treering.errors import InvalidInput
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.ledger.ledger import Ledger
    from treering.surfaces.server.grants import Grant, Right

Method = Literal["GET", "POST"]
Serving = Literal["value", "stream", "login", "openapi", "otlp"]

QUERY_FIELDS_MAX: Final = 200
SCOPE: Final = "scope"


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A route without arguments beyond its path."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request, checked: its token has the right, in the scope of its path."""

    ledger: Ledger
    grant: Grant
    names: dict[str, str]
    """The names in the path."""
    arguments: Any
    """An instance of the route's ``arguments``."""

    @property
    def scope(self) -> Scope:
        """Return the scope of the path."""
        return Scope(self.names[SCOPE])


@dataclass(frozen=True)
class Route:
    """One route of the server."""

    method: Method
    right: Right | None
    """The right that a token needs; None if no token is needed."""
    path: str
    """As in ``/scopes/{scope}/sessions/{session_id}``, after ``/v1``; a name may hold a slash,
    written ``%2F``."""
    answer: Callable[[Request], Any]
    """Returns the answer. Called in a thread."""
    result: Any
    """The type of the answer."""
    arguments: type[msgspec.Struct] = NoArguments
    """What comes in the query string, or as JSON in the body of a POST."""
    scopes: Callable[[Any], Iterable[str]] | None = None
    """Returns the scopes that ``arguments`` name, in addition to the one of the path."""
    serving: Serving = "value"

    @property
    def segments(self) -> tuple[str, ...]:
        """Return the parts of the path."""
        return tuple(self.path.strip("/").split("/"))

    @property
    def summary(self) -> str:
        """Return what the route returns, in one sentence."""
        return (self.answer.__doc__ or "").partition("\n")[0]

    def match(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Return the names in a path with as many segments; None if the path is another."""
        names: dict[str, str] = {}
        for pattern, segment in zip(self.segments, segments, strict=True):
            if pattern.startswith("{"):
                names[pattern[1:-1]] = _decoded(segment)
            elif pattern != segment:
                return None
        return names

    def scopes_of(self, names: dict[str, str], arguments: Any) -> list[Scope]:
        """Return the scopes that a request is about. Raise InvalidScope."""
        named = [] if self.scopes is None else list(dict.fromkeys(self.scopes(arguments)))
        if SCOPE in names:
            names[SCOPE] = parse_scope(names[SCOPE])
            named.append(names[SCOPE])
        return [parse_scope(scope) for scope in named]


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[Route]] = {}
        # Fixed names before variable ones: /sessions/tree is not the session named tree.
        for route in sorted(self.routes, key=lambda route: route.path.count("{")):
            self._by_length.setdefault(len(route.segments), []).append(route)

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]] | list[str]:
        """Return the route and the names in its path; else the methods that the path accepts."""
        segments = tuple(path.strip("/").split("/"))
        allowed: list[str] = []
        for route in self._by_length.get(len(segments), ()):
            names = route.match(segments)
            if names is None:
                continue
            if route.method == method:
                return route, names
            allowed.append(route.method)
        return allowed


def _decoded(segment: str) -> str:
    """Return a name in a path. Raise InvalidInput; two names must never become the same."""
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "a name in the path is not UTF-8", hint="encode the bytes of its UTF-8 with %"
        ) from error


def read_query(text: str, arguments: type[msgspec.Struct]) -> Any:
    """Return the fields of a query string as ``arguments``. Raise InvalidInput."""
    repeated = {field.name: _is_list(field.type) for field in msgspec.structs.fields(arguments)}
    given: dict[str, Any] = {}
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text),
            max_num_fields=QUERY_FIELDS_MAX, errors="strict",
        )  # fmt: skip
    except ValueError as error:
        raise InvalidInput("the query string is damaged", hint="encode its values") from error
    for name, value in pairs:
        if repeated.get(name):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InvalidInput(f"{name} is given twice", hint="give it once")
        else:
            given[name] = value
    return _converted(lambda: msgspec.convert(given, arguments, strict=False))


def read_body(body: bytes, arguments: type[msgspec.Struct]) -> Any:
    """Return a JSON body as ``arguments``. Raise InvalidInput."""
    return _converted(lambda: msgspec.json.decode(body or b"{}", type=arguments))


def _converted(convert: Callable[[], Any]) -> Any:
    try:
        return convert()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"invalid request: {error}", hint="see /v1/openapi.json for its fields"
        ) from error


def _is_list(kind: Any) -> bool:
    return any(get_origin(part) in {list, tuple} for part in (kind, *get_args(kind)))
