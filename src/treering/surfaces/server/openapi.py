"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.surfaces.server.problems import Problem
from treering.surfaces.server.routes import NoArguments, Route
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.surfaces.server.access import ServerAddress

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
