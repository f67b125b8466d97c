"""Runs that are closed from outside while they record."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE
from effort import PATIENCE_S
from listeners import SOON, Listener
from ports import store_of
from run_records import Doorkeeper
from treering.spine import run_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger


def test_a_run_that_never_holds_still_is_interrupted_all_the_same(
    open_shared: Callable[[], Ledger],
) -> None:
    author, other = open_shared(), open_shared()
    gate = Doorkeeper()
    other.spine([gate])
    session = author.session("s1", scope=HERE, agent="lyria")
    turn = session.turn()
    turn.start()
    turn.tools.started("shell", call_id="c1")
    under_way, stopped = threading.Event(), threading.Event()

    def record() -> None:
        try:
            while not stopped.is_set():
                turn.user("on and on")
                under_way.set()
        except treering.RunInterrupted:
            stopped.set()

    writer = threading.Thread(target=record)
    writer.start()
    assert under_way.wait(SOON)
    boundary = other.session("s1", scope=HERE, agent="lyria").interrupt("enough")
    told = stopped.wait(SOON)
    stopped.set()
    writer.join(PATIENCE_S)

    assert boundary is not None
    assert told
    kinds = [header.kind for header in session.headers()]
    assert [kind for kind in kinds if kind.startswith("run.")] == ["run.started", "run.interrupted"]
    assert [kept[1] for kept in gate.kept] == ["c1"]
    [call] = session.tool_calls()
    assert (call.status, call.reason) == ("synthetic", "interrupted")


def test_the_sinks_of_a_run_hear_how_somebody_else_ended_it(
    open_shared: Callable[[], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_state, "LOOK_S", 0.0)
    author, other = open_shared(), open_shared()
    sink = Listener()
    spine = author.spine([sink])
    turn = author.session("s1", scope=HERE, agent="lyria").turn()
    turn.start()
    turn.tools.started("shell", call_id="c1")
    for _ in range(5):
        turn.delta("word ")

    other.session("s1", scope=HERE, agent="lyria").interrupt("stop")
    with pytest.raises(treering.RunInterrupted):
        turn.delta("more")
    assert spine.flush(SOON)

    heard = [(event.kind, event.run_seq or 0) for event in sink.heard if event.run_id]
    assert [kind for kind, _ in heard][-2:] == ["tool.result", "run.interrupted"]
    assert [seq for _, seq in heard] == sorted({seq for _, seq in heard})


def test_what_is_given_when_a_ledger_is_opened_has_its_say_in_recovery(location: str) -> None:
    first = treering.open(location)
    turn = first.session("s1", scope=HERE, agent="lyria").turn()
    turn.start()
    turn.tools.started("shell", call_id="c1")
    # As if the process had died: what it holds is let go, and nobody ends the run.
    first._engine._run_states.clear()
    store_of(first).close()
    policy = treering.sinks.SyntheticPolicy(texts={"crashed": "{tool} went down"})
    sink = Listener()

    with treering.open(location, synthetic=policy, sinks=[sink]) as second:
        assert second.spine().flush(SOON)
        session = second.session("s1", scope=HERE, agent="lyria")
        [result] = [event for event in session.events() if event.kind == "tool.result"]

    assert result.payload["output"] == "shell went down"
    assert [event.kind for event in sink.heard] == ["tool.result", "run.interrupted"]
