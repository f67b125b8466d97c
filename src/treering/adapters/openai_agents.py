"""Records the runs of the OpenAI Agents SDK through its run hooks, and keeps its sessions.

    async with record(spine, session) as hooks:
        result = await Runner.run(agent, "What changed since Friday?", hooks=hooks)

The block is one run. Leaving it without an answer fails or interrupts the run. A TreeringSession
is the memory of an agent: with or without a recorder.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypedDict, TypeVar, Unpack, cast

from typing_extensions import override

from treering.adapters.item_log import ItemLog, MessagePart
from treering.adapters.lenient_writer import LenientWriter, Reply, record_reply
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
from treering.errors import RunActive, RunInterrupted, ToolDenied, TreeringError, Unsupported
from treering.model.parts import UsageReported
from treering.spine.conversion import plain, to_text
from treering.spine.off_loop import Lanes
from treering.spine.words import describe, shorten

try:
    from agents import (
        FunctionSpanData,
        FunctionTool,
        RunHooks,
        default_tool_error_function,
        get_current_span,
    )
    from agents.exceptions import (
        AgentsException,
        InputGuardrailTripwireTriggered,
        OutputGuardrailTripwireTriggered,
        ToolInputGuardrailTripwireTriggered,
        ToolOutputGuardrailTripwireTriggered,
        UserError,
    )
    from agents.memory.session_settings import SessionSettings, resolve_session_limit
    from agents.tool import default_tool_timeout_error_message
    from agents.tool_context import ToolContext
except ImportError as missing:
    raise Unsupported(
        f"the OpenAI Agents SDK is not installed ({missing})",
        hint="pip install 'treering[openai-agents]'",
    ) from missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from agents import Agent, ModelResponse, RunContextWrapper, Tool
    from agents.items import TResponseInputItem
    from agents.result import RunResultStreaming
    from agents.run_config import ToolErrorFormatterArgs
    from agents.run_context import AgentHookContext
    from agents.stream_events import StreamEvent

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.spine.dispatcher import Spine
    from treering.spine.runs import Run, ToolCall

__all__ = ["TreeringHooks", "TreeringSession", "record"]

_RUNTIME: Final = "openai-agents"
_TRIPWIRES: Final = (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)


class RunOptions(TypedDict, total=False):
    """What may be said of a run before it begins."""

    agent: str | None
    entry_point: str | None
    model: str | None
    turn_id: str | None
    prompt: str | None
    """Shown to hooks that prepare a run."""
    wait_s: float | None


@contextlib.asynccontextmanager
async def record(
    spine: Spine,
    session: Session,
    *,
    provider: str | None = None,
    strict: bool = False,
    **options: Unpack[RunOptions],
) -> AsyncIterator[TreeringHooks]:
    """Record a run of the SDK: pass the hooks to ``Runner.run`` or ``Runner.run_streamed``.

    ``options`` are those of ``spine.run``. Raises RunActive if the session is busy with another
    run, RunInterrupted if this run is interrupted, and ToolDenied if the agent calls a tool that it
    may not use. If the ledger fails, the run continues unrecorded, unless ``strict``.
    """
    run = spine.run(session, runtime=_RUNTIME, provider=provider, **options)
    hooks = TreeringHooks(run, provider=provider, strict=strict)
    hooks.is_off = await hooks.in_order(run.start) is None
    try:
        yield hooks
    except BaseException as error:
        if run.is_open and isinstance(error, AgentsException):
            await _explain(hooks, error)
        cause = _unwrapped(error)
        await hooks.in_order(run.__exit__, type(cause), cause, cause.__traceback__)
        await hooks.report()
        if cause is error:
            raise
        raise cause from error
    if hooks.is_unfinished:
        await hooks.in_order(run.interrupt, "the stream was left unfinished")
    else:
        await hooks.in_order(run.__exit__, None, None, None)
    await hooks.report()


async def _explain(hooks: TreeringHooks, error: AgentsException) -> None:
    """Record what the hooks did not receive before the SDK gave up."""
    if error.run_data is not None:
        await hooks.record_input(error.run_data.input)
    if isinstance(error, _TRIPWIRES):
        payload = {"code": "guardrail", "guardrail": type(error).__name__}
        await hooks.in_order(hooks.run.emit, "ops.blocked", payload)


def _unwrapped(error: BaseException) -> BaseException:
    """Return our own error if the SDK wrapped it: an error in a tool becomes a UserError."""
    cause = error.__cause__
    return cause if isinstance(error, UserError) and isinstance(cause, TreeringError) else error


class TreeringSession:
    """The memory of an agent: pass it as ``session`` to ``Runner.run``.

    What the items say is recorded in the ledger's session of the same id: searched, shown and
    remembered like any other. If the run is recorded as well, by ``record``, nothing is recorded
    twice. Popped items are hidden; cleared ones stay in the past. A ledger that fails costs the
    record: items wait in memory, unless ``strict``.
    """

    def __init__(
        self,
        ledger: Ledger,
        session_id: str,
        *,
        scope: str,
        agent: str = "openai-agents",
        user: str | None = None,
        session_settings: SessionSettings | None = None,
        strict: bool = False,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        session = ledger.session(session_id, scope=scope, agent=agent, user=user)
        self.log = ItemLog(ledger, session, parts_of, strict=strict)
        """The items in the ledger, with what waits or was lost."""
        self._lanes = Lanes()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in order: all, or the last ones."""
        last = resolve_session_limit(limit, self.session_settings)
        return await self._lanes.run(self, self.log.items, last)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items; completed even if the task is cancelled."""
        await self._lanes.complete(self, self.log.add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it; None if the session is empty."""
        popped = await self._lanes.complete(self, self.log.pop)
        return cast("TResponseInputItem | None", popped)

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._lanes.complete(self, self.log.clear)


def parts_of(item: Any) -> list[MessagePart]:
    """Return what an item of the Responses API says to others: a message, a call or its output."""
    if not isinstance(item, dict):
        return []
    kind, role = item.get("type") or "message", item.get("role")
    if kind == "message" and role == "user":
        return [
            MessagePart(sort="user", text=text, extra={"attachments": attached} if attached else {})
            for text, attached in users_in([item])
        ]
    if kind == "message" and role == "assistant":
        content = item.get("content")
        text = plain(content) if isinstance(content, str) else items_text([{**item, "type": kind}])
        return [MessagePart(sort="assistant", text=text)] if text else []
    if kind in LOCAL_CALLS:
        call = item_call(item)
        return [MessagePart(sort="call", call_id=call.call_id, tool=call.tool, value=call.input)]
    if kind.endswith("_call_output"):
        call_id = str(item.get("call_id") or "")
        return [MessagePart(sort="output", call_id=call_id, value=item.get("output"))]
    return []


CATCH_UP_SECONDS_MAX: Final = 10.0
"""How long an answer waits until its deltas are read."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


class TreeringHooks(RunHooks[Any]):
    """Hooks that record the SDK's run in ``run``: pass them as ``hooks``.

    A tool's intent is durable before the tool runs. If the run is interrupted or a tool is denied,
    the hook raises, which stops the runner. Any other failure to record is counted in
    ``writer.lost`` and logged, unless ``strict``.
    """

    def __init__(self, run: Run, *, provider: str | None = None, strict: bool = False) -> None:
        self.run = run
        self.writer = LenientWriter(
            run.session, strict=strict, raising=(RunActive, RunInterrupted, ToolDenied)
        )
        self.is_off = False
        """Whether the run could not begin: then none of it is recorded."""
        self._provider = provider
        # The engine is synchronous, and a commit may wait for a disk, a lock or a server, so it
        # must not run on the event loop. A single thread keeps the order of the hooks' calls, which
        # a pool would not, and finishes a started write even if the task that asked is cancelled.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="treering")
        self._calls: dict[str, list[ToolCall | None]] = {}
        """Running calls, by call id or, where the SDK gives none, by tool."""
        self._ids: set[str] = set()
        """Call ids that the run has used."""
        self._asked: dict[str, tuple[str, Any]] = {}
        """Calls of the latest answer without a started tool."""
        self._errors: dict[str, Exception] = {}
        """Errors that tools raised, by call id."""
        self._heard = False
        """Whether the user's input is recorded."""
        self._reply = Reply()
        """The latest answer."""
        self._finished = False
        """Whether the agent has returned its final output."""
        self._stream: EventStream | None = None

    async def in_order(
        self, act: Callable[Given, Result], *args: Given.args, **named: Given.kwargs
    ) -> Result | None:
        """Call ``act`` off the event loop, after all earlier calls; return None if it fails."""
        if self.is_off:
            return None
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._thread, lambda: self.writer.attempt(act, *args, **named))
        return await asyncio.shield(done)

    async def report(self) -> None:
        """Note in the ledger what was not recorded of the run, if that works again."""
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(self._thread, self.writer.flush))

    async def record_input(self, given: str | list[Any]) -> None:
        """Record the user's input, unless it is recorded already."""
        if self._heard:
            return
        self._heard = True
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        await self.in_order(self._record_users, asked(items))

    def _record_users(self, users: Sequence[tuple[str, list[Any]]]) -> None:
        """Record what users say, unless a TreeringSession has recorded it in this turn."""
        run = self.run
        recorded = [
            event.payload["text"]
            for event in run.session.events(kinds=["conversation.user"], turn_id=run.turn_id)
            if event.run_id == run.run_id and not event.redacted
        ]
        for text, attached in users:
            if text in recorded:
                recorded.remove(text)
            else:
                run.user(text, **({"attachments": attached} if attached else {}))

    def stream(self, result: RunResultStreaming) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed run, and pass its deltas to the sinks."""
        self._stream, self._finished = EventStream(result), False
        return self._followed(self._stream)

    @property
    def is_unfinished(self) -> bool:
        """Return whether a streamed run was cancelled or abandoned before its end."""
        stream = self._stream
        return stream is not None and not self._finished and not stream.result.interruptions

    # Called by the SDK.

    @override
    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        """Record the user's input."""
        if not self._is_nested:
            await self.record_input(context.turn_input)

    @override
    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[Any],
    ) -> None:
        """Record calls that were answered without a tool: refused, not approved, unknown."""
        if self._is_nested or not self._asked:
            return
        unanswered, self._asked = self._asked, {}
        for call_id, output in outputs_in(input_items).items():
            if call_id in unanswered:
                await self.in_order(self._refused, call_id, *unanswered[call_id], output)

    @override
    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Record the model's answer and its usage."""
        reply = reply_of(response, agent, provider=self._provider)
        if self._is_nested:
            # An agent that serves as a tool answers in that tool's output, which is recorded there.
            reply = reply.without_text()
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
        # A paused run resumes with its tools: its input was recorded before the pause.
        self._heard = True
        if isinstance(context, ToolContext):
            given = arguments_of(context.tool_arguments)
            self._watch(context)
        await self._start(context, tool, given)

    @override
    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object
    ) -> None:
        """Record the outcome of a tool call."""
        key = _key(context, tool)
        waiting = self._calls.get(key)
        # A call that started before the run was paused has no start in this run.
        call = waiting.pop(0) if waiting else await self._start(context, tool, None)
        if not self._calls.get(key):
            self._calls.pop(key, None)
        error = self._errors.pop(key, None)
        if call is None:
            return
        if error is not None:
            described = describe(error)
            await self.in_order(call.fail, f"{described['class']}: {described['message']}")
        elif _timed_out(tool, result):
            await self.in_order(call.give_up, "timeout")
        elif _failed_in_span(tool) or _has_error_text(context, result):
            await self.in_order(call.fail, text_of(result))
        else:
            await self.in_order(call.finish, result)

    @override
    async def on_handoff(
        self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]
    ) -> None:
        """Record the handover from one agent to another."""
        agents = {"from_agent": from_agent.name, "to_agent": to_agent.name}
        self._asked = {}
        summary = shorten(f"handed over from {from_agent.name} to {to_agent.name}")
        await self.in_order(self.run.emit, "ops.decision", agents, summary=summary, refs=agents)

    @override
    async def on_agent_end(
        self, context: AgentHookContext[Any], agent: Agent[Any], output: Any
    ) -> None:
        """Record the final output if the model's last answer did not contain it."""
        if self._is_nested:
            return
        self._finished, self._heard = True, False
        if not self._reply.text or self._reply.stop_reason == "tool_use":
            reply = Reply(text=text_of(output), agent=agent.name, stop_reason="stop")
            await self.in_order(record_reply, self.run, reply)

    # Helpers.

    @property
    def _is_nested(self) -> bool:
        """Return whether a tool is running: an agent may serve as one."""
        return bool(self._calls)

    async def _start(
        self, context: RunContextWrapper[Any], tool: Tool, given: Any
    ) -> ToolCall | None:
        key = _key(context, tool)
        # Some models restart their call ids in every answer; the ledger needs unique ids.
        is_known = not isinstance(context, ToolContext) or key in self._ids
        self._ids.add(key)
        self._asked.pop(key, None)
        call = await self.in_order(
            self.run.tools.started, tool.name, given, call_id=None if is_known else key
        )
        self._calls.setdefault(key, []).append(call)
        if call is not None and call.input != given:
            warning = {
                "code": "input_not_replaced",
                "message": f"{tool.name} ran with its own input",
            }
            await self.in_order(self.run.emit, "ops.warning", warning)
        return call

    def _refused(self, call_id: str, tool: str, given: Any, error: str) -> None:
        """Record a call that was answered without a tool as failed."""
        fresh = None if call_id in self._ids else call_id
        # A denied tool has its outcome recorded already, and did not run.
        with contextlib.suppress(ToolDenied):
            self.run.tools.started(tool, given, call_id=fresh).fail(error)

    def _watch(self, context: ToolContext[Any]) -> None:
        """Capture the error that the tool raises.

        Hooks only receive the text that the model sees for a failure. The error formatter receives
        the error itself; it is set on a copy of the settings for this one call.
        """
        config, call_id = context.run_config, context.tool_call_id
        if config is None:
            return
        original = config.tool_error_formatter

        def note(args: ToolErrorFormatterArgs[Any]) -> Any:
            if args.error is not None and args.call_id == call_id:
                self._errors[call_id] = args.error
            return None if original is None else original(args)

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
    message = default_tool_timeout_error_message(
        tool_name=tool.name, timeout_seconds=tool.timeout_seconds
    )
    return tool.timeout_error_function is None and result == message


def _has_error_text(context: RunContextWrapper[Any], result: object) -> bool:
    """Return whether the result is the SDK's own error text.

    Before version 0.24 this is the only sign of a failure when tracing is off.
    """
    words = default_tool_error_function(context, Exception())
    return isinstance(result, str) and result.startswith(words)


def _failed_in_span(tool: Tool) -> bool:
    """Return whether the SDK's tracing, if enabled, recorded a failure of the tool."""
    span = get_current_span()
    return (
        span is not None
        and isinstance(span.span_data, FunctionSpanData)
        and span.span_data.name == tool.name
        and span.error is not None
    )


class EventStream:
    """The progress of a streamed run's reader relative to the runner.

    The runner does not wait for its events to be read. An answer that is about to be recorded
    therefore waits for the reader; deltas that come even later are dropped.
    """

    def __init__(self, result: RunResultStreaming) -> None:
        self.result = result
        self._read = 0
        """The number of answers that the reader has read completely."""
        self._recorded = 0
        """The number of answers that the runner has recorded."""
        self._is_over = False
        self._moved = asyncio.Event()

    def take(self, event: StreamEvent) -> str | None:
        """Note that the reader has read ``event``; return its text delta, if any."""
        if event.type != "raw_response_event":
            return None
        if event.data.type == "response.completed":
            self._read += 1
            self._moved.set()
        elif event.data.type == "response.output_text.delta" and self._read >= self._recorded:
            return event.data.delta
        return None

    async def catch_up(self) -> None:
        """Wait until the reader has read the next answer completely, or has stopped."""
        wanted = self._recorded + 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                while self._read < wanted and not self._is_over:
                    self._moved.clear()
                    await self._moved.wait()
        self._recorded = wanted

    def close(self) -> None:
        """Note that the reader has stopped."""
        self._is_over = True
        self._moved.set()


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
