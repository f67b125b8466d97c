"""Routes as a table: routing, the check of rights, and the OpenAPI 3.1 document come from a row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin
from urllib.parse import parse_qsl, unquote

import msgspec

from treering.errors import InvalidInput
from treering.model.scopes import Scope, parse_scope
from treering.surfaces.server.problems import Problem
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from treering.ledger.ledger import Ledger
    from treering.surfaces.server.access import ServerAddress
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


OPENAPI_VERSION: Final = "3.1.0"
_REFERENCE: Final = "#/components/schemas/{name}"
_NAME: Final = re.compile(r"{(\w+)}")


@lru_cache(maxsize=4)
def describe_routes(routes: tuple[Route, ...], address: ServerAddress) -> dict[str, Any]:
    """Return the OpenAPI document of ``routes``, served at ``address``."""
    types = [Problem, *(route.result for route in routes)]
    types += [route.arguments for route in routes]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    results = schemas[1 : len(routes) + 1]
    arguments = schemas[len(routes) + 1 :]
    paths: dict[str, Any] = {}
    for route, result, given in zip(routes, results, arguments, strict=True):
        operation = _operation(route, result, given, components)
        paths.setdefault(f"/v1{route.path}", {})[route.method.lower()] = operation
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Treering",
            "version": __version__,
            "description": "Record, read, follow, remember and erase what agents did.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": address.url}],
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": address.cookie},
            },
            "responses": {
                "Problem": {
                    "description": "What went wrong, with a code for programs and a hint.",
                    "content": {"application/json": {"schema": schemas[0]}},
                }
            },
        },
    }


def _operation(
    route: Route, result: dict[str, Any], given: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _NAME.findall(route.path)
    ]
    kind = "text/event-stream" if route.serving == "stream" else "application/json"
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "responses": {
            "200": {"description": "The answer.", "content": {kind: {"schema": result}}},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if route.right is None:
        operation["security"] = []
    else:
        operation["description"] = f"Needs a token with the right to {route.right}."
    if route.method == "GET":
        parameters += _query_parameters(route.arguments, given, components)
    else:
        content: dict[str, Any] = {"application/json": {"schema": given}}
        if route.serving == "otlp":
            content["application/x-protobuf"] = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {"required": True, "content": content}
    if parameters:
        operation["parameters"] = parameters
    return operation


def _query_parameters(
    arguments: type[msgspec.Struct], given: dict[str, Any], components: dict[str, Any]
) -> Sequence[dict[str, Any]]:
    if arguments is NoArguments:
        return []
    schema = components[given["$ref"].rpartition("/")[2]]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema["properties"].items()
    ]


def _operation_id(route: Route) -> str:
    words = re.sub(r"[^a-z]+", " ", f"{route.method} {route.path}".lower()).split()
    return "-".join(words)
