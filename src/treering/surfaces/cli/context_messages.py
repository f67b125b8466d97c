"""Messages of any provider's spelling as people read them: who speaks, and what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.media import split_media
from treering.context.texts import text_of
from treering.surfaces.cli.output import printable
from treering.surfaces.cli.tables import Column, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TEXT_CHARACTERS_MAX: Final = 600
"""A longer text is cut in the middle, unless ``full``."""

_COLUMNS: Final = (
    Column(
        "",
        colours={
            "system": "magenta",
            "thinking": "bright_black",
            "user": "cyan",
            "assistant": "green",
            "call": "yellow",
            "result": "yellow",
            "error": "red",
        },
    ),
    Column("", is_prose=True),
)


class MessagePiece(msgspec.Struct, frozen=True):
    """One thing in a message."""

    speaker: str
    """system, user or assistant; call, result or error for what tools take and give."""
    text: str


def print_pieces(pieces: Sequence[MessagePiece], *, characters_max: int | None) -> None:
    """Print ``pieces`` one below the other, each line of a text on a line of its own."""
    rows: list[list[str]] = []
    for piece in pieces:
        first, *more = _lines(piece.text, characters_max)
        rows.append([piece.speaker, printable(first)])
        rows += [["", printable(line)] for line in more]
    print_table(_COLUMNS, rows)


def _lines(text: str, characters_max: int | None) -> list[str]:
    """Return the lines of ``text``; if it is long, the first and the last."""
    if characters_max is None or len(text) <= characters_max:
        return text.split("\n")
    half = characters_max // 2
    head, tail = text[:half], text[-half:]
    if "\n" in head and "\n" in tail:
        # Keep whole lines where possible.
        head, tail = head.rpartition("\n")[0], tail.partition("\n")[2]
    omitted = len(text) - len(head) - len(tail)
    # Not the words of a cut that a model reads: this one is for people only.
    marker = f"… {omitted:,} characters are not printed: --full prints them …"
    return [*head.split("\n"), marker, *tail.split("\n")]


def pieces_of(system: Any, messages: Sequence[Mapping[str, Any]]) -> Iterator[MessagePiece]:
    """Return what the messages of any dialect hold, in order, and first of all the system text."""
    if system:
        yield MessagePiece("system", _words(system))
    for message in messages:
        speaker = _SPEAKERS.get(str(message.get("role")), str(message.get("role", "")))
        match message:
            case {"type": "function_call", "name": name, "arguments": given, "call_id": call_id}:
                yield _call(call_id, name, given)
            case {"type": "function_call_output", "output": output, "call_id": call_id}:
                yield _result(call_id, output)
            case {"role": "tool", "content": output, "tool_call_id": call_id}:
                yield _result(call_id, output)
            case {"content": list(parts)} | {"parts": list(parts)}:
                for part in parts:
                    yield _part(speaker, part)
            case _:
                if message.get("content"):
                    yield MessagePiece(speaker, _words(message["content"]))
                for call in message.get("tool_calls", ()):
                    named = call["function"]
                    yield _call(call["id"], named["name"], named["arguments"])


_SPEAKERS: Final = {"model": "assistant", "developer": "system"}


def _part(speaker: str, part: Mapping[str, Any]) -> MessagePiece:
    """Return one block of Anthropic's, or one part of Gemini's."""
    match part:
        case {"type": "tool_use", "id": call_id, "name": name, "input": given}:
            return _call(call_id, name, given)
        case {"type": "tool_result", "tool_use_id": call_id, "content": output}:
            return _result(call_id, output, failed=bool(part.get("is_error")))
        case {"function_call": {"id": call_id, "name": name, "args": given}}:
            return _call(call_id, name, given)
        case {"function_response": {"id": call_id, "response": response}}:
            failed = "error" in response
            return _result(call_id, response["error" if failed else "output"], failed=failed)
        case {"type": "thinking", "thinking": words}:
            return MessagePiece("thinking", _words(words))
        case {"type": "redacted_thinking"}:
            return MessagePiece("thinking", "(sealed)")
        case _:
            return MessagePiece(speaker, _words(part.get("text", part)))


def _call(call_id: str, tool: str, given: Any) -> MessagePiece:
    return MessagePiece("call", f"{call_id}: {tool} {_words(given)}")


def _result(call_id: str, output: Any, *, failed: bool = False) -> MessagePiece:
    return MessagePiece("error" if failed else "result", f"{call_id}: {_words(output)}")


def _words(value: Any) -> str:
    """Return a value as text; files in it are described, not shown."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and (inner := value.get("inline_data")) is not None:
        return f"[{inner['mime_type']}, {len(inner['data']):,} bytes]"
    rest, media = split_media(value)
    named = [f"[{file.mime or file.sort}, {file.url or f'{file.size:,} bytes'}]" for file in media]
    texts = [] if media and not rest else [text_of(rest)]
    return "\n".join([*texts, *named])
