"""What is said about the search for garbage holds for the process, whoever made it rare."""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE, said
from effort import PATIENCE_S
from treering.garbage import GARBAGE_OBJECTS, collecting_rarely

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def threshold() -> Iterator[tuple[int, ...]]:
    """Have Python look for garbage as it does by default."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)
    gc.enable()


def test_who_says_meanwhile_that_nothing_is_collected_is_heeded() -> None:
    with collecting_rarely():
        gc.disable()
    assert not gc.isenabled()

    with collecting_rarely():
        gc.enable()
        assert gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize("own", [(0, 10, 10), (1_000_000, 5, 5)])
def test_what_the_process_has_chosen_itself_stays(own: tuple[int, int, int]) -> None:
    with collecting_rarely():
        gc.set_threshold(*own)
    assert gc.get_threshold() == own

    with collecting_rarely():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


@pytest.mark.parametrize("first_out", [0, 1])
def test_the_last_of_several_has_it_look_as_before(
    first_out: int, threshold: tuple[int, ...]
) -> None:
    users = [collecting_rarely(), collecting_rarely()]
    for user in users:
        user.__enter__()
    users.pop(first_out).__exit__(None, None, None)
    assert gc.get_threshold()[0] == GARBAGE_OBJECTS

    users[0].__exit__(None, None, None)
    assert gc.get_threshold() == threshold


def test_it_looks_as_before_after_an_interrupt(threshold: tuple[int, ...]) -> None:
    with pytest.raises(KeyboardInterrupt), collecting_rarely():
        raise KeyboardInterrupt

    assert gc.get_threshold() == threshold


def test_a_child_whose_parent_made_it_rare_in_another_thread_looks_as_before(
    threshold: tuple[int, ...],
) -> None:
    made, over = threading.Event(), threading.Event()

    def work() -> None:
        with collecting_rarely():
            made.set()
            over.wait(PATIENCE_S)

    thread = threading.Thread(target=work)
    thread.start()
    assert made.wait(PATIENCE_S)
    with collecting_rarely():
        child = os.fork()
    if child == 0:
        with collecting_rarely():
            pass
        os._exit(gc.get_threshold() != threshold or not gc.isenabled())
    over.set()
    thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.get_threshold() == threshold


def test_who_reads_and_searches_leaves_it_as_it_was(threshold: tuple[int, ...]) -> None:
    gc.disable()
    with treering.open(":memory:") as ledger:
        ledger.append([said("rye bread")])
        assert ledger.session("s1", scope=HERE, agent="lyria").history()
        assert ledger.search("rye", scope=HERE).hits
        assert ledger.memory(HERE).facts(user="ann").items == []

    assert not gc.isenabled()
    assert gc.get_threshold() == threshold
