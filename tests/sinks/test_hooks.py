from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from functools import partial
from typing import Any

import pytest

from effort import PATIENCE_S
from threads import in_threads
from treering import InvalidInput
from treering.errors import TooLarge
from treering.sinks import hook_calls
from treering.sinks.hook_payloads import MODIFYING_HOOKS, PERSIST_HOOK, PLUGIN_HOOKS, VOID_HOOKS
from treering.sinks.hooks import HookMetrics, Hooks
from treering.spine.sink_queue import HUNG_CALLS_MAX


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


def row(hooks: Hooks, hook: str) -> HookMetrics:
    """Return the metrics of the one function that was called for ``hook``."""
    (found,) = [one for one in hooks.metrics() if one.hook == hook]
    return found


def test_there_are_seventeen_plugin_hooks() -> None:
    assert len(set(PLUGIN_HOOKS)) == len(PLUGIN_HOOKS) == 17
    assert set(PLUGIN_HOOKS) == {*VOID_HOOKS, *MODIFYING_HOOKS, PERSIST_HOOK}


@pytest.mark.parametrize("name", PLUGIN_HOOKS)
def test_every_plugin_hook_can_be_registered_for_and_removed(hooks: Hooks, name: str) -> None:
    @hooks.on(name)
    def watch(event: dict[str, Any], context: dict[str, Any]) -> None: ...

    assert hooks.has(name)
    assert hooks.remove(watch) == 1
    assert not hooks.has(name)


def test_a_misspelt_hook_is_refused_with_the_nearest_names(hooks: Hooks) -> None:
    with pytest.raises(InvalidInput) as refused:
        hooks.on("after_toolcall")

    assert "after_tool_call" in str(refused.value.hint)


def test_an_internal_key_given_to_on_is_sent_to_on_internal(hooks: Hooks) -> None:
    with pytest.raises(InvalidInput) as refused:
        hooks.on("command:new")

    assert "on_internal" in str(refused.value.hint)


@pytest.mark.parametrize("key", ["", ":new", "command:", " command", "command: new"])
def test_an_internal_key_without_type_or_action_is_refused(hooks: Hooks, key: str) -> None:
    with pytest.raises(InvalidInput):
        hooks.on_internal(key)


def test_a_function_that_takes_no_event_is_refused(hooks: Hooks) -> None:
    def watch() -> None: ...

    with pytest.raises(InvalidInput) as refused:
        hooks.on("agent_end")(watch)

    assert "(event, context)" in str(refused.value.hint)


def test_something_that_cannot_be_called_is_refused(hooks: Hooks) -> None:
    nothing: Any = None

    with pytest.raises(InvalidInput):
        hooks.on("agent_end")(nothing)


def test_a_timeout_that_is_no_time_is_refused(hooks: Hooks) -> None:
    with pytest.raises(InvalidInput):
        hooks.on("agent_end", timeout_s=0)(print)


def test_a_hook_takes_only_so_many_functions(hooks: Hooks) -> None:
    for _ in range(hook_calls.HOOKS_PER_NAME_MAX):
        hooks.on("agent_end")(lambda _: None)

    with pytest.raises(TooLarge):
        hooks.on("agent_end")(lambda _: None)


def test_a_function_may_take_the_event_alone(hooks: Hooks) -> None:
    seen: list[Any] = []
    hooks.on("agent_end")(seen.append)

    hooks.fire("agent_end", {"success": True}, {"runId": "r1"})

    assert seen == [{"success": True}]


def test_a_function_can_be_removed_from_one_hook_and_kept_for_another(hooks: Hooks) -> None:
    seen: list[Any] = []
    for name in ("agent_end", "llm_output"):
        hooks.on(name)(seen.append)

    assert hooks.remove(seen.append, "agent_end") == 1
    hooks.fire("agent_end", {"at": "end"}, {})
    hooks.fire("llm_output", {"at": "output"}, {})

    assert seen == [{"at": "output"}]


@pytest.mark.parametrize("name", sorted({*MODIFYING_HOOKS, PERSIST_HOOK}))
def test_a_hook_that_changes_things_cannot_be_fired(hooks: Hooks, name: str) -> None:
    with pytest.raises(InvalidInput):
        hooks.fire(name, {}, {})


def test_void_hooks_run_side_by_side(hooks: Hooks) -> None:
    """Void hooks run in parallel: each of these waits until all others have started."""
    together = threading.Barrier(3, timeout=PATIENCE_S)
    for _ in range(3):
        hooks.on("after_tool_call")(lambda _: together.wait(PATIENCE_S))

    hooks.fire("after_tool_call", {}, {})

    assert [one.errors for one in hooks.metrics()] == [0]
    assert sum(one.calls for one in hooks.metrics()) == 3


def test_asynchronous_void_hooks_are_awaited_together(hooks: Hooks) -> None:
    """They share a loop, so that one may wait for another."""
    arrived: list[asyncio.Event] = []

    @hooks.on("llm_output")
    async def first(event: dict[str, Any]) -> None:
        arrived.append(asyncio.Event())
        await arrived[0].wait()

    @hooks.on("llm_output")
    async def second(event: dict[str, Any]) -> None:
        arrived[0].set()

    hooks.fire("llm_output", {}, {})

    assert [(one.calls, one.errors, one.timeouts) for one in hooks.metrics()] == [(1, 0, 0)] * 2


def test_synchronous_and_asynchronous_void_hooks_run_side_by_side(hooks: Hooks) -> None:
    begun = threading.Event()
    asked = threading.Event()

    @hooks.on("llm_output")
    def plain(event: dict[str, Any]) -> None:
        begun.set()
        assert asked.wait(PATIENCE_S)

    @hooks.on("llm_output")
    async def awaited(event: dict[str, Any]) -> None:
        assert await asyncio.to_thread(begun.wait, 60)
        asked.set()

    hooks.fire("llm_output", {}, {})

    assert [one.errors for one in hooks.metrics()] == [0, 0]


def test_a_void_hook_that_fails_is_logged_and_counted_and_harms_nobody(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    @hooks.on("session_end", priority=10)
    def broken(event: dict[str, Any], context: dict[str, Any]) -> None:
        raise LookupError("not there")

    @hooks.on("session_end", priority=10)
    async def broken_too(event: dict[str, Any], context: dict[str, Any]) -> None:
        raise LookupError("not there")

    hooks.on("session_end")(seen.append)
    with caplog.at_level(logging.ERROR):
        hooks.fire("session_end", {"sessionId": "s1"}, {})

    assert seen == [{"sessionId": "s1"}]
    failed = [one for one in hooks.metrics() if one.errors]
    assert {one.function.rsplit(".", 1)[1] for one in failed} == {"broken", "broken_too"}
    assert {one.last_error for one in failed} == {"LookupError"}
    assert len(caplog.records) == 2


def test_a_hook_that_exits_does_not_end_the_program(hooks: Hooks) -> None:
    @hooks.on("agent_end")
    def leave(event: dict[str, Any]) -> None:
        raise SystemExit(3)

    hooks.fire("agent_end", {}, {})

    assert row(hooks, "agent_end").last_error == "SystemExit"


def test_a_hook_over_its_time_is_left_behind(hooks: Hooks) -> None:
    release = threading.Event()

    @hooks.on("agent_end", timeout_s=0.01)
    def slow(event: dict[str, Any]) -> None:
        release.wait(PATIENCE_S)

    hooks.fire("agent_end", {}, {})
    release.set()

    assert (row(hooks, "agent_end").timeouts, row(hooks, "agent_end").errors) == (1, 0)


def test_an_asynchronous_hook_over_its_time_is_cancelled(hooks: Hooks) -> None:
    cancelled = threading.Event()

    @hooks.on("agent_end", timeout_s=0.01)
    async def slow(event: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    hooks.fire("agent_end", {}, {})

    assert cancelled.wait(PATIENCE_S)
    assert (row(hooks, "agent_end").timeouts, row(hooks, "agent_end").errors) == (1, 0)


def test_a_hooks_own_timeout_error_is_an_error(hooks: Hooks) -> None:
    @hooks.on("agent_end")
    async def impatient(event: dict[str, Any]) -> None:
        raise TimeoutError

    hooks.fire("agent_end", {}, {})

    assert (row(hooks, "agent_end").timeouts, row(hooks, "agent_end").errors) == (0, 1)


def test_a_hook_that_hangs_again_and_again_is_not_called_until_it_comes_back() -> None:
    """The number of abandoned threads is bounded."""
    hooks = Hooks(timeout_s=0.01)
    release, begun = threading.Event(), threading.Semaphore(0)

    @hooks.on("agent_end")
    def stuck(event: dict[str, Any]) -> None:
        begun.release()
        release.wait(PATIENCE_S)

    for _ in range(HUNG_CALLS_MAX + 5):
        hooks.fire("agent_end", {}, {})

    assert row(hooks, "agent_end").timeouts == HUNG_CALLS_MAX + 5
    assert all(begun.acquire(timeout=PATIENCE_S) for _ in range(HUNG_CALLS_MAX))
    assert not begun.acquire(blocking=False)
    release.set()
    while row(hooks, "agent_end").calls == row(hooks, "agent_end").timeouts:
        hooks.fire("agent_end", {}, {})


def test_what_a_void_hook_changes_in_its_event_is_its_own(hooks: Hooks) -> None:
    given = {"result": {"rows": [1, 2]}}
    for _ in range(2):
        hooks.on("after_tool_call")(lambda event: event["result"]["rows"].clear())

    hooks.fire("after_tool_call", given, {})

    assert given == {"result": {"rows": [1, 2]}}


def test_hooks_see_the_context_variables_of_whoever_fires_them(hooks: Hooks) -> None:
    request = contextvars.ContextVar("request", default="none")
    seen: list[str] = []

    @hooks.on("agent_end")
    def plain(event: dict[str, Any]) -> None:
        seen.append(request.get())

    @hooks.on("agent_end")
    async def awaited(event: dict[str, Any]) -> None:
        seen.append(request.get())

    request.set("r-17")
    hooks.fire("agent_end", {}, {})

    assert seen == ["r-17", "r-17"]


def test_a_plain_function_may_return_something_to_await(hooks: Hooks) -> None:
    seen: list[str] = []

    async def later() -> None:
        await asyncio.sleep(0)
        seen.append("done")

    hooks.on("agent_end")(lambda _: later())
    hooks.fire("agent_end", {}, {})

    assert seen == ["done"]


def test_an_object_with_an_asynchronous_call_is_a_hook_too(hooks: Hooks) -> None:
    seen: list[Any] = []

    class Watcher:
        async def __call__(self, event: dict[str, Any], context: dict[str, Any]) -> None:
            seen.append({**event, **context})

    hooks.on("agent_end")(Watcher())
    hooks.fire("agent_end", {"success": True}, {"runId": "r1"})

    assert seen == [{"success": True, "runId": "r1"}]
    assert row(hooks, "agent_end").function.endswith("Watcher")


def test_hooks_can_be_fired_from_inside_an_event_loop(hooks: Hooks) -> None:
    seen: list[Any] = []

    @hooks.on("agent_end")
    async def awaited(event: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        seen.append(event)

    async def caller() -> None:
        hooks.fire("agent_end", {"success": True}, {})

    asyncio.run(caller())

    assert seen == [{"success": True}]


def test_a_hook_may_fire_hooks_itself(hooks: Hooks) -> None:
    seen: list[str] = []

    @hooks.on("agent_end")
    async def outer(event: dict[str, Any]) -> None:
        hooks.fire("llm_output", {}, {})

    @hooks.on("llm_output")
    async def inner(event: dict[str, Any]) -> None:
        seen.append("inner")

    hooks.fire("agent_end", {}, {})

    assert seen == ["inner"]


def test_metrics_add_up_over_threads(hooks: Hooks) -> None:
    hooks.on("agent_end")(lambda _: None)

    def fire() -> None:
        for _ in range(20):
            hooks.fire("agent_end", {}, {})

    in_threads(*[fire] * 4)

    found = row(hooks, "agent_end")
    assert (found.calls, found.errors) == (80, 0)
    assert 0 < found.max_ms <= found.total_ms


def test_metrics_tell_how_long_calls_took_in_all_and_at_most() -> None:
    counts = hook_calls.HookCounts()
    for ms in (2.0, 5.0, 1.0):
        counts.add("agent_end", "f", ms=ms)

    assert counts.rows() == [
        HookMetrics(hook="agent_end", function="f", calls=3, total_ms=8.0, max_ms=5.0)
    ]


def test_metrics_are_bounded() -> None:
    counts = hook_calls.HookCounts()
    for at in range(hook_calls.FUNCTIONS_MAX + 10):
        counts.add("agent_end", f"f{at}")

    rows = counts.rows()

    assert len(rows) == hook_calls.FUNCTIONS_MAX + 1
    assert [one.calls for one in rows if one.function == hook_calls.THE_REST] == [10]


def test_general_internal_hooks_come_before_specific_ones_in_order_of_registration(
    hooks: Hooks,
) -> None:
    """The keys: "general handlers then specific, registration order, sequential"."""
    order: list[str] = []
    for key, name in [
        ("command:new", "specific 1"),
        ("command", "general 1"),
        ("command:new", "specific 2"),
        ("command", "general 2"),
        ("command:reset", "of another action"),
        ("session", "of another type"),
    ]:
        hooks.on_internal(key)(partial(lambda name, _: order.append(name), name))

    hooks.trigger("command", "new")

    assert order == ["general 1", "general 2", "specific 1", "specific 2"]


def test_an_internal_hook_that_fails_is_logged_and_the_others_go_on(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @hooks.on_internal("command")
    async def broken(event: dict[str, Any]) -> None:
        raise LookupError("not there")

    hooks.on_internal("command")(lambda event: seen.append(event["action"]))
    with caplog.at_level(logging.ERROR):
        hooks.trigger("command", "new")

    assert seen == ["new"]
    assert "command" in caplog.text
    assert "broken" in caplog.text


def test_a_trigger_returns_the_messages_that_were_pushed(hooks: Hooks) -> None:
    @hooks.on_internal("command:new")
    async def greet(event: dict[str, Any]) -> None:
        event["messages"].append(f"saved {event['sessionKey']}")

    assert hooks.trigger("command", "new", session_key="agent:main") == ["saved agent:main"]


def test_internal_hooks_share_the_context_that_they_are_given(hooks: Hooks) -> None:
    """A bootstrap hook adds to the context, where its caller finds it."""
    hooks.on_internal("agent:bootstrap")(lambda event: event["context"]["files"].append("SOUL.md"))
    context = {"files": ["AGENTS.md"]}

    hooks.trigger("agent", "bootstrap", context=context)

    assert context == {"files": ["AGENTS.md", "SOUL.md"]}


def test_a_trigger_inside_a_triggered_hook_calls_each_once(hooks: Hooks) -> None:
    calls: list[str] = []

    @hooks.on_internal("command:new")
    async def outer(event: dict[str, Any]) -> None:
        calls.append("new")
        hooks.trigger("command", "saved")

    hooks.on_internal("command:saved")(lambda _: calls.append("saved"))
    hooks.trigger("command", "new")

    assert calls == ["new", "saved"]
