"""One start and one end for every run, whatever its author does."""

from __future__ import annotations

import asyncio
import gc
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE, said
from children import run_python
from concurrency.processes import ended_well, in_child
from effort import PATIENCE_S
from ports import store_of
from run_records import Doorkeeper, ends, kinds, runs
from threads import in_threads
from treering.model.codec import SPILL_BYTES_MAX
from treering.spine.conversion import SHORTENED_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator
    from pathlib import Path

    from treering import Ledger, Run, Session

# Ends.


def test_a_run_that_is_ended_has_one_start_and_one_end(session: Session) -> None:
    """Exactly one lifecycle.started and one terminal per run."""
    run = session.turn()

    start, end = run.start(), run.end()

    assert [header.event_id for header in runs(session)[run.run_id]] == [
        start.event_id, end.event_id,
    ]  # fmt: skip
    assert (run.state, run.is_open) == ("ended", False)


@pytest.mark.parametrize(
    ("first", "state"),
    [
        (lambda run: run.end(), "ended"),
        (lambda run: run.fail("no"), "failed"),
        (lambda run: run.fail(ValueError("no")), "failed"),
        (lambda run: run.interrupt("enough"), "interrupted"),
    ],
    ids=["end", "fail", "fail with an error", "interrupt"],
)
@pytest.mark.parametrize(
    "second",
    [lambda run: run.end(), lambda run: run.fail("again"), lambda run: run.interrupt("again")],
    ids=["end", "fail", "interrupt"],
)
def test_a_run_that_is_over_stays_as_it_is(
    session: Session, first: Callable[[Run], Any], second: Callable[[Run], Any], state: str
) -> None:
    run = session.turn()
    run.start()
    ended = first(run)

    again = second(run)

    assert again == ended
    assert (run.state, ends(session)) == (state, [f"run.{state}"])


def test_a_run_that_failed_in_its_block_leaves_it_as_failed(session: Session) -> None:
    with session.turn() as run:
        run.fail("the model refused")

    assert ends(session) == ["run.failed"]
    assert list(session.events())[-1].payload == {"reason": "the model refused"}


def test_a_run_that_ended_in_its_block_and_raises_then_has_ended(session: Session) -> None:
    def work() -> None:
        with session.turn() as run:
            run.end()
            raise LookupError

    with pytest.raises(LookupError):
        work()

    assert ends(session) == ["run.ended"]


def test_one_run_in_two_blocks_ends_with_the_inner_one(session: Session) -> None:
    with session.turn() as run, run:
        run.user("hello")

    assert ends(session) == ["run.ended"]


@pytest.mark.parametrize(
    ("error", "end", "reason"),
    [
        (ValueError("x"), "run.failed", "failed"),
        (TimeoutError(), "run.failed", "failed"),
        (KeyboardInterrupt(), "run.interrupted", "interrupted"),
        (SystemExit(3), "run.interrupted", "exited"),
        (GeneratorExit(), "run.interrupted", "abandoned"),
        (asyncio.CancelledError(), "run.interrupted", "cancelled"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_what_is_raised_in_a_run_ends_it_and_goes_on(
    session: Session, error: BaseException, end: str, reason: str
) -> None:
    with pytest.raises(type(error)) as caught, session.turn():
        raise error

    assert caught.value is error
    assert ends(session) == [end]
    refs = list(session.headers())[-1].refs
    assert (refs["reason"], refs["error_class"]) == (reason, type(error).__name__)


@pytest.mark.parametrize(
    "fail",
    [
        lambda run: run.fail("cannot open \udcff.txt"),
        lambda run: run.interrupt("cannot open \udcff.txt"),
        lambda run: run.fail(type("E" * 5_000, (Exception,), {})()),
        lambda run: run.fail(ValueError("x" * 100_000)),
    ],
    ids=["unencodable", "unencodable interrupt", "long class", "long message"],
)
def test_whatever_is_said_of_a_failure_it_ends_the_run(
    session: Session, fail: Callable[[Run], Any]
) -> None:
    run = session.turn()
    run.start()

    fail(run)

    assert not run.is_open
    assert len(ends(session)) == 1


# Generators and tasks.


def test_a_generator_that_is_closed_early_interrupts_its_run(session: Session) -> None:
    def answers() -> Generator[int, None, None]:
        with session.turn() as run:
            run.user("count")
            yield from range(10)

    answering = answers()
    next(answering)
    answering.close()

    assert ends(session) == ["run.interrupted"]


def test_a_generator_that_is_forgotten_interrupts_its_run(session: Session) -> None:
    def answers(itself: list[Any]) -> Iterator[int]:
        with session.turn():
            yield len(itself)

    itself: list[Any] = []
    itself.append(answers(itself))
    next(itself[0])
    before = kinds(session)[-1]

    del itself
    gc.collect()

    assert (before, ends(session)) == ("run.started", ["run.interrupted"])


def test_an_async_generator_that_is_closed_early_interrupts_its_run(session: Session) -> None:
    async def answers() -> AsyncIterator[int]:
        with session.turn():
            yield 1
            yield 2

    async def main() -> None:
        answering = answers()
        async for _ in answering:
            break
        await answering.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())

    assert ends(session) == ["run.interrupted"]


def test_an_async_generator_that_is_forgotten_interrupts_its_run(session: Session) -> None:
    async def answers() -> AsyncIterator[int]:
        with session.turn():
            yield 1
            yield 2

    async def main() -> None:
        async for _ in answers():
            break

    asyncio.run(main())  # It closes what was left behind, at the latest.

    assert ends(session) == ["run.interrupted"]


def test_a_task_that_is_cancelled_interrupts_its_run_and_its_tool(session: Session) -> None:
    async def work(at_work: asyncio.Event) -> None:
        with session.turn() as run, run.tool("sleep"):
            at_work.set()
            await asyncio.Event().wait()

    async def main() -> None:
        at_work = asyncio.Event()
        task = asyncio.create_task(work(at_work))
        await at_work.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert kinds(session)[-3:] == ["tool.call", "tool.result", "run.interrupted"]
    assert [header.refs.get("reason") for header in session.headers(last=2)] == [
        "interrupted", "cancelled",
    ]  # fmt: skip


# Order.


def test_threads_that_share_a_run_are_numbered_as_they_are_kept(session: Session) -> None:
    """Seq is assigned centrally to guarantee monotonic ordering."""
    together = threading.Barrier(4)

    with session.turn() as run:

        def work(number: int) -> None:
            together.wait(PATIENCE_S)
            for at in range(8):
                run.user(f"{number} {at}")
                with run.tool("count", {"at": at}) as call:
                    call.finish(at)
                run.delta("carried, not kept")

        in_threads(*(partial(work, number) for number in range(4)))

    (events,) = runs(session).values()
    assert len(events) == 2 + 4 * 8 * 3
    assert events[-1].run_seq == 2 + 4 * 8 * 4


def test_a_run_that_is_ended_by_many_threads_ends_once(session: Session) -> None:
    run = session.turn()
    run.start()
    together = threading.Barrier(6)
    got: list[Any] = []

    def end(how: Callable[[], Any]) -> None:
        together.wait(PATIENCE_S)
        got.append(how())

    in_threads(*(partial(end, how) for how in (run.end, partial(run.fail, "no")) * 3))

    assert len(ends(session)) == 1
    assert len({header.event_id for header in got}) == 1


def test_a_run_that_is_started_by_many_threads_starts_once(session: Session) -> None:
    run = session.turn()
    together = threading.Barrier(4)
    refused: list[treering.errors.RunClosed] = []

    def start() -> None:
        together.wait(PATIENCE_S)
        try:
            run.start()
        except treering.errors.RunClosed as error:
            refused.append(error)

    in_threads(*([start] * 4))
    run.end()

    assert (len(refused), ends(session)) == (3, ["run.ended"])


# Refused.


@pytest.mark.parametrize(
    "attempt",
    [
        lambda run: run.user("x"),
        lambda run: run.assistant("x"),
        lambda run: run.delta("x"),
        lambda run: run.emit("warning", {"code": "x"}),
        lambda run: run.deliver("x"),
        lambda run: run.tools.started("x"),
        lambda run: run.tool("x").__enter__(),
    ],
    ids=["user", "assistant", "delta", "emit", "deliver", "tools", "tool"],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_takes_nothing_before_its_start_and_after_its_end(
    session: Session, attempt: Callable[[Run], Any], when: str
) -> None:
    run = session.turn()
    if when == "after":
        run.start()
        run.end()
    before = kinds(session)

    with pytest.raises(treering.errors.RunClosed) as refused:
        attempt(run)

    assert refused.value.hint
    assert kinds(session) == before


@pytest.mark.parametrize("end", ["end", "fail", "interrupt"])
def test_a_run_that_has_not_started_cannot_be_over(session: Session, end: str) -> None:
    run = session.turn()

    with pytest.raises(treering.errors.RunClosed, match="not started"):
        getattr(run, end)(*(["no"] if end == "fail" else []))

    assert (run.state, kinds(session)) == ("new", [])


def test_a_run_starts_once(session: Session) -> None:
    run = session.turn()
    run.start()

    with pytest.raises(treering.errors.RunClosed) as refused:
        run.start()
    run.end()
    with pytest.raises(treering.errors.RunClosed):
        run.start()
    with pytest.raises(treering.errors.RunClosed), run:
        pass

    assert refused.value.hint
    assert ends(session) == ["run.ended"]


@pytest.mark.parametrize(
    "kind",
    ["run.started", "run.ended", "run.failed", "run.interrupted", "lifecycle.started",
     "lifecycle.ended", "lifecycle.failed"],
)  # fmt: skip
def test_nobody_emits_a_run_s_own_start_and_end(session: Session, kind: str) -> None:
    with session.turn() as run, pytest.raises(treering.InvalidInput) as refused:
        run.emit(kind, {})

    assert refused.value.hint
    assert ends(session) == ["run.ended"]


def test_nothing_is_sent_for_a_run_that_is_over(session: Session) -> None:
    sent: list[str] = []
    with session.turn() as run:
        pass

    with pytest.raises(treering.errors.RunClosed):
        run.deliver("hello", send=sent.append)

    assert sent == []


def test_what_others_append_to_a_run_that_is_over_is_refused(
    ledger: Ledger, session: Session
) -> None:
    with session.turn() as run:
        pass

    with pytest.raises(treering.errors.RunClosed):
        ledger.append([said("too late", session_id="s1", run_id=run.run_id)])

    assert ends(session) == ["run.ended"]


# Failures on the way.


@pytest.mark.parametrize(
    "wrong",
    [
        lambda run: run.emit("no such kind", {}),
        lambda run: run.emit("warning", "no mapping"),
        lambda run: run.tools.started(""),
        lambda run: run.emit("tool.result", {"id": ["c1"]}),
    ],
    ids=["no kind", "no mapping", "no name", "no id"],
)
def test_what_is_refused_leaves_the_run_and_its_numbers_as_they_were(
    session: Session, wrong: Callable[[Run], Any]
) -> None:
    with session.turn() as run:
        run.user("before")
        with pytest.raises(treering.InvalidInput) as refused:
            wrong(run)
        run.user("after")

    assert refused.value.hint
    assert [event.run_seq for event in runs(session)[run.run_id]] == [1, 2, 3, 4]


def test_a_text_over_the_cap_is_shortened_and_marked_and_the_run_goes_on(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as run:
            run.user("x" * SPILL_BYTES_MAX)
            run.user("shorter")

        assert [event.run_seq for event in runs(session)[run.run_id]] == [1, 2, 3, 4]
        kept = next(e.payload for e in session.events() if e.kind == "conversation.user")
        assert kept["text"] == "x" * SHORTENED_CHARACTERS
        (mark,) = kept["converted"]
        assert (mark["at"], mark["as"]) == ("/text", "shortened")


def test_a_run_whose_database_is_gone_keeps_its_state_and_numbers(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    run = session.turn()
    run.start()
    store_of(ledger).close()

    attempts: list[Callable[[], Any]] = [partial(run.user, "x"), run.end, partial(run.fail, "x")]
    for attempt in attempts:
        with pytest.raises(treering.errors.StorageError):
            attempt()

    assert run.is_open
    assert run._run_state._run_seq == 1


def test_a_ledger_that_is_only_read_takes_no_run(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        ledger.append([said("hello")])

    with treering.open(path, mode="ro") as reading:
        run = reading.session("s1", scope=HERE, agent="lyria").turn()
        with pytest.raises(treering.errors.ReadOnly) as refused:
            run.start()

    assert refused.value.hint
    assert run.state == "new"


def test_a_run_that_could_not_start_can_start_later(session: Session) -> None:
    first, second = session.turn(), session.turn()
    first.start()
    with pytest.raises(treering.errors.RunActive):
        second.start()
    first.end()

    with second:
        second.user("now")

    assert ends(session) == ["run.ended", "run.ended"]
    assert [event.run_seq for event in runs(session)[second.run_id]] == [1, 2, 3]


# What is left open.


def test_a_ledger_that_is_closed_interrupts_its_runs_and_their_tools(
    open_shared: Callable[[], Ledger],
) -> None:
    ledger, other = open_shared(), open_shared()
    for name in ("s1", "s2"):
        run = ledger.session(name, scope=HERE, agent="lyria").turn()
        run.start()
        run.tools.started("sleep", call_id="c1")

    ledger.close()

    for name in ("s1", "s2"):
        session = other.session(name, scope=HERE, agent="lyria")
        assert ends(session) == ["run.interrupted"]
        result, end = session.headers(last=2)
        assert (result.refs["status"], result.refs["reason"]) == ("synthetic", "interrupted")
        assert end.refs["reason"] == "closed"
    with pytest.raises(treering.RunInterrupted):
        run.user("too late")


def test_a_block_whose_ledger_was_closed_in_it_says_so(tmp_path: Path) -> None:
    ledger = treering.open(tmp_path / "ledger.db")
    session = ledger.session("s1", scope=HERE, agent="lyria")

    with pytest.raises(treering.RunInterrupted), session.turn():
        ledger.close()


def test_a_process_that_ends_interrupts_its_runs(location: str) -> None:
    script = (
        "import sys, treering\n"
        "ledger = treering.open(sys.argv[1])\n"
        "run = ledger.session('s1', scope='acme/app', agent='lyria').turn()\n"
        "run.start()\n"
        "run.tools.started('sleep')\n"
    )
    run_python(script, location)

    with treering.open(location, mode="ro") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        assert ends(session) == ["run.interrupted"]
        assert [header.refs["reason"] for header in session.headers(last=2)] == [
            "interrupted", "closed",
        ]  # fmt: skip


# Forks.


def test_a_forked_child_neither_writes_to_its_parent_s_run_nor_ends_it(
    open_shared: Callable[[], Ledger],
) -> None:
    session = open_shared().session("s1", scope=HERE, agent="lyria")

    with session.turn() as run, run.tool("fork") as call:

        def trespass() -> None:
            attempts: list[Callable[[], Any]] = [
                lambda: run.user("from the child"),
                lambda: run.delta("from the child"),
                lambda: call.finish("from the child"),
                lambda: run.tools.started("x"),
                run.end,
                lambda: run.fail("from the child"),
            ]
            for attempt in attempts:
                with pytest.raises(treering.errors.RunClosed) as refused:
                    attempt()
                assert refused.value.hint
            for left in (call, run):
                left.__exit__(None, None, None)
                left.__exit__(ValueError, ValueError(), None)
                left.__exit__(SystemExit, SystemExit(), None)

        assert ended_well(in_child(trespass))
        call.finish("from the parent")

    assert kinds(session) == [
        "session.opened", "run.started", "tool.call", "tool.result", "run.ended",
    ]  # fmt: skip
    assert [event.run_seq for event in runs(session)[run.run_id]] == [1, 2, 3, 4]


def test_a_child_is_refused_also_if_a_thread_of_its_parent_was_recording(
    open_shared: Callable[[], Ledger],
) -> None:
    """What that thread held is held for ever in the child."""
    session = open_shared().session("s1", scope=HERE, agent="lyria")
    with session.turn() as run:
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with run._run_state.lock:
                held.set()
                done.wait(PATIENCE_S)

        def trespass() -> None:
            with pytest.raises(treering.errors.RunClosed):
                run.user("from the child")

        holding = threading.Thread(target=hold)
        holding.start()
        held.wait(PATIENCE_S)
        child = in_child(trespass)
        assert ended_well(child)
        done.set()
        holding.join(PATIENCE_S)

    assert ends(session) == ["run.ended"]


def test_a_run_that_was_made_before_a_fork_begins_in_its_own_process_alone(
    open_shared: Callable[[], Ledger],
) -> None:
    session = open_shared().session("s1", scope=HERE, agent="lyria")
    session.open()
    run = session.turn()

    def begin() -> None:
        with pytest.raises(treering.errors.RunClosed):
            run.start()

    assert ended_well(in_child(begin))
    with run:
        pass

    assert ends(session) == ["run.ended"]


def test_a_child_that_closes_its_ledger_leaves_its_parent_s_run_alone_and_ends_its_own(
    open_shared: Callable[[], Ledger],
) -> None:
    ledger = open_shared()
    session = ledger.session("s1", scope=HERE, agent="lyria")

    def close() -> None:
        ledger.session("of the child", scope=HERE, agent="lyria").turn().start()
        ledger.close()

    with session.turn() as run:
        assert ended_well(in_child(close))
        run.user("still here")

    assert ends(session) == ["run.ended"]
    assert ends(ledger.session("of the child", scope=HERE, agent="lyria")) == ["run.interrupted"]


# Gates.


def test_gates_are_asked_once_and_only_for_runs_that_begin(
    ledger: Ledger, session: Session
) -> None:
    keeper = Doorkeeper()
    ledger.spine([keeper])

    with session.turn() as run:
        with pytest.raises(treering.errors.RunActive):
            session.turn(prompt="in vain").start()
        prepared = (run.system_prompt, run.prepend_context)

    assert keeper.asked == [("run", "s1", None)]
    assert prepared == ("Be brief.", "It is Monday.")


def test_a_message_goes_out_and_is_recorded_without_its_text_in_the_safe_part(
    session: Session,
) -> None:
    sent: list[str] = []

    with session.turn() as run:
        receipt = run.deliver("hello", to="u1", by="telegram", media=["a.png"], send=sent.append)

    assert sent == ["hello"]
    assert receipt is not None
    assert receipt.refs == {"deliverer": "telegram", "characters": 5, "media": 1}
    assert "hello" not in receipt.summary


def test_a_message_that_cannot_be_sent_is_told_and_the_error_goes_on(session: Session) -> None:
    def send(_: str) -> None:
        raise ConnectionError("no line")

    with session.turn() as run, pytest.raises(ConnectionError):
        run.deliver("hello", send=send)

    warning = next(header for header in session.headers() if header.kind == "ops.warning")
    assert warning.refs == {"code": "not_delivered", "error_class": "ConnectionError"}
    assert ends(session) == ["run.ended"]
