"""Tool declarations: read in any provider's format, written in the required one.

A tool that a provider runs itself, such as a web search, is declared to that provider only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from treering.errors import InvalidInput

_SCHEMAS: Final = (
    "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema", "parameters",
)  # fmt: skip
"""Fields for the schema of a tool's arguments: Anthropic's, MCP's, Google's, OpenAI's."""
_DECLARATIONS: Final = ("function_declarations", "functionDeclarations")
_FUNCTIONS: Final = frozenset({"function", "custom"})
"""Types of tools that the caller runs, in formats with a type."""
_DATED: Final = re.compile(r".+_\d{8}")
"""The types of Anthropic's own tools end in a date."""
_EMPTY: Final[dict[str, Any]] = {"type": "object", "properties": {}}


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a model may call."""

    name: str
    description: str = ""
    schema: dict[str, Any]
    """JSON Schema of its arguments, an object."""
    strict: bool | None = None
    """Whether OpenAI's models must follow the schema; None if the caller does not say."""
    home: str | None = None
    """The only dialect that knows it, for a tool that its provider runs."""
    declared: dict[str, Any] | None = None
    """Its declaration there."""


def read_tools(given: Sequence[Any]) -> list[ToolSpec]:
    """Return the tools that ``given`` declares, in any format, without duplicates.

    Raise InvalidInput for an item that does not declare a tool.
    """
    specs: list[ToolSpec] = []
    for item in given:
        for tool in _read(item):
            # Two providers may have own tools of the same name: each gets only its own.
            rivals = [
                spec
                for spec in specs
                if spec.name == tool.name
                and (None in {spec.home, tool.home} or spec.home == tool.home)
            ]
            if any(spec != tool for spec in rivals):
                raise InvalidInput(
                    f"tool {tool.name} is declared twice with different content",
                    hint="declare each tool once",
                )
            if not rivals:
                specs.append(tool)
    return specs


def anthropic_tools(tools: Sequence[ToolSpec], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return ``tools`` for the Messages API."""
    return [
        tool.declared
        if tool.declared is not None
        else {"name": names[tool.name], **_described(tool), "input_schema": tool.schema}
        for tool in tools
    ]


def chat_tools(tools: Sequence[ToolSpec], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return ``tools`` for chat completions."""
    return [
        {
            "type": "function",
            "function": {
                "name": names[tool.name],
                **_described(tool),
                "parameters": tool.schema,
                **({} if tool.strict is None else {"strict": tool.strict}),
            },
        }
        for tool in tools
    ]


def response_tools(tools: Sequence[ToolSpec], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return ``tools`` for the Responses API.

    That API is strict by default and then refuses schemas that others accept, so ``strict`` is
    always set.
    """
    return [
        tool.declared
        if tool.declared is not None
        else {
            "type": "function",
            "name": names[tool.name],
            **_described(tool),
            "parameters": tool.schema,
            "strict": bool(tool.strict),
        }
        for tool in tools
    ]


def gemini_tools(tools: Sequence[ToolSpec], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return ``tools`` for ``generate_content``: all functions are declared in one tool."""
    functions = [
        {
            "name": names[tool.name],
            # Gemini refuses a function without a description.
            "description": tool.description or tool.name,
            "parameters_json_schema": tool.schema,
        }
        for tool in tools
        if tool.declared is None
    ]
    own = [tool.declared for tool in tools if tool.declared is not None]
    return [*([{"function_declarations": functions}] if functions else []), *own]


def supported_tools(
    tools: Sequence[ToolSpec], dialect: str
) -> tuple[list[ToolSpec], list[ToolSpec]]:
    """Return the tools that ``dialect`` can declare, and those it cannot."""
    taken = [tool for tool in tools if dialect != "plain" and tool.home in {None, dialect}]
    return taken, [tool for tool in tools if tool not in taken]


def _gemini_own(given: Mapping[str, Any]) -> bool:
    """Return whether it is one of Gemini's own tools: an object of options under its name."""
    return len(given) == 1 and next(iter(given)) in _GEMINI_OWN


_GEMINI_OWN: Final = frozenset({
    "google_search", "googleSearch", "google_search_retrieval", "googleSearchRetrieval",
    "code_execution", "codeExecution", "url_context", "urlContext", "google_maps", "googleMaps",
    "file_search", "fileSearch", "computer_use", "computerUse",
})  # fmt: skip


def _read(item: Any) -> Iterator[ToolSpec]:
    if isinstance(item, str) and item.strip():
        yield ToolSpec(name=item, schema=_EMPTY)
        return
    if not isinstance(item, Mapping):
        raise _no_tool(item)
    declarations = next((item[name] for name in _DECLARATIONS if name in item), None)
    if declarations is not None:
        if not isinstance(declarations, list | tuple):
            raise _no_tool(item)
        for declaration in declarations:
            yield from _read(declaration)
        return
    if _gemini_own(item):
        [name] = item
        yield ToolSpec(name=name, schema=_EMPTY, home="gemini", declared=dict(item))
        return
    tool_type = item.get("type")
    if isinstance(tool_type, str) and tool_type not in _FUNCTIONS and tool_type != "object":
        home = "anthropic" if _DATED.fullmatch(tool_type) else "openai-responses"
        name = item.get("name") if isinstance(item.get("name"), str) else tool_type
        yield ToolSpec(name=str(name), schema=_EMPTY, home=home, declared=dict(item))
        return
    inner = item.get("function")
    yield _function(inner if isinstance(inner, Mapping) else item)


def _function(item: Mapping[str, Any]) -> ToolSpec:
    name, description, strict = item.get("name"), item.get("description"), item.get("strict")
    schema = next((item[field] for field in _SCHEMAS if item.get(field) is not None), _EMPTY)
    if not isinstance(name, str) or not name.strip() or not isinstance(schema, Mapping):
        raise _no_tool(item)
    return ToolSpec(
        name=name,
        description=description if isinstance(description, str) else "",
        schema={"type": "object", **_json_schema(schema)},
        strict=strict if isinstance(strict, bool) else None,
    )


def _json_schema(value: Any) -> Any:
    """Return a schema with JSON Schema's type names: Google's are in capitals."""
    if isinstance(value, list | tuple):
        return [_json_schema(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    converted = {name: _json_schema(item) for name, item in value.items()}
    schema_type = converted.get("type")
    if isinstance(schema_type, str) and schema_type.isupper():
        converted["type"] = schema_type.lower()
    return converted


def _described(tool: ToolSpec) -> dict[str, str]:
    return {"description": tool.description} if tool.description else {}


def _no_tool(item: Any) -> InvalidInput:
    description = sorted(item) if isinstance(item, Mapping) else type(item).__name__
    return InvalidInput(
        f"not a tool declaration: {description}",
        hint='give {"name": …, "description": …, "parameters": {…}}, or your provider\'s shape',
    )
