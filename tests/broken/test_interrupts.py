"""Interrupts: wherever an exception strikes, the ledger stays sound and usable."""

from __future__ import annotations

import gc
import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from psycopg_pool import ConnectionPool

import treering
from broken.injection import LIMIT_S, Steps, in_another_thread, within
from builders import HERE, said
from effort import SEED
from listeners import Listener
from ports import store_of
from treering.errors import Busy, OutcomeUnknown
from treering.garbage import collecting_rarely
from treering.ledger.keyed_records import RecordChange
from treering.spine.ports import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postgres_server import Places
    from treering import Ledger

    Work = Callable[[Ledger, str], object]

SAMPLES_MAX: Final = 8
"""How many lines of each piece of work the short version interrupts."""


LOCKS_MAX: Final = 20
"""How many of the lines that take or release a lock it interrupts."""
BYTECODES_MAX: Final = 5_000
"""How many bytecodes of each piece of work one long run interrupts; the next one takes others."""


def append(ledger: Ledger, name: str) -> None:
    ledger.append([said(event_id=name)])


def append_several(ledger: Ledger, name: str) -> None:
    ledger.append([said(str(n), session_id=f"{name}-{n % 2}") for n in range(4)])


def append_missing(ledger: Ledger, name: str) -> None:
    ledger.importing.append_missing([said(event_id=name, session_id=name)])


def turn(ledger: Ledger, name: str) -> None:
    session = ledger.session(f"turn-{int(name) % 3}", scope=HERE, agent="lyria", user="u1")
    with session.turn() as run:
        run.user("hello")
        with run.tool("git_log", {"n": 1}) as call:
            call.finish("done")
        run.assistant("there")


def start_and_end(ledger: Ledger, name: str) -> None:
    session = ledger.session(f"run-{int(name) % 3}", scope=HERE, agent="lyria", user="u1")
    run = ledger.spine().run(session)
    run.start()
    try:
        call = run.tools.started("git_log")
        call.finish("done")
        run.end()
    except BaseException:
        run.interrupt()
        raise


def append_to_runs(ledger: Ledger, name: str) -> None:
    """Append by hand to a run of this process and to one that nobody carries out."""
    session = ledger.session(f"hand-{int(name) % 3}", scope=HERE, agent="lyria", user="u1")
    with session.turn() as run:
        run.user("hello")
        ledger.append([said(session_id=session.session_id, run_id=run.run_id)])
        run.assistant("there")
    ledger.append([said(session_id="elsewhere", run_id="elsewhere")])


def leases(ledger: Ledger, name: str) -> None:
    store: Any = store_of(ledger)
    store.leases.owner()
    assert store.leases.hold("here")
    assert store.leases.hold("here")
    store.leases.release("here")


def read(ledger: Ledger, name: str) -> None:
    ledger.headers(HERE, first=3)
    next(iter(ledger.session("turn-0", scope=HERE, agent="lyria", user="u1").turns()), None)


def queue(ledger: Ledger, name: str) -> None:
    session = ledger.session(f"queue-{int(name) % 3}", scope=HERE, agent="lyria", mode="queue")
    session.post("hello")
    run = session.take()
    if run is not None:
        with run:
            run.assistant("there")


def learn(ledger: Ledger, name: str) -> None:
    ledger.memory(HERE).learn(f"Keeps tool {name} in the shed", user="ann")


def recall(ledger: Ledger, name: str) -> None:
    ledger.memory(HERE).recall("Which tool is in the shed?", user="ann")


def erase(ledger: Ledger, name: str) -> None:
    [header] = ledger.append([said(session_id="erased")])
    ledger.redact(HERE, event_id=header.event_id)


def erase_many(ledger: Ledger, name: str) -> None:
    session_id = f"erased-{name}"
    ledger.append([said(str(n), session_id=session_id, payload="x" * 5_000) for n in range(3)])
    ledger.redact(HERE, session_id=session_id)


def forget(ledger: Ledger, name: str) -> None:
    user = f"user-{name}"
    ledger.append([said(f"of {user}", session_id=f"of-{user}", user_id=user)])
    ledger.memory(HERE).learn(f"Keeps tool {name} in the shed", user=user)
    ledger.forget(HERE, user=user)


def keep_records(ledger: Ledger, name: str) -> None:
    records = ledger.records(HERE, "kept")
    before = records.get("count")
    kept = records.put("count", name, expected="" if before is None else before.version)
    assert records.put("count", [name], expected=kept.version).version != kept.version
    records.put_all([RecordChange(key=f"{name}/{n}", value=n) for n in range(3)])
    records.erase([f"{name}/0"])
    assert records.keys(f"{name}/") == [f"{name}/1", f"{name}/2"]


def fork(ledger: Ledger, name: str) -> None:
    session = ledger.session(f"forked-{name}", scope=HERE, agent="lyria")
    with session.turn() as run:
        run.user("hello")
    forked = session.fork(f"fork-{name}")
    with forked.turn() as run:
        run.user("hello again")
    assert len(list(forked.turns())) == 2


def follow(ledger: Ledger, name: str) -> None:
    """Have a durable sink follow; what it hands over, it does in its own thread."""
    spine = ledger.spine([Listener(f"durable-{name}", delivery=DURABLE)])
    spine.follow(HERE)
    append(ledger, f"followed-{name}")
    assert spine.flush(LIMIT_S)


WORKS: Final[tuple[Work, ...]] = (
    append, append_several, append_missing, append_to_runs, turn, start_and_end, leases, read,
    queue, learn, recall, erase, erase_many, forget, keep_records, fork, follow,
)  # fmt: skip
REPEATED: Final = {append_to_runs, turn, start_and_end, queue, learn, recall, erase, keep_records}
"""Works that must succeed right after one of them was interrupted."""
DURABLE: Final = Delivery(durable=True, on_error="retry")
ERRORS: Final = (KeyboardInterrupt, SystemExit, TimeoutError)

names = itertools.count(1)


@pytest.fixture(params=["file", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a fresh ledger can be, on either database that processes share."""
    if request.param == "file":
        return str(tmp_path / "ledger.db")
    place: str = request.getfixturevalue("postgres").fresh()
    return place


@pytest.fixture
def ledgers(location: str) -> Iterator[tuple[Ledger, Ledger]]:
    """Return the same ledger, opened twice."""
    with treering.open(location) as one, treering.open(location) as other:
        yield one, other


def steps_of(work: Work, ledger: Ledger, *, bytecodes: bool = False, at_locks: bool = False) -> int:
    """Return how many steps ``work`` takes once all that is done once is done."""
    for _ in range(3):
        steps = Steps(bytecodes=bytecodes, at_locks=at_locks)
        with steps.traced():
            work(ledger, str(next(names)))
    return steps.count


def interrupt(
    work: Work,
    ledger: Ledger,
    at: int,
    error: type[BaseException],
    *,
    bytecodes: bool = False,
    at_locks: bool = False,
) -> Steps:
    """Do ``work`` and raise ``error`` in it; what comes out of it is that error."""
    steps = Steps(error, at=at, bytecodes=bytecodes, at_locks=at_locks)
    try:
        with steps.traced():
            work(ledger, str(next(names)))
    except error as raised:
        assert "injected" in str(raised)  # noqa: PT017  (it may also have gone unnoticed)
    return steps


def check(one: Ledger, other: Ledger) -> None:
    """Assert that this thread, another one and another holder of the file can continue at once."""
    with within():
        append(one, f"after-{next(names)}")
        in_another_thread(lambda: append(one, f"after-{next(names)}"))
        newest = f"after-{next(names)}"
        in_another_thread(lambda: append(other, newest))
        assert one.event(HERE, newest).event_id == newest  # No reader stays in the past.
        store: Any = store_of(other)
        in_another_thread(lambda: store.leases.hold("here") and store.leases.release("here"))


def check_runs(ledger: Ledger) -> None:
    """Assert that every run began once and ended once, gave each number once, and is intact."""
    assert ledger.admin.verify().intact
    kinds: dict[str, list[str]] = {}
    numbers: dict[str, list[int | None]] = {}
    cursor = None
    while True:
        page = ledger.headers(HERE, first=500, after=cursor)
        for header in page.items:
            if header.run_id is not None:
                numbers.setdefault(header.run_id, []).append(header.run_seq)
            if header.run_id is not None and header.kind.startswith("run."):
                kinds.setdefault(header.run_id, []).append(header.kind)
        cursor = page.next_cursor
        if cursor is None:
            break
    for found in kinds.values():
        assert sorted(kind == "run.started" for kind in found) == [False, True]
    for run, given in numbers.items():
        assert len(given) == len(set(given)), run


def hunt(
    work: Work, ledgers: tuple[Ledger, Ledger], error: type[BaseException], *,
    bytecodes: bool = False, at_locks: bool = False, samples: int | None = None,
) -> None:  # fmt: skip
    one, other = ledgers
    total = steps_of(work, one, bytecodes=bytecodes, at_locks=at_locks)
    stride = 1 if samples is None else max(total // samples, 1)
    for at in range(1 + SEED % stride, total + 1, stride):
        steps = interrupt(work, one, at, error, bytecodes=bytecodes, at_locks=at_locks)
        try:
            check(one, other)
            if work in REPEATED:
                with within():
                    work(one, "0"), work(one, "1"), work(one, "2")
                    in_another_thread(lambda: work(one, str(next(names))))
        except BaseException as failure:
            failure.add_note(f"interrupted at {steps.place}, step {at} of {total}")
            raise
    with within():
        one.close()
    check_runs(other)


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_an_interrupt_at_any_line_leaves_a_ledger_that_all_can_use(
    work: Work, ledgers: tuple[Ledger, Ledger]
) -> None:
    hunt(work, ledgers, KeyboardInterrupt, samples=SAMPLES_MAX)


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_an_interrupt_where_a_lock_is_taken_or_released_leaves_a_ledger_that_all_can_use(
    work: Work, ledgers: tuple[Ledger, Ledger]
) -> None:
    hunt(work, ledgers, KeyboardInterrupt, at_locks=True, samples=LOCKS_MAX)


@pytest.mark.long
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_an_interrupt_at_every_line_leaves_a_ledger_that_all_can_use(
    work: Work, ledgers: tuple[Ledger, Ledger], error: type[BaseException]
) -> None:
    hunt(work, ledgers, error)


@pytest.mark.long
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_an_interrupt_at_any_bytecode_leaves_a_ledger_that_all_can_use(
    work: Work, ledgers: tuple[Ledger, Ledger]
) -> None:
    hunt(work, ledgers, KeyboardInterrupt, bytecodes=True, samples=BYTECODES_MAX)


def rarely(ledger: Ledger, name: str) -> None:
    with collecting_rarely():
        pass


def test_an_interrupt_while_garbage_is_looked_for_rarely_leaves_it_to_others(
    tmp_path: Path,
) -> None:
    before = gc.get_threshold()
    with treering.open(tmp_path / "ledger.db") as ledger:
        total = steps_of(rarely, ledger, bytecodes=True)
        for at in range(1, total + 1):
            interrupt(rarely, ledger, at, KeyboardInterrupt, bytecodes=True)
            with within():
                in_another_thread(lambda: rarely(ledger, "other"))
                rarely(ledger, "again")
            assert gc.get_threshold() == before
    assert total > 20


def test_a_turn_whose_end_was_cut_off_does_not_block_the_next(
    ledgers: tuple[Ledger, Ledger],
) -> None:
    session = ledgers[0].session("s1", scope=HERE, agent="lyria", user="u1")
    run = session.turn()
    run.__enter__()  # An interrupt at the first line of __exit__ leaves it so.
    del run

    with session.turn() as after:
        after.user("again")

    check_runs(ledgers[1])


def test_a_connection_that_the_pool_gives_amid_an_interrupt_is_not_lost(
    postgres: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(postgres.fresh()) as ledger:
        store: Any = store_of(ledger)
        given = ConnectionPool.getconn

        def interrupted(pool: ConnectionPool[Any], *asked: Any) -> None:
            given(pool, *asked)
            raise KeyboardInterrupt

        with store._server.lend():  # The spare one.
            append(ledger, "first")
            with monkeypatch.context() as patch:
                patch.setattr(ConnectionPool, "getconn", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    append(ledger, "second")
            append(ledger, "third")
        counts = store._server._pool[1].get_stats()

    assert counts["pool_size"] == counts["pool_available"] == 1


def test_an_interrupt_that_leaves_a_lock_of_the_pool_taken_holds_up_nobody(
    postgres: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    def interrupted(pool: Any, *_: object) -> None:
        taken.append(pool._tasks.mutex)  # As within the pool's own code: it asks for a worker.
        taken[0].acquire()
        raise KeyboardInterrupt

    with treering.open(postgres.fresh()) as ledger:
        store: Any = store_of(ledger)
        with store._server.lend():  # The spare one.
            append(ledger, "first")
            with monkeypatch.context() as patch:
                patch.setattr(ConnectionPool, "getconn", interrupted)
                with pytest.raises(KeyboardInterrupt), within():
                    append(ledger, "second")
            with within():
                append(ledger, "third")
            taken[0].release()
            for thread in threading.enumerate():
                if thread.name == "treering-closer":
                    thread.join(LIMIT_S)


@pytest.mark.parametrize("looking", ["file_guard._place", "keys._stamp", "leases.lock_bytes"])
def test_a_timeout_of_the_caller_amid_a_look_at_files_is_not_taken_for_a_fault_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looking: str
) -> None:
    """A TimeoutError is an OSError, too."""

    def interrupted(*_: object) -> None:
        raise TimeoutError("injected")

    ledger = treering.open(tmp_path / "ledger.db")
    ledger.keys.create(HERE)
    module = "storage.keys" if looking.startswith("keys") else "storage.sqlite"
    with monkeypatch.context() as patched:
        patched.setattr(f"treering.{module}.{looking.removeprefix('keys.')}", interrupted)
        with pytest.raises(TimeoutError, match="injected"):
            turn(ledger, "0")
    turn(ledger, "1")
    ledger.close()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_closing_that_is_interrupted_can_be_done_again(
    location: str, error: type[BaseException]
) -> None:
    with treering.open(location) as other:
        steps = Steps()
        first = treering.open(location)
        turn(first, "0")
        with steps.traced():
            first.close()
        for at in range(1, steps.count + 1, max(steps.count // 5, 1)):
            ledger = treering.open(location)
            session = ledger.session(f"closed-{at}", scope=HERE, agent="lyria")
            run = session.turn()
            run.start()
            interrupt(lambda one, _: one.close(), ledger, at, error)
            with within():
                ledger.close()
                in_another_thread(lambda: append(other, f"closed-{next(names)}"))
                with other.session(f"closed-{at}", scope=HERE, agent="lyria").turn() as again:
                    again.user("hello")
        check_runs(other)


def test_followers_of_a_leader_that_is_interrupted_get_their_result_or_an_error(
    tmp_path: Path,
) -> None:
    outcomes: list[str] = []
    unknown: list[bool] = []
    with treering.open(tmp_path / "ledger.db") as ledger:
        total = steps_of(append, ledger)

        def follow(text: str, ready: threading.Barrier) -> None:
            ready.wait(LIMIT_S)
            for n in range(5):
                try:
                    header = ledger.append([said(event_id=f"{text}-{n}")])[0]
                    outcomes.append(header.event_id)
                except OutcomeUnknown as error:
                    # To append it again tells.
                    unknown.append(error.event_ids == (f"{text}-{n}",))
                    outcomes.append(ledger.append([said(event_id=f"{text}-{n}")])[0].event_id)

        for at in range(1, total + 1, max(total // 10, 1)):
            ready = threading.Barrier(4)
            followers = [
                threading.Thread(target=follow, args=(f"{at}-{n}", ready), daemon=True)
                for n in range(3)
            ]
            for follower in followers:
                follower.start()
            ready.wait(LIMIT_S)
            interrupt(append, ledger, at, KeyboardInterrupt)
            for follower in followers:
                follower.join(LIMIT_S)
                assert not follower.is_alive()
        assert all(unknown)
        kept = {header.event_id for header in ledger.headers(HERE, first=1_000).items}
        assert kept.issuperset(outcomes)
        assert len(outcomes) == len(set(outcomes)) == 15 * len(range(1, total + 1, total // 10))
        assert ledger.admin.verify().intact


def test_one_who_leads_and_leaves_without_a_word_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Even if it is interrupted again while it cleans up."""
    with treering.open(tmp_path / "ledger.db") as ledger:
        append(ledger, "first")
        store: Any = store_of(ledger)

        def leave() -> None:
            # What is left when every step of the cleaning up is interrupted as well.
            store._commits._leading.take()
            store._database.lock.take()
            store._database.write_lock.enter()
            store._database.writer().execute("BEGIN IMMEDIATE")

        leave()
        in_another_thread(lambda: append(ledger, "another thread"))
        leave()
        with within():
            append(ledger, "the same thread")
            ledger.close()
    with treering.open(tmp_path / "ledger.db") as again:
        assert again.admin.verify().intact


def test_a_signal_handler_that_appends_amid_an_append_is_refused(tmp_path: Path) -> None:
    refused: list[Busy] = []

    def handle(*_: object) -> None:
        try:
            append(ledger, "second")
        except Busy as error:
            refused.append(error)

    with treering.open(tmp_path / "ledger.db") as ledger:
        append(ledger, "first")
        store: Any = store_of(ledger)
        store._database.writer().set_update_hook(lambda *_: signal.raise_signal(signal.SIGUSR1))
        before = signal.signal(signal.SIGUSR1, handle)
        try:
            with within():
                append(ledger, "third")
        finally:
            signal.signal(signal.SIGUSR1, before)
            store._database.writer().set_update_hook(None)
        append(ledger, "fourth")
        ids = [header.event_id for header in ledger.headers(HERE).items]
    assert refused
    assert ids == ["first", "third", "fourth"]


AGENT: Final = """
import signal, sys
import treering

signal.signal(signal.SIGINT, signal.default_int_handler)
ledger = None
count = interrupts = 0
while True:
    try:
        if ledger is None:
            ledger = treering.open(sys.argv[1])
            print("ready", flush=True)
        if interrupts >= int(sys.argv[2]):
            break
        session = ledger.session(f"agent-{count % 5}", scope="acme/app", agent="lyria", user="u1")
        with session.turn() as run:
            run.user("hello")
            with run.tool("git_log", {"n": 1}) as call:
                call.finish("done")
            run.assistant("there")
        count += 1
    except KeyboardInterrupt:
        interrupts += 1
signal.signal(signal.SIGINT, signal.SIG_IGN)
ledger.close()
print("over", interrupts, flush=True)
"""


@pytest.mark.long
def test_an_agent_that_is_interrupted_all_the_time_goes_on_and_locks_nobody_out(
    location: str,
) -> None:
    """With real signals, which reach into the libraries below us, too."""
    pauses = random.Random(7)
    with (
        treering.open(location) as other,
        subprocess.Popen(
            [sys.executable, "-c", AGENT, location, "300"], stdout=subprocess.PIPE, text=True
        ) as agent,
    ):
        try:
            assert agent.stdout is not None
            assert agent.stdout.readline() == "ready\n"
            deadline = time.monotonic() + 240
            while agent.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(pauses.uniform(0.001, 0.05))
                agent.send_signal(signal.SIGINT)
                if pauses.random() < 0.1:
                    in_another_thread(lambda: append(other, f"other-{next(names)}"))
            said_last = agent.stdout.read().split()
        finally:
            agent.kill()
        assert agent.returncode == 0
        assert said_last[0] == "over"
        assert int(said_last[1]) > 0
        check_runs(other)
