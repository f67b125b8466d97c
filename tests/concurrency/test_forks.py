"""A ledger that was opened before a fork works on both sides of it."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
import warnings
from typing import TYPE_CHECKING

import pytest

from broken.ledgers import SCOPE, open_ledger, said
from broken.stories import NAME
from children import run_python
from concurrency.processes import (
    Colleague,
    check_order,
    ended_well,
    in_child,
    write_in_threads,
    write_own,
)
from effort import PATIENCE_S
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering.ledger.ledger import Ledger

FORKS = 20

_forking = multiprocessing.get_context("fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / NAME


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with open_ledger(path) as ledger:
        yield ledger


def test_parent_and_child_both_write(ledger: Ledger) -> None:
    ledger.append([said("before")])
    children = [in_child(lambda: write_own(ledger, "child", 20)) for _ in range(2)]
    write_own(ledger, "parent", 20)

    assert all(ended_well(child) for child in children)
    write_own(ledger, "parent afterwards", 5)
    assert check_order(ledger) == 66


def test_a_child_of_multiprocessing_writes(ledger: Ledger) -> None:
    ledger.append([said("before")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = _forking.Process(target=write_own, args=(ledger, "child", 10))
        process.start()
    write_own(ledger, "parent", 10)
    process.join(PATIENCE_S)

    assert process.exitcode == 0
    assert check_order(ledger) == 21


def test_a_grandchild_writes(ledger: Ledger) -> None:
    def have_child() -> None:
        write_own(ledger, "child", 3)
        assert ended_well(in_child(lambda: write_own(ledger, "grandchild", 3)))
        write_own(ledger, "child", 3)

    assert ended_well(in_child(have_child))
    assert check_order(ledger) == 9


def test_forks_amid_appending_following_and_verifying_threads_end_and_break_nothing(
    path: Path, ledger: Ledger
) -> None:
    stop = threading.Event()
    written = [0, 0]
    outsider = Colleague(write_in_threads, path, 1, 100, 0)

    def write(number: int) -> None:
        while not stop.is_set():
            ledger.append([said("x", session_id=f"thread-{number}")])
            written[number] += 1

    def read() -> None:
        while not stop.is_set():
            assert ledger.admin.verify(SCOPE).intact
            ledger.headers(SCOPE, last=20)

    def follow() -> None:
        for _ in ledger.follow(SCOPE, stop=stop):
            pass

    threads = [
        *(threading.Thread(target=write, args=(number,)) for number in range(2)),
        threading.Thread(target=read),
        threading.Thread(target=follow),
    ]
    for thread in threads:
        thread.start()
    outsider.hear()
    outsider.tell("go")
    try:
        children = [in_child(lambda: _write_and_read(ledger, 3)) for _ in range(FORKS)]
        ended = [ended_well(child) for child in children]
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    outsider.hear()
    outsider.join()

    assert ended == [True] * FORKS
    assert check_order(ledger) == sum(written) + 3 * FORKS + 100


def test_threads_that_fork_at_the_same_time_do_not_lock_each_other_out(ledger: Ledger) -> None:
    outcomes: list[bool] = []

    def fork() -> None:
        children = (in_child(lambda: write_own(ledger, "child", 1)) for _ in range(5))
        outcomes.extend(map(ended_well, children))

    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert outcomes == [True] * 15
    assert check_order(ledger) == 15


def test_a_child_closes_its_ledger_while_a_thread_of_its_parent_remembers(ledger: Ledger) -> None:
    ledger.memory(SCOPE).learn("Bakes rye bread", user="ann")
    held = ledger._memory_factory.scope_memories.of(Scope(SCOPE))
    is_held, is_done = threading.Event(), threading.Event()

    def remember() -> None:
        with held.lock:
            is_held.set()
            is_done.wait(PATIENCE_S)

    def close() -> None:
        signal.alarm(int(PATIENCE_S))
        ledger.close()

    thread = threading.Thread(target=remember)
    thread.start()
    try:
        assert is_held.wait(PATIENCE_S)
        assert ended_well(in_child(close))
    finally:
        is_done.set()
        thread.join(PATIENCE_S)


def test_a_child_that_ends_as_programs_do_leaves_the_parent_its_ledger(path: Path) -> None:
    script = """
import os, sys, treering
ledger = treering.open(sys.argv[1])
event = lambda text: treering.NewEvent(scope="acme/app", session_id="s1", kind="ops.decision",
                                       agent_id="a", summary=text)
ledger.append([event("before")])
child = os.fork()
ledger.append([event("child" if not child else "parent")])
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.append([event("after")])
    ledger.close()
"""
    run_python(script, path)

    with open_ledger(path) as ledger:
        assert check_order(ledger) == 4


def test_a_ledger_in_memory_goes_its_own_way_on_each_side() -> None:
    with open_ledger(":memory:") as ledger:
        ledger.append([said("before")])
        child = in_child(lambda: write_own(ledger, "child", 5))

        assert ended_well(child)
        assert ledger.admin.verify().events == 1


def _write_and_read(ledger: Ledger, count: int) -> None:
    name = f"child at {time.monotonic_ns()}"
    write_own(ledger, name, count)
    session = ledger.session(name, scope=SCOPE, agent="a")
    assert [header.seq for header in session.headers()] == list(range(1, count + 1))
