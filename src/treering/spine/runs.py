"""Runs and their tool calls. A run starts once and ends once, whatever its caller does."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from msgspec.structs import replace

from treering.errors import InvalidInput, RunClosed, TreeringError
from treering.lazy import LazyModule
from treering.locks import Lock
from treering.model.arguments import checks_arguments
from treering.model.fields import fit_name
from treering.model.kinds import RUN_ENDS, parse_kind
from treering.model.parts import Delivered, part_of
from treering.model.tools import REASONS, check_reason
from treering.spine.conversion import to_json, to_text, with_marks
from treering.spine.run_events import RUNTIME, make_event, said
from treering.spine.tool_functions import current_run, recorded
from treering.spine.words import describe, new_id, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextvars import Token
    from types import TracebackType

    from treering.context.assemble import Context
    from treering.context.tokens import Counter
    from treering.ledger.sessions import Session
    from treering.model.events import Header
    from treering.model.tools import Reason
    from treering.model.views import Message
    from treering.spine import showing
    from treering.spine.run_state import RunState, State
    from treering.spine.tools import Tools
else:
    showing = LazyModule("treering.spine.showing")

F = TypeVar("F", bound="Callable[..., Any]")

_CALL_IDS = ("call_id", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "id")
_NAMES = ("name", "tool", "toolName", "tool_name")
_INPUTS = ("input", "args", "arguments", "params")
_OUTPUTS = ("output", "result", "content")
_FAILED = ("failed", "error")


@checks_arguments
class Run:
    """One attempt at a turn.

    Use it as a context manager, or start and end it. Safe to share between threads: events are
    numbered in the order they are recorded.
    """

    def __init__(self, run_state: RunState, message: Message | None = None) -> None:
        self._run_state = run_state
        run_state.belong_to(self)
        self._room_tokens: int | None = None
        """The token budget for messages in the last context shown to its model."""
        self.message = message
        """The message it handles, if it was taken from an inbox."""
        self._before: Token[weakref.ref[Run] | None] | None = None
        """The run that was current before this one's block."""

    def __repr__(self) -> str:
        return f"Run({self.run_id!r}, session={self.session.session_id!r}, {self.state})"

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self._run_state.run_id

    @property
    def turn_id(self) -> str | None:
        """Return the id of its turn."""
        return self._run_state.template.turn_id

    @property
    def session(self) -> Session:
        """Return the session it belongs to."""
        return self._run_state.session

    @property
    def agent(self) -> str:
        """Return the agent that acts in it."""
        return self._run_state.template.agent_id

    @property
    def tools(self) -> Tools:
        """Return its tool calls, to be recorded step by step."""
        return self._run_state.tools

    @property
    def state(self) -> State:
        """Return new, open, ended, failed or interrupted."""
        return self._run_state.state

    @property
    def is_open(self) -> bool:
        """Whether it has begun and, as far as this process knows, not ended."""
        return self._run_state.is_open

    @property
    def interrupted(self) -> bool:
        """Whether it was interrupted, here or by another process: check it during long work."""
        self._run_state.look()
        return self.state == "interrupted"

    @property
    def system_prompt(self) -> str | None:
        """Return the system prompt that gates add, if any."""
        added = self._run_state.preparation
        return None if added is None else added.system_prompt

    @property
    def prepend_context(self) -> str | None:
        """Return the text that gates put before the user's message, if any."""
        added = self._run_state.preparation
        return None if added is None else added.prepend_context

    # Its life.

    def __enter__(self) -> Self:
        try:
            if self.state == "new":
                self.start()
            else:
                self._run_state.check_open()
            self._before = current_run.set(weakref.ref(self))
            return self  # noqa: TRY300  (an interrupt on the way out counts, too)
        except BaseException as error:
            # The body does not run now, so nobody else would end it.
            self._run_state.withdraw(error)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            # A generator may be left in another context than it was entered in.
            with contextlib.suppress(ValueError):
                current_run.reset(self._before)
            self._before = None
        try:
            self._conclude(error)
        except BaseException as cut:
            self._run_state.withdraw(cut)
            raise

    def _conclude(self, error: BaseException | None) -> None:
        if not self._run_state.needs_end:
            return
        if error is None:
            self.end()
        elif self.is_open:
            # If it was closed meanwhile, that must not hide what went wrong here.
            with contextlib.suppress(RunClosed):
                if isinstance(error, Exception):
                    self.fail(error)
                else:
                    self._run_state.close("interrupted", _outside(error), error)

    def start(self) -> Header:
        """Record that the run begins. Raises RunActive if the session has another open run."""
        try:
            return (self._run_state.begin(lambda _: ()) or [])[0]
        except BaseException as error:
            self._run_state.withdraw(error)
            raise

    def end(self) -> Header:
        """Commit the run: it succeeded.

        A run that has already ended does not change. If its model was shown a context, the session
        is compacted once it has outgrown that context.
        """
        header = self._run_state.close("ended")
        if self.state == "ended" and self._room_tokens is not None:
            self.session.compact_if_needed(self._room_tokens)
            self._room_tokens = None
        return header

    def fail(self, error: BaseException | str) -> Header:
        """Record that the run failed. A run that has already ended does not change."""
        return self._run_state.close("failed", "failed", error)

    def interrupt(self, why: str = "interrupted") -> Header:
        """Abort the run, and record a boundary that the next turn sees."""
        return self._run_state.close("interrupted", "interrupted", why, boundary=why)

    # What happens in it.

    def user(self, text: str, **content: Any) -> Header:
        """Record a message of the user; ``content`` is stored with the text."""
        event = said(self._run_state.template, "conversation.user", text, content)
        return self._run_state.record([event])[0]

    def assistant(self, text: str, **content: Any) -> Header:
        """Record an answer of the assistant; ``content`` is stored with the text.

        ``thinking`` may hold the thinking blocks before it, as the provider returned them.
        """
        if not isinstance(content.get("thinking"), str | None) and self._run_state.model:
            content.setdefault("model", self._run_state.model)
        event = said(self._run_state.template, "conversation.assistant", text, content)
        return self._run_state.record([event])[0]

    def thinking(self, text: str = "", **content: Any) -> Header:
        """Record a thought of the model, before its next answer or call.

        ``content`` holds the provider's fields that seal it: ``signature``, ``data``,
        ``encrypted_content``, ``thought_signature``. With them it can be passed back to the model.
        """
        words, marks = to_text(text, "/thinking")
        model = self._run_state.model
        named = {"model": model} if model else {}
        payload, more = to_json({"thinking": words, **named, **content})
        return self._record(
            "ops.observation",
            "thinking",
            payload=payload,
            refs={"observed": "thinking"},
            marks=[*marks, *more],
        )

    def delta(self, text: str, **content: Any) -> None:
        """Send a piece of an answer to the sinks. It is counted, not stored."""
        run_state = self._run_state
        run_state.carry(said(run_state.template, "assistant.delta", text, content))

    @overload
    def tool(self, name: F, /) -> F: ...
    @overload
    def tool(self, name: str, input: Any = None, *, call_id: str | None = None) -> ToolCall: ...
    def tool(self, name: Any, input: Any = None, *, call_id: str | None = None) -> Any:  # noqa: A002
        """Begin a tool call, as a context manager. The call is durable before the body runs.

        As a decorator, ``@turn.tool`` records each call of a function, as ``treering.tool`` does.
        """
        if callable(name):
            return recorded(name, lambda: self)
        return ToolCall(self.tools, name, input, call_id)

    def context(
        self,
        max_tokens: int | None = None,
        *,
        dialect: str = "openai-chat",
        contributors: Sequence[Any] = (),
        reserve_output_tokens: int = 0,
        system: str = "",
        tools: Sequence[Any] = (),
        model: str | None = None,
        count: Counter | None = None,
    ) -> Context:
        """Return the context to show the model now, and record that it is shown.

        It includes what the run has recorded so far, and what gates add. ``model`` is the model to
        be called, if it is not the run's.
        """
        self._run_state.check_open()
        asked = self._run_state.model if model is None else model
        context = self.session.context(
            max_tokens,
            dialect=dialect,
            contributors=contributors,
            reserve_output_tokens=reserve_output_tokens,
            system="\n\n".join(filter(None, (system, self.system_prompt))),
            tools=tools,
            turn=self,
            model=asked,
            count=count,
        )
        self._run_state.record([showing.showing(self._run_state.template, context, model=asked)])
        self._room_tokens = _room(context)
        return context

    def deliver(
        self,
        text: str,
        *,
        to: str | None = None,
        by: str | None = None,
        chunk: int | None = None,
        media: Sequence[str] = (),
        send: Callable[[str], object] | None = None,
    ) -> Header | None:
        """Record an outgoing message, after ``send``, if given, has sent it.

        Gates may change it, or block it: then nothing is sent, and None is returned.
        """
        self._run_state.check_open()
        words, marks = to_text(text, "/text")
        gates = self._run_state.engine.gates
        verdict = gates.before_sending(self._run_state.occasion, words, to)
        if verdict.blocked:
            self.emit("ops.blocked", {"code": "gate", "reason": verdict.reason})
            return None
        sent = text
        if verdict.content is not None:
            sent = words = str(verdict.content)
            marks = []
        if send is not None:
            try:
                send(sent)
            except Exception as error:
                failure = {"code": "not_delivered", "error_class": type(error).__name__}
                self.emit("ops.warning", {**failure, **describe(error), "text": words, "to": to})
                raise
        payload, more = to_json({"text": words, "to": to, "media": _listed(media)})
        part = Delivered(
            deliverer=by,
            characters=len(words),
            chunk=chunk,
            media=len(media) if isinstance(media, Sized) and media else None,
        )
        return self._record(
            "ops.receipt",
            "message delivered",
            payload=payload,
            refs=part.as_refs(),
            marks=[*marks, *more],
        )

    def emit(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        summary: str | None = None,
        refs: Mapping[str, Any] | None = None,
        origin: str = RUNTIME,
    ) -> Header | None:
        """Record an event of any kind, in any spelling; None if it only goes to sinks.

        The kind decides which parts of ``payload`` are safe; these are stored in refs. Tool events
        go through ``run.tools``; the start and end of the run cannot be recorded here.
        """
        name = parse_kind(kind).name
        converted, marks = to_json(payload)
        if not isinstance(converted, dict | None):
            raise InvalidInput(
                f"a payload is a mapping, not a {type(payload).__name__}", hint='give {"text": …}'
            )
        content = dict(converted or {})
        if name in RUN_ENDS or name == "run.started":
            raise InvalidInput(
                f"{kind} is recorded by the run itself",
                hint="use run.start(), run.end() or run.fail()",
            )
        if name in {"tool.call", "tool.result"}:
            # As given: the tool ledger converts, and marks, what a tool was given and returned.
            stated = dict(payload) if isinstance(payload, Mapping) else content
            return tool_event(self.tools, kind, stated)
        if name == "assistant.delta":
            event = said(self._run_state.template, name, content.pop("text", ""), content)
            self._run_state.carry(replace(event, payload=with_marks(event.payload, marks)))
            return None
        if name == "compaction.started" and content.get("phase") == "end":
            name = "compaction.ended"
        links = {**part_of(name, content).as_refs(), **(refs or {})}
        return self._record(
            name,
            summary or _words(name, content, links),
            payload=content or None,
            refs=links or None,
            origin=origin,
            marks=marks,
        )

    def _record(self, kind: str, summary: str, **fields: Any) -> Header:
        event = make_event(self._run_state.template, kind, summary, **fields)
        return self._run_state.record([event])[0]


def _listed(media: Any) -> Any:
    """Return a tuple as a list, as it is recorded; this conversion is not marked."""
    return list(media) if type(media) is tuple else media


def _room(context: Context) -> int | None:
    """Return the tokens that a context had for messages, as the provider counts."""
    if context.max_tokens is None:
        return None
    fixed = round(context.fixed_tokens * context.ratio)
    return max(context.max_tokens - context.reserve_output_tokens - fixed, 0)


def _outside(error: BaseException) -> str:
    """Return what interrupted a run from outside, in one word."""
    # By name: asyncio takes longer to load than a short command to run.
    if type(error).__name__ == "CancelledError":
        return "cancelled"
    if isinstance(error, GeneratorExit):
        return "abandoned"
    return "exited" if isinstance(error, SystemExit) else "interrupted"


def _words(kind: str, content: Mapping[str, Any], refs: Mapping[str, Any]) -> str:
    """Return a summary for an event whose author gave none.

    Only what was said, which is private, is summed up by its words.
    """
    if kind.startswith("conversation.") and isinstance(content.get("text"), str):
        return shorten(content["text"])
    code = refs.get("code") or refs.get("hook") or refs.get("model")
    name = kind.replace(".", " ").replace("_", " ")
    return name if code is None else f"{name}: {code}"


def tool_event(tools: Tools, spelling: str, content: dict[str, Any]) -> Header | None:
    """Record a tool event by its ``spelling``. Raises InvalidInput if it names no call."""
    spelling = spelling.strip().lower()
    call_id = _first(content, _CALL_IDS)
    if spelling in {"tool.call", "tool_call", "tool.call.started"}:
        name = _first(content, _NAMES)
        if name is None:
            raise InvalidInput("a tool call needs a name", hint='give {"name": …}')
        return tools.started(str(name), _first(content, _INPUTS), call_id=call_id).intent
    if call_id is None:
        raise InvalidInput("a tool result needs the id of its call", hint='give {"call_id": …}')
    if content.get("isSynthetic") or content.get("is_synthetic"):
        reason = content.get("reason")
        return tools.gave_up(call_id, reason if reason in REASONS else "missing_result")
    error = content.get("error")
    is_error = content.get("isError") or content.get("is_error") or content.get("status") in _FAILED
    if spelling == "tool.call.failed" or error is not None or is_error:
        return tools.failed(call_id, _error_text(error or _first(content, _OUTPUTS)))
    return tools.finished(call_id, _first(content, _OUTPUTS))


def _first(content: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((content[name] for name in names if content.get(name) is not None), None)


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        error = error.get("message") or error
    return "failed" if error is None else to_text(error)[0]


@checks_arguments
class ToolCall:
    """One tool call: recorded before it runs, with exactly one outcome. A context manager."""

    def __init__(self, tools: Tools, name: str, input: Any, call_id: str | None) -> None:  # noqa: A002
        self._tools = tools
        self.name, is_cut = fit_name(name, "tool name")
        self.call_id: str = new_id() if call_id is None else fit_name(call_id, "call_id")[0]
        self.given_name: str | None = to_text(name)[0] if is_cut else None
        """The original name of the tool, if it cannot be recorded as a name."""
        self.input = input
        """The input of the tool: as given, or as a gate changed it."""
        self.intent: Header | None = None
        """The event that was recorded before the tool runs."""
        self.outcome: Header | None = None
        """The result, once there is one."""
        self.lock = Lock()
        """Held while its outcome is recorded; never acquired while the run's lock is held."""
        self.is_settled = False
        """Whether the tool itself has returned, even if late."""
        self.is_awaited = False
        """Whether a model asked for it, and nothing runs it yet."""
        self.started_at = 0.0
        """When the call was recorded, by the monotonic clock."""

    def __repr__(self) -> str:
        return f"ToolCall({self.name!r}, call_id={self.call_id!r})"

    def __enter__(self) -> Self:
        self._tools.begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.outcome is not None or not self._tools.is_here:
            return
        if error is None:
            self.give_up("missing_result")
            return
        # If this cannot be recorded, that must not hide what went wrong here: the end of
        # the run closes the call, or meets the same.
        with contextlib.suppress(TreeringError):
            if isinstance(error, TimeoutError):
                self.give_up("timeout")
            elif isinstance(error, Exception):
                self.fail(error)
            else:
                # What is not an Exception came from outside: Ctrl-C, a task cancelled, a generator
                # closed.
                self.give_up("interrupted")

    def finish(self, output: Any = None) -> Header:
        """Record that the tool returned ``output``.

        After a synthetic outcome, it is recorded as late, and linked to that one.
        """
        return self._tools.conclude(self, self._tools.results.returned, output)

    def fail(self, error: BaseException | str) -> Header:
        """Record that the tool failed; as late, if ``finish`` would be."""
        return self._tools.conclude(self, self._tools.results.failed, describe(error))

    def give_up(self, reason: Reason) -> Header:
        """Record that the tool gives no result: a synthetic one replaces it, with the reason.

        A call that already has its outcome does not change.
        """
        return self._tools.replace(self, check_reason(reason))

    @property
    def duration_ms(self) -> int:
        """Return how long it has run."""
        return int((time.monotonic() - self.started_at) * 1_000)
