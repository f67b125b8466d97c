"""Promise 11: bad input gets a clear error, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import treering
from builders import HERE
from listeners import Listener
from treering import InvalidInput, Ledger
from treering.sinks import Delivery, SyntheticPolicy


class Nameless:
    """It has no name."""

    def accepts(self, event: Any) -> bool:  # noqa: ARG002
        return True

    def handle(self, event: Any) -> None:
        """Do nothing."""


class Handless(Nameless):
    """It has nothing to be handed events with."""

    name = "handless"
    handle = None  # type: ignore[assignment]


@pytest.mark.parametrize("sink", [object(), Nameless(), Handless(), None, "log"])
def test_what_is_no_sink_is_refused_and_the_others_of_the_call_with_it(
    ledger: Ledger, sink: Any
) -> None:
    with pytest.raises(InvalidInput) as refused:
        ledger.spine([Listener(), sink])

    assert refused.value.hint
    assert ledger.spine().status() == []
    with ledger.session("s1", scope=HERE, agent="lyria").turn() as turn:
        turn.user("still recorded")


def test_one_sink_without_a_list_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="list"):
        ledger.spine(Listener())  # type: ignore[arg-type]


def test_a_policy_that_is_none_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="SyntheticPolicy"):
        ledger.spine(synthetic="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not text"):
        SyntheticPolicy(texts={"timeout": 5})  # type: ignore[dict-item]


def test_a_durable_sink_has_one_event_at_a_time_whatever_scopes_it_is_served_in() -> None:
    """Sinks are handed events one at a time."""
    inside, most = 0, 0
    lock = threading.Lock()

    def enter(_: Any) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.001)
        with lock:
            inside -= 1

    with treering.open(":memory:") as ledger:
        sink = Listener(do=enter, delivery=Delivery(durable=True, on_error="retry"))
        spine = ledger.spine([sink])
        for scope in ("a", "b", "c"):
            spine.follow(scope)
            for number in range(20):
                ledger.session("s", scope=scope, agent="x").record("ops.decision", str(number))
        assert spine.flush(30)

    assert len(sink.heard) == 63
    assert most == 1


@pytest.mark.parametrize("why", ["a\nb", "x" * 5_000, "\udcff", " "])
def test_whatever_the_reason_says_an_interrupt_interrupts(ledger: Ledger, why: str) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    turn = session.turn()
    turn.start()

    boundary = session.interrupt(why)

    assert boundary is not None
    assert turn.state == "interrupted"


def test_a_handle_that_says_another_mode_than_the_session_has_is_refused(ledger: Ledger) -> None:
    ledger.session("s1", scope=HERE, agent="lyria").record("ops.decision", "opened as main")

    with pytest.raises(InvalidInput, match="opened as main, not queue"):
        ledger.session("s1", scope=HERE, agent="lyria", mode="queue").post("lost?")
    with pytest.raises(InvalidInput, match="a single text"):
        ledger.session("s2", scope=HERE, agent="lyria", tools="web_search")


def test_a_guard_that_refuses_what_an_error_says_leaves_the_run_its_end_and_the_error() -> None:
    """Exactly one terminal per run, whatever the caller does."""

    def fail(session: treering.Session) -> None:
        with session.turn() as turn, turn.tool("login"):
            raise ValueError("password=Winter-2026-x7")

    with treering.open(":memory:", guard="reject") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with pytest.raises(ValueError, match="password"):
            fail(session)

        kinds = [event.kind for event in session.events()]
        assert kinds[-2:] == ["tool.result", "run.failed"]
        assert all("Winter" not in str(event.payload) for event in session.events())
        with session.turn() as turn:
            turn.user("and on")


@pytest.mark.parametrize("seconds", [float("nan"), -1, "x", None])
def test_a_wait_that_cannot_be_is_refused(ledger: Ledger, seconds: Any) -> None:
    queue = ledger.session("q", scope=HERE, agent="lyria", mode="queue")
    queue.post("one")

    with pytest.raises(InvalidInput, match="wait_s"):
        queue.take(wait_s=seconds)


def test_who_would_stop_an_event_loop_by_waiting_is_refused_at_once(ledger: Ledger) -> None:
    group = ledger.session("g", scope=HERE, agent="lyria", mode="group")

    async def two() -> None:
        with group.turn(), pytest.raises(treering.errors.RunActive) as refused:
            group.turn().start()
        assert "to_thread" in str(refused.value.hint)

    asyncio.run(two())


def test_what_is_no_session_has_no_runs(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="session"):
        ledger.spine().run("s1")  # type: ignore[arg-type]
