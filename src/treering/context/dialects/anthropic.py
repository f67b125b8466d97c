"""Anthropic's spelling: messages of blocks, user and assistant in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.context.dialects.turns import alternate, arguments_of, output_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.messages import Call, ModelMessage, Result


def anthropic_messages(
    messages: Sequence[ModelMessage], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return ``messages`` for the Messages API."""

    def call_block(call: Call) -> dict[str, Any]:
        return {
            "type": "tool_use",
            "id": call.call_id,
            "name": names[call.tool],
            "input": arguments_of(call),
        }

    turns = alternate(messages, say=_text_block, call=call_block, answer=_result_block)
    speaker, blocks = turns[-1]
    if speaker == "assistant":
        # Calls are never last, so this is a text: one that the model goes on from, which must not
        # end in white space.
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
    return [{"role": speaker, "content": blocks} for speaker, blocks in turns]


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _result_block(call: Call, result: Result) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": call.call_id,
        "content": output_of(result),
    }
    if result.is_error:
        block["is_error"] = True
    return block
