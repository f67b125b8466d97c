"""What messages of Pydantic AI say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from treering.adapters.message_recorder import MessagePart
from treering.adapters.replies import Reply
from treering.adapters.wire import arguments_of
from treering.model.parts import UsageReported
from treering.spine.conversion import plain, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_ai.messages import ModelMessage


def parts_of(message: ModelMessage) -> list[MessagePart]:
    """Return what a message says to others."""
    return list(_parts(message))


def _parts(message: ModelMessage) -> Iterator[MessagePart]:
    if isinstance(message, ModelResponse):
        text = text_of(message)
        if text:
            yield MessagePart(sort="assistant", text=text)
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            yield user_of(part.content)
        elif isinstance(part, ToolCallPart | NativeToolCallPart):
            yield MessagePart(
                sort="call",
                call_id=part.tool_call_id,
                tool=part.tool_name,
                value=arguments_of(part.args),
            )
        elif isinstance(part, ToolReturnPart | NativeToolReturnPart):
            yield MessagePart(
                sort="output",
                call_id=part.tool_call_id,
                tool=part.tool_name,
                value=part.content,
                is_error=getattr(part, "outcome", "success") == "failed",
            )
        elif isinstance(part, RetryPromptPart) and part.tool_name is not None:
            yield MessagePart(
                sort="output",
                call_id=part.tool_call_id,
                tool=part.tool_name,
                value=part.content,
                is_error=True,
            )


def user_of(content: Any) -> MessagePart:
    """Return what a user says, with what is attached to it."""
    if isinstance(content, str):
        return MessagePart(sort="user", text=plain(content))
    parts = list(content or ())
    text = "\n".join(
        part if isinstance(part, str) else str(getattr(part, "content", ""))
        for part in parts
        if isinstance(part, str) or getattr(part, "kind", None) == "text-content"
    )
    rest = [
        to_json(part)[0]
        for part in parts
        if getattr(part, "kind", "text") not in {"text", "text-content"}
    ]
    return MessagePart(sort="user", text=plain(text), extra={"attachments": rest} if rest else {})


def text_of(message: ModelResponse) -> str:
    """Return what a model says in an answer."""
    texts = [part.content for part in message.parts if isinstance(part, TextPart)]
    return plain("\n".join(text for text in texts if text))


def reply_of(message: ModelResponse) -> Reply:
    """Return an answer of a model in the form of all runtimes."""
    thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
    sealed = tuple(
        {"thinking": plain(part.content or ""), "signature": part.signature}
        for part in thoughts
        if part.signature
    )
    open_thoughts = [part.content for part in thoughts if not part.signature and part.content]
    calls = any(isinstance(part, ToolCallPart) for part in message.parts)
    used = message.usage
    usage = None
    if used.input_tokens or used.output_tokens:
        usage = UsageReported(
            model=message.model_name,
            provider=message.provider_name,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cache_read_tokens,
            total_tokens=used.input_tokens + used.output_tokens,
        )
    return Reply(
        text=text_of(message),
        thinking=plain("\n".join(open_thoughts)) or None,
        sealed=sealed,
        model=message.model_name,
        provider=message.provider_name,
        stop_reason="tool_use" if calls else "stop",
        usage=usage,
    )
