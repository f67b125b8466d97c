"""Anthropic's format: messages of blocks, user and assistant alternating."""

from __future__ import annotations

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
    from treering.model.messages import (
        AssistantMessage,
        Call,
        ModelMessage,
        Result,
        UserMessage,
    )


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

    turns = alternate(messages, heard=_heard, spoken=spoken, answers=_answers)
    speaker, blocks = turns[-1]
    if speaker == "assistant":
        # Calls are never last, so this is a text that the model continues; it must not end in white
        # space.
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
    return [{"role": speaker, "content": blocks} for speaker, blocks in turns]


def _heard(message: UserMessage) -> list[dict[str, Any]]:
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
