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
from treering.context.dialects.openai import chat_messages, response_items
from treering.context.dialects.plain import plain_messages
from treering.context.dialects.turns import CONTINUED, NO_OUTPUT, is_blank
from treering.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.messages import ModelMessage

__all__ = [
    "CONTINUED",
    "DIALECTS",
    "NO_OUTPUT",
    "Dialect",
    "Rendered",
    "check_dialect",
    "render",
    "render_system",
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

    def request(self) -> dict[str, Any]:
        """Return the keyword arguments with which the provider's SDK is called."""
        name, place = _PLACES[self.dialect]
        request: dict[str, Any] = {name: self.messages}
        if self.system is None or place is None:
            return request
        if self.dialect == "gemini":
            return request | {"config": {place: self.system}}
        return request | {place: self.system}


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


def render(messages: Sequence[ModelMessage], *, system: str = "", dialect: Dialect) -> Rendered:
    """Return ``messages`` and the system text as the provider of ``dialect`` takes them."""
    text = None if is_blank(system) else system
    match dialect:
        case "openai-chat":
            return Rendered(dialect=dialect, messages=chat_messages(messages, text))
        case "openai-responses":
            return Rendered(dialect=dialect, messages=response_items(messages), system=text)
        case "anthropic":
            return Rendered(dialect=dialect, messages=anthropic_messages(messages), system=text)
        case "gemini":
            return Rendered(dialect=dialect, messages=gemini_contents(messages), system=text)
        case "plain":
            return Rendered(dialect=dialect, messages=plain_messages(messages, text))
        case _:
            assert_never(dialect)


def render_system(system: str, *, dialect: Dialect) -> Rendered:
    """Return a system text in its place, before anything is said; nothing at all if it is blank."""
    if is_blank(system):
        return Rendered(dialect=dialect, messages=[])
    if _PLACES[dialect][1] is None:
        return Rendered(dialect=dialect, messages=[{"role": "system", "content": system}])
    return Rendered(dialect=dialect, messages=[], system=system)


_PLACES: Final[dict[Dialect, tuple[str, str | None]]] = {
    "openai-chat": ("messages", None),
    "openai-responses": ("input", "instructions"),
    "anthropic": ("messages", "system"),
    "gemini": ("contents", "system_instruction"),
    "plain": ("messages", None),
}
"""Where each provider wants the list, and the system text if that goes beside it."""
