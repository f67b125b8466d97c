"""What processes hold: theirs as long as they live, and free as soon as they do not."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import treering
from children import run_python
from concurrency.processes import Colleague, colleagues, ended_well, in_child
from ports import store_of
from postgres_writers import until
from threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from treering.ledger.ports import EventStore

RIVALS = 5


@pytest.fixture
def store(location: str) -> Iterator[EventStore]:
    with treering.open(location) as ledger:
        yield store_of(ledger)


def obey(pipe: Connection, location: str, _: int = 0) -> None:
    """Do with a store of one's own what is asked, and tell what comes of it."""
    store: Any = store_of(treering.open(location))
    pipe.send(store.leases.owner())
    while (asked := pipe.recv()) is not None:
        word, *values = asked
        if word == "fork":
            pipe.send(in_child(signal.pause))
        else:
            pipe.send(getattr(store.leases, word)(*values))


def ask(colleague: Colleague, *words: object) -> Any:
    colleague.tell(words)
    return colleague.hear()


def send_signal(colleague: Colleague, number: signal.Signals) -> None:
    process = colleague._process.pid
    assert process is not None
    os.kill(process, number)


def stopped(colleague: Colleague) -> None:
    """Stop a process, and return once it stands still."""
    send_signal(colleague, signal.SIGSTOP)
    process = colleague._process.pid
    assert process is not None
    os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOWAIT)


# As long as they live.


def test_a_killed_process_is_gone_and_holds_nothing(location: str, store: EventStore) -> None:
    with colleagues(1, obey, location) as (other,):
        owner = other.hear()
        assert ask(other, "hold", "sink")
        before = store.leases.is_gone(owner, 0), store.leases.hold("sink")

        other.kill()

        assert (before, store.leases.is_gone(owner, 0)) == ((False, False), True)
        assert becomes_ours(store, "sink")


def becomes_ours(store: EventStore, name: str) -> bool:
    """Whether a name can be held once a server has noticed that its holder is dead."""
    return any(store.leases.hold(name) for _ in range(10_000))


def test_a_process_that_was_stopped_is_not_gone(location: str, store: EventStore) -> None:
    with colleagues(1, obey, location, are_our_children=True) as (other,):
        owner = other.hear()
        assert ask(other, "hold", "sink")

        stopped(other)
        told = store.leases.is_gone(owner, 0), store.leases.hold("sink")
        send_signal(other, signal.SIGCONT)

        assert told == (False, False)
        assert ask(other, "owner") == owner


def test_a_process_that_has_died_and_was_not_buried_is_gone(
    location: str, store: EventStore
) -> None:
    with colleagues(1, obey, location, are_our_children=True) as (other,):
        owner, process = other.hear(), other._process.pid
        assert process is not None

        send_signal(other, signal.SIGKILL)
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)

        assert store.leases.is_gone(owner, 0)


def test_of_those_who_compete_one_holds_a_name_and_the_next_takes_over(location: str) -> None:
    treering.open(location).close()
    with colleagues(RIVALS, obey, location) as rivals:
        left = list(rivals)
        for rival in left:
            rival.hear()
        while left:
            for rival in left:
                rival.tell(("hold", "sink"))
            answers = [rival.hear() for rival in left]
            winners = [rival for rival, held in zip(left, answers, strict=True) if held]
            assert len(winners) <= 1
            for winner in winners:
                left.remove(winner)
                winner.kill()


def test_whoever_looks_hinders_nobody(location: str, store: EventStore) -> None:
    """Those who look at the same time tell the same, and those who take get what is free."""
    with colleagues(2, obey, location) as (dead, other):
        gone, living = dead.hear(), other.hear()
        dead.kill()
        told: list[tuple[bool, bool]] = []

        def look() -> None:
            told.extend(
                (store.leases.is_gone(gone, 0), store.leases.is_gone(living, 0)) for _ in range(50)
            )

        def take() -> None:
            for number in range(50):
                other.tell(("hold", f"sink {number}"))
                assert other.hear()

        in_threads(look, look, take)

    assert set(told) == {(True, False)}


# Forks.


def test_a_child_has_a_name_of_its_own_and_its_parent_keeps_what_it_holds(
    location: str, store: EventStore
) -> None:
    owner = store.leases.owner()
    assert store.leases.hold("sink")
    reading, writing = os.pipe()

    def be_a_child() -> None:
        assert not store.leases.is_gone(owner, 0)
        assert not store.leases.hold("sink")
        assert store.leases.hold("a sink of mine")
        assert store.leases.owner() not in {owner, ""}
        os.write(writing, store.leases.owner().encode())

    assert ended_well(in_child(be_a_child))
    child = os.read(reading, 1_000).decode()
    os.close(reading)
    os.close(writing)

    assert store.leases.is_gone(child, 0)
    assert (store.leases.owner(), store.leases.hold("sink")) == (owner, True)
    assert told_by_another(location, owner, "sink") == (False, False)


def test_a_child_that_closes_its_store_lets_go_of_nothing(location: str, store: EventStore) -> None:
    owner = store.leases.owner()
    assert store.leases.hold("sink")

    assert ended_well(in_child(store.close))

    assert told_by_another(location, owner, "sink") == (False, False)


def test_a_parent_that_was_killed_is_gone_although_its_child_lives(
    location: str, store: EventStore
) -> None:
    with colleagues(1, obey, location) as (parent,):
        owner = parent.hear()
        child = ask(parent, "fork")
        try:
            parent.kill()

            # The child may not have come to close what it inherited.
            until(lambda: store.leases.is_gone(owner, 0))
        finally:
            os.kill(child, signal.SIGKILL)


def test_forks_amid_taking_and_letting_go_lock_nobody_out(location: str, store: EventStore) -> None:
    children: list[int] = []

    def hold(name: str) -> None:
        for _ in range(30):
            assert store.leases.hold(name)
            assert not store.leases.is_gone(store.leases.owner(), 0)
            store.leases.release(name)

    def work_as_a_child() -> None:
        assert store.leases.hold(f"child {os.getpid()}")
        store.leases.owner()

    def fork() -> None:
        children.extend(in_child(work_as_a_child) for _ in range(10))

    in_threads(partial(hold, "a"), partial(hold, "b"), fork)

    assert [ended_well(child) for child in children] == [True] * 10


# Several stores in one process.


def test_closing_a_store_lets_go_of_nothing_that_another_holds(
    location: str, store: EventStore
) -> None:
    """A kernel drops all locks of a process when it closes any descriptor of a file."""
    owner = store.leases.owner()
    assert store.leases.hold("sink")

    for _ in range(2):
        with treering.open(location) as other:
            store_of(other).leases.owner()
            assert store_of(other).leases.hold("another")
            assert not store_of(other).leases.hold("sink")
    with treering.open(location, mode="ro") as reading:
        assert not store_of(reading).leases.is_gone(owner, 0)

    assert told_by_another(location, owner, "sink") == (False, False)
    assert told_by_another(location, owner, "another") == (False, True)


def told_by_another(location: str, owner: str, name: str) -> tuple[bool, bool]:
    """Return whether another process finds ``owner`` gone, and whether it can hold ``name``."""
    with colleagues(1, obey, location) as (other,):
        other.hear()
        return ask(other, "is_gone", owner, 0), ask(other, "hold", name)


# The file of leases.


@pytest.fixture
def own(path: Path) -> Iterator[EventStore]:
    with treering.open(path) as ledger:
        yield store_of(ledger)


def leases(path: Path) -> Path:
    return Path(f"{path}.leases")


def test_the_file_of_leases_is_its_owners_alone_and_made_when_something_is_held(
    path: Path, own: EventStore
) -> None:
    before = leases(path).exists()

    own.leases.owner()

    assert (before, leases(path).stat().st_mode & 0o777) == (False, 0o600)


def test_who_reads_the_file_of_leases_in_the_same_process_drops_nothing(
    path: Path, own: EventStore
) -> None:
    """A backup may copy all files of a folder."""
    owner = own.leases.owner()

    leases(path).read_bytes()

    if sys.platform != "linux":  # The locks of other kernels are dropped, until the next use.
        own.owner()
    assert told_by_another(str(path), owner, "sink")[0] is False


@pytest.mark.parametrize("then", ["removed", "remade"])
def test_who_lives_is_not_gone_when_the_file_of_leases_is_removed(
    path: Path, own: EventStore, then: str
) -> None:
    owner = own.leases.owner()
    assert own.leases.hold("sink")
    leases(path).unlink()
    if then == "remade":
        leases(path).touch(0o600)

    before = told_by_another(str(path), owner, "another")[0]
    assert own.leases.owner() == owner

    assert (before, told_by_another(str(path), owner, "sink")) == (False, (False, False))


def test_who_has_died_is_gone_when_the_file_of_leases_is_removed(
    path: Path, own: EventStore
) -> None:
    with colleagues(1, obey, str(path)) as (other,):
        owner = other.hear()
        other.kill()
    leases(path).unlink()

    assert own.leases.is_gone(owner, 0)


def test_a_ledger_is_the_same_under_another_name(path: Path, own: EventStore) -> None:
    owner = own.leases.owner()
    assert own.leases.hold("sink")
    link = path.with_name("link.db")
    link.symlink_to(path)

    assert told_by_another(str(link), owner, "sink") == (False, False)


def test_no_descriptor_is_left_open(path: Path) -> None:
    treering.open(path).close()
    before = open_files(leases(path))

    with treering.open(path) as ledger:
        store_of(ledger).leases.owner()
        store_of(ledger).leases.hold("sink")
        held = open_files(leases(path))

    assert (before, held, open_files(leases(path))) == (0, 1, 0)


def open_files(path: Path) -> int:
    """Return how many descriptors of a file this process has."""
    if not path.exists():
        return 0
    found = 0
    for descriptor in range(1_024):
        with contextlib.suppress(OSError):
            found += os.path.samestat(os.fstat(descriptor), path.stat())
    return found


def test_a_folder_that_takes_no_file_is_named(path: Path, own: EventStore) -> None:
    leases(path).mkdir()

    with pytest.raises(treering.errors.StorageError) as refused:
        own.leases.owner()

    assert refused.value.hint


ENDED = "import sys, treering; print(treering.open(sys.argv[1])._store.leases.owner())"


def test_a_process_that_ended_without_closing_is_gone(location: str, store: EventStore) -> None:
    done = run_python(ENDED, location)

    assert store.leases.is_gone(done.stdout.strip(), 0)


def test_a_process_carries_on_what_it_holds_through_a_long_call(
    location: str, store: EventStore
) -> None:
    """Nothing was heard of it since 1970: a tool may take as long as it likes."""
    with colleagues(1, obey, location) as (other,):
        owner = other.hear()

        assert [store.leases.is_gone(owner, 0) for _ in range(3)] == [False] * 3
