"""The run hooks of the OpenAI Agents SDK, recorded in a run of Treering's."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec
from agents import (
    FunctionSpanData,
    FunctionTool,
    RunHooks,
    default_tool_error_function,
    get_current_span,
)
from agents.tool import default_tool_timeout_error_message
from agents.tool_context import ToolContext
from typing_extensions import override

from treering.adapters.openai_items import (
    arguments_of,
    asked,
    calls_in,
    outputs_in,
    reply_of,
    text_of,
)
from treering.adapters.openai_stream import EventStream
from treering.adapters.replies import Reply, record_reply
from treering.errors import ToolDenied
from treering.spine.conversion import plain
from treering.spine.words import describe, shorten

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agents import Agent, ModelResponse, RunContextWrapper, Tool
    from agents.result import RunResultStreaming
    from agents.run_config import ToolErrorFormatterArgs
    from agents.run_context import AgentHookContext
    from agents.stream_events import StreamEvent

    from treering.spine.calls import ToolCall
    from treering.spine.runs import Run

Given = ParamSpec("Given")
Result = TypeVar("Result")


class TreeringHooks(RunHooks[Any]):
    """Hooks that record in ``run`` what the SDK's runner does: pass them as its ``hooks``.

    A tool's intent is durable before the tool runs. If the run is interrupted, or a tool may not
    run, the hook raises, and the runner stops there.
    """

    def __init__(self, run: Run, *, provider: str | None = None) -> None:
        self.run = run
        self._provider = provider
        # The engine is synchronous, and a commit may wait for a disk, a lock or a server: not on
        # the event loop. One thread keeps the order in which hooks were called, which a pool of
        # several would not, and finishes what it began when the task that asked is cancelled.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="treering")
        self._calls: dict[str, list[ToolCall]] = {}
        """Calls under way, by their id or, where the SDK tells none, by their tool."""
        self._ids: set[str] = set()
        """Call ids that the run has seen."""
        self._asked: dict[str, tuple[str, Any]] = {}
        """Calls of the latest answer that no tool has been started for."""
        self._errors: dict[str, Exception] = {}
        """What tools raised, by the id of their call."""
        self._heard = False
        """Whether the user's words are recorded."""
        self._reply = Reply()
        """The latest answer."""
        self._finished = False
        """Whether the agent has given its final output."""
        self._stream: EventStream | None = None

    async def in_order(
        self, act: Callable[Given, Result], *args: Given.args, **named: Given.kwargs
    ) -> Result:
        """Do ``act`` after all that was asked for before, off the event loop."""
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._thread, lambda: act(*args, **named))
        return await asyncio.shield(done)

    async def hear(self, given: str | list[Any]) -> None:
        """Record what the user asked, unless that is done."""
        if self._heard:
            return
        self._heard = True
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        for text, attached in asked(items):
            beside = {"attachments": attached} if attached else {}
            await self.in_order(self.run.user, text, **beside)

    def stream(self, result: RunResultStreaming) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed run, and carry the deltas among them to the sinks."""
        self._stream, self._finished = EventStream(result), False
        return self._followed(self._stream)

    @property
    def is_unfinished(self) -> bool:
        """Whether a streamed run was cancelled, or left before it came to its end."""
        stream = self._stream
        return stream is not None and not self._finished and not stream.result.interruptions

    # What the SDK calls.

    @override
    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        """Record what the user asked."""
        if not self._is_nested:
            await self.hear(context.turn_input)

    @override
    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[Any],
    ) -> None:
        """Record what became of calls that no tool was run for: refused, not approved, unknown."""
        if self._is_nested or not self._asked:
            return
        wanted, self._asked = self._asked, {}
        for call_id, told in outputs_in(input_items).items():
            if call_id in wanted:
                await self.in_order(self._refused, call_id, *wanted[call_id], told)

    @override
    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Record what the model answered, and what that used."""
        reply = reply_of(response, agent, provider=self._provider)
        if self._is_nested:
            # What an agent says that serves as a tool is that tool's output, and told there.
            reply = msgspec.structs.replace(reply, text="")
        else:
            self._reply, self._asked = reply, calls_in(response)
            if self._stream is not None:
                await self._stream.catch_up()
        await self.in_order(record_reply, self.run, reply)

    @override
    async def on_tool_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool
    ) -> None:
        """Record that a tool is about to run. Raises ToolDenied if it may not."""
        given = None
        # A run that was paused goes on with its tools: what was asked is recorded before the pause.
        self._heard = True
        if isinstance(context, ToolContext):
            given = arguments_of(context.tool_arguments)
            self._watch(context)
        await self._start(context, tool, given)

    @override
    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object
    ) -> None:
        """Record what became of a tool call."""
        key = _key(context, tool)
        waiting = self._calls.get(key)
        # A call that was started before the run was paused has no start in this one.
        call = waiting.pop(0) if waiting else await self._start(context, tool, None)
        if not self._calls[key]:
            del self._calls[key]
        error = self._errors.pop(key, None)
        if error is not None:
            told = describe(error)
            await self.in_order(call.fail, f"{told['class']}: {told['message']}")
        elif _timed_out(tool, result):
            await self.in_order(call.give_up, "timeout")
        elif _failed_in_span(tool) or _sounds_failed(context, result):
            await self.in_order(call.fail, text_of(result))
        else:
            await self.in_order(call.finish, result)

    @override
    async def on_handoff(
        self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]
    ) -> None:
        """Record which agent hands over to which."""
        told = {"from_agent": from_agent.name, "to_agent": to_agent.name}
        self._asked = {}
        words = shorten(f"handed over from {from_agent.name} to {to_agent.name}")
        await self.in_order(self.run.emit, "ops.decision", told, summary=words, refs=told)

    @override
    async def on_agent_end(
        self, context: AgentHookContext[Any], agent: Agent[Any], output: Any
    ) -> None:
        """Record the final output, where that is not what the model said last."""
        if self._is_nested:
            return
        self._finished, self._heard = True, False
        if not self._reply.text or self._reply.stop_reason == "tool_use":
            reply = Reply(text=text_of(output), agent=agent.name, stop_reason="stop")
            await self.in_order(record_reply, self.run, reply)

    # How it is done.

    @property
    def _is_nested(self) -> bool:
        """Whether what happens now happens inside a tool: an agent may serve as one."""
        return bool(self._calls)

    async def _start(self, context: RunContextWrapper[Any], tool: Tool, given: Any) -> ToolCall:
        key = _key(context, tool)
        # Some models count their calls anew in every answer; the ledger wants an id once.
        known = not isinstance(context, ToolContext) or key in self._ids
        self._ids.add(key)
        self._asked.pop(key, None)
        call = await self.in_order(
            self.run.tools.started, tool.name, given, call_id=None if known else key
        )
        self._calls.setdefault(key, []).append(call)
        if call.input != given:
            told = {"code": "input_not_replaced", "message": f"{tool.name} ran with its own input"}
            await self.in_order(self.run.emit, "ops.warning", told)
        return call

    def _refused(self, call_id: str, tool: str, given: Any, told: str) -> None:
        """Record a call that was answered without a tool: it has failed."""
        fresh = None if call_id in self._ids else call_id
        # One that may not run here has its outcome, and did not run.
        with contextlib.suppress(ToolDenied):
            self.run.tools.started(tool, given, call_id=fresh).fail(told)

    def _watch(self, context: ToolContext[Any]) -> None:
        """Have the SDK tell what the tool raises.

        Hooks are only given the text that the model is told of a failure. The formatter of errors
        is given the error; it is set on the copy of the settings that this one call looks at.
        """
        config, call_id = context.run_config, context.tool_call_id
        if config is None:
            return
        theirs = config.tool_error_formatter

        def note(told: ToolErrorFormatterArgs[Any]) -> Any:
            if told.error is not None and told.call_id == call_id:
                self._errors[call_id] = told.error
            return None if theirs is None else theirs(told)

        context.run_config = dataclasses.replace(config, tool_error_formatter=note)

    async def _followed(self, stream: EventStream) -> AsyncIterator[StreamEvent]:
        try:
            async for event in stream.result.stream_events():
                piece = stream.take(event)
                if piece:
                    await self.in_order(self.run.delta, plain(piece))
                yield event
        finally:
            stream.close()


def _key(context: RunContextWrapper[Any], tool: Tool) -> str:
    return context.tool_call_id if isinstance(context, ToolContext) else tool.name


def _timed_out(tool: Tool, result: object) -> bool:
    if not isinstance(tool, FunctionTool) or tool.timeout_seconds is None:
        return False
    told = default_tool_timeout_error_message(
        tool_name=tool.name, timeout_seconds=tool.timeout_seconds
    )
    return tool.timeout_error_function is None and result == told


def _sounds_failed(context: RunContextWrapper[Any], result: object) -> bool:
    """Whether the model is told in the SDK's own words that the tool failed.

    Before version 0.24 that is all there is to know where tracing is off.
    """
    words = default_tool_error_function(context, Exception())
    return isinstance(result, str) and result.startswith(words)


def _failed_in_span(tool: Tool) -> bool:
    """Whether the SDK's tracing, if that is on, has noted a failure that became a text."""
    span = get_current_span()
    return (
        span is not None
        and isinstance(span.span_data, FunctionSpanData)
        and span.span_data.name == tool.name
        and span.error is not None
    )
