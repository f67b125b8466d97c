"""Tool names that providers accept: valid names unchanged, others changed but distinct."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.messages import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from treering.model.messages import ModelMessage

NAME_CHARACTERS_MAX: Final = 64
"""The longest tool name that every provider accepts."""

_DIGEST_DIGITS: Final = 8


class NameRule(msgspec.Struct, frozen=True):
    """Which names a provider accepts."""

    legal: re.Pattern[str]
    """Must match the whole name."""
    foreign: re.Pattern[str]
    """Characters that names must not contain."""


COMMON: Final = NameRule(re.compile(r"[a-zA-Z0-9_-]{1,64}"), re.compile(r"[^a-zA-Z0-9_-]"))
"""The rule of OpenAI and Anthropic."""
GEMINI: Final = NameRule(
    re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"), re.compile(r"[^a-zA-Z0-9_.:-]")
)


def tool_names(
    messages: Iterable[ModelMessage], rule: NameRule, declared: Iterable[str] = ()
) -> dict[str, str]:
    """Return a valid name for every tool that is declared, or called in ``messages``."""
    called = {
        call.tool
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
    return spell_names({*called, *declared}, rule)


def spell_names(tools: Collection[str], rule: NameRule) -> dict[str, str]:
    """Return a valid, unique name for each of ``tools``, independent of their order.

    A changed name ends in a digest only if it would clash with another tool's.
    """
    names = {tool: tool for tool in tools if rule.legal.fullmatch(tool)}
    changed = {tool: _cleaned(tool, rule) for tool in sorted(tools) if tool not in names}
    uses = Counter([*names, *changed.values()])
    taken = set(uses)
    for tool, name in changed.items():
        names[tool] = name if uses[name] == 1 else _distinct(name, tool, taken)
        taken.add(names[tool])
    return names


def _cleaned(tool: str, rule: NameRule) -> str:
    name = rule.foreign.sub("_", tool)[:NAME_CHARACTERS_MAX]
    # Empty, or it begins with a character that is only allowed later in a name.
    return name if rule.legal.fullmatch(name) else f"_{name}"[:NAME_CHARACTERS_MAX]


def _distinct(name: str, tool: str, taken: set[str]) -> str:
    prefix = name[: NAME_CHARACTERS_MAX - _DIGEST_DIGITS - 1]
    digests = (sha256(f"{attempt} {tool}".encode()).hexdigest() for attempt in count())
    spelled = (f"{prefix}_{digest[:_DIGEST_DIGITS]}" for digest in digests)
    return next(candidate for candidate in spelled if candidate not in taken)
