"""The ledger in coroutines: ordered, complete when cancelled, and no loop waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, assert_type

import pytest

import make_aio_types
import treering
from builders import ELSEWHERE, HERE, said
from children import Child
from effort import PATIENCE_S
from treering import Run, aio
from treering.errors import Closed, NotFound
from treering.ledger.keyed_records import KeyedRecord
from treering.model.events import Header
from treering.spine.off_loop import THREADS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, for a limited time."""
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def test_the_calls_of_a_ledger_have_the_same_names(tmp_path: Path) -> None:
    async def work() -> None:
        async with aio.open(tmp_path / "a.db") as ledger:
            session = ledger.session("s1", scope=HERE, agent="lyria")
            async with session.turn() as turn:
                await turn.user("How many?")
                async with turn.tool("count", {"n": 1}) as call:
                    assert_type(call, aio.AsyncToolCall)
                    await call.finish(["one", "two"])
                header = await turn.assistant("Two.")
                assert_type(header, Header)
                assert header.run_id == turn.run_id
            assert_type(session, aio.AsyncSession)
            assert_type(session.session_id, str)
            assert_type(turn, aio.AsyncRun)
            kinds = [event.kind async for event in session.events(kinds=["tool.*"])]
            assert kinds == ["tool.call", "tool.result"]
            assert (await session.history(last=1))[0]["content"] == "Two."
            assert (await session.settings).mode == "main"
            records = ledger.records(HERE, "n")
            put = await records.put("k", 1)
            assert_type(put, KeyedRecord)
            assert_type(records, aio.AsyncKeyedRecords)
            assert await records.get("k") == put
            await ledger.memory(HERE).learn("Lives in Porto", user="ann")
            assert len((await ledger.memory(HERE).facts()).items) == 1
            assert (await ledger.admin.verify()).intact
            with pytest.raises(NotFound):
                await ledger.event(HERE, "unknown")
            with pytest.raises(AttributeError):
                ledger.no_such_call  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(Closed):
            await ledger.scopes()

    run(work())


def test_the_types_of_calls_are_those_of_the_ledger() -> None:
    stub = make_aio_types.STUB.read_text(encoding="utf-8")
    assert stub == make_aio_types.made(), "run scripts/make_aio_types.py"
    # A class that the types name can be imported.
    assert {name for name in vars(aio) if name.startswith("Async")} == {
        *make_aio_types.NAMES.values(), "AsyncItems", "AsyncObject",
    }  # fmt: skip


def test_what_one_session_is_told_is_recorded_in_order_and_with_its_context(tmp_path: Path) -> None:
    async def say(session: aio.AsyncSession, name: str) -> None:
        WHO.set(name)
        for n in range(20):
            await session.record("ops.observation", f"{name}{n}")

    async def work() -> None:
        async with aio.open(tmp_path / "a.db", durability="normal") as ledger:
            session = ledger.session("s1", scope=HERE, agent="lyria")
            calls = [session.record("ops.observation", f"n{n}") for n in range(50)]
            await asyncio.gather(*calls)
            seen = [one.summary async for one in session.headers(kinds=["ops.observation"])]
            assert seen == [f"n{n}" for n in range(50)]
            await asyncio.gather(*(say(session, name) for name in "abc"))
            told = [one.summary async for one in session.headers(last=60)]
            for name in "abc":
                assert [one for one in told if one[0] == name] == [f"{name}{n}" for n in range(20)]

    run(work())


def test_context_variables_are_those_of_the_caller() -> None:
    async def work() -> None:
        lanes = aio.Lanes()
        WHO.set("mina")
        assert await lanes.run("lane", WHO.get) == "mina"
        assert threading.current_thread() is not await lanes.run("lane", threading.current_thread)
        lanes.close()

    run(work())


def test_a_call_that_has_begun_is_completed_and_one_that_waits_is_withdrawn() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def slow(name: str) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        done.append(name)

    async def work() -> None:
        lanes = aio.Lanes()
        first = asyncio.ensure_future(lanes.run("lane", slow, "first"))
        second = asyncio.ensure_future(lanes.run("lane", done.append, "second"))
        other = await lanes.run("other lane", begun.wait, PATIENCE_S)
        assert other
        second.cancel()
        first.cancel()
        await asyncio.wait([second])
        assert not first.done()
        go_on.set()
        await asyncio.wait([first])
        assert first.cancelled()
        assert second.cancelled()
        await lanes.run("lane", done.append, "third")
        assert done == ["first", "third"]
        lanes.close()

    run(work())


async def endless_turn(session: aio.AsyncSession, started: asyncio.Event) -> None:
    """Begin a turn, which only a cancellation ends."""
    async with session.turn() as turn:
        await turn.user("Tell me everything")
        started.set()
        await asyncio.Event().wait()


def test_a_turn_that_is_cancelled_is_recorded_as_interrupted(tmp_path: Path) -> None:
    async def work() -> None:
        async with aio.open(tmp_path / "a.db") as ledger:
            session, started = ledger.session("s1", scope=HERE, agent="lyria"), asyncio.Event()
            task = asyncio.ensure_future(endless_turn(session, started))
            await started.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert [one.kind async for one in session.headers(last=1)] == ["run.interrupted"]

    run(work())


def test_a_turn_whose_end_waits_ends_although_it_is_cancelled_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with aio.open(tmp_path / "a.db") as ledger:
            session, started = ledger.session("s1", scope=HERE, agent="lyria"), asyncio.Event()
            task = asyncio.ensure_future(endless_turn(session, started))
            await started.wait()
            go = threading.Event()
            others = [
                asyncio.ensure_future(ledger.lanes.run(None, go.wait)) for _ in range(THREADS_MAX)
            ]
            for _ in range(3):
                await asyncio.sleep(0)
                task.cancel()
            go.set()
            await asyncio.wait([task, *others])
            assert task.cancelled()
            assert [one.kind async for one in session.headers(last=1)] == ["run.interrupted"]

    run(work())


def begin_late(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Have runs begin late: the first event says that one is about to, the second lets it."""
    begins, go = threading.Event(), threading.Event()
    start = Run.start

    def start_late(run: Run) -> Header:
        begins.set()
        go.wait(PATIENCE_S)
        return start(run)

    monkeypatch.setattr(Run, "start", start_late)
    return begins, go


def test_a_turn_that_is_cancelled_while_it_begins_is_not_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, go = begin_late(monkeypatch)

    async def turn_of(session: aio.AsyncSession) -> None:
        async with session.turn():
            raise AssertionError

    async def work() -> None:
        async with aio.open(tmp_path / "a.db") as ledger:
            session = ledger.session("s1", scope=HERE, agent="lyria")
            task = asyncio.ensure_future(turn_of(session))
            await asyncio.to_thread(begins.wait, PATIENCE_S)
            task.cancel()
            go.set()
            await asyncio.wait([task])
            assert task.cancelled()
            kinds = [one.kind async for one in session.headers()]
            assert kinds == ["session.opened", "run.started", "run.interrupted"]

    run(work())


def test_a_turn_that_begins_as_its_loop_is_closed_is_not_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, go = begin_late(monkeypatch)

    opened: list[aio.AsyncLedger] = []
    loop, started = asyncio.new_event_loop(), asyncio.Event()
    coroutine = left_open(tmp_path / "a.db", opened, started)
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.to_thread(begins.wait, PATIENCE_S))
    loop.close()

    coroutine.close()  # As who collects garbage does.
    go.set()

    opened[0].lanes.close()
    kinds = [header.kind for header in opened[0].sync.headers(HERE).items]
    assert kinds == ["session.opened", "run.started", "run.interrupted"]
    assert not task.done()
    opened[0].sync.close()


async def opened_turn(path: Path, opened: list[aio.AsyncLedger], started: asyncio.Event) -> None:
    async with aio.open(path) as ledger:
        opened.append(ledger)
        await endless_turn(ledger.session("s1", scope=HERE, agent="lyria"), started)


async def left_open(path: Path, opened: list[aio.AsyncLedger], started: asyncio.Event) -> None:
    opened.append(await aio.open(path))
    await endless_turn(opened[0].session("s1", scope=HERE, agent="lyria"), started)


async def closed_at_last(path: Path, opened: list[aio.AsyncLedger], started: asyncio.Event) -> None:
    opened.append(await aio.open(path))
    try:
        await endless_turn(opened[0].session("s1", scope=HERE, agent="lyria"), started)
    finally:
        await opened[0].close()


def in_another_loop(act: Callable[[], None]) -> None:
    """Call ``act`` while another loop runs than the one that was closed."""

    async def work() -> None:
        act()

    run(work())


@pytest.mark.parametrize("where", [lambda act: act(), in_another_loop], ids=["no loop", "another"])
@pytest.mark.parametrize("work", [opened_turn, left_open, closed_at_last])
def test_a_turn_ends_although_its_loop_is_closed_under_it(
    tmp_path: Path, work: Any, where: Callable[[Callable[[], None]], None]
) -> None:
    opened: list[aio.AsyncLedger] = []
    loop, started = asyncio.new_event_loop(), asyncio.Event()
    coroutine = work(tmp_path / "a.db", opened, started)
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.wait_for(started.wait(), PATIENCE_S))
    loop.close()

    where(coroutine.close)  # As who collects garbage does.

    with treering.open(tmp_path / "a.db") as ledger:
        with ledger.session("s1", scope=HERE, agent="lyria").turn(wait_s=PATIENCE_S):
            headers = ledger.headers(HERE).items
        assert [header.kind for header in headers[-2:]] == ["run.interrupted", "run.started"]
        assert headers[-2].summary == "run interrupted: GeneratorExit"
    assert not task.done()
    opened[0].lanes.close()
    opened[0].sync.close()


def test_a_turn_and_its_ledger_have_ended_once_another_loop_has_left_them(tmp_path: Path) -> None:
    opening, entered = aio.open(tmp_path / "a.db"), contextlib.AsyncExitStack()

    async def enter() -> None:
        ledger = await entered.enter_async_context(opening)
        turn = ledger.session("s1", scope=HERE, agent="lyria").turn()
        entered.push_async_callback(look, ledger.sync)
        await entered.enter_async_context(turn)

    async def look(ledger: treering.Ledger) -> None:
        assert ledger.headers(HERE).items[-1].kind == "run.ended"
        left.append(ledger)

    left: list[treering.Ledger] = []
    run(enter())
    run(entered.aclose())

    with pytest.raises(Closed):
        left[0].headers(HERE)


@pytest.mark.parametrize("is_closing", [False, True])
def test_a_follower_ends_although_its_loop_is_closed_under_it(
    tmp_path: Path, *, is_closing: bool
) -> None:
    async def follow() -> None:
        opened.append(await aio.open(tmp_path / "a.db"))
        await opened[0].append([said("hello")])
        items = opened[0].follow(HERE, stop=stop)
        async with contextlib.aclosing(items) if is_closing else contextlib.nullcontext():
            async for _ in items:
                heard.set()

    opened: list[aio.AsyncLedger] = []
    loop, heard, stop = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    coroutine = follow()
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.wait_for(heard.wait(), PATIENCE_S))
    loop.close()

    coroutine.close()  # As who collects garbage does.

    assert stop.is_set()
    assert not task.done()
    opened[0].sync.close()
    opened[0].lanes.close()


def test_a_follower_hears_of_events_and_ends_when_its_task_does(tmp_path: Path) -> None:
    heard: list[str] = []

    async def follow(ledger: aio.AsyncLedger, all_heard: asyncio.Event) -> None:
        async for header in ledger.follow(HERE):
            heard.append(header.summary)
            if len(heard) == 3:
                all_heard.set()

    async def work() -> None:
        async with aio.open(tmp_path / "a.db") as ledger:
            all_heard = asyncio.Event()
            task = asyncio.ensure_future(follow(ledger, all_heard))
            for n in range(3):
                await ledger.append([said(f"n{n}")])
            await all_heard.wait()
            task.cancel()
            await asyncio.wait([task])
            assert heard == ["n0", "n1", "n2"]

    run(work())


def test_neither_calls_nor_the_end_of_a_ledger_wait_for_followers(tmp_path: Path) -> None:
    async def work() -> None:
        ledger = await aio.open(tmp_path / "a.db")
        followers = [ledger.follow(HERE) for _ in range(THREADS_MAX)]
        waiting = [asyncio.ensure_future(anext(follower)) for follower in followers]
        await asyncio.sleep(0)  # All of them begin.

        await ledger.append([said("hi", scope=ELSEWHERE)])
        await ledger.close()

        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(end) for end in ends} == {Closed}
        await followers[0].aclose()

    run(work())


LEFT: Final = """
import asyncio, sys
from treering import Run, aio

async def follow():
    async for _ in ledger.follow("a/b"):
        pass

loop = asyncio.new_event_loop()
ledger = loop.run_until_complete(aio.open(sys.argv[1])._open())
task = loop.create_task(follow())
loop.run_until_complete(asyncio.sleep(0.05))
"""


FORKED: Final = """
import asyncio, os, signal, sys
from treering import NewEvent, aio

def run(work):
    return asyncio.new_event_loop().run_until_complete(work)

async def begin():
    ledger = await aio.open(sys.argv[1])
    said = NewEvent(
        scope="a/b", session_id="s1", kind="conversation.user", agent_id="lyria", summary="hello"
    )
    await ledger.append([said, said])
    follower = ledger.follow("a/b")
    return follower, await anext(follower)

async def read_on():
    return await anext(follower)

follower, first = run(begin())
if child := os.fork():
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(status or run(read_on()).seq != 2)
signal.alarm(int(sys.argv[2]))
os._exit(run(read_on()).seq != 2)
"""


def test_a_follower_goes_on_in_a_forked_process_as_in_its_parent(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", FORKED, str(tmp_path / "a.db"), str(int(PATIENCE_S))]
    with Child(arguments, stderr=subprocess.DEVNULL) as forked:
        assert forked.wait(2 * PATIENCE_S) == 0


def test_a_process_that_leaves_its_loop_and_a_follower_ends(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", LEFT, str(tmp_path / "a.db")]
    with Child(arguments, stderr=subprocess.DEVNULL) as left:
        assert left.wait(PATIENCE_S) == 0


def test_the_loop_goes_on_while_the_ledger_waits(tmp_path: Path) -> None:
    async def work() -> None:
        async with aio.open(tmp_path / "a.db") as ledger:
            session = ledger.session("s1", scope=HERE, agent="lyria")
            async with session.turn():
                # The second turn waits for the first: only a loop that continues can end it.
                second = asyncio.ensure_future(session.turn(wait_s=PATIENCE_S).start())
                await ledger.append([said("elsewhere", session_id="s2")])
                assert not second.done()
            await second

    run(work())
