"""Messages in the spelling of the provider that is asked; whatever they are, it takes them.

What is said stays as it was said and in its order. A provider's rules are kept by merging
neighbours, leaving out what is blank, and two fillers: CONTINUED and NO_OUTPUT.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

import msgspec

from treering.context.dialects.anthropic import anthropic_messages
from treering.context.dialects.gemini import gemini_contents
from treering.context.dialects.names import COMMON, GEMINI, tool_names
from treering.context.dialects.openai import chat_messages, response_items
from treering.context.dialects.plain import plain_messages
from treering.context.dialects.tools import (
    ToolSpec,
    anthropic_tools,
    chat_tools,
    gemini_tools,
    read_tools,
    response_tools,
    spoken,
)
from treering.context.dialects.turns import CONTINUED, NO_OUTPUT, apart, is_blank
from treering.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.messages import ModelMessage

__all__ = [
    "CONTINUED",
    "DIALECTS",
    "NO_OUTPUT",
    "Dialect",
    "Rendered",
    "ToolSpec",
    "check_dialect",
    "declare",
    "read_tools",
    "render",
    "render_system",
    "spoken",
]

Dialect = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "plain"]

DIALECTS: Final[tuple[Dialect, ...]] = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "plain",
)


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """Messages as one provider takes them."""

    dialect: Dialect
    messages: list[dict[str, Any]]
    """The provider's list, whole; empty only if nothing is said beside a system text."""
    system: str | None = None
    """What goes beside the list; None if there is no such text, or it is in the list."""
    tools: list[dict[str, Any]] = []
    """What the model may call, declared as the provider wants it."""

    def request(self) -> dict[str, Any]:
        """Return the keyword arguments with which the provider's SDK is called."""
        name, place = _PLACES[self.dialect]
        beside: dict[str, Any] = {}
        if self.system is not None and place is not None:
            beside[place] = self.system
        if self.tools:
            beside["tools"] = self.tools
        if self.dialect == "gemini" and beside:
            beside = {"config": beside}
        return {name: self.messages, **beside}


def check_dialect(text: str) -> Dialect:
    """Return the dialect that ``text`` names. Raises InvalidInput with the nearest names."""
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
) -> Rendered:
    """Return ``messages``, system text and tools as the provider of ``dialect`` takes them.

    ``tools`` are such as it takes: see ``spoken``.
    """
    text = None if is_blank(system) else system
    rule = GEMINI if dialect == "gemini" else COMMON
    names = tool_names(messages, rule, [tool.name for tool in tools])
    declared = declare(tools, dialect, names)
    if dialect in {"anthropic", "gemini", "plain"}:
        messages, text = apart(messages, text)
    spelled: list[dict[str, Any]]
    match dialect:
        case "openai-chat":
            spelled, text = chat_messages(messages, text, names), None
        case "openai-responses":
            spelled = response_items(messages, names)
        case "anthropic":
            spelled = anthropic_messages(messages, names)
        case "gemini":
            spelled = gemini_contents(messages, names)
        case "plain":
            spelled, text = plain_messages(messages, text), None
        case _:
            assert_never(dialect)
    return Rendered(dialect=dialect, messages=spelled, system=text, tools=declared)


def declare(
    tools: Sequence[ToolSpec], dialect: Dialect, names: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return ``tools`` as ``dialect`` declares them, under the names that it takes."""
    spelled = {tool.name: tool.name for tool in tools} if names is None else names
    match dialect:
        case "openai-chat":
            return chat_tools(tools, spelled)
        case "openai-responses":
            return response_tools(tools, spelled)
        case "anthropic":
            return anthropic_tools(tools, spelled)
        case "gemini":
            return gemini_tools(tools, spelled)
        case "plain":
            return []
        case _:
            assert_never(dialect)


def render_system(system: str, *, dialect: Dialect, tools: Sequence[ToolSpec] = ()) -> Rendered:
    """Return a system text in its place, before anything is said; nothing at all if it is blank."""
    if is_blank(system):
        return Rendered(dialect=dialect, messages=[])
    rule = GEMINI if dialect == "gemini" else COMMON
    names = tool_names((), rule, [tool.name for tool in tools])
    declared = declare(tools, dialect, names)
    if _PLACES[dialect][1] is None:
        said = [{"role": "system", "content": system}]
        return Rendered(dialect=dialect, messages=said, tools=declared)
    return Rendered(dialect=dialect, messages=[], system=system, tools=declared)


_PLACES: Final[dict[Dialect, tuple[str, str | None]]] = {
    "openai-chat": ("messages", None),
    "openai-responses": ("input", "instructions"),
    "anthropic": ("messages", "system"),
    "gemini": ("contents", "system_instruction"),
    "plain": ("messages", None),
}
"""Where each provider wants the list, and the system text if that goes beside it."""
