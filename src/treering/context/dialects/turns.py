"""What the dialects share: who speaks when, what stands for nothing, arguments as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from treering.model.messages import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.model.messages import Call, ModelMessage, Result

CONTINUED: Final = "(continued)"
"""Said by the user where a provider has to hear the user first and nobody spoke."""
NO_OUTPUT: Final = "(no output)"
"""Given by a tool that gave nothing."""

Speaker = Literal["user", "assistant"]
Piece = TypeVar("Piece")


def alternate(
    messages: Iterable[ModelMessage],
    *,
    say: Callable[[str], Piece],
    call: Callable[[Call], Piece],
    answer: Callable[[Call, Result], Piece],
) -> list[tuple[Speaker, list[Piece]]]:
    """Return turns that alternate, the user's first; results open the turn behind their calls."""
    turns: list[tuple[Speaker, list[Piece]]] = []

    def add(speaker: Speaker, pieces: list[Piece]) -> None:
        if turns and turns[-1][0] == speaker:
            turns[-1][1].extend(pieces)
        else:
            turns.append((speaker, pieces))

    for message in messages:
        said = [] if is_blank(message.text) else [say(message.text)]
        if not isinstance(message, AssistantMessage):
            if said:
                add("user", said)
        elif message.calls:
            add("assistant", said + [call(one) for one in message.calls])
            add("user", [answer(*pair) for pair in answered(message)])
        elif said:
            add("assistant", said)
    if not turns or turns[0][0] != "user":
        turns.insert(0, ("user", [say(CONTINUED)]))
    return turns


def answered(message: AssistantMessage) -> Iterable[tuple[Call, Result]]:
    """Return each call of ``message`` with its result."""
    return zip(message.calls, message.results, strict=True)


def is_blank(text: str) -> bool:
    """Whether ``text`` says nothing: providers refuse content that is only white space."""
    return not text or text.isspace()


def arguments_of(call: Call) -> dict[str, Any]:
    """Return the arguments of ``call`` as an object, which is all that some providers take."""
    given = call.arguments
    if isinstance(given, dict):
        return given
    return {} if given is None else {"input": given}


def output_of(result: Result) -> str:
    """Return what a tool gave, never blank."""
    return NO_OUTPUT if is_blank(result.output) else result.output
