"""A model of the OpenAI Agents SDK that answers from a script, whole or in pieces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from agents import Model, ModelResponse, Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agents.items import TResponseOutputItem, TResponseStreamEvent

NAME = "scripted-1"
Call = tuple[str, str, dict[str, Any]]
"""Its id, its tool and its input."""


class Answer(msgspec.Struct, frozen=True):
    """The text of an answer and its tool calls."""

    pieces: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    error: Exception | None = None


class ScriptedModel(Model):
    """Returns the answers of its script, one per request."""

    model = NAME

    def __init__(self, *answers: Answer) -> None:
        self._left = list(answers)

    @override
    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        answer = self._next()
        usage = Usage(
            requests=1,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            total_tokens=answer.input_tokens + answer.output_tokens,
        )
        return ModelResponse(output=_output(answer), usage=usage, response_id="response")

    @override
    async def stream_response(
        self, *args: Any, **named: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        answer = self._next()
        for number, piece in enumerate(answer.pieces):
            yield ResponseTextDeltaEvent(
                content_index=0,
                delta=piece,
                item_id="said",
                logprobs=[],
                output_index=0,
                sequence_number=number,
                type="response.output_text.delta",
            )
        yield ResponseCompletedEvent(
            response=_response(answer),
            sequence_number=len(answer.pieces),
            type="response.completed",
        )

    def _next(self) -> Answer:
        answer = self._left.pop(0)
        if answer.error is not None:
            raise answer.error
        return answer


def _output(answer: Answer) -> list[TResponseOutputItem]:
    output: list[TResponseOutputItem] = []
    if answer.pieces:
        text = ResponseOutputText(annotations=[], text="".join(answer.pieces), type="output_text")
        output.append(
            ResponseOutputMessage(
                id="said", content=[text], role="assistant", status="completed", type="message"
            )
        )
    output += [
        ResponseFunctionToolCall(
            arguments=json.dumps(given), call_id=call_id, name=tool, type="function_call"
        )
        for call_id, tool, given in answer.calls
    ]
    return output


def _response(answer: Answer) -> Response:
    return Response(
        id="response",
        created_at=0,
        model=NAME,
        object="response",
        output=_output(answer),
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=ResponseUsage(
            input_tokens=answer.input_tokens,
            input_tokens_details=InputTokensDetails.model_validate(
                {"cached_tokens": 0, "cache_write_tokens": 0}
            ),
            output_tokens=answer.output_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
            total_tokens=answer.input_tokens + answer.output_tokens,
        ),
    )
