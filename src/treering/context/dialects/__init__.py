"""Renders messages in a provider's format so that the provider always accepts them.

Texts and their order never change. The provider's rules are met by merging neighbours, leaving out
blank texts, and two fillers: CONTINUED and NO_OUTPUT.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

import msgspec

from treering.context.dialects.providers import (
    anthropic_messages,
    chat_messages,
    gemini_contents,
    response_items,
)
from treering.context.dialects.tools import (
    ToolSpec,
    anthropic_tools,
    chat_tools,
    gemini_tools,
    read_tools,
    response_tools,
    supported_tools,
)
from treering.context.dialects.turns import (
    COMMON,
    CONTINUED,
    GEMINI,
    NO_OUTPUT,
    alternate,
    arguments_of,
    calls_with_results,
    is_blank,
    output_of,
    split_instructions,
    tool_names,
)
from treering.errors import InvalidInput
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.messages import AssistantMessage, Call, ModelMessage, Result, UserMessage

__all__ = [
    "CONTINUED",
    "DIALECTS",
    "NO_OUTPUT",
    "Dialect",
    "RenderedMessages",
    "ToolSpec",
    "check_dialect",
    "declare",
    "read_tools",
    "render",
    "render_system",
    "supported_tools",
]

Dialect = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "plain"]

DIALECTS: Final[tuple[Dialect, ...]] = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "plain",
)


class RenderedMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in one provider's format."""

    dialect: Dialect
    messages: list[dict[str, Any]]
    """The provider's whole list; empty only if there is nothing but a system text."""
    system: str | None = None
    """The system text besides the list; None if there is none, or it is in the list."""
    tools: list[dict[str, Any]] = []
    """The tools the model may call, in the provider's format."""

    def request(self) -> dict[str, Any]:
        """Return the keyword arguments for the provider's SDK."""
        name, system_field = _PLACES[self.dialect]
        beside: dict[str, Any] = {}
        if self.system is not None and system_field is not None:
            beside[system_field] = self.system
        if self.tools:
            beside["tools"] = self.tools
        if self.dialect == "gemini" and beside:
            beside = {"config": beside}
        return {name: self.messages, **beside}


def check_dialect(text: str) -> Dialect:
    """Return the dialect that ``text`` names. Raise InvalidInput with the nearest names."""
    name = text.strip().lower()
    for dialect in DIALECTS:
        if name == dialect:
            return dialect
    begun = [dialect for dialect in DIALECTS if name and dialect.startswith(name)]
    near: list[str] = [*begun] or difflib.get_close_matches(name, DIALECTS, n=2)
    raise InvalidInput(
        f"no such dialect: {text.strip() or '<empty>'}",
        hint=f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(DIALECTS)}",
    )


def render(
    messages: Sequence[ModelMessage],
    *,
    system: str = "",
    dialect: Dialect,
    tools: Sequence[ToolSpec] = (),
) -> RenderedMessages:
    """Return ``messages``, system text and tools in the format of ``dialect``.

    ``tools`` must be supported by it: see ``supported_tools``.
    """
    text = None if is_blank(system) else system
    rule = GEMINI if dialect == "gemini" else COMMON
    names = tool_names(messages, rule, [tool.name for tool in tools])
    declared = declare(tools, dialect, names)
    if dialect in {"anthropic", "gemini", "plain"}:
        messages, text = split_instructions(messages, text)
    rendered: list[dict[str, Any]]
    match dialect:
        case "openai-chat":
            rendered, text = chat_messages(messages, text, names), None
        case "openai-responses":
            rendered = response_items(messages, names)
        case "anthropic":
            rendered = anthropic_messages(messages, names)
        case "gemini":
            rendered = gemini_contents(messages, names)
        case "plain":
            rendered, text = plain_messages(messages, text), None
        case _:
            assert_never(dialect)
    return RenderedMessages(dialect=dialect, messages=rendered, system=text, tools=declared)


def declare(
    tools: Sequence[ToolSpec], dialect: Dialect, names: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return ``tools`` in the format of ``dialect``, under valid names."""
    valid_names = {tool.name: tool.name for tool in tools} if names is None else names
    match dialect:
        case "openai-chat":
            return chat_tools(tools, valid_names)
        case "openai-responses":
            return response_tools(tools, valid_names)
        case "anthropic":
            return anthropic_tools(tools, valid_names)
        case "gemini":
            return gemini_tools(tools, valid_names)
        case "plain":
            return []
        case _:
            assert_never(dialect)


def render_system(
    system: str, *, dialect: Dialect, tools: Sequence[ToolSpec] = ()
) -> RenderedMessages:
    """Return only a system text, before any message; empty if it is blank."""
    if is_blank(system):
        return RenderedMessages(dialect=dialect, messages=[])
    rule = GEMINI if dialect == "gemini" else COMMON
    names = tool_names((), rule, [tool.name for tool in tools])
    declared = declare(tools, dialect, names)
    if _PLACES[dialect][1] is None:
        messages = [{"role": "system", "content": system}]
        return RenderedMessages(dialect=dialect, messages=messages, tools=declared)
    return RenderedMessages(dialect=dialect, messages=[], system=system, tools=declared)


_PLACES: Final[dict[Dialect, tuple[str, str | None]]] = {
    "openai-chat": ("messages", None),
    "openai-responses": ("input", "instructions"),
    "anthropic": ("messages", "system"),
    "gemini": ("contents", "system_instruction"),
    "plain": ("messages", None),
}
"""The field for the list, and for the system text if it is separate."""


def plain_messages(messages: Sequence[ModelMessage], system: str | None) -> list[dict[str, Any]]:
    """Return ``messages`` as roles and texts, the system text first."""
    turns = alternate(messages, heard=_heard, spoken=_spoken, answers=_answers)
    rendered = [{"role": speaker, "content": "\n\n".join(texts)} for speaker, texts in turns]
    if system is not None:
        rendered.insert(0, {"role": "system", "content": system})
    return rendered


def _heard(message: UserMessage) -> list[str]:
    return [] if is_blank(message.text) else [message.text]


def _spoken(message: AssistantMessage) -> list[str]:
    texts = [] if is_blank(message.text) else [message.text]
    return texts + [_call_text(call) for call in message.calls]


def _answers(message: AssistantMessage) -> list[str]:
    return [_result_text(call, result) for call, result in calls_with_results(message)]


def _call_text(call: Call) -> str:
    return f"[tool call {call.call_id}] {call.tool} {encode(arguments_of(call)).decode()}"


def _result_text(call: Call, result: Result) -> str:
    outcome = "error" if result.is_error else "result"
    return f"[tool {outcome} {call.call_id}] {call.tool}\n{output_of(result)}"
