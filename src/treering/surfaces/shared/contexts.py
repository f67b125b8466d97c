"""What a model was shown, as parts that people read, and what its repairs mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.media import split_media
from treering.context.texts import text_of
from treering.errors import NotFound

if TYPE_CHECKING:
    from treering.ledger.contexts import Shown
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.messages import Repair, RepairCode
    from treering.model.scopes import Scope
    from treering.surfaces.shared.texts import Mask

_SPEAKERS: Final = {"model": "assistant", "developer": "system"}
MEANINGS: Final[dict[RepairCode, str]] = {
    "orphan_result": "a result without a call: left out",
    "duplicate_result": "a second result of one call: left out, the first counts",
    "missing_result": "a call without a result: a synthetic one was added",
    "moved_result": "a result that did not follow its call: moved there",
    "duplicate_call_id": "a call whose id was used before: left out if it is the same call again,"
    " else given another id",
    "missing_call_id": "a call without an id: it was given one",
    "empty_message": "nothing was said in it: left out",
    "left_out_message": "a message of a log that neither its user nor its model said: left out",
    "left_out_tool": "a tool that the dialect does not declare: left out",
    "left_out_attachment": "a picture, file or sound that cannot be shown: replaced"
    " by a placeholder",
    "dropped_thinking": "a thought that the model does not take back: left out",
    "missing_thinking": "a call without a signature: a placeholder was added",
    "erased": "its content was redacted or has expired: a placeholder replaces it",
    "shortened_output": "the output of a tool was cut in the middle",
    "restarted": "all before this checkpoint or interrupt was left out, to fit",
    "dropped_turn": "a whole turn was left out, to fit",
    "dropped_message": "part of a turn was left out, to fit",
    "shortened_message": "a message was cut, to fit",
    "summarised": "from here on a summary replaces what was left out",
    "contributor_failed": "a contributor raised an error, and added nothing",
    "contributor_dropped": "what a contributor added was left out, to fit",
    "budget_too_small": "not even the last message fits: nothing is shown",
}


def message_parts(request: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """Return the system text and the messages of any provider's request."""
    messages = next((value for value in request.values() if isinstance(value, list)), [])
    beside = request.get("config", request)
    names = ("system", "instructions", "system_instruction")
    return next((beside[name] for name in names if name in beside), None), messages


def with_contributors(ledger: Ledger, session: Session, shown: Shown) -> Shown:
    """Return what was shown with who added to it, as the event of its assembly tells."""
    from treering.spine.showing import ContextRecord  # noqa: PLC0415  (not for --help)

    payload = ledger.event(session.scope, shown.event_id).payload
    asked = msgspec.convert(payload, ContextRecord, strict=False)
    context = msgspec.structs.replace(shown.context, contributed=asked.contributed)
    return msgspec.structs.replace(shown, context=context)


class MessagePiece(msgspec.Struct, frozen=True):
    """One thing in a message."""

    speaker: str
    """system, user or assistant; call, result or error for what tools take and give."""
    text: str


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


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A repair or a cut, with what it means and the event that it befell."""

    code: str
    event_id: str | None
    detail: str | None
    meaning: str
    seq: int | None
    type: str | None
    """The kind of the event."""
    summary: str | None


def explain_repair(ledger: Ledger, scope: Scope, repair: Repair, mask: Mask) -> Explained:
    """Return what one repair means, and what befell it; of the event, only what is safe."""
    header = None
    if repair.event_id is not None:
        try:
            header = ledger.event(scope, repair.event_id)
        except NotFound:
            # It has expired since.
            header = None
    return Explained(
        code=repair.code,
        event_id=repair.event_id,
        detail=repair.detail,
        meaning=MEANINGS[repair.code],
        seq=None if header is None else header.seq,
        type=None if header is None else header.kind,
        summary=None if header is None else mask.text(header.summary),
    )
