"""Writers and followers of a ledger on PostgreSQL, in processes and threads."""

from __future__ import annotations

import contextlib
import threading
import time
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final

import psycopg

import treering
from builders import HERE, said
from effort import PATIENCE_S
from forks import fork
from threads import in_threads
from treering.errors import Conflict, DuplicateEvent, StorageError
from treering.storage.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from concurrency.processes import Colleague
    from treering import Header, Ledger, NewEvent

LAST: Final = "the last of all"
"""Said when every writer is done: whoever follows has everything once this comes."""
SHARED: Final = ("shared", "common")
"""Sessions that all writers write to."""


class Account:
    """What writers were told of their events, which say something different each."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, int]] = {}
        """Session and seq of what was acknowledged, by what it says."""
        self.ids: dict[str, str] = {}
        self.unsure: set[str] = set()
        """What was in a call that failed."""

    def append(self, ledger: Ledger, events: Sequence[NewEvent]) -> None:
        """Append, and note what comes of it."""
        try:
            headers = ledger.append(events)
        except StorageError:
            self.unsure |= {event.summary for event in events}
        else:
            self.kept |= {header.summary: (header.session_id, header.seq) for header in headers}
            self.ids |= {header.summary: header.event_id for header in headers}

    def add(self, other: Account) -> None:
        """Take in what another writer was told."""
        self.kept |= other.kept
        self.ids |= other.ids
        self.unsure |= other.unsure


def open_ledger(url: str, **options: Any) -> Ledger:
    """Open a ledger that looks for no secrets."""
    return treering.open(url, guard="off", **options)


def some(dice: Random, name: str, at: int) -> list[NewEvent]:
    """Return one event or a few, in the writer's own session and in those that are shared.

    Every other time their ids are given.
    """
    texts = [f"{name}-{at}-{part}" for part in range(dice.choice((1, 1, 1, 2, 4)))]
    return [
        said(text, session_id=dice.choice((name, *SHARED)), event_id=text if at % 2 else None)
        for text in texts
    ]


def write_some(ledger: Ledger, name: str, times: Iterable[int], account: Account) -> None:
    """Append ``some`` so many times."""
    dice = Random(name)
    for at in times:
        account.append(ledger, some(dice, name, at))


def write(pipe: Connection, url: str, times: int, number: int) -> None:
    """Once told to, append so many times in each of two threads; tell what came of it."""
    with open_ledger(url) as ledger:
        pipe.send("ready")
        pipe.recv()
        account = Account()
        in_threads(
            *(
                lambda name=f"p{number}t{thread}": write_some(ledger, name, range(times), account)
                for thread in range(2)
            )
        )
    pipe.send(account)


def write_to(pipe: Connection, url: str, session_id: str | None, times: int, number: int) -> None:
    """Once told to, append so many times to a session, or to one of our own; tell the seqs."""
    with open_ledger(url) as ledger:
        pipe.send("ready")
        pipe.recv()
        own = session_id or f"own-{number}"
        seqs = [
            header.seq
            for at in range(times)
            for header in ledger.append([said(f"{number} at {at}", session_id=own)])
        ]
    pipe.send(seqs)


def write_until_told(pipe: Connection, url: str, number: int) -> None:
    """Append in two threads until a word comes; tell what came of it."""
    with open_ledger(url) as ledger:
        over, account = threading.Event(), Account()
        account.append(ledger, [said(f"p{number} begins", session_id=f"p{number}")])
        pipe.send("ready")

        def hear() -> None:
            pipe.recv()
            over.set()

        in_threads(
            hear,
            *(
                lambda name=f"p{number}t{thread}": write_some(ledger, name, unless(over), account)
                for thread in range(2)
            ),
        )
    pipe.send(account)


def write_as_told(pipe: Connection, url: str, session_id: str, number: int) -> None:
    """For each word, append an event that says it; tell its seq."""
    with open_ledger(url) as ledger:
        pipe.send("ready")
        while (word := pipe.recv()) is not None:
            pipe.send(ledger.append([said(word, session_id=session_id)])[0].seq)


def write_runs(pipe: Connection, url: str, runs: int, number: int) -> None:
    """Append runs to a session that others write to as well: most end well, some do not."""
    with open_ledger(url) as ledger:
        pipe.send("ready")
        pipe.recv()
        for at in range(runs):
            run = f"p{number}r{at}"
            end = ("run.ended", "run.ended", "run.failed", None)[at % 4]
            kinds = ["run.started", "conversation.user", "conversation.assistant", end]
            for kind in filter(None, kinds):
                ledger.append([said(f"{run} {kind}", kind=kind, run_id=run)])
            ledger.append([said(f"between the runs of {number}")])
    pipe.send("done")


def follow(pipe: Connection, url: str, after: str | None, committed: bool, _: int) -> None:  # noqa: FBT001
    """Follow the scope, and tell each event with the cursor behind it."""
    with open_ledger(url) as ledger:
        follower = ledger.follow(HERE, after=after, committed=committed)
        pipe.send("ready")
        for header in follower:
            pipe.send((header, follower.cursor))


def race_for_seq(pipe: Connection, url: str, number: int) -> None:
    """In each round, append if the session is where the round says; tell whether that was so."""
    with open_ledger(url) as ledger:
        pipe.send("ready")
        while (round_ := pipe.recv()) is not None:
            seq, size = round_
            events = [said(f"{seq} by {number}") for _ in range(size)]
            try:
                ledger.append(events, expected_seq=seq)
            except Conflict as conflict:
                pipe.send(("lost", conflict.current_seq))
            else:
                pipe.send(("won", seq + size))


def race_for_id(pipe: Connection, url: str, number: int) -> None:
    """In each round, append events under the same ids; tell where they are, or that we lost."""
    with open_ledger(url) as ledger:
        pipe.send("ready")
        while (word := pipe.recv()) is not None:
            ids, session_id = word
            # Everybody gives the same ids, each in an order of his own.
            given = ids if number % 2 else ids[::-1]
            name = session_id or f"own-{number}"
            events = [said(event_id, event_id=event_id, session_id=name) for event_id in given]
            try:
                pipe.send({header.position for header in ledger.append(events)})
            except DuplicateEvent:
                pipe.send(None)


def race_for_fork(pipe: Connection, url: str, number: int) -> None:
    """In each round, fork s1 at its first event under the same name; tell whether we did."""
    with open_ledger(url) as ledger:
        pipe.send("ready")
        while (name := pipe.recv()) is not None:
            try:
                header = fork(ledger, name, parent="s1", seq=1, agent_id=f"agent-{number}")
            except Conflict as conflict:
                pipe.send(("lost", conflict.current_seq))
            else:
                pipe.send(("won", header.seq))


@contextlib.contextmanager
def held_open(ledger: Ledger, *events: NewEvent) -> Iterator[list[Header]]:
    """Append in a transaction that is committed only behind the block.

    Raise ``psycopg.Rollback`` in it to have nothing recorded.
    """
    store = store_of(ledger)
    drafts = ledger._drafter.draft(events)
    writer = store._writer
    with store._server.lend(drafts[0].scope) as connection, connection.transaction():
        one = len(drafts) == 1 and writer._append_one(connection, drafts[0], None, again=False)
        yield [one] if one else writer._append_all(connection, drafts, None, again=False)


def hold_now_and_then(ledger: Ledger, name: str, times: int, account: Account) -> None:
    """Append in transactions that are kept open for long; every other one is taken back."""
    dice = Random(name)
    for at in range(times):
        with held_open(ledger, *some(dice, name, at)) as headers:
            time.sleep(dice.random() * 0.05)
            if at % 2:
                raise psycopg.Rollback
        if not at % 2:
            account.kept |= {header.summary: (header.session_id, header.seq) for header in headers}


def store_of(ledger: Ledger) -> PostgresStore:
    """Return the store of a ledger that is known to be on PostgreSQL."""
    store = ledger._store
    assert isinstance(store, PostgresStore)
    return store


def stored(ledger: Ledger) -> list[Header]:
    """Return all headers of HERE."""
    found: list[Header] = []
    cursor: str | None = None
    while True:
        page = ledger.headers(HERE, first=1_000, after=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def check_followed(followed: Sequence[Header], ledger: Ledger) -> None:
    """Check that every event was followed exactly once, those of each session by seq."""
    assert len({header.event_id for header in followed}) == len(followed)
    assert {header.event_id for header in followed} == {
        header.event_id for header in stored(ledger)
    }
    check_seqs(followed)


def check_seqs(followed: Sequence[Header]) -> None:
    """Check that the events of each session came as 1, 2, 3 …."""
    seqs: dict[str, list[int]] = {}
    for header in followed:
        seqs.setdefault(header.session_id, []).append(header.seq)
    assert seqs == {name: list(range(1, len(found) + 1)) for name, found in seqs.items()}


def check_account(account: Account, ledger: Ledger) -> None:
    """Check that what was acknowledged is stored once and in its place, and the chain is whole.

    What is stored beyond that was in a call that failed.
    """
    found = stored(ledger)
    texts = [header.summary for header in found]
    assert len(set(texts)) == len(texts), "something is stored twice"
    places = {header.summary: (header.session_id, header.seq) for header in found}
    assert {text: places.get(text) for text in account.kept} == account.kept
    ids = {header.summary: header.event_id for header in found}
    assert {text: ids.get(text) for text in account.ids} == account.ids
    assert set(texts) - account.kept.keys() <= account.unsure
    verification = ledger.admin.verify()
    assert verification.intact, verification.first_broken


class Following:
    """A follower in a thread of its own, which ends with LAST."""

    def __init__(self, ledger: Ledger, after: str | None = None) -> None:
        self.follower = ledger.follow(HERE, after=after)
        self.heard: list[Header] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def all(self) -> list[Header]:
        """Wait for the end; return everything, or raise what ended it before."""
        self._thread.join(PATIENCE_S)
        if self._failure is not None:
            raise self._failure
        assert not self._thread.is_alive(), f"there is no end behind {len(self.heard)} events"
        return self.heard

    def _run(self) -> None:
        try:
            for header in self.follower:
                self.heard.append(header)
                if header.summary == LAST:
                    return
        except BaseException as error:  # noqa: BLE001  (raised again above)
            self._failure = error


def followed(ledger: Ledger, after: str | None, last: str) -> tuple[list[str], str]:
    """Return what there is behind a cursor up to ``last``, and the cursor there.

    What has been committed is followed once every older transaction is over, whoever's it is.
    """
    follower = ledger.follow(HERE, after=after, idle_s=PATIENCE_S)
    texts: list[str] = []
    for header in follower:
        texts.append(header.summary)
        if header.summary == last:
            break
    return texts, follower.cursor


def told_by(follower: Colleague) -> list[Header]:
    """Return what a following process tells, up to LAST."""
    heard: list[Header] = []
    while not heard or heard[-1].summary != LAST:
        heard.append(follower.hear()[0])
    return heard


def unless(over: threading.Event) -> Iterator[int]:
    """Count until something is over."""
    for number in count():
        if over.is_set():
            return
        yield number


def until(happened: Callable[[], object], *, seconds_max: float = PATIENCE_S) -> None:
    """Wait until something has happened. Raises AssertionError if it does not."""
    deadline = time.monotonic() + seconds_max
    while not happened():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.005)


class Pauses(threading.Event):
    """Is set after a dozen waits, which take no time; knows how long each should have been."""

    def __init__(self) -> None:
        super().__init__()
        self.lasted: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Note the wait."""
        self.lasted.append(timeout or 0)
        if len(self.lasted) == 12:
            self.set()
        return self.is_set()
