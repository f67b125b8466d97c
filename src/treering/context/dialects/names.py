"""Names of tools as providers take them: legal ones as they are, others changed yet distinct."""

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
"""The longest name of a tool that every provider takes."""

_DIGEST_DIGITS: Final = 8


class NameRule(msgspec.Struct, frozen=True):
    """Which names a provider takes."""

    legal: re.Pattern[str]
    """What the whole of a name has to match."""
    foreign: re.Pattern[str]
    """Characters that no name may have."""


COMMON: Final = NameRule(re.compile(r"[a-zA-Z0-9_-]{1,64}"), re.compile(r"[^a-zA-Z0-9_-]"))
"""The names that OpenAI and Anthropic take."""
GEMINI: Final = NameRule(
    re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"), re.compile(r"[^a-zA-Z0-9_.:-]")
)


def tool_names(
    messages: Iterable[ModelMessage], rule: NameRule, declared: Iterable[str] = ()
) -> dict[str, str]:
    """Return the name of every tool that is declared, or called in ``messages``, by ``rule``."""
    called = {
        call.tool
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
    return spell_names({*called, *declared}, rule)


def spell_names(tools: Collection[str], rule: NameRule) -> dict[str, str]:
    """Return a legal name for each of ``tools``; no two share one, in whatever order they come.

    A name that has to be changed ends in a digest only where it would be another tool's as well.
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
    # Empty, or it begins with what only the rest of a name may have.
    return name if rule.legal.fullmatch(name) else f"_{name}"[:NAME_CHARACTERS_MAX]


def _distinct(name: str, tool: str, taken: set[str]) -> str:
    kept = name[: NAME_CHARACTERS_MAX - _DIGEST_DIGITS - 1]
    digests = (sha256(f"{attempt} {tool}".encode()).hexdigest() for attempt in count())
    spelled = (f"{kept}_{digest[:_DIGEST_DIGITS]}" for digest in digests)
    return next(one for one in spelled if one not in taken)
