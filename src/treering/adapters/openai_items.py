"""Conversions of the OpenAI Agents SDK's inputs, answers, calls and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.adapters.replies import Reply
from treering.model.parts import UsageReported
from treering.spine.conversion import plain, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agents import Agent, ModelResponse

_CALLS: Final = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "shell_call",
    }
)
"""Calls of tools that run locally, whose results the model waits for."""
_ATTACHED: Final = frozenset({"input_audio", "input_file", "input_image"})
"""Parts of the user's input that are not text."""


def asked(items: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Return the user's last messages, each with its images, files and audio.

    A caller may pass the whole conversation again: only messages after the last answer are new.
    """
    new: list[tuple[str, list[Any]]] = []
    for item in reversed(items):
        if not isinstance(item, dict) or item.get("role") != "user":
            break
        new.append(_content(item.get("content")))
    return new[::-1]


def reply_of(response: ModelResponse, agent: Agent[Any], *, provider: str | None) -> Reply:
    """Return the reply in a model's response."""
    calls = _CALLS & {_kind(item) for item in response.output}
    model = model_of(agent)
    return Reply(
        text="\n".join(_said(response.output)),
        thinking="\n".join(_thought(response.output)) or None,
        sealed=tuple(_sealed(response.output)),
        agent=agent.name,
        model=model,
        provider=provider,
        stop_reason="tool_use" if calls else "stop",
        usage=_usage_of(response, model=model, provider=provider),
    )


def model_of(agent: Agent[Any]) -> str | None:
    """Return the name of an agent's model, or None for the SDK's default."""
    name = agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", None)
    return name if isinstance(name, str) else None


def calls_in(response: ModelResponse) -> dict[str, tuple[str, Any]]:
    """Return the function calls of a response by id: the tool's name and its input."""
    calls: list[Any] = [item for item in response.output if _kind(item) == "function_call"]
    return {call.call_id: (call.name, arguments_of(call.arguments)) for call in calls}


def outputs_in(items: Iterable[Any]) -> dict[str, str]:
    """Return the outputs of function calls, by call id."""
    objects = [item for item in items if isinstance(item, dict)]
    return {
        item["call_id"]: text_of(item.get("output"))
        for item in objects
        if item.get("type") == "function_call_output"
    }


def arguments_of(text: Any) -> Any:
    """Return a call's arguments parsed as JSON, or unchanged if they are not JSON."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def text_of(output: Any) -> str:
    """Return an agent's final output as text."""
    return to_text(output)[0]


def _content(content: Any) -> tuple[str, list[Any]]:
    if isinstance(content, str):
        return plain(content), []
    parts = [part for part in content or () if isinstance(part, dict)]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return plain("\n".join(texts)), [part for part in parts if part.get("type") in _ATTACHED]


def _said(output: Iterable[Any]) -> list[str]:
    parts = (part for item in output if _kind(item) == "message" for part in item.content)
    texts = (getattr(part, "text", None) or getattr(part, "refusal", None) for part in parts)
    return [plain(text) for text in texts if isinstance(text, str) and text]


def _thought(output: Iterable[Any]) -> list[str]:
    parts = (part for item in output if _kind(item) == "reasoning" for part in item.summary)
    return [plain(part.text) for part in parts if part.text]


def _sealed(output: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the reasoning items that the provider accepts back."""
    for item in output:
        if _kind(item) == "reasoning" and getattr(item, "encrypted_content", None):
            summary = [{"type": "summary_text", "text": plain(part.text)} for part in item.summary]
            yield {"id": item.id, "summary": summary, "encrypted_content": item.encrypted_content}


def _kind(item: Any) -> Any:
    return getattr(item, "type", None)


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
