"""The recording door: sessions, turns and tool calls."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import ELSEWHERE, HERE, exchange, said
from effort import PATIENCE_S
from threads import in_threads

if TYPE_CHECKING:
    from treering import Ledger, Session


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a fresh session."""
    return ledger.session("s1", scope=HERE, agent="lyria", user="u1")


def kinds(session: Session) -> list[str]:
    return [header.kind for header in session.headers()]


def test_making_a_handle_writes_nothing(ledger: Ledger, session: Session) -> None:
    assert list(session.headers()) == []
    assert ledger.admin.verify().sessions == 0


def test_a_turn_is_recorded_as_it_happens(session: Session) -> None:
    with session.turn() as turn:
        turn.user("What changed since Friday?")
        with turn.tool("git_log", {"since": "friday"}) as call:
            assert kinds(session)[-1] == "tool.call"
            call.finish("3 commits")
        turn.assistant("Three commits, all in storage.")

    assert kinds(session) == [
        "session.opened", "run.started", "conversation.user", "tool.call", "tool.result",
        "conversation.assistant", "run.ended",
    ]  # fmt: skip
    events = list(session.events())
    assert [e.run_seq for e in events] == [None, 1, 2, 3, 4, 5, 6]
    assert len({e.run_id for e in events[1:]}) == 1
    assert len({e.turn_id for e in events[1:]}) == 1
    assert {e.user_id for e in events} == {"u1"}
    assert events[3].payload == {
        "call_id": call.call_id, "name": "git_log", "input": {"since": "friday"},
    }  # fmt: skip
    assert events[4].payload["output"] == "3 commits"
    assert events[4].refs["status"] == "ok"
    assert events[4].refs["output_bytes"] == len('"3 commits"')


def test_summaries_of_tools_hold_no_input_or_output(session: Session) -> None:
    """Safe metadata and private content are separate."""
    with session.turn() as turn, turn.tool("shell", {"cmd": "PRIVATE-IN"}) as call:
        call.finish("PRIVATE-OUT")

    headers = list(session.headers())
    assert [header.kind for header in headers if header.kind.startswith("tool.")] == [
        "tool.call",
        "tool.result",
    ]
    for header in headers:
        assert "PRIVATE" not in header.summary + str(header.refs)


def test_a_turn_that_raises_is_kept_as_failed_and_the_error_goes_on(session: Session) -> None:
    """Promise 7: a failed run stays in the ledger for audit."""

    def divide() -> None:
        with session.turn() as turn:
            turn.user("divide")
            1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError):
        divide()

    last = list(session.events())[-1]
    assert last.kind == "run.failed"
    assert last.summary == "run failed: ZeroDivisionError"
    assert last.payload == {"class": "ZeroDivisionError", "message": "division by zero"}


class Wordless(Exception):
    """An exception that cannot say what it is about."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [OSError("cannot open \udcff.txt"), Wordless()])
def test_whatever_an_error_says_the_turn_and_the_call_are_closed(
    session: Session, error: Exception
) -> None:
    with pytest.raises(type(error)) as caught, session.turn() as turn, turn.tool("read"):
        raise error

    assert caught.value is error
    assert kinds(session)[-2:] == ["tool.result", "run.failed"]


def test_an_interrupted_turn_says_so(session: Session) -> None:
    with pytest.raises(KeyboardInterrupt), session.turn():
        raise KeyboardInterrupt

    assert kinds(session)[-1] == "run.interrupted"


def test_a_cancelled_turn_is_interrupted(session: Session) -> None:
    with pytest.raises(asyncio.CancelledError), session.turn():
        raise asyncio.CancelledError

    assert kinds(session)[-1] == "run.interrupted"


def test_a_tool_that_raises_has_a_failed_result(session: Session) -> None:
    with session.turn() as turn, pytest.raises(OSError, match="gone"), turn.tool("read", {}):
        raise OSError("gone")

    result = next(e for e in session.events() if e.kind == "tool.result")
    assert result.payload["status"] == "failed"
    assert result.payload["error"] == {"class": "OSError", "message": "gone"}
    assert kinds(session)[-1] == "run.ended"


def test_a_tool_without_a_result_gets_a_synthetic_one_with_a_reason(session: Session) -> None:
    with session.turn() as turn, turn.tool("read"):
        pass

    result = next(e for e in session.events() if e.kind == "tool.result")
    assert result.payload["is_synthetic"] is True
    assert result.payload["reason"] == "missing_result"


def test_a_call_has_one_outcome(session: Session) -> None:
    with session.turn() as turn, turn.tool("read") as call:
        call.finish("a")
        with pytest.raises(treering.errors.RunClosed):
            call.finish("b")

    assert kinds(session).count("tool.result") == 1


def test_a_turn_takes_nothing_before_it_begins_or_after_it_ends(session: Session) -> None:
    turn = session.turn()
    with pytest.raises(treering.errors.RunClosed):
        turn.user("too early")
    with turn:
        turn.user("in time")
    with pytest.raises(treering.errors.RunClosed) as refused:
        turn.user("too late")
    assert refused.value.hint
    with pytest.raises(treering.errors.RunClosed), turn:
        pass

    assert kinds(session).count("conversation.user") == 1


def test_long_and_empty_texts_have_fitting_summaries(session: Session) -> None:
    exchange(session, "word " * 10_000, "")

    headers = {h.kind: h for h in session.headers()}
    assert len(headers["conversation.user"].summary) == 200
    assert headers["conversation.user"].summary.endswith("…")
    assert headers["conversation.assistant"].summary == "(empty)"


def test_the_opening_is_recorded_once(ledger: Ledger) -> None:
    about: dict[str, Any] = {
        "channel": "telegram", "mode": "group", "participants": ["u1", "u2"], "key": "agent:main",
        "tools": ["weather"],
    }  # fmt: skip
    for _ in range(2):
        session = ledger.session("s1", scope=HERE, agent="lyria", **about)
        session.record("ops.decision", "decided")

    events = list(session.events())
    assert [e.kind for e in events] == ["session.opened", "ops.decision", "ops.decision"]
    assert events[0].payload == {
        **about,
        "isolation": None,
        "title": None,
        "spawned_by": None,
        "spawned_call": None,
    }
    assert events[0].refs == {"channel": "telegram", "mode": "group"}


def test_what_was_recorded_of_a_session_is_known_to_handles_that_are_told_nothing(
    ledger: Ledger,
) -> None:
    ledger.session("s1", scope=HERE, agent="lyria", mode="queue", key="agent:main").open()

    settings = ledger.session("s1", scope=HERE, agent="another").settings

    assert (settings.mode, settings.key, settings.tools) == ("queue", "agent:main", None)


def test_a_session_that_was_not_opened_here_is_a_main_session(ledger: Ledger) -> None:
    ledger.append([said("from elsewhere")])
    session = ledger.session("s1", scope=HERE, agent="lyria")

    with session.turn():
        pass

    assert (session.settings.mode, kinds(session)[0]) == ("main", "conversation.user")


def test_many_who_open_a_session_at_once_record_it_once(ledger: Ledger) -> None:
    together = threading.Barrier(5)

    def opening() -> None:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        together.wait(PATIENCE_S)
        session.open()

    in_threads(*([opening] * 5))

    assert kinds(ledger.session("s1", scope=HERE, agent="lyria")) == ["session.opened"]


def test_sessions_of_two_scopes_are_two_sessions(ledger: Ledger) -> None:
    here = ledger.session("s1", scope=HERE, agent="a")
    there = ledger.session("s1", scope=ELSEWHERE, agent="a")
    here.record("ops.decision", "mine")

    assert list(there.headers()) == []


def test_threads_can_share_a_session(session: Session) -> None:
    def work(name: str) -> None:
        with session.turn(wait_s=60) as turn:
            for n in range(5):
                turn.user(f"{name} {n}")

    in_threads(*(partial(work, str(n)) for n in range(6)))

    events = list(session.events())
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert len(events) == 1 + 6 * 7
    for run in {e.run_id for e in events if e.run_id}:
        assert [e.run_seq for e in events if e.run_id == run] == list(range(1, 8))


def test_asyncio_uses_a_thread(session: Session) -> None:
    async def main() -> None:
        def record(n: int) -> None:
            with session.turn(wait_s=60) as turn:
                turn.user(str(n))

        await asyncio.gather(*(asyncio.to_thread(record, n) for n in range(5)))

    asyncio.run(main())

    assert kinds(session).count("run.ended") == 5


@pytest.mark.parametrize(
    "arguments", [{"agent": ""}, {"scope": "a@b"}, {"user": ""}, {"mode": "crowd"}, {"tools": [""]}]
)
def test_a_session_that_cannot_be_is_refused(ledger: Ledger, arguments: dict[str, Any]) -> None:
    stated: dict[str, Any] = {"scope": HERE, "agent": "a"}

    with pytest.raises(treering.InvalidInput):
        ledger.session("s1", **(stated | arguments))


def test_asking_for_first_and_last_at_once_is_refused(session: Session) -> None:
    with pytest.raises(treering.InvalidInput):
        session.headers(first=1, last=1)
    with pytest.raises(treering.InvalidInput):
        session.headers(last=-1)


def test_a_run_that_fails_before_its_user_message_leaves_the_turn_before_it_as_it_was(
    ledger: Ledger,
) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    exchange(session, "Hello", "Hi")
    with pytest.raises(RuntimeError), session.turn():
        raise RuntimeError("no model")

    assert [told.state for told in session.turns()] == ["ended"]
    assert [told.state for told in session.turns(last=1)] == ["ended"]


def test_redacting_a_turn_does_not_make_it_longer(ledger: Ledger) -> None:
    ledger.append([said("hello", ts_ms=1_700_000_000_000, session_id="s1")])
    ledger.redact(HERE, session_id="s1")

    (turn,) = ledger.session("s1", scope=HERE, agent="lyria").turns()

    assert turn.ended_ms == turn.started_ms == 1_700_000_000_000
