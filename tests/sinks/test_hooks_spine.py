"""Hooks on a real spine: before, during and after a run."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import treering
from threads import in_threads
from treering import Event, Ledger, Session, TreeringError
from treering.errors import RunClosed
from treering.sinks.hooks import Hooks, HookSink, PrivateHookSink
from treering.spine.ports import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.spine.runs import Run

Told = dict[str, Any]


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with treering.open(":memory:") as opened:
        yield opened


@pytest.fixture
def session(ledger: Ledger) -> Session:
    return ledger.session("s1", scope="acme/app", agent="lyria", key="agent:main")


def of_kind(session: Session, kind: str) -> list[Event]:
    return [event for event in session.events() if event.kind == kind]


def test_a_hook_changes_what_a_tool_is_called_with(
    hooks: Hooks, ledger: Ledger, session: Session
) -> None:
    hooks.on("before_tool_call")(lambda _: {"params": {"path": "/home"}})
    ledger.spine(sinks=[HookSink(hooks)])

    with session.turn() as run, run.tool("ls", {"path": "/etc", "depth": 1}) as call:
        call.finish(call.input)

    (intent,), (result,) = of_kind(session, "tool.call"), of_kind(session, "tool.result")
    assert intent.payload["input"] == {"path": "/home", "depth": 1}
    assert result.payload["output"] == {"path": "/home", "depth": 1}


def test_a_tool_that_a_hook_blocks_is_not_run_and_has_a_synthetic_result(
    hooks: Hooks, ledger: Ledger, session: Session
) -> None:
    hooks.on("before_tool_call")(lambda _: {"block": True, "blockReason": "not on a Friday"})
    ledger.spine(sinks=[HookSink(hooks)])
    ran: list[str] = []

    with session.turn() as run:
        with pytest.raises(TreeringError, match="not on a Friday"), run.tool("deploy", {}) as call:
            ran.append(call.name)
        run.assistant("I may not.")

    (blocked,), (result,) = of_kind(session, "ops.blocked"), of_kind(session, "tool.result")
    assert ran == []
    assert (blocked.refs["tool"], blocked.refs["code"]) == ("deploy", "gate")
    assert (result.refs["status"], result.refs["reason"]) == ("synthetic", "denied")
    assert result.refs["call_id"] == blocked.refs["call_id"]


def finish(run: Run) -> None:
    with run.tool("t", {}, call_id="c1") as call:
        call.finish("out")


def fail(run: Run) -> None:
    with pytest.raises(LookupError), run.tool("t", {}, call_id="c1"):
        raise LookupError("out")


def fail_by_word(run: Run) -> None:
    run.tools.started("t", {}, call_id="c1").fail("out")


def finish_apart(run: Run) -> None:
    run.tools.started("t", {}, call_id="c1")
    run.tools.finished("c1", "out")


def finish_by_event(run: Run) -> None:
    run.emit("tool.call.started", {"call_id": "c1", "name": "t", "input": {}})
    run.emit("tool.call.finished", {"call_id": "c1", "output": "out"})


def fail_by_event(run: Run) -> None:
    run.emit("tool.call.started", {"call_id": "c1", "name": "t", "input": {}})
    run.emit("tool.call.failed", {"call_id": "c1", "error": "out"})


def give_up(run: Run) -> None:
    run.tools.started("t", {}, call_id="c1")
    run.tools.gave_up("c1", "timeout")


def leave_open(run: Run) -> None:
    run.tools.started("t", {}, call_id="c1")


WAYS: dict[str, Callable[[Run], None]] = {
    "call.finish": finish,
    "an exception": fail,
    "call.fail": fail_by_word,
    "run.tools.finished": finish_apart,
    "tool.call.finished": finish_by_event,
    "tool.call.failed": fail_by_event,
    "run.tools.gave_up": give_up,
    "the end of the run": leave_open,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_persist_hook_is_applied_exactly_once_however_a_call_ends(
    hooks: Hooks, ledger: Ledger, session: Session, way: str
) -> None:
    """The ledger's duty: "apply tool-result hooks (`tool_result_persist`) once, consistently"."""
    calls: list[Told] = []

    @hooks.on("tool_result_persist")
    def mark(event: Told, context: Told) -> Told:
        calls.append(event)
        words = event["message"]["content"][0]["text"]
        return {"message": {**event["message"], "content": [text(f"<{words}>")]}}

    ledger.spine(sinks=[HookSink(hooks)])
    with session.turn() as run:
        WAYS[way](run)

    (result,) = of_kind(session, "tool.result")
    payload = result.payload
    kept = payload["error"]["message"] if payload["status"] == "failed" else payload["output"]
    (call,) = calls
    assert kept == f"<{call['message']['content'][0]['text']}>"
    assert kept.count("<") == 1
    assert call["isSynthetic"] == (payload["status"] == "synthetic")
    assert call["message"]["isError"] == (payload["status"] != "ok")


def text(words: str) -> Told:
    return {"type": "text", "text": words}


def test_a_persist_hook_is_applied_once_to_a_call_that_was_denied(
    hooks: Hooks, ledger: Ledger
) -> None:
    calls: list[Told] = []
    hooks.on("tool_result_persist")(calls.append)
    ledger.spine(sinks=[HookSink(hooks)])
    session = ledger.session("s1", scope="acme/app", agent="lyria", tools=["ls"])

    with session.turn() as run, pytest.raises(TreeringError), run.tool("rm", {}):
        raise AssertionError

    assert [call["toolName"] for call in calls] == ["rm"]


def test_hooks_prepare_a_run(hooks: Hooks, ledger: Ledger, session: Session) -> None:
    hooks.on("before_agent_start")(
        lambda _: {"systemPrompt": "Be brief.", "prependContext": "It is Monday."}
    )
    ledger.spine(sinks=[HookSink(hooks)])

    with session.turn() as run:
        pass

    assert (run.system_prompt, run.prepend_context) == ("Be brief.", "It is Monday.")


def test_hooks_change_a_message_on_its_way_out(
    hooks: Hooks, ledger: Ledger, session: Session
) -> None:
    sent: list[str] = []
    hooks.on("message_sending")(lambda event: {"content": event["content"].upper()})
    ledger.spine(sinks=[HookSink(hooks)])

    with session.turn() as run:
        run.deliver("hello", to="bob", send=sent.append)

    (receipt,) = of_kind(session, "ops.receipt")
    assert (sent, receipt.payload["text"]) == (["HELLO"], "HELLO")


def test_a_message_that_a_hook_holds_back_is_not_sent(
    hooks: Hooks, ledger: Ledger, session: Session
) -> None:
    sent: list[str] = []
    hooks.on("message_sending")(lambda _: {"cancel": True})
    ledger.spine(sinks=[HookSink(hooks)])

    with session.turn() as run:
        assert run.deliver("hello", to="bob", send=sent.append) is None

    assert (sent, of_kind(session, "ops.receipt")) == ([], [])


def watch_all(hooks: Hooks) -> list[str]:
    """Return the names of the hooks that are called from now on, in order."""
    seen: list[str] = []
    for name in ("session_start", "message_received", "after_tool_call", "message_sent",
                 "llm_output", "agent_end", "session_end", "before_reset", "gateway_start",
                 "gateway_stop"):  # fmt: skip

        @hooks.on(name)
        def note(event: Told, context: Told, *, name: str = name) -> None:
            seen.append(name)

    return seen


def whole_run(session: Session) -> None:
    with session.turn() as run:
        run.user("What changed?")
        run.delta("Thr")
        with run.tool("git_log", {}) as call:
            call.finish("3 commits")
        run.deliver("Three commits.", to="bob")
        run.assistant("Three commits.")
    session.record("session.closed", "session closed", refs={"reason": "reset"})


EXPECTED = [
    "gateway_start",
    "session_start",
    "message_received",
    "after_tool_call",
    "message_sent",
    "llm_output",
    "agent_end",
    "before_reset",
    "session_end",
]


@pytest.mark.parametrize("variant", [HookSink, PrivateHookSink])
def test_a_run_fires_its_hooks_in_order_and_once(
    hooks: Hooks, session: Session, ledger: Ledger, variant: type[HookSink | PrivateHookSink]
) -> None:
    """The requirement: "Existing hook semantics hold while new events are added"."""
    seen = watch_all(hooks)
    spine = ledger.spine(sinks=[variant(hooks)])

    whole_run(session)
    assert spine.flush(60)
    assert seen == EXPECTED
    ledger.close()

    assert seen == [*EXPECTED, "gateway_stop"]


def test_a_durable_sink_tells_its_hooks_of_what_it_missed(hooks: Hooks, ledger: Ledger) -> None:
    session = ledger.session("s1", scope="acme/app", agent="lyria")
    whole_run(session)
    seen = watch_all(hooks)
    durable = Delivery(durable=True, on_error="retry", timeout_s=300)

    spine = ledger.spine(sinks=[HookSink(hooks, delivery=durable)])
    spine.follow("acme/app")
    assert spine.flush(60)

    assert seen == EXPECTED


def test_a_failing_run_is_told_as_one(hooks: Hooks, ledger: Ledger, session: Session) -> None:
    seen: list[Told] = []
    hooks.on("agent_end")(seen.append)
    spine = ledger.spine(sinks=[PrivateHookSink(hooks)])

    with pytest.raises(LookupError), session.turn():
        raise LookupError("not there")
    assert spine.flush(60)

    ((told),) = seen
    assert (told["success"], told["error"], told["errorClass"]) == (
        False,
        "not there",
        "LookupError",
    )


def test_a_safe_sink_never_shows_a_text(hooks: Hooks, ledger: Ledger, session: Session) -> None:
    seen: list[str] = []
    for name in ("message_received", "after_tool_call", "llm_output", "message_sent", "agent_end"):
        hooks.on(name)(lambda event, context: seen.append(f"{event} {context}"))
    hooks.on_internal("message")(lambda event: seen.append(str(event)))
    spine = ledger.spine(sinks=[HookSink(hooks)])

    run = session.turn()
    run.start()
    run.user("hush")
    with run.tool("t", {"q": "hush"}) as call:
        call.finish("hush")
    run.deliver("hush", to="hush")
    run.assistant("hush")
    run.fail(LookupError("hush"))
    assert spine.flush(60)

    assert len(seen) == 7
    assert not any("hush" in told for told in seen)


@pytest.mark.parametrize("where", ["run", "session"])
def test_a_trigger_is_recorded_and_its_hooks_are_called_once(
    hooks: Hooks, ledger: Ledger, session: Session, where: str
) -> None:
    """An internal trigger becomes a spine event: "old triggers continue to fire"."""
    seen: list[str] = []
    hooks.on_internal("command")(lambda event: seen.append(event["action"]))
    spine = ledger.spine(sinks=[HookSink(hooks)])
    context = {"text": "hush", "source": "cli", "cfg": object()}

    with session.turn() as run:
        place: dict[str, Any] = {"run": run} if where == "run" else {"session": session}
        hooks.trigger("command", "new", session_key="agent:main", context=context, **place)
    assert spine.flush(60)

    (event,) = of_kind(session, "ops.observation")
    assert seen == ["new"]
    assert (event.origin, event.refs, event.run_id) == (
        "hook-adapter",
        {"hook": "command:new"},
        run.run_id if where == "run" else None,
    )
    assert (event.summary, event.payload) == ("hook command:new", {"text": "hush", "source": "cli"})


def test_triggers_from_several_threads_and_inside_hooks_fire_once_each(
    hooks: Hooks, ledger: Ledger, session: Session
) -> None:
    seen: list[str] = []
    lock = threading.Lock()
    spine = ledger.spine(sinks=[HookSink(hooks)])

    with session.turn() as run:

        @hooks.on_internal("command:new")
        async def outer(event: Told) -> None:
            await asyncio.sleep(0)
            hooks.trigger("command", "saved", run=run)

        @hooks.on_internal("command")
        def note(event: Told) -> None:
            with lock:
                seen.append(event["action"])

        in_threads(*[lambda: hooks.trigger("command", "new", run=run)] * 4)
    assert spine.flush(60)

    assert sorted(seen) == ["new"] * 4 + ["saved"] * 4
    assert len(of_kind(session, "ops.observation")) == 8


def test_a_trigger_that_cannot_be_recorded_still_calls_its_hooks(
    hooks: Hooks, session: Session
) -> None:
    seen: list[str] = []
    hooks.on_internal("command")(lambda event: seen.append(event["action"]))
    with session.turn() as run:
        pass

    with pytest.raises(RunClosed):
        hooks.trigger("command", "new", run=run)

    assert seen == ["new"]


def test_a_hook_that_fails_leaves_the_run_and_the_sink_alone(
    hooks: Hooks, ledger: Ledger, session: Session
) -> None:
    @hooks.on("after_tool_call")
    @hooks.on("before_tool_call")
    @hooks.on("tool_result_persist")
    @hooks.on("before_agent_start")
    def broken(event: Told, context: Told) -> None:
        raise LookupError("not there")

    spine = ledger.spine(sinks=[HookSink(hooks)])
    whole_run(session)
    assert spine.flush(60)

    (status,) = spine.status()
    assert (status.failed, status.lost, status.stopped) == (0, 0, False)
    assert {one.hook: one.errors for one in hooks.metrics()} == {
        "after_tool_call": 1,
        "before_tool_call": 1,
        "tool_result_persist": 1,
        "before_agent_start": 1,
    }
    assert of_kind(session, "tool.result")[0].payload["output"] == "3 commits"
