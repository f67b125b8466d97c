"""The contract of plugin hooks: each of the 17 hooks has the fields that plugins read."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE
from treering.sinks import Hooks, HookSink, PrivateHookSink
from treering.sinks.hook_payloads import PLUGIN_HOOKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Run

SECRET: Final = "PRIVATE-WORDS"
CONTRACT: Final[dict[str, tuple[str, str]]] = {
    "before_agent_start": ("prompt", "messages"),
    "llm_input": (
        "runId sessionId provider model prompt historyMessages imagesCount", "",
    ),
    "llm_output": (
        "runId sessionId provider model assistantTexts", "lastAssistant usage",
    ),
    "agent_end": ("messages success", "error durationMs"),
    "before_compaction": ("messageCount", "compactingCount tokenCount messages"),
    "after_compaction": ("messageCount compactedCount", "tokenCount"),
    "before_reset": ("", "messages reason"),
    "message_received": ("from content", "timestamp metadata"),
    "message_sending": ("to content", "metadata"),
    "message_sent": ("to content success", "error"),
    "before_tool_call": ("toolName params", ""),
    "after_tool_call": ("toolName params", "result error durationMs"),
    "tool_result_persist": ("message", "toolName toolCallId isSynthetic"),
    "session_start": ("sessionId", "resumedFrom"),
    "session_end": ("sessionId messageCount", "durationMs"),
    "gateway_start": ("port", ""),
    "gateway_stop": ("", "reason"),
}  # fmt: skip
"""The fields of each hook's event: those that a plugin relies on, and those that may be missing.

``systemPrompt`` is told if whoever calls the model records it; ``sessionFile`` names a file that
Treering does not have.
"""
CONTEXTS: Final = {
    "agentId sessionId sessionKey runId": (
        "before_agent_start llm_input llm_output agent_end message_sending before_tool_call"
        " after_tool_call tool_result_persist"
    ),
    "channelId conversationId": "message_received message_sending message_sent",
    "toolName toolCallId": "before_tool_call after_tool_call tool_result_persist",
    "agentId sessionId": "session_start session_end before_reset before_compaction",
}
PRIVATE: Final = {
    "llm_input": {"prompt", "historyMessages"},
    "llm_output": {"assistantTexts"},
    "agent_end": {"messages"},
    "message_received": {"from", "content"},
    "message_sent": {"to", "content"},
    "after_tool_call": {"params"},
}
"""What a plugin relies on and only PrivateHookSink tells."""

Told = dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]


@pytest.fixture(scope="module", params=[HookSink, PrivateHookSink])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def told(make: Callable[[Hooks], HookSink | PrivateHookSink]) -> Told:
    """Return the payloads of each hook in a session in which everything happens."""
    hooks, found = Hooks(), defaultdict[str, list[Any]](list)
    for name in PLUGIN_HOOKS:

        @hooks.on(name)
        def note(event: Any, context: Any, *, name: str = name) -> None:
            found[name].append((event, context))

    with treering.open(":memory:") as ledger:
        spine = ledger.spine([make(hooks)])
        session = ledger.session(
            "s1", scope=HERE, agent="lyria", channel="telegram", key="agent:main:main"
        )
        for number in range(3):
            with spine.run(session, provider="acme", model="m1", prompt=SECRET) as run:
                run.user(f"{SECRET} {number}", **{"from": SECRET, "reply_to": SECRET})
                run.context(max_tokens=10_000)
                use_tools(run)
                deliver(run)
                run.assistant(SECRET, usage={"input": 1, "output": 2})
        session.turn().start()
        session.interrupt(SECRET)
        session.compact(keep=2)
        session.fork("s2")
        session.close("reset")
        assert spine.flush(60)
    return found


def use_tools(run: Run) -> None:
    run.tools.started("look", {"q": SECRET}).finish(SECRET)
    run.tools.started("break", {"q": SECRET}).fail(ValueError(SECRET))


def deliver(run: Run) -> None:
    def send(_: str) -> None:
        raise OSError(SECRET)

    run.deliver(SECRET, to=SECRET)
    with contextlib.suppress(OSError):
        run.deliver(SECRET, to=SECRET, send=send)


def fields(hook: str) -> tuple[set[str], set[str]]:
    required, optional = CONTRACT[hook]
    return set(required.split()), set(optional.split())


def test_the_contract_names_all_hooks() -> None:
    assert set(CONTRACT) == set(PLUGIN_HOOKS)


@pytest.mark.parametrize("hook", PLUGIN_HOOKS)
def test_a_plugin_finds_every_field_that_it_relies_on(told: Told, make: object, hook: str) -> None:
    required, optional = fields(hook)
    unknown = {"port"} if make is PrivateHookSink else {"port", *PRIVATE.get(hook, ())}

    assert told[hook]
    for event, _ in told[hook]:
        assert required <= event.keys()
        assert {name for name in required if event[name] is None} == unknown & required
    if make is PrivateHookSink:
        assert optional <= {name for event, _ in told[hook] for name in event}


@pytest.mark.parametrize("hook", PLUGIN_HOOKS)
def test_a_plugin_is_told_where_it_is(told: Told, hook: str) -> None:
    expected = {name for names, hooks in CONTEXTS.items() if hook in hooks.split()
                for name in names.split()}  # fmt: skip

    assert all(expected <= context.keys() for _, context in told[hook])


ASKED: Final = {"before_agent_start", "before_tool_call", "message_sending", "tool_result_persist"}
WORDLESS: Final = {
    "gateway_start", "gateway_stop", "session_start", "session_end", "after_compaction"
}  # fmt: skip


@pytest.mark.parametrize("hook", sorted({*PLUGIN_HOOKS} - ASKED))
def test_a_safe_sink_tells_watching_hooks_no_word(told: Told, make: object, hook: str) -> None:
    tells = make is PrivateHookSink and hook not in WORDLESS

    assert (SECRET in repr(told[hook])) == tells


def test_the_messages_of_an_end_are_those_of_the_session_in_the_shape_that_plugins_know() -> None:
    hooks, ends = Hooks(), list[dict[str, Any]]()
    hooks.on("agent_end")(ends.append)
    with treering.open(":memory:") as ledger:
        spine = ledger.spine([PrivateHookSink(hooks)])
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as run:
            run.user("look")
            run.tools.started("look", {"q": 1}, call_id="c1").finish("found")
            run.assistant("there")
        run = session.turn()
        run.start()
        run.user("again")
        run.fail("no")
        assert spine.flush(60)

    def text(words: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": words}]

    first = [
        {"role": "user", "content": text("look")},
        {"role": "assistant",
         "content": [{"type": "toolCall", "id": "c1", "name": "look", "arguments": {"q": 1}}]},
        {"role": "toolResult", "toolCallId": "c1", "toolName": "look", "content": text("found"),
         "isError": False, "isSynthetic": False},
        {"role": "assistant", "content": text("there")},
    ]  # fmt: skip
    assert [end["messages"] for end in ends] == [
        first, [*first, {"role": "user", "content": text("again")}]
    ]  # fmt: skip


def test_the_end_of_a_session_counts_its_messages_also_when_others_follow() -> None:
    hooks, ends = Hooks(), list[dict[str, Any]]()
    hooks.on("session_end")(ends.append)
    with treering.open(":memory:") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as run:
            run.user("look")
            run.tools.started("look", call_id="c1").finish("found")
            run.assistant("there")
        session.close("idle")
        with session.turn() as run:
            run.user("more")
        durable = treering.sinks.Delivery(durable=True, on_error="retry")
        spine = ledger.spine([HookSink(hooks, delivery=durable)])
        spine.follow(HERE)
        assert spine.flush(60)

    assert [(end["messageCount"], end["reason"]) for end in ends] == [(3, "idle")]


def test_the_model_of_an_answer_goes_before_that_of_its_run() -> None:
    hooks, outputs = Hooks(), list[dict[str, Any]]()
    hooks.on("llm_output")(outputs.append)
    with treering.open(":memory:") as ledger:
        spine = ledger.spine([PrivateHookSink(hooks)])
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with spine.run(session, provider="acme", model="m1") as run:
            run.assistant("one")
            run.assistant("two", provider="other", model="m2")
        assert spine.flush(60)

    told = [(output["provider"], output["model"]) for output in outputs]
    assert told == [("acme", "m1"), ("other", "m2")]
