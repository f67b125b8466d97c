"""Shared by the dialects: alternating turns, fillers for empty content, arguments as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from treering.model.messages import INSTRUCTIONS, AssistantMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
