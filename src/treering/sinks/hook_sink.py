"""The hook adapter: a sink that tells hooks of events, and a gate that asks them beforehand."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput, TreeringError
from treering.model.fields import TIME_MS_MAX
from treering.sinks.hook_calls import log
from treering.sinks.hook_merging import is_json, own
from treering.sinks.hook_messages import as_message, as_messages, as_output
from treering.sinks.hook_names import ORIGIN, PERSIST_HOOK
from treering.sinks.hook_payloads import (
    Inputs,
    contents_before,
    context_of,
    facts_before,
    internal_hook,
    plugin_hooks,
    private_payload,
    safe_payload,
    with_required,
)
from treering.spine.ports import Delivery, Preparation, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.model.carried import Carried, PrivateEvent, SafeEvent
    from treering.sinks.hooks import Hooks
    from treering.spine.ports import Occasion, PrivatePast, SafePast

EVENT_SECONDS_MAX: Final = 300.0
"""How long all hooks of one event may take together; each has a limit of its own."""
CHANNELS_MAX: Final = 1_000
"""Sessions whose channel is remembered; then it starts afresh."""
BLOCKED: Final = "blocked by a before_tool_call hook"
CANCELLED: Final = "cancelled by a message_sending hook"


class _Adapter(ABC):
    """What both variants share: the gate, and how an event reaches its hooks."""

    def __init__(
        self, hooks: Hooks, *, name: str = "hooks", delivery: Delivery | None = None
    ) -> None:
        self._hooks = hooks
        self._lock = threading.Lock()
        self._is_open = False
        self._channels: dict[tuple[str, str], str | None] = {}
        self.name = name
        self.delivery = delivery or Delivery(timeout_s=EVENT_SECONDS_MAX)

    @property
    @abstractmethod
    def _facts(self) -> SafePast | None:
        """Return what can be asked about the past of events; None if it is on no spine."""

    def open(self) -> None:
        """Fire ``gateway_start``, once until it is closed."""
        if self._turn(to_open=True):
            self._tell_of_gateway("gateway_start", "startup", {})

    def close(self) -> None:
        """Fire ``gateway_stop``, if it is open."""
        if self._turn(to_open=False):
            self._tell_of_gateway("gateway_stop", "shutdown", {"reason": "closed"})

    # As a gate.

    def before_run(self, occasion: Occasion, prompt: str | None, /) -> Preparation:
        """Ask ``before_agent_start`` hooks what to add to a run."""
        if not self._hooks.has("before_agent_start"):
            return Preparation()
        event = {"prompt": prompt or "", "runId": occasion.run_id, **self._history(occasion)}
        said = self._hooks.modify("before_agent_start", event, self._context(occasion))
        return Preparation(
            system_prompt=said.get("systemPrompt"), prepend_context=said.get("prependContext")
        )

    def before_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any, /) -> Verdict:  # noqa: A002
        """Ask ``before_tool_call`` hooks whether a tool may run, and with what.

        The fields of ``params`` that they return replace those of the input; others stay.
        """
        if not self._hooks.has("before_tool_call"):
            return Verdict()
        given = input if isinstance(input, dict) else {}
        names = {"toolName": tool, "toolCallId": call_id}
        event: dict[str, Any] = {**names, "runId": occasion.run_id, "params": given}
        said = self._hooks.modify("before_tool_call", event, self._context(occasion, **names))
        if said.get("block"):
            return Verdict(blocked=True, reason=said.get("blockReason") or BLOCKED)
        changed = event.get("params")
        kept = changed if isinstance(changed, dict) and is_json(changed) else given
        params = {**kept, **said.get("params", {})}
        return Verdict() if params == given else Verdict(content=params)

    def before_sending(self, occasion: Occasion, text: str, to: str | None, /) -> Verdict:
        """Ask ``message_sending`` hooks whether a message may be sent, and as what."""
        if not self._hooks.has("message_sending"):
            return Verdict()
        event: dict[str, Any] = {"to": to, "content": text, "metadata": {}}
        said = self._hooks.modify("message_sending", event, self._context(occasion))
        if said.get("cancel"):
            return Verdict(blocked=True, reason=CANCELLED)
        content = said.get("content", text)
        return Verdict() if content == text else Verdict(content=content)

    def persist(
        self,
        occasion: Occasion,
        tool: str,
        call_id: str,
        output: Any,
        /,
        *,
        is_error: bool,
        is_synthetic: bool,
    ) -> Any:
        """Return ``output`` as ``tool_result_persist`` hooks leave it; itself if they do."""
        if not self._hooks.has(PERSIST_HOOK):
            return output
        try:
            before = as_message(tool, call_id, output, is_error=is_error, is_synthetic=is_synthetic)
        except InvalidInput:
            log.warning("hook %s: the output of %s is no JSON value", PERSIST_HOOK, tool)
            return output
        names = {"toolName": tool, "toolCallId": call_id}
        event = {**names, "message": before, "isSynthetic": is_synthetic}
        message = self._hooks.persist(event, self._context(occasion, **names))
        return as_output(message, before, output)

    # As a sink.

    def _wanted(self, event: Carried) -> bool:
        internal = internal_hook(event, ORIGIN)
        return any(map(self._hooks.has, plugin_hooks(event))) or (
            internal is not None and self._hooks.has_internal(*internal)
        )

    def _tell(self, event: Carried, payload: dict[str, Any]) -> None:
        for hook in plugin_hooks(event):
            if not self._hooks.has(hook):
                continue
            told = with_required(hook, {**self._before(hook, event), **payload})
            tool, call_id = payload.get("toolName"), payload.get("toolCallId")
            context = self._context(event, toolName=tool, toolCallId=call_id)
            self._hooks.fire(hook, told, context)
        internal = internal_hook(event, ORIGIN)
        if internal is not None:
            self._hooks.call_internal(
                *internal,
                session_key=event.session_key or event.session_id,
                context=own(payload),
                at=datetime.fromtimestamp(min(max(event.ts_ms, 0), TIME_MS_MAX) / 1_000, tz=UTC),
            )

    def _before(self, hook: str, event: Carried) -> dict[str, Any]:
        """Return what a hook is told that the event does not say itself."""
        past = self._facts
        return {} if past is None else _known(lambda: facts_before(hook, event, past))

    def _history(self, occasion: Occasion) -> dict[str, Any]:  # noqa: ARG002  (for the private one)
        """Return the messages that a run begins with, if they may be told."""
        return {}

    def _context(self, event: Carried | Occasion, **more: Any) -> dict[str, Any]:
        """Return where something happens; the channel is looked up once for each session."""
        place, past = (event.scope, event.session_id), self._facts
        if past is not None and place not in self._channels:
            if len(self._channels) >= CHANNELS_MAX:
                self._channels.clear()
            found = _known(lambda: {"channel": past.channel(*place)})
            self._channels[place] = found.get("channel")
        channel = self._channels.get(place)
        return context_of(event, channelId=channel, messageProvider=channel, **more)

    def _tell_of_gateway(self, hook: str, action: str, told: dict[str, Any]) -> None:
        self._hooks.fire(hook, with_required(hook, told), {})
        self._hooks.call_internal(
            "gateway", action, session_key=None, context=told, at=datetime.now(UTC)
        )

    def _turn(self, *, to_open: bool) -> bool:
        """Whether this call is the one that opens it, or closes it."""
        with self._lock:
            was_open, self._is_open = self._is_open, to_open
            return was_open != to_open


class HookSink(_Adapter):
    """Tells hooks of events without their private content."""

    visibility: Final = "safe"
    _past: SafePast | None = None

    @property
    def _facts(self) -> SafePast | None:
        return self._past

    def attach_past(self, past: SafePast, /) -> None:
        """Ask ``past`` for what hooks are told besides what an event says itself."""
        self._past = past

    def accepts(self, event: SafeEvent, /) -> bool:
        """Whether a function is registered that ``event`` is of interest to."""
        return self._wanted(event)

    def handle(self, event: SafeEvent, /) -> None:
        """Call the hooks of ``event``; return when all are done or out of time."""
        self._tell(event, safe_payload(event))


class PrivateHookSink(_Adapter):
    """Tells hooks of events with their private content: texts, inputs, outputs."""

    visibility: Final = "private"

    def __init__(
        self, hooks: Hooks, *, name: str = "hooks", delivery: Delivery | None = None
    ) -> None:
        super().__init__(hooks, name=name, delivery=delivery)
        self._inputs = Inputs()
        self._past: PrivatePast | None = None

    @property
    def _facts(self) -> SafePast | None:
        return self._past

    def attach_past(self, past: PrivatePast, /) -> None:
        """Ask ``past`` for what hooks are told besides what an event says itself."""
        self._past = past

    def accepts(self, event: PrivateEvent, /) -> bool:
        """Whether a function is registered that ``event`` is of interest to."""
        if event.kind == "tool.call":
            return self._hooks.has("after_tool_call")
        return self._wanted(event)

    def handle(self, event: PrivateEvent, /) -> None:
        """Call the hooks of ``event``; return when all are done or out of time."""
        if event.kind == "tool.call":
            self._inputs.note(event)
        else:
            self._tell(event, private_payload(event, self._inputs))

    def _before(self, hook: str, event: Carried) -> dict[str, Any]:
        facts, past = super()._before(hook, event), self._past
        if past is None:
            return facts
        return {**facts, **_known(lambda: contents_before(hook, event, past))}

    def _history(self, occasion: Occasion) -> dict[str, Any]:
        past = self._past
        if past is None:
            return {}
        place = occasion.scope, occasion.session_id
        return _known(lambda: {"messages": as_messages(past.messages(*place, None, None))})


def _known(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what the past says; hooks are told of an event also if that cannot be read."""
    try:
        return ask()
    except TreeringError as error:
        log.warning("hooks are told less: the past of an event cannot be read: %s", error)
        return {}
