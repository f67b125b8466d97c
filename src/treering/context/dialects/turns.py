"""Shared by the dialects: alternating turns, fillers, arguments as objects, valid tool names."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from treering.model.messages import INSTRUCTIONS, AssistantMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from treering.model.messages import Call, ModelMessage, Result

CONTINUED: Final = "(continued)"
"""Said by the user where a provider requires a user message first and there is none."""
NO_OUTPUT: Final = "(no output)"
"""The output of a tool that returned nothing."""

Speaker = Literal["user", "assistant"]
Piece = TypeVar("Piece")


def alternate(
    messages: Iterable[ModelMessage],
    *,
    heard: Callable[[UserMessage], list[Piece]],
    spoken: Callable[[AssistantMessage], list[Piece]],
    answers: Callable[[AssistantMessage], list[Piece]],
) -> list[tuple[Speaker, list[Piece]]]:
    """Return alternating turns, the user's first; results open the turn after their calls."""
    turns: list[tuple[Speaker, list[Piece]]] = []

    def add(speaker: Speaker, pieces: list[Piece]) -> None:
        if turns and turns[-1][0] == speaker:
            turns[-1][1].extend(pieces)
        elif pieces:
            turns.append((speaker, pieces))

    for message in messages:
        if isinstance(message, UserMessage):
            add("user", heard(message))
            continue
        add("assistant", spoken(message))
        if message.calls:
            add("user", answers(message))
    if not turns or turns[0][0] != "user":
        turns.insert(0, ("user", heard(UserMessage(text=CONTINUED, seq=0))))
    return turns


def split_instructions(
    messages: Sequence[ModelMessage], system: str | None
) -> tuple[list[ModelMessage], str | None]:
    """Return the messages without instructions, and the system text with the instructions appended.

    Some providers accept instructions only there.
    """
    texts = [] if system is None else [system]
    rest: list[ModelMessage] = []
    for message in messages:
        if not isinstance(message, UserMessage) or message.mark not in INSTRUCTIONS:
            rest.append(message)
        elif not is_blank(message.text):
            texts.append(message.text)
    return rest, "\n\n".join(texts) or None


def calls_with_results(message: AssistantMessage) -> Iterable[tuple[Call, Result]]:
    """Return each call of ``message`` with its result."""
    return zip(message.calls, message.results, strict=True)


def is_blank(text: str) -> bool:
    """Return whether ``text`` is blank: providers refuse content that is only white space."""
    return not text or text.isspace()


def arguments_of(call: Call) -> dict[str, Any]:
    """Return the arguments of ``call`` as an object, which some providers require."""
    given = call.arguments
    if isinstance(given, dict):
        return given
    return {} if given is None else {"input": given}


def output_of(result: Result) -> str:
    """Return a tool's output, never blank."""
    return NO_OUTPUT if is_blank(result.output) else result.output


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
