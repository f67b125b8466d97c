"""Conversions of the OpenAI Agents SDK's inputs, answers, calls and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.adapters.replies import Reply
from treering.adapters.wire import (
    LOCAL_CALLS,
    arguments_of,
    item_call,
    items_sealed,
    items_text,
    items_thinking,
    new_items,
    objects,
    users_in,
)
from treering.model.parts import UsageReported
from treering.spine.conversion import to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agents import Agent, ModelResponse

__all__ = ["arguments_of", "asked", "calls_in", "model_of", "outputs_in", "reply_of", "text_of"]


def asked(items: Sequence[Any]) -> Sequence[tuple[str, list[Any]]]:
    """Return the user's last messages, each with its images, files and audio.

    A caller may pass the whole conversation again: only messages after the last answer are new.
    """
    return users_in(new_items(objects(list(items))))


def reply_of(response: ModelResponse, agent: Agent[Any], *, provider: str | None) -> Reply:
    """Return the reply in a model's response."""
    output = _output(response)
    model = model_of(agent)
    return Reply(
        text=items_text(output),
        thinking=items_thinking(output),
        sealed=tuple(items_sealed(output)),
        agent=agent.name,
        model=model,
        provider=provider,
        stop_reason="tool_use" if any(item["type"] in LOCAL_CALLS for item in output) else "stop",
        usage=_usage_of(response, model=model, provider=provider),
    )


def model_of(agent: Agent[Any]) -> str | None:
    """Return the name of an agent's model, or None for the SDK's default."""
    name = agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", None)
    return name if isinstance(name, str) else None


def calls_in(response: ModelResponse) -> dict[str, tuple[str, Any]]:
    """Return the function calls of a response by id: the tool's name and its input."""
    items = [item for item in _output(response) if item["type"] == "function_call"]
    return {call.call_id: (call.tool, call.input) for call in map(item_call, items)}


def outputs_in(items: Iterable[Any]) -> dict[str, str]:
    """Return the outputs of function calls, by call id."""
    return {
        item["call_id"]: text_of(item.get("output"))
        for item in objects(list(items))
        if item.get("type") == "function_call_output"
    }


def text_of(output: Any) -> str:
    """Return an agent's final output as text."""
    return to_text(output)[0]


def _output(response: ModelResponse) -> list[dict[str, Any]]:
    items: list[Any] = [*response.output]
    dumped = [item if isinstance(item, dict) else item.model_dump(warnings=False) for item in items]
    return [{"type": None, **item} for item in dumped]


def _usage_of(
    response: ModelResponse, *, model: str | None, provider: str | None
) -> UsageReported | None:
    usage = response.usage
    if not usage.input_tokens + usage.output_tokens:
        return None
    return UsageReported(
        model=model,
        provider=provider,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=getattr(usage.input_tokens_details, "cached_tokens", 0) or 0,
        total_tokens=usage.total_tokens,
    )
