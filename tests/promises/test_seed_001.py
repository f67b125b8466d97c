"""The event spine and the tool ledger: every line that can be tested, quoted by its test."""

from __future__ import annotations

import json
import logging
import re
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE
from concurrency.run_works import Author, hold_run
from effort import PATIENCE_S
from run_records import results, runs
from threads import in_threads
from treering.model.envelopes import ENVELOPE_SOURCES
from treering.model.kinds import ENVELOPE_KINDS, KINDS
from treering.sinks.hooks import Hooks, HookSink, PrivateHookSink
from treering.sinks.log import LogSink, TranscriptSink
from treering.sinks.trace import TraceSink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treering import Ledger, Run, Session
    from treering.sinks import PrivateEvent, SafeEvent

SECRET: Final = "PRIVATE-WORDS"
TAXONOMY: Final = {
    "lifecycle.started", "lifecycle.ended", "lifecycle.failed", "assistant.delta",
    "assistant.final", "tool.call.started", "tool.call.finished", "tool.call.failed",
    "compaction.phase", "warning",
}  # fmt: skip


class Listener:
    """A sink that remembers what it is handed."""

    def __init__(self, name: str = "listener") -> None:
        self.name = name
        self.heard: list[SafeEvent] = []

    def accepts(self, _: SafeEvent, /) -> bool:
        return True

    def handle(self, event: SafeEvent, /) -> None:
        self.heard.append(event)

    @property
    def envelopes(self) -> list[dict[str, Any]]:
        """Return what has an envelope, in it."""
        return [found.to_dict() for event in self.heard if (found := event.envelope()) is not None]


class Confidant:
    """A sink that asks for private content."""

    name = "confidant"
    visibility: Final = "private"

    def __init__(self) -> None:
        self.heard: list[PrivateEvent] = []

    def accepts(self, _: PrivateEvent, /) -> bool:
        return True

    def handle(self, event: PrivateEvent, /) -> None:
        self.heard.append(event)


@pytest.fixture
def session(ledger: Ledger) -> Session:
    return ledger.session("s1", scope=HERE, agent="lyria", user="u1", key="agent:main:main")


@pytest.fixture
def listener(ledger: Ledger) -> Listener:
    sink = Listener()
    ledger.spine([sink])
    return sink


def work(run: Run) -> None:
    """Do one of each thing that a runtime tells of."""
    run.user(SECRET)
    run.delta(SECRET)
    with run.tool("look", {"q": SECRET}, call_id="c1") as call:
        call.finish(SECRET)
    run.tools.started("break", {"q": SECRET}, call_id="c2").fail(ValueError(SECRET))
    run.tools.started("hang", {"q": SECRET}, call_id="c3").give_up("timeout")
    run.emit("compaction.phase", {"phase": "start", "note": SECRET})
    run.emit("compaction.phase", {"phase": "end", "note": SECRET})
    run.emit("warning", {"code": "slow", "message": SECRET})
    run.assistant(SECRET)


def carried(ledger: Ledger, session: Session, sink: Listener) -> list[dict[str, Any]]:
    with session.turn() as run:
        work(run)
    assert ledger.spine().flush()
    return sink.envelopes


# Goal.


@pytest.mark.parametrize("runtime", ["pi", "sdk", "cli"])
def test_every_runtime_emits_the_same_stream(
    ledger: Ledger, session: Session, listener: Listener, runtime: str
) -> None:
    """Every runtime emits the same canonical run event stream."""
    with ledger.spine().run(session, runtime=runtime) as run:
        work(run)
    ledger.spine().flush()

    assert listener.envelopes[0]["payload"] == {"runtime": runtime}
    assert [found["kind"] for found in listener.envelopes] == [
        "lifecycle.started", "assistant.delta", "tool.call.started", "tool.call.finished",
        "tool.call.started", "tool.call.failed", "tool.call.started", "tool.call.failed",
        "compaction.phase", "compaction.phase", "warning", "assistant.final", "lifecycle.ended",
    ]  # fmt: skip


def test_consumers_get_reason_codes(ledger: Ledger, session: Session, listener: Listener) -> None:
    """Consumers get stable metadata and reason codes."""
    session.turn().start()
    session.interrupt("stop")
    ledger.spine().flush()

    assert listener.envelopes[-1]["payload"]["reason"] == "interrupted"


def test_what_happened_does_not_depend_on_how_a_run_was_started(session: Session) -> None:
    """What happened in a run depends on how it was started: that is the problem."""
    with session.turn() as by_block:
        work(by_block)
    by_hand = session.turn()
    by_hand.start()
    work(by_hand)
    by_hand.end()

    one, other = ([event.kind for event in events] for events in runs(session).values())
    assert one == other


# The envelope.


def test_the_envelope_has_its_fields_in_their_order(
    ledger: Ledger, session: Session, listener: Listener
) -> None:
    """Stable envelope fields: version, runId, seq, timestamps, sessionId/sessionKey, agentId."""
    envelopes = carried(ledger, session, listener)
    assert envelopes
    for found in envelopes:
        assert list(found) == [
            "version", "runId", "seq", "at", "agentId", "sessionId", "sessionKey", "source",
            "visibility", "kind", "payload",
        ]  # fmt: skip
        assert found["version"] == 1
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["at"])
        assert (found["agentId"], found["sessionId"]) == ("lyria", "s1")
        assert found["sessionKey"] == "agent:main:main"
        assert isinstance(found["payload"], dict)
        json.dumps(found)


def test_the_envelope_of_a_session_without_another_name_has_no_key(
    ledger: Ledger, listener: Listener
) -> None:
    """SessionKey?: string."""
    found = carried(ledger, ledger.session("s2", scope=HERE, agent="lyria"), listener)

    assert found
    assert all("sessionKey" not in envelope for envelope in found)


def test_the_run_and_its_numbers_are_in_the_envelope(
    ledger: Ledger, session: Session, listener: Listener
) -> None:
    """Seq: number; monotonic per run."""
    found = carried(ledger, session, listener)

    assert len({envelope["runId"] for envelope in found}) == 1
    numbers = [envelope["seq"] for envelope in found]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1


def test_the_sources_are_four(ledger: Ledger, session: Session, listener: Listener) -> None:
    """Source: kernel, runtime, tool-ledger or hook-adapter."""
    sources = {e["kind"]: e["source"] for e in carried(ledger, session, listener)}

    assert sorted(ENVELOPE_SOURCES) == ["hook-adapter", "kernel", "runtime", "tool-ledger"]
    assert sources["lifecycle.started"] == sources["lifecycle.ended"] == "kernel"
    assert sources["tool.call.started"] == sources["tool.call.failed"] == "tool-ledger"
    assert sources["assistant.final"] == sources["warning"] == "runtime"


def test_every_event_is_safe_or_private(
    ledger: Ledger, session: Session, listener: Listener
) -> None:
    """A visibility contract (safe vs private) to control what sinks receive."""
    seen = {e["kind"]: e["visibility"] for e in carried(ledger, session, listener)}

    assert set(seen.values()) == {"safe", "private"}
    assert seen["assistant.final"] == seen["assistant.delta"] == "private"
    assert seen["tool.call.started"] == "safe"


# The taxonomy.


def test_the_taxonomy_is_the_one_that_was_agreed_on() -> None:
    """Start with a tight set that maps cleanly across runtimes."""
    assert set(ENVELOPE_KINDS.values()) | {"tool.call.failed"} == TAXONOMY


@pytest.mark.parametrize("name", sorted(TAXONOMY))
def test_every_name_of_the_taxonomy_is_understood_on_the_way_in(name: str) -> None:
    """A strict discriminated union for kind."""
    assert any(name in {kind.name, *kind.spellings} for kind in KINDS.values())


def test_a_kind_outside_the_union_is_refused(session: Session) -> None:
    """The spine transports events, not arbitrary blobs."""
    with session.turn() as run, pytest.raises(treering.errors.InvalidKind) as refused:
        run.emit("tool.call.exploded", {})

    assert refused.value.hint


def test_kinds_beyond_the_taxonomy_are_carried_and_have_no_envelope(
    ledger: Ledger, session: Session, listener: Listener
) -> None:
    """Everything else should be derived from these or added only when there's a consumer."""
    with session.turn() as run:
        run.emit("ops.decision", {"what": "x"})
    ledger.spine().flush()

    (decision,) = [event for event in listener.heard if event.kind == "ops.decision"]
    assert decision.envelope() is None


# Ordering and semantics.


@pytest.mark.parametrize(
    ("close", "terminal"),
    [
        (lambda run: run.end(), "lifecycle.ended"),
        (lambda run: run.fail("no"), "lifecycle.failed"),
        (lambda run: run.interrupt("no"), "lifecycle.failed"),
    ],
    ids=["end", "fail", "interrupt"],
)
def test_a_run_has_one_start_and_one_terminal(
    ledger: Ledger, session: Session, listener: Listener, close: Callable[[Run], Any], terminal: str
) -> None:
    """Exactly one lifecycle.started and one terminal (ended|failed) per run."""
    run = session.turn()
    run.start()
    work(run)
    for _ in range(2):
        close(run)
    with pytest.raises(treering.errors.RunClosed):
        run.user("more")
    ledger.spine().flush()

    kinds = [found["kind"] for found in listener.envelopes]
    assert (kinds[0], kinds[-1]) == ("lifecycle.started", terminal)
    assert sum(kind.startswith("lifecycle.") for kind in kinds) == 2


def test_numbers_are_given_centrally(ledger: Ledger, session: Session, listener: Listener) -> None:
    """Seq is assigned centrally to guarantee monotonic ordering."""
    with session.turn() as run:
        in_threads(*(partial(_speak, run, threading.Barrier(1), 10) for _ in range(4)))
    ledger.spine().flush()

    numbers = [event.run_seq for event in listener.heard if event.run_id is not None]
    assert numbers == list(range(1, 4 * 20 + 3))


def test_sinks_see_events_in_order_however_slow_one_is(ledger: Ledger, session: Session) -> None:
    """Sinks must see events in order; per-sink concurrency only when it preserves ordering."""
    go = threading.Event()

    class Slow(Listener):
        def handle(self, event: SafeEvent, /) -> None:
            go.wait(PATIENCE_S)
            super().handle(event)

    slow, quick = Slow("slow"), Listener("quick")
    ledger.spine([slow, quick])
    with session.turn() as run:
        work(run)
    go.set()
    assert ledger.spine().flush(60)

    order = [header.event_id for header in session.headers()]
    for sink in (slow, quick):
        assert [event.event_id for event in sink.heard if event.seq] == order
        numbers = [event.run_seq for event in sink.heard if event.run_seq]
        assert numbers == sorted(numbers)


# Sinks.


def test_a_sink_is_a_name_a_filter_and_a_function(ledger: Ledger, session: Session) -> None:
    """EventSink = { name, accepts, handle }."""

    class Picky(Listener):
        def accepts(self, event: SafeEvent, /) -> bool:
            return event.kind == "tool.result" and event.visibility == "safe"

    sink = Picky()
    ledger.spine([sink])
    with session.turn() as run:
        work(run)
    ledger.spine().flush()

    assert [event.kind for event in sink.heard] == ["tool.result"] * 3


def test_handle_may_be_awaited(ledger: Ledger, session: Session) -> None:
    """Handle: (e) => Promise<void>."""

    class Awaited(Listener):
        async def handle(self, event: SafeEvent, /) -> None:  # type: ignore[override]
            self.heard.append(event)

    sink = Awaited()
    ledger.spine([sink])
    with session.turn() as run:
        work(run)
    ledger.spine().flush()

    assert [event.event_id for event in sink.heard if event.seq] == [
        header.event_id for header in session.headers()
    ]


def test_no_sink_changes_what_is_recorded_or_what_others_hear(
    ledger: Ledger, session: Session
) -> None:
    """Keep sink boundaries strict (no sink should mutate core event ordering/state)."""

    class Vandal(Listener):
        def handle(self, event: SafeEvent, /) -> None:
            with pytest.raises(AttributeError):
                event.kind = "run.failed"  # type: ignore[misc]
            if isinstance(event.refs, dict):
                event.refs.clear()
            raise RuntimeError("and out")

    after = Listener("after")
    ledger.spine([Vandal("vandal")])
    with session.turn() as run:
        header = run.tools.started("look", call_id="c1").finish("found")
        ledger.spine().flush()
        ledger.spine([after])
        run.tools.started("look", call_id="c2").finish("found")
    ledger.spine().flush()

    assert header.refs["call_id"] == "c1"
    assert [event.refs["call_id"] for event in after.heard if event.kind == "tool.result"] == ["c2"]
    assert [result["call_id"] for result in results(session)] == ["c1", "c2"]


def test_the_log_sink_writes_structured_lines(
    ledger: Ledger, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """LogSink: structured logs."""
    caplog.set_level(logging.INFO, "treering.events")
    ledger.spine([LogSink()])

    with session.turn() as run:
        work(run)
    ledger.spine().flush()

    lines = [json.loads(r.message) for r in caplog.records if r.name == "treering.events"]
    assert {line["kind"] for line in lines} >= TAXONOMY - {"lifecycle.failed"}
    assert SECRET not in caplog.text


def test_the_transcript_sink_appends_safe_summaries(
    ledger: Ledger, session: Session, tmp_path: Path
) -> None:
    """TranscriptSink: appends safe event summaries or metadata to session transcripts."""
    ledger.spine([TranscriptSink(tmp_path / "transcripts")])

    with session.turn() as run:
        work(run)
    ledger.spine().flush()
    ledger.close()

    written = [path.read_text() for path in (tmp_path / "transcripts").rglob("*") if path.is_file()]
    assert "look called" in "".join(written)
    assert SECRET not in "".join(written)


def test_the_trace_sink_writes_lines_of_json(
    ledger: Ledger, session: Session, tmp_path: Path
) -> None:
    """TraceSink: writes JSONL trace files."""
    ledger.spine([TraceSink(tmp_path / "traces")])

    with session.turn() as run:
        work(run)
    ledger.spine().flush()
    ledger.close()

    (events,) = (tmp_path / "traces").rglob("events.jsonl")
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    assert lines[0]["kind"] == "lifecycle.started"
    assert lines[-1]["kind"] == "lifecycle.ended"
    assert SECRET not in events.read_text()


# The tool ledger.


def test_an_intent_is_recorded_with_name_id_shape_and_time(session: Session) -> None:
    """Record tool call intent (name, call id, input shape hash, start time)."""
    with session.turn() as run, run.tool("look", {"q": SECRET}, call_id="c1") as call:
        (intent,) = session.headers(last=1)
        call.finish()

    assert set(intent.refs) == {"call_id", "tool", "input_shape", "input_bytes"}
    assert (intent.refs["tool"], intent.refs["call_id"]) == ("look", "c1")
    assert re.fullmatch(r"[0-9a-f]{16}", intent.refs["input_shape"])
    assert intent.ts_ms > 0


def test_a_result_is_recorded_with_how_it_went(session: Session) -> None:
    """Record tool result (success/failure, end time, sizes, error classification)."""
    with session.turn() as run:
        work(run)

    ok, failed, synthetic = (h for h in session.headers() if h.kind == "tool.result")
    assert (ok.refs["status"], ok.refs["output_bytes"]) == ("ok", len(SECRET) + 2)
    assert (failed.refs["status"], failed.refs["error_class"]) == ("failed", "ValueError")
    assert (synthetic.refs["is_synthetic"], synthetic.refs["reason"]) == (True, "timeout")
    assert all(h.refs["duration_ms"] >= 0 and h.ts_ms > 0 for h in (ok, failed, synthetic))


def test_result_hooks_are_applied_once(ledger: Ledger, session: Session) -> None:
    """Apply tool-result hooks (tool_result_persist) once, consistently."""
    hooks, asked = Hooks(), []

    @hooks.on("tool_result_persist")
    def shorten(event: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        asked.append(event["toolCallId"])
        return {"message": event["message"]}

    ledger.spine([HookSink(hooks)])
    with session.turn() as run:
        work(run)

    assert asked == ["c1", "c2", "c3"]


def test_records_can_be_asked_for_without_scraping_transcripts(
    ledger: Ledger, session: Session
) -> None:
    """The ledger provides durable, queryable tool lifecycle records."""
    with session.turn() as run:
        work(run)

    failing = ledger.tool_calls(HERE, status="failing").items

    assert [(record.call_id, record.status) for record in failing] == [
        ("c2", "failed"), ("c3", "synthetic"),
    ]  # fmt: skip
    assert all(record.run_id == run.run_id for record in failing)


def test_the_ledger_tells_the_spine_of_its_calls(
    ledger: Ledger, session: Session, listener: Listener
) -> None:
    """Emit tool.call.* events into the Event Spine."""
    found = [e for e in carried(ledger, session, listener) if e["kind"].startswith("tool.call.")]

    assert [(e["kind"].rpartition(".")[2], e["payload"]["toolCallId"]) for e in found] == [
        ("started", "c1"), ("finished", "c1"), ("started", "c2"), ("failed", "c2"),
        ("started", "c3"), ("failed", "c3"),
    ]  # fmt: skip


def test_the_format_of_records_is_stable(session: Session) -> None:
    """Persistence record format stable."""
    with session.turn() as run:
        work(run)

    tools = [event for event in session.events() if event.kind.startswith("tool.")]
    assert [sorted(event.payload) for event in tools] == [
        ["call_id", "input", "name"],
        ["call_id", "duration_ms", "name", "output", "status"],
        ["call_id", "input", "name"],
        ["call_id", "duration_ms", "error", "name", "status"],
        ["call_id", "input", "name"],
        ["call_id", "duration_ms", "is_synthetic", "name", "output", "reason", "status"],
    ]


def test_tools_are_recorded_once(session: Session) -> None:
    """Tool calls/results are recorded once, consistently."""
    with session.turn() as run, run.tool("look", call_id="c1") as call:
        call.finish("found")
        for again in (partial(call.finish, "found"), partial(run.tools.finished, "c1", "found")):
            with pytest.raises(treering.errors.RunClosed):
                again()

    assert len(results(session)) == 1


# Synthetic results.


def test_where_a_result_is_required_and_missing_one_is_put_in_its_place(session: Session) -> None:
    """When a runtime/tool path requires a result but none exists, the ledger can synthesize one."""
    with session.turn() as run:
        run.tools.started("look", call_id="c1")

    assert results(session) == [
        {"call_id": "c1", "tool": "look", "status": "synthetic", "is_synthetic": True,
         "reason": "missing_result"},
    ]  # fmt: skip


def test_a_synthetic_result_says_so_with_its_reason(
    ledger: Ledger, session: Session, listener: Listener
) -> None:
    """Ledger marks isSynthetic and includes a reason code."""
    found = [e["payload"] for e in carried(ledger, session, listener)]

    (synthetic,) = [payload for payload in found if payload.get("isSynthetic")]
    assert (synthetic["status"], synthetic["reason"]) == ("synthetic", "timeout")


def test_synthetic_results_are_a_policy(ledger: Ledger, session: Session) -> None:
    """Define one policy surface."""
    ledger.spine(synthetic=treering.sinks.SyntheticPolicy(texts={"timeout": "{tool} was too slow"}))

    with session.turn() as run:
        run.tools.started("look").give_up("timeout")

    result = next(event for event in session.events() if event.kind == "tool.result")
    assert result.payload["output"] == "look was too slow"


def test_what_a_crash_left_open_gets_a_synthetic_result(tmp_path: Path) -> None:
    """Synthetic tool results: make it a policy, not a side-effect."""
    location = str(tmp_path / "ledger.db")
    with Author(hold_run, location) as author:
        assert author.hear() == "at work"
        author.kill()

    with treering.open(location) as ledger:
        (result,) = results(ledger.session("s1", scope=HERE, agent="lyria"))
    assert (result["status"], result["reason"]) == ("synthetic", "crashed")


# Privacy.


def test_sinks_receive_safe_metadata_by_default(
    ledger: Ledger, session: Session, listener: Listener
) -> None:
    """Sinks (and especially hooks) should receive safe metadata by default."""
    carried(ledger, session, listener)

    assert len(listener.heard) > 10
    for event in listener.heard:
        assert SECRET not in repr(event)
        assert not hasattr(event, "payload")


def test_private_payloads_are_for_those_who_ask(ledger: Ledger, session: Session) -> None:
    """Private payloads should require explicit opt-in."""
    confidant = Confidant()
    ledger.spine([confidant])

    with session.turn() as run:
        work(run)
    ledger.spine().flush()

    told = {event.kind for event in confidant.heard if SECRET in json.dumps(event.payload)}
    assert told >= {"conversation.user", "assistant.delta", "tool.call", "tool.result"}


def test_tool_records_keep_safe_and_private_apart(ledger: Ledger, session: Session) -> None:
    """Safe metadata: tool name, duration, sizes, error codes; private content: input/output."""
    with session.turn() as run:
        work(run)

    headers = [h for h in session.headers() if h.kind.startswith("tool.")]
    assert SECRET not in repr(headers) + repr(ledger.tool_calls(HERE).items)
    assert SECRET in repr([e.payload for e in session.events() if e.kind.startswith("tool.")])


# Compatibility.


def test_old_triggers_continue_to_fire(ledger: Ledger, session: Session) -> None:
    """Old triggers continue to fire; new events need no change of hook handlers."""
    hooks, fired = Hooks(), []

    @hooks.on_internal("command:new")
    def note(event: dict[str, Any]) -> None:
        fired.append(event["action"])

    ledger.spine([HookSink(hooks)])
    hooks.trigger("command", "new", session=session)
    with session.turn() as run:
        work(run)

    assert fired == ["new"]


@pytest.mark.parametrize("make", [HookSink, PrivateHookSink])
def test_plugin_hooks_keep_their_names_and_are_a_sink(
    ledger: Ledger, session: Session, make: Callable[[Hooks], Any]
) -> None:
    """Maintain existing plugin hook names (before_agent_start, after_tool_call, …) as a sink."""
    hooks, fired = Hooks(), []
    for name in ("before_agent_start", "before_tool_call", "after_tool_call", "agent_end"):

        @hooks.on(name)
        def note(_: dict[str, Any], __: dict[str, Any], *, name: str = name) -> None:
            fired.append(name)

    ledger.spine([make(hooks)])
    with session.turn() as run, run.tool("look") as call:
        call.finish("found")
    ledger.spine().flush()

    assert fired == ["before_agent_start", "before_tool_call", "after_tool_call", "agent_end"]


def test_hooks_are_asked_by_priority(ledger: Ledger, session: Session) -> None:
    """It can emulate existing merge/priority semantics."""
    hooks, fired = Hooks(), []
    for priority in (1, 10, 5):

        @hooks.on("before_tool_call", priority=priority)
        def note(_: dict[str, Any], __: dict[str, Any], *, priority: int = priority) -> None:
            fired.append(priority)

    ledger.spine([HookSink(hooks)])
    with session.turn() as run, run.tool("look") as call:
        call.finish("found")

    assert fired == [10, 5, 1]


def _speak(run: Run, together: threading.Barrier, count: int) -> None:
    together.wait(PATIENCE_S)
    for _ in range(count):
        run.user("hello")
        run.delta("he")
