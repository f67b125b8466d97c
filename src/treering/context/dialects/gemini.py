"""Gemini's format: contents of parts, user and model alternating.

Fields are named as in Google's Python SDK; its REST API accepts those names, too. Bytes are bytes,
as the SDK expects; in JSON they are base64.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from treering.context.dialects.turns import (
    alternate,
    arguments_of,
    calls_with_results,
    is_blank,
    output_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.media import Media
    from treering.model.messages import AssistantMessage, ModelMessage, Thought, UserMessage


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

    turns = alternate(messages, heard=_heard, spoken=spoken, answers=answers)
    return [
        {"role": "user" if speaker == "user" else "model", "parts": parts}
        for speaker, parts in turns
    ]


def _heard(message: UserMessage) -> list[dict[str, Any]]:
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
