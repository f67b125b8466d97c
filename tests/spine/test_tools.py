"""The tool ledger: an intent before a tool runs, and one outcome for each call."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE
from effort import PATIENCE_S
from run_records import Doorkeeper, ends, kinds, results, runs
from threads import in_threads
from treering.model.sessions import GROUP_TOOLS
from treering.model.tools import REASONS, Reason, shape_hash
from treering.spine.ports import Occasion, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Header, Ledger, Run, Session, ToolCall

TEXT = "PRIVATE-WORDS"
GRACE_S = 0.2
"""Enough for a thread to do what it must not; it is waited for in vain."""


def calls(session: Session) -> list[Any]:
    return [header.refs for header in session.headers() if header.kind == "tool.call"]


# Intents.


def test_the_intent_is_durable_before_the_tool_runs(open_shared: Callable[[], Ledger]) -> None:
    """The intent is durable before the tool runs: whoever else looks sees it."""
    session, watching = (open_shared().session("s1", scope=HERE, agent="lyria") for _ in range(2))

    with session.turn() as run, run.tool("pay", {"sum": 7}, call_id="c1") as call:
        (seen,) = watching.events(last=1)
        call.finish("paid")

    assert (seen.kind, seen.run_id, seen.origin) == ("tool.call", run.run_id, "tool-ledger")
    assert seen.payload == {"call_id": "c1", "name": "pay", "input": {"sum": 7}}
    assert call.intent is not None
    assert call.intent.event_id == seen.event_id


def test_a_call_that_is_not_begun_writes_nothing(session: Session) -> None:
    with session.turn() as run:
        call = run.tool("pay")
        attempts: list[Callable[[], Any]] = [
            call.finish, partial(call.fail, "no"), partial(call.give_up, "aborted"),
        ]  # fmt: skip
        for attempt in attempts:
            with pytest.raises(treering.errors.RunClosed, match="not started") as refused:
                attempt()
            assert refused.value.hint

    assert calls(session) == results(session) == []


def test_calls_of_one_shape_share_its_hash(session: Session) -> None:
    """Record tool call intent: name, call id, input shape hash, start time."""
    with session.turn() as run:
        for text in ("a", "b"):
            run.tools.started("say", {"text": text})
        run.tools.started("say", {"words": 1})

    one, same, other = calls(session)
    assert one["input_shape"] == same["input_shape"] == shape_hash({"text": "x"})
    assert one["input_shape"] != other["input_shape"]
    assert one["input_bytes"] == len('{"text":"a"}')


@pytest.mark.parametrize("tool", ["", " ", None, 5])
def test_a_tool_has_a_name(session: Session, tool: str) -> None:
    with session.turn() as run, pytest.raises(treering.InvalidInput) as refused:
        run.tool(tool)

    assert refused.value.hint


# Outcomes.


def finish(call: ToolCall) -> Header:
    return call.finish({"rows": 3})


def fail(call: ToolCall) -> Header:
    return call.fail(LookupError("nothing there"))


def fail_in_words(call: ToolCall) -> Header:
    return call.fail("nothing there")


def give_up(call: ToolCall) -> Header:
    return call.give_up("timeout")


@pytest.mark.parametrize(
    ("conclude", "refs", "payload"),
    [
        (finish, {"status": "ok"}, {"status": "ok", "output": {"rows": 3}}),
        (
            fail,
            {"status": "failed", "error_class": "LookupError"},
            {"status": "failed", "error": {"class": "LookupError", "message": "nothing there"}},
        ),
        (
            fail_in_words,
            {"status": "failed", "error_class": "Error"},
            {"status": "failed", "error": {"class": "Error", "message": "nothing there"}},
        ),
        (
            give_up,
            {"status": "synthetic", "is_synthetic": True, "reason": "timeout"},
            {
                "status": "synthetic", "is_synthetic": True, "reason": "timeout",
                "output": "[treering] look gave no result in time; it may still be at work.",
            },
        ),
    ],
)  # fmt: skip
def test_an_outcome_says_how_it_went(
    session: Session,
    conclude: Callable[[ToolCall], Header],
    refs: dict[str, Any],
    payload: dict[str, Any],
) -> None:
    """Record tool result: success or failure, end time, sizes, error classification."""
    with session.turn() as run, run.tool("look", call_id="c1") as call:
        header = conclude(call)

    result = next(event for event in session.events() if event.kind == "tool.result")
    assert header.event_id == result.event_id
    assert results(session) == [{"call_id": "c1", "tool": "look", **refs}]
    lasted = result.payload.pop("duration_ms")
    assert result.payload == {"call_id": "c1", "name": "look", **payload}
    assert lasted == result.refs["duration_ms"] >= 0
    assert call.outcome == header
    assert result.origin == "tool-ledger"


@pytest.mark.parametrize(
    ("error", "status", "why"),
    [
        (OSError("gone"), "failed", None),
        (TimeoutError("too slow"), "synthetic", "timeout"),
        (KeyboardInterrupt(), "synthetic", "interrupted"),
        (GeneratorExit(), "synthetic", "interrupted"),
        (None, "synthetic", "missing_result"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_a_block_that_records_no_outcome_has_one_by_how_it_ends(
    session: Session, error: BaseException | None, status: str, why: str | None
) -> None:
    def work() -> None:
        with session.turn() as run, run.tool("look"):
            if error is not None:
                raise error

    if error is None:
        work()
    else:
        with pytest.raises(type(error)):
            work()

    (result,) = results(session)
    assert (result["status"], result.get("reason")) == (status, why)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda run: run.end(), "missing_result"),
        (lambda run: run.fail("no"), "aborted"),
        (lambda run: run.interrupt("no"), "interrupted"),
    ],
    ids=["end", "fail", "interrupt"],
)
def test_calls_that_are_open_when_the_run_is_over_are_closed_with_it(
    session: Session, end: Callable[[Run], Any], reason: str
) -> None:
    run = session.turn()
    run.start()
    for call_id in ("c1", "c2", "c3"):
        run.tools.started("look", call_id=call_id)
    run.tools.finished("c2", "found")

    end(run)

    assert [(r["call_id"], r.get("reason")) for r in results(session)] == [
        ("c2", None), ("c1", reason), ("c3", reason),
    ]  # fmt: skip
    assert runs(session)[run.run_id][-1].refs["tool_calls"] == 3


@pytest.mark.parametrize("reason", REASONS)
def test_a_call_is_given_up_for_each_reason_with_a_text_of_its_own(
    session: Session, reason: Reason
) -> None:
    """The ledger marks isSynthetic and includes a reason code."""
    with session.turn() as run:
        header = run.tools.started("look").give_up(reason)

    payload = session_payload(session, header)
    assert (payload["reason"], payload["is_synthetic"]) == (reason, True)
    assert payload["output"].startswith("[treering] look ")
    assert header.refs["output_bytes"] == len(payload["output"]) + 2


def test_a_reason_that_is_none_is_refused(session: Session) -> None:
    with session.turn() as run, run.tool("look") as call:
        with pytest.raises(treering.InvalidInput) as refused:
            call.give_up("bored")  # type: ignore[arg-type]
        call.finish("found")

    assert refused.value.hint is not None
    assert "timeout" in refused.value.hint
    assert [result["status"] for result in results(session)] == ["ok"]


def test_the_texts_of_synthetic_results_are_a_policy(ledger: Ledger, session: Session) -> None:
    ledger.spine(synthetic=treering.sinks.SyntheticPolicy(texts={"timeout": "{tool}: {reason}!"}))

    with session.turn() as run:
        own = run.tools.started("look").give_up("timeout")
        default = run.tools.started("look").give_up("denied")

    assert session_payload(session, own)["output"] == "look: timeout!"
    assert session_payload(session, default)["output"].startswith("[treering]")


def test_a_policy_for_an_unknown_reason_is_refused() -> None:
    with pytest.raises(treering.InvalidInput) as refused:
        treering.sinks.SyntheticPolicy(texts={"bored": "x"})

    assert refused.value.hint


@pytest.mark.parametrize(
    "error",
    ["cannot open \udcff", type("E" * 5_000, (Exception,), {})(), ValueError("x" * 100_000)],
    ids=["unencodable", "long class", "long message"],
)
def test_whatever_is_said_of_a_failure_it_is_the_outcome(
    session: Session, error: BaseException | str
) -> None:
    with session.turn() as run, run.tool("look") as call:
        call.fail(error)

    assert [result["status"] for result in results(session)] == ["failed"]


def test_large_inputs_and_outputs_come_back_as_they_were(session: Session) -> None:
    large = {"rows": ["row " * 10] * 2_000}

    with session.turn() as run, run.tool("look", large) as call:
        call.finish(large)

    called, returned = (e for e in session.events() if e.kind.startswith("tool."))
    assert called.payload["input"] == returned.payload["output"] == large
    assert called.refs["input_bytes"] == returned.refs["output_bytes"] > 8_192


def test_the_safe_part_holds_no_word_of_input_or_output(session: Session) -> None:
    """Safe metadata: tool name, duration, sizes, error codes. Private content: the rest."""
    with session.turn() as run:
        run.tools.started("a", {TEXT: TEXT}, call_id="a").finish(TEXT)
        run.tools.started("b", [TEXT], call_id="b").fail(ValueError(TEXT))
        run.tools.started("c", TEXT, call_id="c").give_up("timeout")
        run.tools.started("d", TEXT, call_id="d")
        run.emit("tool.call.started", {"toolName": "e", "toolCallId": "e", "args": TEXT})
        run.emit("tool.call.failed", {"toolCallId": "e", "error": {"message": TEXT}})
        run.emit("warning", {"code": "x", "text": TEXT, "message": TEXT})

    for header in session.headers():
        assert TEXT not in header.summary + str(header.refs)
    assert str(list(session.events())).count(TEXT) >= 10


# One outcome.


def test_a_call_has_one_outcome_however_many_threads_conclude_it(session: Session) -> None:
    together = threading.Barrier(6)
    won: list[Header] = []
    lost: list[treering.errors.RunClosed] = []

    def conclude(how: Callable[[], Header]) -> None:
        together.wait(PATIENCE_S)
        try:
            won.append(how())
        except treering.errors.RunClosed as error:
            lost.append(error)

    with session.turn() as run:
        for _ in range(5):
            call = run.tools.started("race")
            in_threads(
                *(partial(conclude, how) for how in (call.finish, partial(call.fail, "")) * 3)
            )

    assert (len(won), len(lost)) == (5, 25)
    assert all(error.hint for error in lost)
    assert len({result["call_id"] for result in results(session)}) == len(results(session)) == 5


def test_of_a_result_and_giving_up_at_once_one_counts(session: Session) -> None:
    """A real one that loses is kept as late."""
    together = threading.Barrier(2)

    def conclude(how: Callable[..., Header], told: str) -> None:
        together.wait(PATIENCE_S)
        how(told)

    with session.turn() as run:
        for _ in range(8):
            call = run.tools.started("race")
            in_threads(
                partial(conclude, call.give_up, "timeout"), partial(conclude, call.finish, "here")
            )

    by_call: dict[str, list[Any]] = {}
    for result in results(session):
        by_call.setdefault(result["call_id"], []).append(result)
    assert len(by_call) == 8
    for first, *rest in by_call.values():
        assert "late" not in first
        assert [(late["late"], first["status"]) for late in rest] in ([], [(True, "synthetic")])


def test_a_run_that_ends_while_a_tool_concludes_gives_the_call_one_counting_outcome(
    ledger: Ledger, session: Session
) -> None:
    has_run, ended = threading.Event(), threading.Event()

    class Slow(Doorkeeper):
        def persist(self, *asked: Any, **about: Any) -> Any:
            if not about["is_synthetic"]:
                has_run.set()
                ended.wait(PATIENCE_S)
            return super().persist(*asked, **about)

    ledger.spine([Slow()])
    run = session.turn()
    run.start()
    call = run.tools.started("look", call_id="c1")
    late: list[Header] = []

    def end() -> None:
        has_run.wait(PATIENCE_S)
        run.end()
        ended.set()

    in_threads(lambda: late.append(call.finish("found")), end)

    assert [result.get("late") for result in results(session)] == [None, True]
    assert late[0].run_id is None
    assert ends(session) == ["run.ended"]


def test_who_gives_up_while_a_result_is_being_kept_leaves_it_at_that(
    ledger: Ledger, session: Session
) -> None:
    gave_up: list[Header] = []
    asked = threading.Event()

    class Slow(Doorkeeper):
        def persist(self, *about: Any, **more: Any) -> Any:
            if more["is_synthetic"]:
                asked.set()
            else:
                giving_up.start()
                asked.wait(GRACE_S)
            return super().persist(*about, **more)

    ledger.spine([Slow()])
    with session.turn() as run:
        call = run.tools.started("look")
        giving_up = threading.Thread(target=lambda: gave_up.append(call.give_up("timeout")))
        result = call.finish("found")
        giving_up.join(PATIENCE_S)

    assert gave_up == [result]
    assert [found["status"] for found in results(session)] == ["ok"]


def test_a_gate_that_concludes_a_call_itself_gives_it_its_one_outcome(
    ledger: Ledger, session: Session
) -> None:
    class Meddler(Doorkeeper):
        def persist(self, *about: Any, **more: Any) -> Any:
            if not self.kept:
                super().persist(*about, **more)
                call.finish("by the gate")
            return super().persist(*about, **more)

    ledger.spine([Meddler()])
    with session.turn() as run:
        call = run.tools.started("look")
        with pytest.raises(treering.errors.RunClosed):
            call.finish("by the tool")

    (result,) = [event for event in session.events() if event.kind == "tool.result"]
    assert result.payload["output"] == "by the gate"


@pytest.mark.parametrize("second", ["finish", "fail"])
def test_a_second_outcome_is_refused(session: Session, second: str) -> None:
    with session.turn() as run:
        call = run.tools.started("look", call_id="c1")
        first = call.finish("found")

        for again, *by_id in ((getattr(call, second),), (getattr(run.tools, f"{second}ed"), "c1")):
            with pytest.raises(treering.errors.RunClosed) as refused:
                again(*by_id, "again")
            assert refused.value.hint
        kept = call.give_up("timeout")

    assert kept == first
    assert len(results(session)) == 1


def test_a_call_id_is_used_once_in_a_run(session: Session) -> None:
    with session.turn() as run:
        run.tools.started("open", call_id="c1")
        run.tools.started("done", call_id="c2").finish()
        run.tools.started("given up", call_id="c3").give_up("timeout")

        for call_id in ("c1", "c2", "c3"):
            with pytest.raises(treering.InvalidInput, match=call_id) as refused:
                run.tools.started("again", call_id=call_id)
            assert refused.value.hint

    assert len(calls(session)) == 3


def test_a_call_is_begun_once(session: Session) -> None:
    with session.turn() as run:
        with run.tool("look") as call:
            call.finish()
        with pytest.raises(treering.InvalidInput), call:
            pass

    assert len(calls(session)) == 1


def test_another_run_may_use_the_same_call_id(session: Session) -> None:
    for output in ("a", "b"):
        with session.turn() as run, run.tool("look", call_id="c1") as call:
            call.finish(output)

    assert [result["call_id"] for result in results(session)] == ["c1", "c1"]


def test_of_threads_that_use_one_call_id_one_gets_it(session: Session) -> None:
    with session.turn() as run:
        together = threading.Barrier(4)
        refused: list[treering.InvalidInput] = []

        def begin() -> None:
            together.wait(PATIENCE_S)
            try:
                run.tools.started("race", call_id="c1")
            except treering.InvalidInput as error:
                refused.append(error)

        in_threads(*([begin] * 4))

    assert (len(calls(session)), len(refused)) == (1, 3)


def test_a_call_that_was_never_made_is_not_found(session: Session) -> None:
    with session.turn() as first:
        first.tools.started("look", call_id="c1")
    with session.turn() as run:
        attempts: list[Callable[[], Any]] = [
            partial(run.tools.finished, "c1", "x"),
            partial(run.tools.failed, "c1", "x"),
            partial(run.tools.gave_up, "c1", "timeout"),
            partial(run.emit, "tool.result", {"call_id": "c1", "output": "x"}),
        ]
        for attempt in attempts:
            with pytest.raises(treering.NotFound) as refused:
                attempt()
            assert refused.value.hint


# Late ones.


@pytest.mark.parametrize("conclude", [finish, fail], ids=["finish", "fail"])
@pytest.mark.parametrize("over", [False, True], ids=["run open", "run over"])
def test_a_real_outcome_after_a_synthetic_one_is_kept_and_linked(
    session: Session, conclude: Callable[[ToolCall], Header], *, over: bool
) -> None:
    run = session.turn()
    run.start()
    call = run.tools.started("look", call_id="c1")
    synthetic = call.give_up("timeout")
    if over:
        run.end()

    late = conclude(call)

    assert (late.refs["late"], late.refs["run"]) == (True, run.run_id)
    assert late.refs["outcome"] == synthetic.event_id
    assert (late.run_id, late.run_seq, late.turn_id) == (None, None, run.turn_id)
    assert call.outcome == synthetic
    with pytest.raises(treering.errors.RunClosed):
        call.finish("once more")
    run.end()
    assert ends(session) == ["run.ended"]


def test_a_call_that_the_run_s_end_closed_can_come_late_by_its_id(session: Session) -> None:
    with session.turn() as run:
        run.tools.started("look", call_id="c1")
    synthetic = next(h for h in session.headers() if h.kind == "tool.result")

    late = run.tools.finished("c1", "found")

    assert late.refs["outcome"] == synthetic.event_id
    with pytest.raises(treering.errors.RunClosed):
        run.tools.finished("c1", "found")


def test_a_late_outcome_does_not_stand_in_the_next_run_s_way(session: Session) -> None:
    with session.turn() as run:
        call = run.tools.started("look", call_id="c1")
    with session.turn() as second:
        second.user("on")
        call.finish("found")
        second.tools.started("look", call_id="c1").finish("found again")

    assert [result.get("late") for result in results(session)] == [None, True, None]
    assert ends(session) == ["run.ended", "run.ended"]


# What may run.


@pytest.fixture
def group(ledger: Ledger) -> Session:
    return ledger.session("g1", scope=HERE, agent="lyria", mode="group")


@pytest.mark.parametrize("tool", GROUP_TOOLS)
def test_a_group_may_use_the_five_harmless_tools(group: Session, tool: str) -> None:
    with group.turn() as run, run.tool(tool) as call:
        call.finish()

    assert [result["status"] for result in results(group)] == ["ok"]


def test_a_group_has_five_tools_by_default() -> None:
    assert GROUP_TOOLS == (
        "web_search", "web_browse", "code_execute_sandboxed", "weather", "calculator",
    )  # fmt: skip


def test_a_tool_that_a_group_may_not_use_is_refused_and_recorded(group: Session) -> None:
    ran: list[str] = []
    with group.turn() as run:
        with (
            pytest.raises(treering.errors.ToolDenied, match="shell") as refused,
            run.tool("shell", {"cmd": TEXT}, call_id="c1"),
        ):
            ran.append("shell")
        run.assistant("I may not.")

    assert (ran, refused.value.code) == ([], "tool_denied")
    assert refused.value.hint
    assert kinds(group)[2:5] == ["tool.call", "ops.blocked", "tool.result"]
    blocked = list(group.headers())[3]
    assert blocked.refs == {"tool": "shell", "call_id": "c1", "code": "not_permitted"}
    assert results(group) == [
        {"call_id": "c1", "tool": "shell", "status": "synthetic", "is_synthetic": True,
         "reason": "denied"},
    ]  # fmt: skip
    assert ends(group) == ["run.ended"]


def test_a_denied_tool_is_denied_in_every_spelling(group: Session) -> None:
    with group.turn() as run:
        for attempt in (
            lambda: run.tools.started("shell"),
            lambda: run.tool("shell").__enter__(),
            lambda: run.emit("tool_call", {"name": "shell"}),
            lambda: run.emit("tool.call.started", {"toolName": "shell"}),
        ):
            with pytest.raises(treering.errors.ToolDenied):
                attempt()

    assert [result["reason"] for result in results(group)] == ["denied"] * 4


@pytest.mark.parametrize("mode", ["main", "group", "queue"])
def test_a_session_may_use_the_tools_that_it_was_opened_with(ledger: Ledger, mode: Any) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria", mode=mode, tools=["read"])

    with session.turn() as run:
        run.tools.started("read").finish()
        with pytest.raises(treering.errors.ToolDenied):
            run.tools.started("weather")


def test_a_session_without_tools_may_use_none(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria", tools=[])

    with session.turn() as run, pytest.raises(treering.errors.ToolDenied):
        run.tools.started("weather")


def test_a_handle_that_names_nothing_is_bound_by_what_was_recorded(
    open_shared: Callable[[], Ledger],
) -> None:
    first, second = open_shared(), open_shared()
    first.session("s1", scope=HERE, agent="lyria", tools=["read"]).open()
    first.session("g1", scope=HERE, agent="lyria", mode="group").open()

    for name in ("s1", "g1"):
        session = second.session(name, scope=HERE, agent="another")
        with session.turn() as run, pytest.raises(treering.errors.ToolDenied):
            run.tools.started("shell")
    assert not second.session("g1", scope=HERE, agent="another").permits("read")


def test_a_gate_is_not_asked_about_a_tool_that_is_not_allowed(
    ledger: Ledger, group: Session
) -> None:
    keeper = Doorkeeper()
    ledger.spine([keeper])

    with group.turn() as run:
        with pytest.raises(treering.errors.ToolDenied):
            run.tools.started("shell", call_id="c1")
        run.tools.started("weather", call_id="c2").finish("sun")

    assert [asked for asked in keeper.asked if asked[0] == "tool"] == [
        ("tool", "weather", "c2", None),
    ]  # fmt: skip


def test_a_gate_blocks_a_tool(ledger: Ledger, session: Session) -> None:
    class Strict(Doorkeeper):
        def before_tool(self, *_: Any) -> Verdict:
            return Verdict(blocked=True, reason="not on Mondays")

    ledger.spine([Strict()])

    with session.turn() as run, pytest.raises(treering.errors.ToolDenied, match="not on Mondays"):
        run.tools.started("pay", call_id="c1")

    blocked = next(e for e in session.events() if e.kind == "ops.blocked")
    assert blocked.refs == {"tool": "pay", "call_id": "c1", "code": "gate"}
    assert blocked.payload == {"reason": "not on Mondays"}
    assert results(session)[0]["reason"] == "denied"


def test_a_gate_changes_what_a_tool_is_called_with_and_what_is_kept(
    ledger: Ledger, session: Session
) -> None:
    class Editor(Doorkeeper):
        def before_tool(self, _: Occasion, *asked: Any) -> Verdict:
            return Verdict(content={"edited": asked[-1]})

        def persist(self, *asked: Any, **about: Any) -> Any:
            return {"kept": super().persist(*asked, **about)}

    editor = Editor()
    ledger.spine([editor])

    with session.turn() as run, run.tool("pay", {"sum": 7}, call_id="c1") as call:
        given = call.input
        call.finish("paid")

    called, returned = (e for e in session.events() if e.kind.startswith("tool."))
    assert given == called.payload["input"] == {"edited": {"sum": 7}}
    assert returned.payload["output"] == {"kept": "paid"}
    assert editor.kept == [("pay", "c1", "paid", False, False)]


@pytest.mark.parametrize(
    ("conclude", "asked"),
    [
        (finish, ({"rows": 3}, False, False)),
        (fail, ("nothing there", True, False)),
        (give_up, ("[treering] look gave no result in time; it may still be at work.", True, True)),
    ],
)
def test_gates_are_asked_once_about_each_result(
    ledger: Ledger, session: Session, conclude: Callable[[ToolCall], Header], asked: tuple[Any, ...]
) -> None:
    """Apply tool-result hooks once, consistently."""
    keeper = Doorkeeper()
    ledger.spine([keeper])

    with session.turn() as run, run.tool("look", call_id="c1") as call:
        conclude(call)

    assert keeper.kept == [("look", "c1", *asked)]


# Events as other runtimes spell them.


@pytest.mark.parametrize(
    ("kind", "call_id", "name", "given"),
    [
        ("tool.call", "call_id", "name", "input"),
        ("tool_call", "tool_call_id", "tool", "args"),
        ("tool_call", "tool_use_id", "tool_name", "arguments"),
        ("tool.call.started", "toolCallId", "toolName", "params"),
        (" Tool.Call ", "toolUseId", "name", "arguments"),
        ("tool.call", "id", "tool", "input"),
    ],
)
def test_a_call_is_understood_in_every_spelling(
    kind: str, call_id: str, name: str, given: str
) -> None:
    with treering.open(":memory:") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as run:
            header = run.emit(kind, {call_id: "c1", name: "look", given: {"at": 1}})
            run.tools.finished("c1")

        called = next(e for e in session.events() if e.kind == "tool.call")
    assert header is not None
    assert called.event_id == header.event_id
    assert called.payload == {"call_id": "c1", "name": "look", "input": {"at": 1}}


@pytest.mark.parametrize(
    ("kind", "content", "status"),
    [
        ("tool.result", {"call_id": "c1", "output": 0}, "ok"),
        ("tool_result", {"toolUseId": "c1", "result": False}, "ok"),
        ("tool.call.finished", {"toolCallId": "c1", "content": ""}, "ok"),
        ("tool.call.finished", {"toolCallId": "c1"}, "ok"),
        ("tool.call.failed", {"toolCallId": "c1"}, "failed"),
        ("tool.call.failed", {"toolCallId": "c1", "error": {"message": "no"}}, "failed"),
        ("tool.result", {"id": "c1", "error": "no"}, "failed"),
        ("tool_result", {"id": "c1", "isError": True, "content": "no"}, "failed"),
        ("tool_result", {"tool_use_id": "c1", "is_error": True, "content": "no"}, "failed"),
        ("tool.result", {"call_id": "c1", "status": "failed", "output": "no"}, "failed"),
        ("tool.result", {"call_id": "c1", "isSynthetic": True, "reason": "timeout"}, "synthetic"),
        ("tool.call.failed", {"id": "c1", "is_synthetic": True, "reason": "??"}, "synthetic"),
    ],
)
def test_a_result_is_understood_in_every_spelling(
    kind: str, content: dict[str, Any], status: str
) -> None:
    with treering.open(":memory:") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as run:
            run.tools.started("look", call_id="c1")
            header = run.emit(kind, content)

        (result,) = results(session)
    assert header is not None
    assert (header.kind, result["status"]) == ("tool.result", status)
    if status == "synthetic":
        assert result["reason"] in {"timeout", "missing_result"}


@pytest.mark.parametrize(
    ("kind", "content"),
    [("tool.call", {"call_id": "c1"}), ("tool.result", {"output": 1}), ("tool_result", None)],
)
def test_an_event_of_a_tool_that_names_no_call_is_refused(
    session: Session, kind: str, content: dict[str, Any] | None
) -> None:
    with session.turn() as run, pytest.raises(treering.InvalidInput) as refused:
        run.emit(kind, content)

    assert refused.value.hint


@pytest.mark.parametrize(
    ("spelling", "payload", "kind"),
    [
        ("user_message", {"text": "x"}, "conversation.user"),
        ("assistant.final", {"text": "x"}, "conversation.assistant"),
        ("agent_message", {"text": "x"}, "conversation.assistant"),
        ("warning", {"code": "x"}, "ops.warning"),
        ("error", {"code": "x"}, "ops.error"),
        ("compaction.phase", {"phase": "start"}, "compaction.started"),
        ("compaction.phase", {"phase": "end"}, "compaction.ended"),
        ("turn.usage", {"input_tokens": 7}, "usage.reported"),
        ("checkpoint", {"title": "x"}, "boundary.checkpoint"),
        ("autonomy_blocked", {"code": "x"}, "ops.blocked"),
        ("cache_hit", None, "ops.cache_hit"),
        ("goal_added", {"goal": "x"}, "goal.added"),
    ],
)
def test_an_event_is_recorded_under_its_one_name(
    session: Session, spelling: str, payload: dict[str, Any] | None, kind: str
) -> None:
    with session.turn() as run:
        header = run.emit(spelling, payload)

    assert header is not None
    assert (header.kind, header.run_id, header.run_seq) == (kind, run.run_id, 2)
    assert session_payload(session, header) == payload


def test_a_delta_is_counted_and_not_kept(session: Session) -> None:
    with session.turn() as run:
        for _ in range(3):
            assert run.emit("assistant.delta", {"text": "a"}) is None
        run.assistant("aaa")

    assert [event.run_seq for event in runs(session)[run.run_id]] == [1, 5, 6]


def session_payload(session: Session, header: Header) -> Any:
    return next(e for e in session.events() if e.event_id == header.event_id).payload
