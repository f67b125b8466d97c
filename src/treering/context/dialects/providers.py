"""The formats of OpenAI, Anthropic and Gemini.

OpenAI: chat completions, and the items of the Responses API. Both accept speakers in any order, so
every message stays separate. Anthropic and Gemini: user and assistant alternate.

Gemini's fields are named as in Google's Python SDK; its REST API accepts those names, too.
Bytes are bytes, as the SDK expects; in JSON they are base64.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from treering.context.dialects.turns import (
    CONTINUED,
    alternate,
    arguments_of,
    calls_with_results,
    is_blank,
    output_of,
)
from treering.model.codec import encode
from treering.model.messages import INSTRUCTIONS, AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from treering.model.messages import Call, Media, ModelMessage, Result, Thought, UserMessage


def chat_messages(
    messages: Sequence[ModelMessage], system: str | None, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return ``messages`` for chat completions, the system text first."""
    rendered: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            rendered += _chat_answer(message, names)
            continue
        content = _content(message.text, message.media, _chat_text, _chat_part)
        if content is not None:
            role = message.mark if message.mark in INSTRUCTIONS else "user"
            rendered.append({"role": role, "content": content})
    if all(entry["role"] in INSTRUCTIONS for entry in rendered):
        rendered.append({"role": "user", "content": CONTINUED})
    if system is not None:
        rendered.insert(0, {"role": "system", "content": system})
    return rendered


def _chat_answer(message: AssistantMessage, names: Mapping[str, str]) -> list[dict[str, Any]]:
    text = None if is_blank(message.text) else message.text
    if not message.calls:
        return [] if text is None else [{"role": "assistant", "content": text}]
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": names[call.tool], "arguments": _arguments_text(call)},
        }
        for call in message.calls
    ]
    rendered: list[dict[str, Any]] = [{"role": "assistant", "content": text, "tool_calls": calls}]
    shown: list[dict[str, Any]] = []
    for call, result in calls_with_results(message):
        output = _output_text(result)
        if result.media:
            # A tool message cannot hold files, but a user message after it can.
            output = f"{len(result.media)} attached" if is_blank(result.output) else output
            shown.append(_chat_text(f"(given by {names[call.tool]}, {call.call_id})"))
            shown += [_chat_part(attachment) for attachment in result.media]
        rendered.append({"role": "tool", "tool_call_id": call.call_id, "content": output})
    return [*rendered, {"role": "user", "content": shown}] if shown else rendered


def response_items(
    messages: Sequence[ModelMessage], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return ``messages`` as input items of the Responses API."""
    items: list[dict[str, Any]] = []
    for message in messages:
        if not isinstance(message, AssistantMessage):
            content = _content(message.text, message.media, _input_text, _input_part)
            if content is not None:
                role = message.mark if message.mark in INSTRUCTIONS else "user"
                items.append(_said(str(role), content))
            continue
        items += [thought.block for thought in message.thoughts]
        if not is_blank(message.text):
            items.append(_said("assistant", message.text))
        for call in message.calls:
            items += [thought.block for thought in call.thoughts]
            items.append(
                {
                    "type": "function_call",
                    "call_id": call.call_id,
                    "name": names[call.tool],
                    "arguments": _arguments_text(call),
                }
            )
        items.extend(
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": _content(result.output, result.media, _input_text, _input_part)
                if result.media
                else _output_text(result),
            }
            for call, result in calls_with_results(message)
        )
    if all(item.get("role") in INSTRUCTIONS for item in items):
        items.append(_said("user", CONTINUED))
    return items


def _said(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _content(
    text: str,
    media: Sequence[Media],
    say: Callable[[str], dict[str, Any]],
    show: Callable[[Media], dict[str, Any]],
) -> Any:
    """Return the content of a message: a text, or parts if it has files; None if it is empty."""
    if not media:
        return None if is_blank(text) else text
    return [*([] if is_blank(text) else [say(text)]), *map(show, media)]


def _chat_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _chat_part(media: Media) -> dict[str, Any]:
    if media.sort == "image":
        return {"type": "image_url", "image_url": {"url": _url(media)}}
    if media.sort == "audio":
        sound = {"data": media.data, "format": "wav" if "wav" in media.mime else "mp3"}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "file", "file": {"filename": _file_name(media), "file_data": _url(media)}}


def _input_text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _input_part(media: Media) -> dict[str, Any]:
    if media.sort == "image":
        return {"type": "input_image", "image_url": _url(media), "detail": "auto"}
    if media.data is None:
        return {"type": "input_file", "file_url": media.url}
    return {"type": "input_file", "filename": _file_name(media), "file_data": _url(media)}


def _url(media: Media) -> str:
    return media.url or f"data:{media.mime};base64,{media.data}"


def _file_name(media: Media) -> str:
    return media.name or "file.pdf"


def _arguments_text(call: Call) -> str:
    return encode(arguments_of(call)).decode()


def _output_text(result: Result) -> str:
    """Return a tool's output; this is the only place to say that it failed."""
    output = output_of(result)
    if not result.is_error or output.lstrip()[:5].lower() == "error":
        return output
    return f"Error: {output}"


def anthropic_messages(
    messages: Sequence[ModelMessage], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return ``messages`` for the Messages API."""

    def spoken(message: AssistantMessage) -> list[dict[str, Any]]:
        blocks = [thought.block for thought in message.thoughts]
        blocks += _text_blocks(message.text)
        for call in message.calls:
            blocks += [thought.block for thought in call.thoughts]
            blocks.append(
                {
                    "type": "tool_use",
                    "id": call.call_id,
                    "name": names[call.tool],
                    "input": arguments_of(call),
                }
            )
        return blocks

    turns = alternate(messages, heard=_heard_blocks, spoken=spoken, answers=_answers)
    speaker, blocks = turns[-1]
    if speaker == "assistant":
        # Calls are never last, so this is a text that the model continues; it must not end in white
        # space.
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
    return [{"role": speaker, "content": blocks} for speaker, blocks in turns]


def _heard_blocks(message: UserMessage) -> list[dict[str, Any]]:
    return _text_blocks(message.text) + [_media_block(attachment) for attachment in message.media]


def _answers(message: AssistantMessage) -> list[dict[str, Any]]:
    return [_result_block(call, result) for call, result in calls_with_results(message)]


def _text_blocks(text: str) -> list[dict[str, Any]]:
    return [] if is_blank(text) else [{"type": "text", "text": text}]


def _result_block(call: Call, result: Result) -> dict[str, Any]:
    content: Any = output_of(result)
    if result.media:
        content = _text_blocks(result.output) + [
            _media_block(attachment) for attachment in result.media
        ]
    block = {"type": "tool_result", "tool_use_id": call.call_id, "content": content}
    return block | {"is_error": True} if result.is_error else block


def _media_block(media: Media) -> dict[str, Any]:
    source = (
        {"type": "url", "url": media.url}
        if media.data is None
        else {"type": "base64", "media_type": media.mime, "data": media.data}
    )
    if media.sort == "image":
        return {"type": "image", "source": source}
    block = {"type": "document", "source": source}
    return block | {"title": media.name} if media.name else block


def gemini_contents(
    messages: Sequence[ModelMessage], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return ``messages`` as contents for ``generate_content``."""

    def spoken(message: AssistantMessage) -> list[dict[str, Any]]:
        # A signature is part of the text or call after it.
        pending = message.thoughts
        parts = []
        if not is_blank(message.text):
            parts.append({"text": message.text} | _signed(pending))
            pending = ()
        for call in message.calls:
            function_call = {
                "id": call.call_id,
                "name": names[call.tool],
                "args": arguments_of(call),
            }
            parts.append({"function_call": function_call} | _signed([*pending, *call.thoughts]))
            pending = ()
        return parts

    def answers(message: AssistantMessage) -> list[dict[str, Any]]:
        responses: list[dict[str, Any]] = []
        media: list[dict[str, Any]] = []
        for call, result in calls_with_results(message):
            response_fields = {"error" if result.is_error else "output": output_of(result)}
            if result.media and is_blank(result.output):
                response_fields = {"output": f"{len(result.media)} attached"}
            response = {"id": call.call_id, "name": names[call.tool], "response": response_fields}
            responses.append({"function_response": response})
            media += [_media_part(attachment) for attachment in result.media]
        return responses + media

    turns = alternate(messages, heard=_heard_parts, spoken=spoken, answers=answers)
    return [
        {"role": "user" if speaker == "user" else "model", "parts": parts}
        for speaker, parts in turns
    ]


def _heard_parts(message: UserMessage) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [] if is_blank(message.text) else [{"text": message.text}]
    return parts + [_media_part(attachment) for attachment in message.media]


def _media_part(media: Media) -> dict[str, Any]:
    return {"inline_data": {"mime_type": media.mime, "data": _bytes(media.data or "")}}


def _signed(thoughts: Sequence[Thought]) -> dict[str, Any]:
    if not thoughts:
        return {}
    return {"thought_signature": _bytes(thoughts[-1].block["thought_signature"])}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return text.encode()
