"""Other processes, started afresh, that work on a ledger and talk over a pipe."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from random import Random
from typing import TYPE_CHECKING, Any

import apsw

import fork_server
from broken.ledgers import SCOPE, open_ledger, said
from effort import PATIENCE_S
from ports import store_of
from treering.errors import Conflict, DuplicateEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from treering.ledger.ledger import Ledger

_spawning = multiprocessing.get_context("spawn")


class Colleague:
    """A process that does ``work`` and talks to us over a pipe."""

    def __init__(
        self, work: Callable[..., None], *arguments: object, is_our_child: bool = False
    ) -> None:
        """Start it; only a child of ours can be waited for by its id."""
        self._pipe, theirs = multiprocessing.Pipe()
        making = _spawned if is_our_child else fork_server.process
        self._process = making(_work, work, theirs, *arguments)
        self._process.start()
        theirs.close()

    def tell(self, word: object) -> None:
        """Send it a word."""
        self._pipe.send(word)

    def hear(self) -> Any:
        """Wait for its next word; raise what it raised."""
        if not self._pipe.poll(PATIENCE_S):
            raise TimeoutError("the process says nothing")
        word = self._pipe.recv()
        if isinstance(word, Exception):
            raise word
        return word

    def carry_on(self) -> None:
        """Let it continue if it was stopped."""
        os.kill(self._process.pid or 0, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        # Not by join(), which waits for its children, too: they have its pipes.
        deadline = time.monotonic() + PATIENCE_S
        while self._process.exitcode is None and time.monotonic() < deadline:
            time.sleep(0.005)
        self._pipe.close()

    def join(self) -> None:
        """Wait until it has ended well."""
        self._process.join(PATIENCE_S)
        self._pipe.close()
        assert self._process.exitcode == 0


@contextlib.contextmanager
def colleagues(
    count: int, work: Callable[..., None], *arguments: object, are_our_children: bool = False
) -> Iterator[list[Colleague]]:
    """Yield so many processes; whatever is left of them at the end is killed."""
    started = [
        Colleague(work, *arguments, number, is_our_child=are_our_children)
        for number in range(count)
    ]
    try:
        yield started
    finally:
        for colleague in started:
            colleague.kill()


def begin_together(started: Iterable[Colleague]) -> None:
    """Let processes go to work together, once each is ready."""
    listed = list(started)
    assert [colleague.hear() for colleague in listed] == ["ready"] * len(listed)
    for colleague in listed:
        colleague.tell("go")


def _spawned(work: Callable[..., None], *arguments: object) -> BaseProcess:
    return _spawning.Process(target=work, args=arguments, daemon=True)


def _work(work: Callable[..., None], pipe: Connection, *arguments: object) -> None:
    try:
        work(pipe, *arguments)
    except Exception as error:  # noqa: BLE001  (told to whoever waits for a word)
        pipe.send(AssertionError("".join(traceback.format_exception(error))))
        sys.exit(1)


def write_in_threads(pipe: Connection, path: Path, threads: int, count: int, number: int) -> None:
    """Append ``count`` events in each of ``threads`` threads; tell the headers each one got."""
    ledger = open_ledger(path)
    pipe.send("ready")
    pipe.recv()
    heard: list[list[tuple[str, str, int]]] = [[] for _ in range(threads)]
    failures: list[BaseException] = []

    def write(thread: int) -> None:
        dice = Random(number * 100 + thread)
        try:
            for at in range(count):
                session_id = dice.choice(("shared", f"own-{number}"))
                event_id = f"p{number}-t{thread}-{at}"
                header = ledger.append([said("x", session_id=session_id, event_id=event_id)])[0]
                heard[thread].append((header.session_id, header.event_id, header.seq))
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failures.append(error)

    _together([threading.Thread(target=write, args=(thread,)) for thread in range(threads)])
    if failures:
        raise failures[0]
    ledger.close()
    pipe.send(heard)


def race_for_seq(pipe: Connection, path: Path, number: int) -> None:
    """In each round, append if the session is where the round says; tell whether that was so."""
    ledger = open_ledger(path)
    pipe.send("ready")
    while (seq := pipe.recv()) is not None:
        try:
            ledger.append([said(f"round {seq} by {number}")], expected_seq=seq)
        except Conflict as conflict:
            pipe.send(("lost", conflict.current_seq))
        else:
            pipe.send(("won", seq + 1))


def race_for_id(pipe: Connection, path: Path, number: int) -> None:
    """In each round, append the same id, with the same text or one of our own."""
    ledger = open_ledger(path)
    pipe.send("ready")
    while (word := pipe.recv()) is not None:
        event_id, same = word
        text = event_id if same else f"{event_id} by {number}"
        try:
            pipe.send(("won", ledger.append([said(text, event_id=event_id)])[0].position))
        except DuplicateEvent:
            pipe.send(("lost", None))


def hold_gate(pipe: Connection, path: Path, _: int) -> None:
    """Stand in the turnstile until told to go."""
    import fcntl

    with open(f"{path}.lock", "rb+") as gate:  # noqa: PTH123
        fcntl.flock(gate, fcntl.LOCK_EX)
        pipe.send("held")
        pipe.recv()


def hold_write_lock(pipe: Connection, path: Path, _: int) -> None:
    """Be an outside tool that keeps a write transaction open until told to go."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    pipe.send("held")
    pipe.recv()
    connection.execute("ROLLBACK")
    connection.close()
    pipe.send("gone")


def stop_while_writing(pipe: Connection, path: Path, _: int) -> None:
    """Stop, as a debugger or a laptop's lid does, in the middle of a write."""
    ledger = open_ledger(path)

    def work(*_: object) -> None:
        pipe.send(os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)

    store_of(ledger)._writer.transact(work, None)  # type: ignore[attr-defined]
    pipe.send("gone on")
    ledger.close()


def hold_read(pipe: Connection, path: Path, _: int) -> None:
    """Be an outside tool that keeps a read transaction open until told to go."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM events").fetchall()
    pipe.send("held")
    pipe.recv()
    connection.execute("ROLLBACK")
    connection.close()
    pipe.send("gone")


def follow(pipe: Connection, path: Path, after: str | None, _: int) -> None:
    """Follow the scope, and tell each event with the cursor behind it."""
    follower = open_ledger(path).follow(SCOPE, after=after)
    pipe.send("ready")
    for event in follower:
        pipe.send((event.event_id, event.position, follower.cursor))


def in_child(work: Callable[[], None]) -> int:
    """Fork, do ``work`` in the child and end it there; return its process id."""
    with warnings.catch_warnings():
        # Python warns of forks beside threads from 3.12 on; that they work is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:  # noqa: BLE001  (the child must not continue as if it were the parent)
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def ended_well(child: int) -> bool:
    """Wait for a forked child; say whether it ended well. One that hangs is killed."""
    deadline = time.monotonic() + PATIENCE_S
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def write_own(ledger: Ledger, name: str, times: int) -> None:
    """Append one at a time to a session, then prove it."""
    for number in range(times):
        ledger.append([said(f"{name} {number}", session_id=name)])
    assert ledger.admin.verify(SCOPE, session_id=name).intact


def check_order(ledger: Ledger) -> int:
    """Check that seqs have no gap and positions no double; return how many events there are."""
    seqs: dict[str, list[int]] = {}
    cursor: str | None = None
    positions: list[int] = []
    while True:
        page = ledger.headers(SCOPE, first=1_000, after=cursor)
        for header in page.items:
            positions.append(header.position)
            seqs.setdefault(header.session_id, []).append(header.seq)
        cursor = page.next_cursor
        if cursor is None:
            break
    for session_id, found in seqs.items():
        assert sorted(found) == list(range(1, len(found) + 1)), session_id
    assert len(set(positions)) == len(positions)
    verification = ledger.admin.verify()
    assert verification.intact, verification.first_broken
    return len(positions)


def _together(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
