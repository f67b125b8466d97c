"""What a store holds: a name for its process, and names that one store has at a time."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

import treering
from builders import HERE, said
from effort import PATIENCE_S
from ports import store_of
from treering.clock import now_ms
from treering.model.scopes import Scope
from treering.model.views import start_id
from treering.storage.leases import SILENCE_ELSEWHERE_MS, LeaseOwner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering import Ledger
    from treering.ledger.ports import EventStore

ANOTHER_MACHINE = "0123456789ab"


@pytest.fixture
def store(ledger: Ledger) -> EventStore:
    return store_of(ledger)


@pytest.fixture
def open_store(location: str) -> Iterator[Callable[[], EventStore]]:
    """Open stores of one ledger."""
    opened: list[Ledger] = []

    def opening() -> EventStore:
        opened.append(treering.open(location))
        return store_of(opened[-1])

    yield opening
    for ledger in opened:
        ledger.close()


def named(store: EventStore) -> LeaseOwner:
    owner = LeaseOwner.parse(store.leases.owner())
    assert owner is not None
    return owner


def of_another_process(owner: LeaseOwner) -> LeaseOwner:
    """Return a name that a process had which is gone, in the same ledger."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(PATIENCE_S)
    return msgspec.structs.replace(owner, process=done.pid, token="00000000")


# Owners.


def test_a_store_goes_by_one_name(store: EventStore) -> None:
    assert store.leases.owner() == store.leases.owner()


def test_every_store_has_a_name_of_its_own(open_ledger: Callable[[], Ledger]) -> None:
    names = {store_of(open_ledger()).leases.owner() for _ in range(3)}

    assert len(names) == 3


def test_a_name_is_recorded_as_it_is_whatever_the_guard(store: EventStore, ledger: Ledger) -> None:
    """It stands in the id of a run's start, and looks like no secret."""
    start = start_id("r1", store.leases.owner())
    ledger.append([said("start", kind="run.started", run_id="r1", event_id=start)])

    assert [run.owner for run in store.reader.open_runs(Scope(HERE))] == [store.leases.owner()]


def test_who_is_at_work_is_not_gone(store: EventStore) -> None:
    owner = store.leases.owner()

    assert not store.leases.is_gone(owner, now_ms())
    assert not store.leases.is_gone(owner, 0)


def test_who_works_in_the_same_process_is_not_gone_until_its_store_is_closed(
    open_store: Callable[[], EventStore],
) -> None:
    one, other = open_store(), open_store()
    owner = one.leases.owner()
    before = [other.leases.is_gone(owner, 0), one.leases.is_gone(other.leases.owner(), 0)]

    one.close()

    assert (before, other.leases.is_gone(owner, 0)) == ([False, False], True)


def test_a_process_that_has_ended_is_gone(open_store: Callable[[], EventStore]) -> None:
    store = open_store()

    assert store.leases.is_gone(str(of_another_process(named(store))), now_ms())


@pytest.mark.parametrize(
    "text", ["", "somebody", "file-1/zz/1-1/00000000", "file-1/0123456789ab/1-1/00000000 ", "\0"]
)
def test_who_cannot_be_told_is_never_gone(store: EventStore, text: str) -> None:
    assert not store.leases.is_gone(text, 0)


def test_who_came_with_a_copy_is_gone_when_its_process_has_ended(
    open_store: Callable[[], EventStore],
) -> None:
    store = open_store()
    living = msgspec.structs.replace(named(store), place="file-0")
    dead = of_another_process(living)
    parent = msgspec.structs.replace(living, process=1, started=0)

    assert store.leases.is_gone(str(dead), now_ms())
    assert not store.leases.is_gone(str(parent), 0)


def test_who_came_with_a_copy_from_another_machine_is_given_up_after_a_day(
    open_store: Callable[[], EventStore],
) -> None:
    store = open_store()
    owner = str(msgspec.structs.replace(named(store), place="file-0", machine=ANOTHER_MACHINE))
    now = now_ms()

    assert not store.leases.is_gone(owner, now - SILENCE_ELSEWHERE_MS // 2)
    assert store.leases.is_gone(owner, now - 2 * SILENCE_ELSEWHERE_MS)


def test_nobody_else_carries_on_in_a_ledger_in_memory() -> None:
    with treering.open(":memory:") as ledger, treering.open(":memory:") as other:
        assert store_of(ledger).leases.is_gone(store_of(other).leases.owner(), now_ms())
        assert not store_of(ledger).leases.is_gone(store_of(ledger).leases.owner(), 0)


# Names that are held.


def test_what_is_held_is_held(store: EventStore) -> None:
    assert [store.leases.hold("sink"), store.leases.hold("sink"), store.leases.hold("another")] == [
        True
    ] * 3


def test_one_store_holds_a_name_at_a_time(open_store: Callable[[], EventStore]) -> None:
    one, other = open_store().leases, open_store().leases

    assert [one.hold("sink"), other.hold("sink"), other.hold("another")] == [True, False, True]
    assert [one.hold("another"), one.hold("sink"), other.hold("another")] == [False, True, True]


def test_what_was_let_go_can_be_held_by_another(open_store: Callable[[], EventStore]) -> None:
    one, other = open_store(), open_store()
    one.leases.hold("sink")

    one.leases.release("sink")

    assert [other.leases.hold("sink"), one.leases.hold("sink")] == [True, False]


def test_nobody_lets_go_of_what_another_holds(open_store: Callable[[], EventStore]) -> None:
    one, other = open_store(), open_store()
    one.leases.hold("sink")

    other.leases.release("sink")

    assert not other.leases.hold("sink")


def test_a_store_that_is_closed_holds_nothing(open_store: Callable[[], EventStore]) -> None:
    one, other = open_store(), open_store()
    one.leases.hold("sink")

    one.close()

    assert other.leases.hold("sink")


def test_a_store_that_was_forgotten_holds_nothing(tmp_path: Path) -> None:
    location = tmp_path / "ledger.db"
    forgotten = store_of(treering.open(location))
    forgotten.leases.hold("sink")
    owner = forgotten.leases.owner()

    del forgotten
    gc.collect()

    with treering.open(location) as ledger:
        assert store_of(ledger).leases.hold("sink")
        assert store_of(ledger).leases.is_gone(owner, 0)


def test_names_in_other_ledgers_are_other_names(open_ledger: Callable[[], Ledger]) -> None:
    assert [store_of(open_ledger()).leases.hold("sink") for _ in range(2)] == [True, True]


def test_no_name_that_is_held_is_an_owner_s(open_store: Callable[[], EventStore]) -> None:
    one, other = open_store(), open_store()

    assert other.leases.hold(one.leases.owner())
    assert not one.leases.is_gone(other.leases.owner(), 0)


# Reading only, and closed.


def test_who_only_reads_holds_nothing_and_tells_who_is_gone(
    location: str, open_store: Callable[[], EventStore]
) -> None:
    store = open_store()
    dead = str(of_another_process(named(store)))

    with treering.open(location, mode="ro") as reading:
        leases = store_of(reading).leases
        for attempt in (leases.owner, lambda: leases.hold("sink")):
            with pytest.raises(treering.errors.ReadOnly) as refused:
                attempt()
            assert refused.value.hint
        told = [leases.is_gone(owner, 0) for owner in (store.leases.owner(), dead)]

    assert told == [False, True]


def test_who_only_reads_makes_no_file(tmp_path: Path) -> None:
    """``mode="ro"`` never changes a byte."""
    with treering.open(tmp_path / "ledger.db") as ledger:
        ledger.append([said("hello")])
    before = sorted(tmp_path.iterdir())

    with treering.open(tmp_path / "ledger.db", mode="ro") as reading:
        told = store_of(reading).leases.is_gone("file-1/0123456789ab/1-1/00000000", now_ms())

    assert (told, sorted(tmp_path.iterdir())) == (False, before)


def test_a_closed_store_holds_nothing_more(ledger: Ledger, store: EventStore) -> None:
    owner = store.leases.owner()
    ledger.close()
    ledger.close()

    for attempt in (store.leases.owner, lambda: store.leases.hold("sink")):
        with pytest.raises(treering.errors.Closed):
            attempt()
    store.leases.release("sink")
    assert LeaseOwner.parse(owner) is not None
