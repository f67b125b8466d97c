"""Hooks: functions that are called for events of a run, some of which can change it.

They are registered under the names that agents' plugins already use, and run in the same way: by
priority, observing hooks in parallel, modifying hooks one after the other.
"""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pluggy

from treering.errors import InvalidInput
from treering.sinks.hook_calls import Caller, HookCounts, HookMetrics, Registered, Registry, log
from treering.sinks.hook_payloads import (
    MODIFYING_HOOKS,
    ORIGIN,
    PERSIST_HOOK,
    VOID_HOOKS,
    check_internal_key,
    check_plugin_hook,
)
from treering.sinks.hook_sink import (
    HookSink,
    Merged,
    PrivateHookSink,
    dismiss,
    next_message,
    own_copy,
    recordable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.sessions import Session
    from treering.spine.runs import Run

__all__ = ["HookMetrics", "HookSink", "Hooks", "PrivateHookSink", "hookimpl"]

GROUP: Final = "treering"
"""The entry points of plugins."""
SPECIFICATION: Final = "treering_register_hooks"
hookspec: Final = pluggy.HookspecMarker(GROUP)
hookimpl: Final = pluggy.HookimplMarker(GROUP)
"""Marks a plugin's implementation."""

TIMEOUT_S: Final = 30.0
"""The default timeout of a hook."""
_KIND: Final = "ops.observation"
Function = TypeVar("Function", bound="Callable[..., Any]")


class Hooks:
    """The functions registered for hooks, called as each kind of hook requires."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._registry = Registry()
        self._internal = Registry()
        self._counts = HookCounts()
        self._caller = Caller(self._counts)
        self._plugins = Plugins()

    def on(
        self, name: str, *, priority: int = 0, timeout_s: float | None = None
    ) -> Callable[[Function], Function]:
        """Register the decorated function ``(event, context)`` for a plugin hook.

        Raises InvalidInput, with the nearest names, if the hook does not exist.
        """
        check_plugin_hook(name)
        return self._registering(self._registry, name, 2, priority, timeout_s)

    def on_internal(
        self, key: str, *, timeout_s: float | None = None
    ) -> Callable[[Function], Function]:
        """Register the decorated function ``(event)`` for ``type`` or ``type:action``."""
        check_internal_key(key)
        return self._registering(self._internal, key, 1, 0, timeout_s)

    def remove(self, function: Callable[..., Any], name: str | None = None) -> int:
        """Remove ``function`` from one hook or all; return the number of removed registrations."""

        def is_meant(entry: Registered) -> bool:
            return entry.function == function and name in {None, entry.hook}

        return self._registry.drop(is_meant) + self._internal.drop(is_meant)

    def has(self, name: str) -> bool:
        """Return whether any function is registered for a plugin hook."""
        return bool(self._registry.of(name))

    def has_internal(self, type_: str, action: str) -> bool:
        """Return whether any function is registered for an internal hook, by type or in full."""
        return bool(self._internal.of(type_) or self._internal.of(f"{type_}:{action}"))

    def metrics(self) -> list[HookMetrics]:
        """Return the calls, times and failures of each function."""
        return self._counts.rows()

    def load_plugins(self) -> list[str]:
        """Let every installed plugin register its hooks, once; return the names of the new ones.

        A plugin that fails is logged and counted, and registers nothing; the others continue.
        """
        return [
            name
            for name, entry in installed()
            if not self._plugins.known.has_plugin(name) and self._attempt_plugin(name, entry.load)
        ]

    def add_plugin(self, plugin: Any, name: str) -> bool:
        """Let ``plugin`` register its hooks as an installed one does; return whether it did."""
        return self._attempt_plugin(name, lambda: plugin)

    def fire(self, name: str, event: dict[str, Any], context: dict[str, Any]) -> None:
        """Call all functions of a hook with ``event``, in parallel; return when they are done."""
        if name not in VOID_HOOKS:
            raise InvalidInput(f"{name} is not fired", hint=f"use one of {', '.join(VOID_HOOKS)}")
        self._caller.call_together(
            self._registry.of(name), lambda: (own_copy(event), own_copy(context))
        )

    def modify(self, name: str, event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        """Call the functions of a hook one after the other; return their merged results.

        Changes that one makes to ``event`` are visible to the next, and to the caller.
        """
        if name not in MODIFYING_HOOKS:
            raise InvalidInput(
                f"{name} is not a modifying hook", hint=f"use one of {', '.join(MODIFYING_HOOKS)}"
            )
        merged = Merged(name)
        for hook in self._registry.of(name):
            given = own_copy(event)
            outcome = self._caller.call(hook, given, own_copy(context))
            if outcome.is_good:
                event.update(given)
                merged.add(outcome.value, hook.label)
            if merged.is_final:
                break
        return merged.fields

    def persist(self, event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        """Return ``event["message"]`` as modified by the functions of ``tool_result_persist``.

        Each gets the result of the one before. Awaitables that they return are ignored.
        """
        message: dict[str, Any] = event["message"]
        for hook in self._registry.of(PERSIST_HOOK):
            given = own_copy(message)
            outcome = self._caller.call_now(hook, {**event, "message": given}, own_copy(context))
            if inspect.isawaitable(outcome.value):
                dismiss(outcome.value)
                log.warning(
                    "hook %s: what %s returned is ignored: this hook is synchronous, and that"
                    " would have to be awaited", hook.hook, hook.label,
                )  # fmt: skip
            elif outcome.is_good:
                changed = next_message(outcome.value, given, message)
                if changed is None:
                    log.warning("hook %s: %s returned an invalid message", hook.hook, hook.label)
                message = changed or message
        return message

    def trigger(
        self,
        type_: str,
        action: str,
        /,
        *,
        session_key: str | None = None,
        context: dict[str, Any] | None = None,
        run: Run | None = None,
        session: Session | None = None,
    ) -> list[str]:
        """Trigger an internal hook; return the messages that its functions have for the user.

        With a run or a session, it is recorded there as an ``ops.observation`` with the origin
        ``hook-adapter``. The functions are called once in any case, even if recording raises.
        """
        key = check_internal_key(f"{type_}:{action}")
        details = {} if context is None else context
        summary, refs = f"hook {key}", {"hook": key}
        try:
            if run is not None:
                run.emit(_KIND, recordable(details), summary=summary, refs=refs, origin=ORIGIN)
            elif session is not None:
                session.record(
                    _KIND, summary, payload=recordable(details), refs=refs, origin=ORIGIN
                )
        finally:
            messages = self.call_internal(
                type_, action, session_key=session_key, context=details, at=datetime.now(UTC)
            )
        return messages

    def call_internal(
        self,
        type_: str,
        action: str,
        /,
        *,
        session_key: str | None,
        context: dict[str, Any],
        at: datetime,
    ) -> list[str]:
        """Call the functions of ``type``, then those of ``type:action``, without recording."""
        messages: list[Any] = []
        event = {
            "type": type_,
            "action": action,
            "sessionKey": session_key,
            "context": context,
            "timestamp": at,
            "messages": messages,
        }
        for hook in (*self._internal.of(type_), *self._internal.of(f"{type_}:{action}")):
            self._caller.call(hook, event)
        return [message for message in messages if isinstance(message, str)]

    def _registering(
        self, registry: Registry, name: str, arguments: int, priority: int, timeout_s: float | None
    ) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            registry.add(
                name,
                function,
                arguments=arguments,
                priority=priority,
                timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            )
            return function

        return register

    def _attempt_plugin(self, name: str, load: Callable[[], Any]) -> bool:
        # Hold both locks throughout, so that only the failing plugin's registrations are rolled
        # back.
        with self._registry.lock, self._internal.lock:
            savepoints = [
                (registry, registry.savepoint()) for registry in (self._registry, self._internal)
            ]
            try:
                self._plugins.register(load(), name, self)
            except (Exception, SystemExit) as error:  # noqa: BLE001  (its mistake, not the program's)
                for registry, savepoint in savepoints:
                    registry.roll_back(savepoint)
                self._counts.add(SPECIFICATION, name, error=type(error).__name__)
                log.warning("the plugin %s is left out: it failed", name, exc_info=error)
                return False
            return True


@hookspec
def treering_register_hooks(hooks: Hooks) -> None:
    """Register the plugin's functions with ``hooks``. Called once for each plugin."""


class Plugins:
    """The plugins of a registry; each registers once.

    A package declares ``my-hooks = "my_package.hooks"`` in its entry points of the group
    ``treering``; that object has a ``treering_register_hooks(hooks)``, marked with ``hookimpl``.
    """

    def __init__(self) -> None:
        self.known = pluggy.PluginManager(GROUP)
        self.known.add_hookspecs(_Specifications)

    def register(self, plugin: Any, name: str, hooks: Hooks) -> None:
        """Let ``plugin`` register with ``hooks``. Raises whatever it raises, and then drops it."""
        self.known.register(plugin, name)
        try:
            self._ask(plugin, name, hooks)
        except BaseException:
            self.known.unregister(plugin)
            raise

    def _ask(self, plugin: Any, name: str, hooks: Hooks) -> None:
        callers = self.known.get_hookcallers(plugin) or []
        if not any(caller.name == SPECIFICATION for caller in callers):
            raise InvalidInput(
                f"the plugin {name} registers nothing",
                hint=f"add a function {SPECIFICATION}(hooks), marked with hookimpl",
            )
        others = [other for other in self.known.get_plugins() if other is not plugin]
        self.known.subset_hook_caller(SPECIFICATION, others)(hooks=hooks)


def installed() -> Iterator[tuple[str, EntryPoint]]:
    """Yield the entry points of hooks, each with a name that includes its package."""
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    for entry in entries:
        package = f"{entry.dist.name}:" if entry.dist else ""
        yield f"{package}{entry.name}", entry


class _Specifications:
    treering_register_hooks = staticmethod(treering_register_hooks)
