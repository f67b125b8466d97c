"""Gemini's spelling: contents of parts, user and model in turn.

Fields are spelled as in Google's Python SDK; its REST interface takes that spelling too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.context.dialects.turns import alternate, arguments_of, output_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.messages import Call, ModelMessage, Result


def gemini_contents(
    messages: Sequence[ModelMessage], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return ``messages`` as contents for ``generate_content``."""

    def call_part(call: Call) -> dict[str, Any]:
        return {
            "function_call": {
                "id": call.call_id,
                "name": names[call.tool],
                "args": arguments_of(call),
            }
        }

    def result_part(call: Call, result: Result) -> dict[str, Any]:
        return {
            "function_response": {
                "id": call.call_id,
                "name": names[call.tool],
                "response": {"error" if result.is_error else "output": output_of(result)},
            }
        }

    turns = alternate(messages, say=_text_part, call=call_part, answer=result_part)
    return [
        {"role": "user" if speaker == "user" else "model", "parts": parts}
        for speaker, parts in turns
    ]


def _text_part(text: str) -> dict[str, Any]:
    return {"text": text}
