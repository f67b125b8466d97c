"""Interrupts: the caller gets an error, and the next turn sees a boundary."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE
from concurrency.run_works import Author, hold_run
from concurrency.run_works import interrupt as interrupt_when_told
from effort import PATIENCE_S
from run_records import Doorkeeper, ends, kinds, results, runs
from threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Ledger, Run, Session

    Interrupt = Callable[[], Any]


@pytest.fixture(params=["this ledger", "another ledger", "another process"])
def interrupt(
    request: pytest.FixtureRequest, open_shared: Callable[[], Ledger], location: str
) -> Iterator[Interrupt]:
    """Return a way to interrupt session s1: by another handle, ledger or process."""
    if request.param == "another process":
        with Author(interrupt_when_told, location) as author:
            assert author.hear() == "ready"

            def ask() -> Any:
                author.tell("stop")
                return author.hear()

            yield ask
        return
    ledger: Ledger = request.getfixturevalue("ledger_of_author")
    other = ledger if request.param == "this ledger" else open_shared()

    def stop() -> Any:
        mark = other.session("s1", scope=HERE, agent="another").interrupt("stop")
        return mark and mark.event_id

    yield stop


@pytest.fixture
def ledger_of_author(open_shared: Callable[[], Ledger]) -> Ledger:
    return open_shared()


@pytest.fixture
def author(ledger_of_author: Ledger) -> Session:
    """Return the session as its author has it."""
    return ledger_of_author.session("s1", scope=HERE, agent="lyria", user="u1")


def test_an_interrupt_ends_the_run_and_leaves_a_mark_behind_it(
    author: Session, interrupt: Interrupt
) -> None:
    """An interrupt leaves a boundary that the next turn sees."""
    run = author.turn()
    run.start()

    mark_id = interrupt()

    assert kinds(author)[-2:] == ["run.interrupted", "boundary.interrupt"]
    end, mark = author.events(last=2)
    assert (end.run_id, end.refs["reason"], end.payload) == (
        run.run_id, "interrupted", {"reason": "stop"},
    )  # fmt: skip
    assert mark.event_id == mark_id
    assert (mark.run_id, mark.run_seq, mark.turn_id) == (None, None, run.turn_id)
    assert mark.payload["title"] == "turn interrupted"
    assert mark.payload["why"] == "stop"
    assert mark.refs == {"interrupted_run": run.run_id}
    assert ends(author) == ["run.interrupted"]


@pytest.mark.parametrize(
    "step",
    [
        lambda run: run.user("x"),
        lambda run: run.emit("warning", {"code": "x"}),
        lambda run: run.tools.started("x"),
        lambda run: run.tool("x").__enter__(),
        lambda run: run.deliver("x"),
        lambda run: run.end(),
    ],
    ids=["user", "emit", "tools", "tool", "deliver", "end"],
)
def test_the_next_step_of_the_author_raises(
    author: Session, interrupt: Interrupt, step: Callable[[Run], Any]
) -> None:
    run = author.turn()
    run.start()
    interrupt()
    before = kinds(author)

    with pytest.raises(treering.RunInterrupted) as told:
        step(run)

    assert told.value.hint
    assert (run.state, kinds(author)) == ("interrupted", before)


def test_who_heard_of_it_leaves_the_block_in_peace(author: Session, interrupt: Interrupt) -> None:
    with author.turn() as run:
        interrupt()
        with pytest.raises(treering.RunInterrupted):
            run.user("x")

    assert ends(author) == ["run.interrupted"]


def test_a_block_that_ends_without_noticing_raises(author: Session, interrupt: Interrupt) -> None:
    with pytest.raises(treering.RunInterrupted), author.turn():
        interrupt()

    assert ends(author) == ["run.interrupted"]


def test_a_block_that_only_gave_a_late_result_raises(author: Session, interrupt: Interrupt) -> None:
    """The result is kept, and the author hears that the run is not committed."""

    def work() -> None:
        with author.turn() as run, run.tool("x") as call:
            interrupt()
            call.finish("late")

    with pytest.raises(treering.RunInterrupted):
        work()

    assert [result.get("late") for result in results(author)] == [None, True]


ERRORS: Final = (
    ValueError(), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), SystemExit(),
)  # fmt: skip


@pytest.mark.parametrize("in_tool", [False, True], ids=["in the run", "in a tool"])
def test_what_the_author_raises_meanwhile_goes_on_as_it_is(
    author: Session, interrupt: Interrupt, *, in_tool: bool
) -> None:
    """A cancelled task has to stay cancelled."""

    def work(error: BaseException) -> None:
        with author.turn() as run:
            if not in_tool:
                interrupt()
                raise error
            with run.tool("x"):
                interrupt()
                raise error

    for error in ERRORS:
        with pytest.raises(type(error)) as raised:
            work(error)
        assert raised.value is error

    assert ends(author) == ["run.interrupted"] * len(ERRORS)


def test_an_author_can_ask_whether_it_is_interrupted(author: Session, interrupt: Interrupt) -> None:
    run = author.turn()
    run.start()
    before = run.interrupted

    interrupt()

    assert (before, run.interrupted, run.is_open) == (False, True, False)


def test_open_calls_get_synthetic_results_with_the_reason(
    author: Session, interrupt: Interrupt
) -> None:
    run = author.turn()
    run.start()
    run.tools.started("slow", call_id="c1")
    run.tools.started("done", call_id="c2").finish("x")
    run.tools.started("slower", call_id="c3")

    interrupt()

    assert [(r["call_id"], r["status"], r.get("reason")) for r in results(author)] == [
        ("c2", "ok", None), ("c1", "synthetic", "interrupted"), ("c3", "synthetic", "interrupted"),
    ]  # fmt: skip
    assert runs(author)[run.run_id][-1].refs["tool_calls"] == 3


def test_where_nothing_runs_there_is_nothing_to_interrupt(
    author: Session, interrupt: Interrupt
) -> None:
    before = interrupt()
    with author.turn():
        pass

    assert (before, interrupt()) == (None, None)
    assert "boundary.interrupt" not in kinds(author)


def test_the_next_run_begins_right_after_an_interrupt(
    author: Session, interrupt: Interrupt
) -> None:
    stale = author.turn()
    stale.start()
    interrupt()

    with author.turn() as run:
        run.user("on")
        with pytest.raises(treering.RunInterrupted):
            stale.user("of old")

    assert ends(author) == ["run.interrupted", "run.ended"]


# In one process.


def test_an_author_that_interrupts_itself_leaves_a_mark(session: Session) -> None:
    with session.turn() as run:
        header = run.interrupt("changed my mind")

    assert header.kind == "run.interrupted"
    assert kinds(session)[-2:] == ["run.interrupted", "boundary.interrupt"]


def test_a_thread_interrupts_what_another_does(session: Session) -> None:
    at_work, stopped = threading.Event(), threading.Event()
    heard: list[treering.RunInterrupted] = []

    def work() -> None:
        try:
            with session.turn() as run, run.tool("sleep"):
                at_work.set()
                stopped.wait(PATIENCE_S)
        except treering.RunInterrupted as error:
            heard.append(error)

    def stop() -> None:
        at_work.wait(PATIENCE_S)
        assert session.interrupt("enough") is not None
        stopped.set()

    in_threads(work, stop)

    assert len(heard) == 1
    assert results(session)[0]["reason"] == "interrupted"
    assert ends(session) == ["run.interrupted"]


def test_of_an_interrupt_and_an_end_at_once_one_counts(session: Session) -> None:
    together = threading.Barrier(2)
    heard: list[Any] = []
    marks: list[Any] = []

    def end(run: Run) -> None:
        together.wait(PATIENCE_S)
        try:
            run.end()
        except treering.RunInterrupted:
            heard.append(run)

    def stop() -> None:
        together.wait(PATIENCE_S)
        marks.append(session.interrupt("stop"))

    for _ in range(10):
        run = session.turn()
        run.start()
        in_threads(partial(end, run), stop)
        interrupted = run.state == "interrupted"
        assert (run in heard, marks[-1] is not None) == (interrupted, interrupted)

    assert len(ends(session)) == 10


def test_many_who_interrupt_at_once_leave_one_mark(
    ledger_of_author: Ledger, open_shared: Callable[[], Ledger]
) -> None:
    session = ledger_of_author.session("s1", scope=HERE, agent="lyria")
    others = [open_shared().session("s1", scope=HERE, agent="lyria") for _ in range(2)]
    session.turn().start()
    together = threading.Barrier(4)
    marks: list[Any] = []

    def stop(handle: Session) -> None:
        together.wait(PATIENCE_S)
        marks.append(handle.interrupt("stop"))

    in_threads(*(partial(stop, handle) for handle in (session, session, *others)))

    assert kinds(session).count("boundary.interrupt") == 1
    assert sum(mark is not None for mark in marks) == 1
    assert ends(session) == ["run.interrupted"]


def test_a_call_that_begins_while_the_run_is_being_closed_is_closed_with_it(
    ledger_of_author: Ledger, author: Session, open_shared: Callable[[], Ledger]
) -> None:
    """Whoever closes a run looks again if its author has continued meanwhile."""

    class Late(Doorkeeper):
        def persist(self, *asked: Any, **about: Any) -> Any:
            if not self.kept:
                run.tools.started("second", call_id="c2")
            return super().persist(*asked, **about)

    for ledger in (ledger_of_author, open_shared()):
        ledger.spine([Late()])
        run = author.turn()
        run.start()
        run.tools.started("first", call_id="c1")

        ledger.session("s1", scope=HERE, agent="another").interrupt("stop")

        closed = [
            event.refs["call_id"]
            for event in runs(author)[run.run_id]
            if event.kind == "tool.result"
        ]
        assert closed == ["c1", "c2"]
    assert ends(author) == ["run.interrupted"] * 2


# In another process.


def test_a_process_whose_run_was_interrupted_hears_of_it_and_can_keep_its_late_result(
    location: str, open_shared: Callable[[], Ledger]
) -> None:
    session = open_shared().session("s1", scope=HERE, agent="lyria")
    with Author(hold_run, location) as author:
        assert author.hear() == "at work"
        session.interrupt("stop")
        words: list[Any] = []
        for word in ("ask", "hello", "finish"):
            author.tell(word)
            words.append(author.hear())

    counting, late = results(session)
    assert words[:2] == [True, "RunInterrupted"]
    assert words[2] == {**late, **{n: words[2][n] for n in ("duration_ms", "output_bytes")}}
    assert (late["late"], late["status"]) == (True, "ok")
    assert counting["reason"] == "interrupted"
    assert ends(session) == ["run.interrupted"]
