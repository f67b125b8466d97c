"""The hook adapter: a sink that calls hooks for events, and a gate that asks them beforehand."""

from __future__ import annotations

import copy
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput, TreeringError
from treering.model.codec import canonical
from treering.model.fields import TIME_MS_MAX
from treering.sinks.hook_calls import log
from treering.sinks.hook_payloads import (
    MODIFYING_HOOKS,
    ORIGIN,
    PERSIST_HOOK,
    Inputs,
    as_message,
    as_messages,
    as_output,
    contents_before,
    context_of,
    facts_before,
    internal_hook,
    plugin_hooks,
    private_payload,
    safe_payload,
    with_required,
)
from treering.spine.ports import Delivery, Occasion, Preparation, PrivatePast, SafePast, Verdict

if TYPE_CHECKING:
    from treering.model.carried import Carried, PrivateEvent, SafeEvent
    from treering.sinks.hooks import Hooks

EVENT_SECONDS_MAX: Final = 300.0
"""The time limit of all hooks of one event together; each has a limit of its own."""
CHANNELS_MAX: Final = 1_000
"""The number of sessions whose channel is cached; the cache is cleared when full."""
BLOCKED: Final = "blocked by a before_tool_call hook"
CANCELLED: Final = "cancelled by a message_sending hook"


class _Adapter(ABC):
    """The common part of both variants: the gate, and the calls of an event's hooks."""

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
        """Return the history to query for facts, or None if the sink is not attached."""

    def open(self) -> None:
        """Fire ``gateway_start``, once until it is closed."""
        if self._switch(to_open=True):
            self._fire_gateway("gateway_start", "startup", {})

    def close(self) -> None:
        """Fire ``gateway_stop``, if it is open."""
        if self._switch(to_open=False):
            self._fire_gateway("gateway_stop", "shutdown", {"reason": "closed"})

    # As a gate.

    def before_run(self, occasion: Occasion, prompt: str | None, /) -> Preparation:
        """Ask ``before_agent_start`` hooks for additions to a run."""
        if not self._hooks.has("before_agent_start"):
            return Preparation()
        event = {"prompt": prompt or "", "runId": occasion.run_id, **self._history(occasion)}
        result = self._hooks.modify("before_agent_start", event, self._context(occasion))
        return Preparation(
            system_prompt=result.get("systemPrompt"), prepend_context=result.get("prependContext")
        )

    def before_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any, /) -> Verdict:  # noqa: A002
        """Ask ``before_tool_call`` hooks whether a tool may run, and with which input.

        The fields of ``params`` that they return replace those of the input; others are kept.
        """
        if not self._hooks.has("before_tool_call"):
            return Verdict()
        given = input if isinstance(input, dict) else {}
        names = {"toolName": tool, "toolCallId": call_id}
        event: dict[str, Any] = {**names, "runId": occasion.run_id, "params": given}
        result = self._hooks.modify("before_tool_call", event, self._context(occasion, **names))
        if result.get("block"):
            return Verdict(blocked=True, reason=result.get("blockReason") or BLOCKED)
        changed = event.get("params")
        current = changed if isinstance(changed, dict) and is_json(changed) else given
        params = {**current, **result.get("params", {})}
        return Verdict() if params == given else Verdict(content=params)

    def before_sending(self, occasion: Occasion, text: str, to: str | None, /) -> Verdict:
        """Ask ``message_sending`` hooks whether a message may be sent, and with which content."""
        if not self._hooks.has("message_sending"):
            return Verdict()
        event: dict[str, Any] = {"to": to, "content": text, "metadata": {}}
        result = self._hooks.modify("message_sending", event, self._context(occasion))
        if result.get("cancel"):
            return Verdict(blocked=True, reason=CANCELLED)
        content = result.get("content", text)
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
        """Return ``output`` as modified by ``tool_result_persist`` hooks."""
        if not self._hooks.has(PERSIST_HOOK):
            return output
        try:
            before = as_message(tool, call_id, output, is_error=is_error, is_synthetic=is_synthetic)
        except InvalidInput:
            log.warning("hook %s: the output of %s is not a JSON value", PERSIST_HOOK, tool)
            return output
        names = {"toolName": tool, "toolCallId": call_id}
        event = {**names, "message": before, "isSynthetic": is_synthetic}
        message = self._hooks.persist(event, self._context(occasion, **names))
        return as_output(message, before, output)

    # As a sink.

    def accepts(self, event: Carried, /) -> bool:
        """Return whether any function is registered for ``event``."""
        internal = internal_hook(event, ORIGIN)
        return any(map(self._hooks.has, plugin_hooks(event))) or (
            internal is not None and self._hooks.has_internal(*internal)
        )

    def _call_hooks(self, event: Carried, payload: dict[str, Any]) -> None:
        for hook in plugin_hooks(event):
            if not self._hooks.has(hook):
                continue
            full = with_required(hook, {**self._before(hook, event), **payload})
            tool, call_id = payload.get("toolName"), payload.get("toolCallId")
            context = self._context(event, toolName=tool, toolCallId=call_id)
            self._hooks.fire(hook, full, context)
        internal = internal_hook(event, ORIGIN)
        if internal is not None:
            self._hooks.call_internal(
                *internal,
                session_key=event.session_key or event.session_id,
                context=own_copy(payload),
                at=datetime.fromtimestamp(min(max(event.ts_ms, 0), TIME_MS_MAX) / 1_000, tz=UTC),
            )

    def _before(self, hook: str, event: Carried) -> dict[str, Any]:
        """Return the fields for a hook that the event itself does not contain."""
        past = self._facts
        return {} if past is None else _or_empty(lambda: facts_before(hook, event, past))

    def _history(self, occasion: Occasion) -> dict[str, Any]:  # noqa: ARG002  (used in the private variant)
        """Return the messages that a run begins with, if they may be shown."""
        return {}

    def _context(self, event: Carried | Occasion, **more: Any) -> dict[str, Any]:
        """Return the context of an event; the channel is looked up once per session."""
        session, past = (event.scope, event.session_id), self._facts
        if past is not None and session not in self._channels:
            if len(self._channels) >= CHANNELS_MAX:
                self._channels.clear()
            looked_up = _or_empty(lambda: {"channel": past.channel(*session)})
            self._channels[session] = looked_up.get("channel")
        channel = self._channels.get(session)
        return context_of(event, channelId=channel, messageProvider=channel, **more)

    def _fire_gateway(self, hook: str, action: str, context: dict[str, Any]) -> None:
        self._hooks.fire(hook, with_required(hook, context), {})
        self._hooks.call_internal(
            "gateway", action, session_key=None, context=context, at=datetime.now(UTC)
        )

    def _switch(self, *, to_open: bool) -> bool:
        """Return whether this call changes the state."""
        with self._lock:
            was_open, self._is_open = self._is_open, to_open
            return was_open != to_open


class HookSink(_Adapter):
    """Calls hooks for events without their private content."""

    visibility: Final = "safe"
    _past: SafePast | None = None

    @property
    def _facts(self) -> SafePast | None:
        return self._past

    def attach_past(self, past: SafePast, /) -> None:
        """Use ``past`` to look up facts that an event itself does not contain."""
        self._past = past

    def handle(self, event: SafeEvent, /) -> None:
        """Call the hooks of ``event``; return when all are done or have timed out."""
        self._call_hooks(event, safe_payload(event))


class PrivateHookSink(_Adapter):
    """Calls hooks for events with their private content: texts, inputs, outputs."""

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
        """Use ``past`` to look up fields that an event itself does not contain."""
        self._past = past

    def accepts(self, event: Carried, /) -> bool:
        """Return whether any function is registered for ``event``."""
        if event.kind == "tool.call":
            return self._hooks.has("after_tool_call")
        return super().accepts(event)

    def handle(self, event: PrivateEvent, /) -> None:
        """Call the hooks of ``event``; return when all are done or have timed out."""
        if event.kind == "tool.call":
            self._inputs.note(event)
        else:
            self._call_hooks(event, private_payload(event, self._inputs))

    def _before(self, hook: str, event: Carried) -> dict[str, Any]:
        facts, past = super()._before(hook, event), self._past
        if past is None:
            return facts
        return {**facts, **_or_empty(lambda: contents_before(hook, event, past))}

    def _history(self, occasion: Occasion) -> dict[str, Any]:
        past = self._past
        if past is None:
            return {}
        session = occasion.scope, occasion.session_id
        return _or_empty(lambda: {"messages": as_messages(past.messages(*session, None, None))})


def _or_empty(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result, or nothing if the history cannot be read: hooks are called anyway."""
    try:
        return ask()
    except TreeringError as error:
        log.warning("hooks receive fewer fields: the history of an event cannot be read: %s", error)
        return {}


BLANK_LINE: Final = "\n\n"


class Merged:
    """The merged results of a modifying hook: the last function wins for each field.

    ``prependContext`` is joined from all of them, and ``block`` ends the calls.
    """

    def __init__(self, hook: str) -> None:
        self._hook = hook
        self.fields: dict[str, Any] = {}

    @property
    def is_final(self) -> bool:
        """Return whether no other function needs to be called."""
        return self.fields.get("block") is True

    def add(self, result: Any, label: str) -> None:
        """Merge the result of the function ``label``; invalid fields are ignored and logged."""
        if result is None:
            return
        if not isinstance(result, Mapping):
            self._ignore("the result", label)
            return
        for name, expected in MODIFYING_HOOKS[self._hook].items():
            value = result.get(name)
            if value is None:
                continue
            if isinstance(value, expected) and is_json(value):
                self.fields[name] = self._joined(name, value)
            else:
                self._ignore(name, label)

    def _joined(self, name: str, value: Any) -> Any:
        if name != "prependContext":
            return value
        return BLANK_LINE.join(text for text in (self.fields.get(name), value) if text)

    def _ignore(self, what: str, label: str) -> None:
        log.warning("hook %s: %s of %s is ignored: it has a wrong type", self._hook, what, label)


def next_message(
    result: Any, given: dict[str, Any], message: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the message in ``result``, else ``given`` as it was modified, else ``message``.

    Return None if that is not a message that can be stored.
    """
    returned: Any = None
    if isinstance(result, Mapping):
        # A message that is returned directly counts, too.
        bare = "message" not in result and "content" in result
        returned = result if bare else result.get("message")
    if returned is None:
        returned = given
    if returned == message:
        return message
    return dict(returned) if isinstance(returned, Mapping) and is_json(dict(returned)) else None


def dismiss(awaitable: Any) -> None:
    """Close or cancel an awaitable that nobody will await."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    elif callable(getattr(awaitable, "cancel", None)):
        awaitable.cancel()


def own_copy(value: Any) -> Any:
    """Return a copy of ``value`` that the receiver may change; uncopyable values are shared."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  (any object may fail in any way when it is copied)
        return value


def is_json(value: Any) -> bool:
    """Return whether ``value`` can be recorded."""
    try:
        canonical(value, "value")
    except InvalidInput:
        return False
    return True


def recordable(context: Mapping[Any, Any]) -> dict[str, Any] | None:
    """Return the part of ``context`` that can be recorded, or None if it is empty."""
    return {name: value for name, value in context.items() if is_json({name: value})} or None
