"""Messages for a model without tools: calls and results become text.

User and assistant alternate, the user first, since many chat templates accept nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.context.dialects.turns import (
    alternate,
    arguments_of,
    calls_with_results,
    is_blank,
    output_of,
)
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.messages import AssistantMessage, Call, ModelMessage, Result, UserMessage


def plain_messages(messages: Sequence[ModelMessage], system: str | None) -> list[dict[str, Any]]:
    """Return ``messages`` as roles and texts, the system text first."""
    turns = alternate(messages, heard=_heard, spoken=_spoken, answers=_answers)
    rendered = [{"role": speaker, "content": "\n\n".join(texts)} for speaker, texts in turns]
    if system is not None:
        rendered.insert(0, {"role": "system", "content": system})
    return rendered


def _heard(message: UserMessage) -> list[str]:
    return [] if is_blank(message.text) else [message.text]


def _spoken(message: AssistantMessage) -> list[str]:
    texts = [] if is_blank(message.text) else [message.text]
    return texts + [_call_text(call) for call in message.calls]


def _answers(message: AssistantMessage) -> list[str]:
    return [_result_text(call, result) for call, result in calls_with_results(message)]


def _call_text(call: Call) -> str:
    return f"[tool call {call.call_id}] {call.tool} {encode(arguments_of(call)).decode()}"


def _result_text(call: Call, result: Result) -> str:
    outcome = "error" if result.is_error else "result"
    return f"[tool {outcome} {call.call_id}] {call.tool}\n{output_of(result)}"
