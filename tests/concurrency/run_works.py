"""What other processes do with runs, tools and inboxes, a step at a time over a pipe."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any, Self

import treering
from builders import HERE
from concurrency.processes import Colleague
from run_records import Doorkeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from treering.spine.ports import Occasion, Verdict


class Author(Colleague):
    """A process that is killed at the end at the latest, and can be stopped on the way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self.kill()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Keep it from continuing, as if it had no time."""
        process = self._process.pid
        assert process is not None
        os.kill(process, signal.SIGSTOP)
        # Until the signal has reached it: waiting tells of stops, too.
        os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)


def hold_run(pipe: Connection, location: str) -> None:
    """Begin a run with an open call, and end it as told; tell how it ended."""
    ledger = treering.open(location)
    session = ledger.session("s1", scope=HERE, agent="another")
    run = session.turn()
    run.start()
    call = run.tools.started("sleep", call_id="c1")
    pipe.send("at work")
    while (word := pipe.recv()) != "end":
        try:
            if word == "finish":
                pipe.send(call.finish("slept").refs)
            elif word == "ask":
                pipe.send(run.interrupted)
            elif word == "interrupt":
                header = session.interrupt("enough")
                pipe.send(header and header.kind)
            else:
                run.user(word)
                pipe.send("recorded")
        except treering.TreeringError as error:
            pipe.send(type(error).__name__)
    pipe.send(run.end().kind)
    pipe.recv()


def begin_in_turn(pipe: Connection, location: str, count: int) -> None:
    """Carry out so many runs, waiting for whoever is at work."""
    with treering.open(location) as ledger:
        session = ledger.session("s1", scope=HERE, agent="another")
        pipe.send("ready")
        pipe.recv()
        for _ in range(count):
            with session.turn(wait_s=120) as run, run.tool("count") as call:
                run.user("mine alone")
                call.finish(1)
        pipe.send("done")


def interrupt(pipe: Connection, location: str) -> None:
    """Interrupt the session whenever told, and tell what that left."""
    session = treering.open(location).session("s1", scope=HERE, agent="another")
    pipe.send("ready")
    while (why := pipe.recv()) is not None:
        header = session.interrupt(why)
        pipe.send(None if header is None else header.event_id)


class Stepping(Doorkeeper):
    """A gate that tells when a tool is about to run and when it has, and waits for a word."""

    name = "stepping"

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
        self._pipe = pipe

    def before_tool(self, _: Occasion, tool: str, call_id: str, input: Any, /) -> Verdict:  # noqa: A002
        self._step("about to run")
        return super().before_tool(_, tool, call_id, input)

    def persist(self, _: Occasion, tool: str, call_id: str, output: Any, /, **about: Any) -> Any:
        self._step("has run")
        return super().persist(_, tool, call_id, output, **about)

    def _step(self, word: str) -> None:
        self._pipe.send(word)
        self._pipe.recv()


def call_in_steps(pipe: Connection, location: str) -> None:
    """Call a tool, and tell of every step before the next one."""
    ledger = treering.open(location)
    ledger.spine([Stepping(pipe)])
    session = ledger.session("s1", scope=HERE, agent="another")
    with session.turn() as run, run.tool("pay", {"sum": 7}, call_id="c1") as call:
        pipe.send("is running")
        pipe.recv()
        call.finish("paid")
        pipe.send("has its result")
        pipe.recv()


def take_and_hold(pipe: Connection, location: str) -> None:
    """Take a message whenever told, and hold it until told to end."""
    session = treering.open(location).session("inbox", scope=HERE, agent="another")
    while pipe.recv() == "take":
        run = session.take()
        pipe.send(None if run is None else (run.message.event_id, run.message.attempt))  # type: ignore[union-attr]
        if run is not None and pipe.recv() == "end":
            run.end()
            pipe.send("ended")


def work_off(pipe: Connection, location: str) -> None:
    """Deal with messages until none is left; tell which, in order."""
    session = treering.open(location).session("inbox", scope=HERE, agent="another")
    pipe.send("ready")
    pipe.recv()
    done: list[str] = []
    while (run := session.take(wait_s=1)) is not None:
        with run:
            assert run.message is not None
            run.assistant(f"did {run.message.text}")
            done.append(run.message.text)
    pipe.send(done)
