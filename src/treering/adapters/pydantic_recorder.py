"""A capability of Pydantic AI that records the runs of an agent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
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

from treering.adapters.lenient_writer import LenientWriter, Reply, record_reply
from treering.adapters.message_recorder import MessagePart
from treering.adapters.wire import arguments_of
from treering.errors import RunInterrupted, ToolDenied
from treering.model.parts import UsageReported
from treering.spine.conversion import plain, to_json
from treering.spine.off_loop import Lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.capabilities.abstract import (
        WrapModelRequestHandler,
        WrapRunHandler,
        WrapToolExecuteHandler,
    )
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from treering.ledger.sessions import Session
    from treering.spine.runs import Run, ToolCall


class TreeringRecorder(AbstractCapability[Any]):
    """Records each run in a session: what is said, tool calls and usage.

    Within a turn, a run belongs to that turn. Raises ToolDenied for a tool
    that may not run, and RunInterrupted once the session is interrupted. Any other failure to
    record is counted in ``writer.lost`` and logged, unless ``strict``.
    """

    def __init__(self, session: Session, *, strict: bool = False) -> None:
        super().__init__()
        self.session = session
        self.writer = LenientWriter(session, strict=strict, raising=(RunInterrupted, ToolDenied))
        self._lanes = Lanes()

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:  # noqa: ARG002
        """Return a recorder of one run."""
        return RunRecorder(self)

    async def attempt(self, act: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Return what ``act`` returns, off the event loop, in order; None if it fails."""
        return await self._lanes.run("run", partial(self.writer.attempt, act, *args, **named))


class RunRecorder(AbstractCapability[Any]):
    """Records one run."""

    def __init__(self, recorder: TreeringRecorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._run: Run | None = None
        self._is_nested = False
        """Whether this agent is a tool of another run: its words are that tool's output."""
        self._ids: set[str] = set()

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Record the start, the user's words and the end."""
        begun = await self._recorder.attempt(self._begin, ctx.prompt)
        try:
            result = await handler()
        except BaseException as error:
            if begun is not None:
                trace = error.__traceback__
                await self._recorder.attempt(begun.__exit__, type(error), error, trace)
            await self._recorder.attempt(self._recorder.writer.flush)
            raise
        if begun is not None:
            await self._recorder.attempt(begun.__exit__, None, None, None)
        await self._recorder.attempt(self._recorder.writer.flush)
        return result

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002  (the capability's)
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        """Record the answer and its usage."""
        response = await handler(request_context)
        if self._run is not None:
            await self._recorder.attempt(self._reply, response)
        return response

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],  # noqa: ARG002  (the capability's)
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,  # noqa: ARG002  (the capability's)
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Record a tool call: its intent before it runs, and its outcome."""
        started: ToolCall | None = None
        if self._run is not None:
            started = await self._recorder.attempt(self._start, call, args)
        try:
            output = await handler(args)
        except BaseException as error:
            if started is not None:
                end = partial(started.__exit__, type(error), error, error.__traceback__)
                await self._recorder.attempt(end)
            raise
        if started is not None:
            await self._recorder.attempt(started.finish, output)
        return output

    # In the ledger.

    def _begin(self, prompt: Any) -> Run | None:
        """Begin a run, or join the current one; return it if it must be ended here."""
        session = self._recorder.session
        run, begun = session.running, None
        if run is None:
            run = begun = session.turn(entry_point="pydantic-ai")
            begun.start()
        self._run = run
        self._is_nested = bool(run.tools.open_calls())
        if prompt is not None and not self._is_nested:
            message = user_of(prompt)
            users = session.events(kinds=["conversation.user"], turn_id=run.turn_id)
            if message.text not in [event.payload["text"] for event in users if not event.redacted]:
                run.user(message.text, **message.extra)
        return begun

    def _reply(self, response: ModelResponse) -> None:
        reply = reply_of(response)
        if self._run is not None:
            record_reply(self._run, reply.without_text() if self._is_nested else reply)

    def _start(self, call: ToolCallPart, args: dict[str, Any]) -> ToolCall | None:
        if self._run is None:
            return None
        # Some models restart their ids in every answer; the ledger needs unique ones.
        call_id = None if call.tool_call_id in self._ids else call.tool_call_id
        self._ids.add(call.tool_call_id)
        return self._run.tools.started(call.tool_name, args, call_id=call_id)


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
