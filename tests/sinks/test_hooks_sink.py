from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from builders import NOON
from effort import PATIENCE_S
from treering.model.carried import PrivateEvent, SafeEvent
from treering.model.parts import safe_part
from treering.sinks import hook_payloads
from treering.sinks.hook_payloads import PLUGIN_HOOKS, REQUIRED_FIELDS, VOID_HOOKS
from treering.sinks.hooks import Hooks, HookSink, PrivateHookSink
from treering.spine.ports import Gate, Occasion, Preparation, PrivateSink, SafeSink, Verdict

Event = dict[str, Any]
WHERE = Occasion(
    scope="acme/app", session_id="s1", session_key="agent:main", agent_id="lyria", run_id="r1"
)
CONTEXT = {
    "agentId": "lyria",
    "sessionId": "s1",
    "sessionKey": "agent:main",
    "conversationId": "s1",
    "runId": "r1",
    "scope": "acme/app",
}
IDS = {"sessionId": "s1", "sessionKey": "agent:main", "runId": "r1"}
RETURNED = {"call_id": "c1", "tool": "git_log", "status": "ok", "duration_ms": 7}


def common(kind: str, refs: Any, **fields: Any) -> dict[str, Any]:
    stated = {
        "event_id": "e1", "scope": "acme/app", "session_id": "s1", "session_key": "agent:main",
        "run_id": "r1", "run_seq": 1, "seq": 2, "turn_id": "t1", "agent_id": "lyria", "kind": kind,
        "source": "agent", "origin": "runtime", "visibility": "private", "ts_ms": NOON,
        "payload_bytes": 100, "part": safe_part(kind, refs),
    }  # fmt: skip
    return stated | fields


def safe(kind: str, refs: Any = None, **fields: Any) -> SafeEvent:
    return SafeEvent(**common(kind, refs, **fields), summary=None, refs=None)


def private(kind: str, payload: Any, refs: Any = None, **fields: Any) -> PrivateEvent:
    return PrivateEvent(**common(kind, refs, **fields), summary="", refs=refs, payload=payload)


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def told(hooks: Hooks) -> list[tuple[str, Event, Event]]:
    """Return the payloads that every observing hook receives from now on."""
    seen: list[tuple[str, Event, Event]] = []
    for name in VOID_HOOKS:

        @hooks.on(name)
        def watch(event: Event, context: Event, *, name: str = name) -> None:
            seen.append((name, event, context))

    return seen


def test_the_types_tell_who_gets_private_content(hooks: Hooks) -> None:
    """The constraint: "Separate safe vs private at the type level so leaks are hard"."""
    safe_one: SafeSink = HookSink(hooks)
    private_one: PrivateSink = PrivateHookSink(hooks)
    gates: list[Gate] = [HookSink(hooks), PrivateHookSink(hooks)]
    wrong: PrivateSink = HookSink(hooks)  # type: ignore[assignment]
    wrong_too: SafeSink = PrivateHookSink(hooks)  # type: ignore[assignment]

    assert {safe_one.name, private_one.name, wrong.name, wrong_too.name} == {"hooks"}
    assert all(isinstance(gate, Gate) for gate in gates)


SAFE: list[tuple[str, Event, list[str], Event]] = [
    ("session.opened", {"channel": "cli", "mode": "main"}, ["session_start"],
     {**IDS, "channel": "cli", "mode": "main"}),
    ("session.closed", {"reason": "idle"}, ["session_end"], {**IDS, "reason": "idle"}),
    ("session.closed", {"reason": "reset"}, ["before_reset", "session_end"],
     {**IDS, "reason": "reset"}),
    ("run.ended", {"duration_ms": 5, "tool_calls": 2}, ["agent_end"],
     {**IDS, "success": True, "durationMs": 5, "toolCalls": 2}),
    ("run.failed", {"duration_ms": 5, "error_class": "LookupError", "reason": "failed"},
     ["agent_end"],
     {**IDS, "success": False, "error": "LookupError", "errorClass": "LookupError",
      "durationMs": 5, "reason": "failed"}),
    ("run.interrupted", {}, ["agent_end"], {**IDS, "success": False, "error": "interrupted"}),
    ("conversation.user", {"characters": 3}, ["message_received"],
     {**IDS, "chars": 3, "timestamp": NOON}),
    ("conversation.assistant", {"characters": 3, "model": "m", "stop_reason": "end"},
     ["llm_output"], {**IDS, "chars": 3, "model": "m", "stopReason": "end"}),
    ("context.assembled", {}, ["llm_input"], IDS),
    ("ops.receipt", {"characters": 3, "deliverer": "bot", "chunk": 1, "media": 2},
     ["message_sent"],
     {**IDS, "success": True, "chars": 3, "deliverer": "bot", "chunk": 1, "media": 2}),
    ("tool.result", {**RETURNED, "output_bytes": 9}, ["after_tool_call"],
     {**IDS, "toolName": "git_log", "toolCallId": "c1", "status": "ok", "durationMs": 7,
      "outputBytes": 9, "isSynthetic": False}),
    ("tool.result", {**RETURNED, "status": "failed", "error_class": "LookupError"},
     ["after_tool_call"],
     {**IDS, "toolName": "git_log", "toolCallId": "c1", "status": "failed", "durationMs": 7,
      "isSynthetic": False, "error": "LookupError", "errorClass": "LookupError"}),
    ("tool.result", {**RETURNED, "status": "synthetic"}, ["after_tool_call"],
     {**IDS, "toolName": "git_log", "toolCallId": "c1", "status": "synthetic", "durationMs": 7,
      "isSynthetic": True, "error": "synthetic"}),
    ("tool.result", {**RETURNED, "late": True, "outcome": "e0"}, [], {}),
    ("compaction.started", {"tokens_before": 9, "messages": 4}, ["before_compaction"],
     {**IDS, "messageCount": 4, "compactingCount": 4, "tokenCount": 9, "tokensBefore": 9}),
    ("compaction.ended", {"tokens_before": 9, "tokens_after": 2, "messages": 4,
      "messages_before": 6, "messages_after": 3}, ["after_compaction"],
     {**IDS, "messageCount": 3, "compactedCount": 4, "tokenCount": 2, "tokensBefore": 9,
      "tokensAfter": 2}),
    ("session.forked", {"parent": "s0", "channel": "cli"}, ["session_start"],
     {**IDS, "resumedFrom": "s0", "channel": "cli"}),
    ("ops.warning", {"code": "not_delivered", "error_class": "OSError"}, ["message_sent"],
     {**IDS, "success": False, "code": "not_delivered", "error": "OSError",
      "errorClass": "OSError"}),
    ("ops.warning", {"code": "slow"}, [], {}),
    ("run.ended", {"reason": "compaction"}, [], {}),
    ("run.started", {}, [], {}),
    ("tool.call", {}, [], {}),
    ("assistant.delta", {"characters": 3}, [], {}),
    ("ops.observation", {"hook": "command:new"}, [], {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "refs", "names", "payload"), SAFE)
def test_each_kind_of_event_fires_its_hooks_with_safe_facts(
    hooks: Hooks, told: list[Any], kind: str, refs: Event, names: list[str], payload: Event
) -> None:
    """The rule: "hooks should receive safe metadata by default"."""
    sink, event = HookSink(hooks), safe(kind, refs)

    assert sink.accepts(event) == bool(names)
    sink.handle(event)

    assert [name for name, _, _ in told] == names
    for name, event, _ in told:
        assert {field: fact for field, fact in event.items() if fact is not None} == payload
        assert set(REQUIRED_FIELDS.get(name, ())) <= event.keys()
    assert all(CONTEXT.items() <= context.items() for _, _, context in told)


def test_every_plugin_hook_is_reached(hooks: Hooks) -> None:
    """The requirement: "the 17 plugin hook names"."""
    reached: list[str] = []
    for name in PLUGIN_HOOKS:

        @hooks.on(name)
        def note(event: Event, context: Event, *, name: str = name) -> None:
            reached.append(name)

    sink = HookSink(hooks)
    sink.open()
    for kind, refs, _, _ in SAFE:
        sink.handle(safe(kind, refs))
    sink.before_run(WHERE, "hello")
    sink.before_tool(WHERE, "git_log", "c1", {})
    sink.before_sending(WHERE, "hello", "bob")
    sink.persist(WHERE, "git_log", "c1", "out", is_error=False, is_synthetic=False)
    sink.close()

    assert set(reached) == set(PLUGIN_HOOKS)


def test_a_sink_without_hooks_accepts_nothing(hooks: Hooks) -> None:
    sink, private_sink = HookSink(hooks), PrivateHookSink(hooks)

    assert not any(sink.accepts(safe(kind, refs)) for kind, refs, _, _ in SAFE)
    assert not any(private_sink.accepts(private(kind, {}, refs)) for kind, refs, _, _ in SAFE)


@pytest.mark.parametrize(
    ("kind", "refs", "payload", "more"),
    [
        ("conversation.user", {}, {"text": "hi", "from": "bob", "reply_to": "m1"},
         {"content": "hi", "from": "bob", "metadata": {"reply_to": "m1"}}),
        ("conversation.assistant", {}, {"text": "yes", "usage": {"input": 1}},
         {"assistantTexts": ["yes"], "usage": {"input": 1},
          "lastAssistant": {"text": "yes", "usage": {"input": 1}}}),
        ("conversation.assistant", {}, None, {"assistantTexts": [], "lastAssistant": {}}),
        ("context.assembled", {}, {"prompt": "p", "system_prompt": "s", "messages": [1]},
         {"prompt": "p", "systemPrompt": "s", "historyMessages": [1]}),
        ("ops.receipt", {}, {"text": "hi", "to": "bob"}, {"content": "hi", "to": "bob"}),
        ("run.failed", {"error_class": "LookupError"}, {"class": "LookupError", "message": "gone"},
         {"error": "gone"}),
        ("run.interrupted", {}, {"reason": "stopped"}, {"error": "stopped"}),
        ("tool.result", RETURNED, {"output": {"rows": 2}}, {"result": {"rows": 2}}),
        ("tool.result", {**RETURNED, "status": "failed"}, {"error": {"message": "gone"}},
         {"error": "gone"}),
    ],
)  # fmt: skip
def test_the_private_variant_tells_contents_too(
    hooks: Hooks, told: list[Any], kind: str, refs: Event, payload: Any, more: Event
) -> None:
    """The rule: "private payloads should require explicit opt-in"."""
    HookSink(hooks).handle(safe(kind, refs))
    PrivateHookSink(hooks).handle(private(kind, payload, refs))

    (_, shown, _), (_, all_of_it, _) = told
    assert all_of_it == shown | more


def test_the_private_variant_remembers_what_a_tool_was_called_with(
    hooks: Hooks, told: list[Any]
) -> None:
    sink = PrivateHookSink(hooks)
    call = private("tool.call", {"input": {"since": "friday"}}, {"call_id": "c1"})
    elsewhere = private("tool.call", {"input": 0}, {"call_id": "c1"}, session_id="s2")

    assert sink.accepts(call)
    for event in (call, elsewhere, private("tool.result", {"output": "3 commits"}, RETURNED)):
        sink.handle(event)

    ((_, event, _),) = told
    assert (event["params"], event["result"]) == ({"since": "friday"}, "3 commits")


@pytest.mark.parametrize(("size", "kept"), [(1_024 * 1_024, 16), (1, hook_payloads.INPUTS_MAX)])
def test_the_inputs_that_are_remembered_are_bounded(size: int, kept: int) -> None:
    inputs = hook_payloads.Inputs()
    calls = [
        private("tool.call", {"input": at}, {"call_id": f"c{at}"}, payload_bytes=size)
        for at in range(kept + 4)
    ]

    for call in calls:
        inputs.note(call)

    assert [inputs.of(call) for call in calls] == [None] * 4 + list(range(4, kept + 4))


def test_what_a_hook_changes_stays_out_of_the_event(hooks: Hooks) -> None:
    hooks.on("message_received")(lambda event: event["metadata"]["tags"].clear())
    hooks.on_internal("message")(lambda event: event["context"]["metadata"]["tags"].clear())
    event = private("conversation.user", {"text": "hi", "tags": ["a"]})

    PrivateHookSink(hooks).handle(event)

    assert event.payload == {"text": "hi", "tags": ["a"]}
    assert [(one.calls, one.errors) for one in hooks.metrics()] == [(1, 0), (1, 0)]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("session.opened", ["session", "session:start"]),
        ("session.closed", ["session", "session:end"]),
        ("run.ended", ["agent", "agent:end"]),
        ("conversation.user", ["message", "message:received"]),
        ("ops.receipt", ["message", "message:sent"]),
        ("compaction.started", ["session", "session:compact:before"]),
        ("compaction.ended", ["session", "session:compact:after"]),
        ("tool.result", []),
    ],
)
def test_internal_hooks_are_triggered_by_their_events(
    hooks: Hooks, kind: str, keys: list[str]
) -> None:
    seen: list[tuple[str, Event]] = []
    every = ["session", "session:start", "session:end", "session:compact:before",
             "session:compact:after", "agent", "agent:end", "message", "message:received",
             "message:sent", "tool", "command"]  # fmt: skip
    for key in every:

        @hooks.on_internal(key)
        def note(event: Event, *, key: str = key) -> None:
            seen.append((key, event))

    sink = HookSink(hooks)
    assert sink.accepts(safe(kind)) == bool(keys)
    sink.handle(safe(kind))

    assert [key for key, _ in seen] == keys
    for _, event in seen:
        assert event["sessionKey"] == "agent:main"
        assert event["timestamp"] == datetime.fromtimestamp(NOON / 1_000, tz=UTC)
        assert event["context"]["sessionId"] == "s1"
        assert event["messages"] == []


def test_what_a_trigger_recorded_triggers_nothing_again(hooks: Hooks, told: list[Any]) -> None:
    """The requirement: "old handlers still fire, once"."""
    seen: list[Event] = []
    hooks.on_internal("session")(seen.append)
    sink = HookSink(hooks)

    sink.handle(safe("session.opened", origin="hook-adapter"))

    assert seen == []
    assert [name for name, _, _ in told] == ["session_start"]


def test_opening_and_closing_tell_of_the_gateway_once(hooks: Hooks, told: list[Any]) -> None:
    internal: list[str] = []
    hooks.on_internal("gateway")(lambda event: internal.append(event["action"]))
    sink = HookSink(hooks)

    sink.close()
    sink.open()
    sink.open()
    sink.close()
    sink.close()

    assert [name for name, _, _ in told] == ["gateway_start", "gateway_stop"]
    assert internal == ["startup", "shutdown"]


def test_a_gate_without_hooks_leaves_everything_as_it_is(hooks: Hooks) -> None:
    gate, output = HookSink(hooks), {"rows": [1]}

    assert gate.before_run(WHERE, "hello") == Preparation()
    assert gate.before_tool(WHERE, "git_log", "c1", {"a": 1}) == Verdict()
    assert gate.before_sending(WHERE, "hello", None) == Verdict()
    assert gate.persist(WHERE, "t", "c1", output, is_error=False, is_synthetic=False) is output


def test_hooks_add_to_a_run_before_it_starts(hooks: Hooks) -> None:
    seen: list[Any] = []

    @hooks.on("before_agent_start")
    def prepare(event: Event, context: Event) -> Event:
        seen.append((event["prompt"], context))
        return {"systemPrompt": "Be brief.", "prependContext": "It is Monday."}

    added = HookSink(hooks).before_run(WHERE, "hello")

    assert added == Preparation(system_prompt="Be brief.", prepend_context="It is Monday.")
    assert seen == [("hello", CONTEXT)]


def test_hooks_change_the_fields_of_a_tools_input_that_they_name(hooks: Hooks) -> None:
    given = {"path": "/etc", "depth": 2}

    @hooks.on("before_tool_call")
    def confine(event: Event, context: Event) -> Event:
        assert (event["toolName"], event["toolCallId"]) == ("ls", "c1")
        assert (context["toolName"], context["toolCallId"]) == ("ls", "c1")
        return {"params": {"path": "/home"}}

    verdict = HookSink(hooks).before_tool(WHERE, "ls", "c1", given)

    assert verdict == Verdict(content={"path": "/home", "depth": 2})
    assert given == {"path": "/etc", "depth": 2}


def test_hooks_may_change_a_tools_input_in_place(hooks: Hooks) -> None:
    given = {"path": "/etc"}
    hooks.on("before_tool_call")(lambda event: event["params"].update(path="/home"))

    verdict = HookSink(hooks).before_tool(WHERE, "ls", "c1", given)

    assert (verdict, given) == (Verdict(content={"path": "/home"}), {"path": "/etc"})


def test_an_input_that_is_no_object_is_replaced_as_a_whole(hooks: Hooks) -> None:
    hooks.on("before_tool_call")(lambda event: {"params": {**event["params"], "path": "/home"}})

    verdict = HookSink(hooks).before_tool(WHERE, "ls", "c1", ["/etc"])

    assert verdict == Verdict(content={"path": "/home"})


def test_hooks_that_leave_an_input_alone_leave_it_as_it_is(hooks: Hooks) -> None:
    hooks.on("before_tool_call")(lambda event: {"params": event["params"], "block": False})

    assert HookSink(hooks).before_tool(WHERE, "ls", "c1", ["/etc"]) == Verdict()


def test_an_input_changed_into_what_cannot_be_recorded_stays_as_it_was(hooks: Hooks) -> None:
    hooks.on("before_tool_call")(lambda event: event["params"].update(path={1, 2}))

    assert HookSink(hooks).before_tool(WHERE, "ls", "c1", {"path": "/etc"}) == Verdict()


@pytest.mark.parametrize(
    ("reason", "told"), [({"blockReason": "not there"}, "not there"), ({}, "hook")]
)
def test_a_hook_can_block_a_tool(hooks: Hooks, reason: Event, told: str) -> None:
    hooks.on("before_tool_call")(lambda _: {"block": True, **reason})

    verdict = HookSink(hooks).before_tool(WHERE, "ls", "c1", {})

    assert verdict.blocked
    assert told in str(verdict.reason)


def test_a_hook_that_fails_or_hangs_does_not_block_the_tool(hooks: Hooks) -> None:
    release = threading.Event()

    @hooks.on("before_tool_call")
    def broken(event: Event) -> None:
        raise LookupError("not there")

    @hooks.on("before_tool_call", timeout_s=0.01)
    def hung(event: Event) -> Event:
        release.wait(PATIENCE_S)
        return {"block": True}

    verdict = HookSink(hooks).before_tool(WHERE, "ls", "c1", {})
    release.set()

    assert verdict == Verdict()
    assert [(one.errors, one.timeouts) for one in hooks.metrics()] == [(1, 0), (0, 1)]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"content": "bye"}, Verdict(content="bye")),
        ({"content": ""}, Verdict(content="")),
        ({"content": "hello"}, Verdict()),
        ({}, Verdict()),
    ],
)
def test_hooks_change_a_message_before_it_is_sent(
    hooks: Hooks, answer: Event, verdict: Verdict
) -> None:
    @hooks.on("message_sending")
    def rewrite(event: Event, context: Event) -> Event:
        assert (event["to"], event["content"]) == ("bob", "hello")
        return answer

    assert HookSink(hooks).before_sending(WHERE, "hello", "bob") == verdict


def test_a_hook_can_hold_a_message_back(hooks: Hooks) -> None:
    hooks.on("message_sending")(lambda _: {"cancel": True})

    assert HookSink(hooks).before_sending(WHERE, "hello", "bob").blocked


@pytest.mark.parametrize("output", ["text", "", None, 4, [1, 2], {"rows": [1]}, True])
def test_an_output_that_no_hook_changes_is_returned_itself(hooks: Hooks, output: Any) -> None:
    hooks.on("tool_result_persist")(lambda event: {"message": dict(event["message"])})
    persist = HookSink(hooks).persist

    assert persist(WHERE, "t", "c1", output, is_error=False, is_synthetic=False) is output


def change(hooks: Hooks, output: Any, **fields: Any) -> Any:
    """Return the stored ``output`` when a hook sets ``fields`` of its message."""
    hooks.on("tool_result_persist")(lambda event: {"message": {**event["message"], **fields}})
    return HookSink(hooks).persist(WHERE, "t", "c1", output, is_error=False, is_synthetic=False)


def text(words: str) -> Event:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("output", "fields", "kept"),
    [
        ("out", {"content": [text("in")]}, "in"),
        ({"a": 1}, {"content": [text("in")]}, "in"),
        ("out", {"content": [text("one"), text("two")]}, [text("one"), text("two")]),
        ("out", {"content": []}, []),
        ("out", {"content": "in"}, "in"),
        ({"token": "x"}, {"details": {"token": "***"}}, {"token": "***"}),
        ({"a": 1}, {"details": None}, '{"a":1}'),
        ("out", {"isError": True, "note": "seen"}, "out"),
    ],
)
def test_a_changed_message_is_kept_as_its_output(
    hooks: Hooks, output: Any, fields: Event, kept: Any
) -> None:
    assert change(hooks, output, **fields) == kept


@pytest.mark.parametrize(
    ("output", "content", "details"),
    [
        ("3 commits", [text("3 commits")], {}),
        ({"b": 1, "a": [2]}, [text('{"a":[2],"b":1}')], {"details": {"b": 1, "a": [2]}}),
        (None, [], {}),
    ],
)
def test_persist_hooks_are_shown_the_output_as_a_message(
    hooks: Hooks, output: Any, content: list[Any], details: Event
) -> None:
    seen: list[tuple[Event, Event]] = []
    hooks.on("tool_result_persist")(lambda event, context: seen.append((event, context)))
    HookSink(hooks).persist(WHERE, "git_log", "c1", output, is_error=True, is_synthetic=True)

    ((event, context),) = seen
    names = {"toolName": "git_log", "toolCallId": "c1", "isSynthetic": True}
    about = {"role": "toolResult", "content": content, "isError": True, **details}
    assert event == {**names, "message": {**names, **about}}
    assert context == {**CONTEXT, "toolName": "git_log", "toolCallId": "c1"}


def test_an_output_that_is_no_json_is_left_to_whoever_records_it(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    output = {1, 2}

    with caplog.at_level(logging.WARNING):
        assert change(hooks, output, content="in") is output
    assert "not a JSON" in caplog.text


def test_gates_work_inside_an_event_loop(hooks: Hooks) -> None:
    @hooks.on("before_tool_call")
    async def confine(event: Event) -> Event:
        await asyncio.sleep(0)
        return {"params": {"path": "/home"}}

    async def agent() -> Verdict:
        return HookSink(hooks).before_tool(WHERE, "ls", "c1", {"path": "/etc"})

    assert asyncio.run(agent()) == Verdict(content={"path": "/home"})
