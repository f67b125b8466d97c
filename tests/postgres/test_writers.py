"""Promise 1 and 2 for all who write to one ledger: processes, their children, and threads."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import secrets
import threading
import warnings
from functools import partial
from itertools import chain, count
from random import Random
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.errors import CheckViolation

from builders import HERE, said
from children import run_python
from concurrency.processes import (
    begin_together,
    check_order,
    colleagues,
    ended_well,
    in_child,
    write_own,
)
from effort import PATIENCE_S, rounds
from postgres_writers import (
    Account,
    check_account,
    followed,
    held_open,
    open_ledger,
    race_for_id,
    race_for_seq,
    store_of,
    stored,
    unless,
    until,
    write,
    write_some,
    write_to,
)
from threads import in_threads
from treering.errors import (
    Busy,
    Closed,
    Conflict,
    DuplicateEvent,
    ReadOnly,
    RunClosed,
    StorageError,
)
from treering.model.scopes import parse_scope
from treering.storage.postgres import faults
from treering.storage.postgres import id_cache as known_module
from treering.storage.postgres import server as server_module
from treering.storage.postgres.reader import RECORDS_PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postgres_server import Places
    from treering import Ledger
    from treering.storage.postgres.server import PreparedStatement

PROCESSES: Final = 4
ROUNDS: Final = rounds(4)
LARGE: Final = 20_000
"""Bytes of a payload that is kept as a blob."""

_forking = multiprocessing.get_context("fork")


@pytest.fixture
def url(postgres: Places) -> str:
    return postgres.fresh()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with open_ledger(url) as ledger:
        yield ledger


def test_a_writer_that_was_overtaken_needs_one_statement_more(
    url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    execute, row = psycopg.Cursor.execute, server_module.Connection.row

    def noted(self: psycopg.Cursor[Any], query: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is threading.main_thread():  # Announcements have their own.
            statements.append(str(query))
        return execute(self, query, *args, **kwargs)

    def noted_row(self: server_module.Connection, statement: PreparedStatement, values: Any) -> Any:
        statements.append(statement.name.decode())
        return row(self, statement, values)

    with open_ledger(url) as other:
        ledger.append([said("a", run_id="r1")])
        ledger.append([said("b", run_id="r1")])
        other.append([said("c", run_id="r1")])
        other.append([said("aside", run_id="r2")])
        monkeypatch.setattr(psycopg.Cursor, "execute", noted)
        monkeypatch.setattr(server_module.Connection, "row", noted_row)
        overtaken = ledger.append([said("d", run_id="r1")])[0]
        first, again = len(statements), ledger.append([said("e", run_id="r2")])[0]
        monkeypatch.undo()

    assert (overtaken.seq, overtaken.run_seq, again.run_seq) == (5, 4, 2)
    assert (first, len(statements)) == (2, 3), statements
    assert ledger.admin.verify().intact


def test_a_writer_that_only_repeated_events_of_a_run_does_not_count_it(
    url: str, ledger: Ledger
) -> None:
    events = [said(text, run_id="r1", event_id=text) for text in ("a", "b")]
    with open_ledger(url) as other:
        other.append([events[0]])
        ledger.append([said("aside")])
        other.append([events[1]])
        ledger.append(events)
        numbers = [ledger.append([said("c", run_id="r1")])[0].run_seq]
        numbers.append(other.append([said("d", run_id="r1")])[0].run_seq)

    assert numbers == [3, 4]
    assert ledger.admin.verify().intact


@pytest.mark.parametrize("ending", [1, 2], ids=["alone", "in a batch"])
def test_a_run_that_this_writer_ended_takes_no_more_events(ledger: Ledger, ending: int) -> None:
    ledger.append([said("a", run_id="r1")])
    ledger.append([said("b", run_id="r1")])
    last = [said("c", run_id="r1"), said("the end", run_id="r1", kind="run.ended")]
    ledger.append(last[-ending:])

    with pytest.raises(RunClosed):
        ledger.append([said("late", run_id="r1")])


def test_an_append_goes_through_after_a_batch_was_refused(ledger: Ledger) -> None:
    """What is prepared is let go of by psycopg when a transaction is rolled back."""
    for _ in range(4):
        ledger.append([said("one"), said("two")])
        ledger.append([said("alone")])
    with pytest.raises(Conflict):
        ledger.append([said("one"), said("two")], expected_seq=1)

    ledger.append([said("alone")])

    assert len(stored(ledger)) == 13
    assert ledger.admin.verify().intact


def test_an_id_is_recorded_once_whoever_repeats_it(url: str, ledger: Ledger) -> None:
    with open_ledger(url) as other:
        for writer in (ledger, ledger, other, ledger, other):
            for event_id in ("a", "b", "c"):
                writer.append([said(event_id, event_id=event_id)])
            writer.append([said("between")])

        with pytest.raises(DuplicateEvent):
            ledger.append([said("something else", event_id="b")])

    assert [header.summary for header in stored(ledger)] == ["a", "b", "c"] + ["between"] * 5
    assert ledger.admin.verify().intact


def test_a_run_of_one_writer_is_numbered_without_a_look_at_the_events_of_others(
    url: str, ledger: Ledger
) -> None:
    mislead = "UPDATE events SET run_seq = 90 WHERE run_id = 'mine'"
    with open_ledger(url) as other:
        ledger.append([said("a", run_id="mine")])
        ledger.append([said("b", run_id="mine")])
        other.append([said("aside", run_id="theirs")])
        # Whoever reads the events now gets another number.
        store_of(ledger)._server.write(lambda c: c.execute(mislead), parse_scope(HERE))

        own = [ledger.append([said("c", run_id="mine")])[0]]
        other.append([said("aside", run_id="theirs")])
        own += ledger.append([said("d", run_id="mine"), said("e", run_id="mine")])
        misled = other.append([said("f", run_id="mine")])[0]

    assert [header.run_seq for header in own] == [3, 4, 5]
    assert misled.run_seq == 91


def test_a_run_is_counted_anew_after_whoever_else_has_added_to_it(url: str) -> None:
    dice = Random(5)
    with contextlib.ExitStack() as stack:
        ledgers = [stack.enter_context(open_ledger(url)) for _ in range(3)]
        for number in range(rounds(60)):
            # Mostly one writer, so that it has the run for its own when others come.
            ledger = ledgers[max(0, dice.randrange(-3, 3))]
            size = dice.choice((1, 1, 1, 1, 3))
            run_ids = [dice.choice(("r1", "r1", "r2", None)) for _ in range(size)]
            ledger.append([said(f"{number}", run_id=run_id) for run_id in run_ids])

        check_run_numbers(ledgers[0])
        assert ledgers[0].admin.verify().intact


def test_threads_and_other_processes_give_no_number_of_a_run_twice(
    url: str, ledger: Ledger
) -> None:
    def add(own: Ledger, run_id: str) -> None:
        for number in range(rounds(25)):
            own.append([said(f"{number}", run_id=run_id)])
            own.append([said("alone", run_id=f"{run_id}-{threading.get_ident()}")])

    with open_ledger(url) as other:
        in_threads(*(partial(add, own, "r1") for own in (ledger, ledger, ledger, other, other)))

        check_run_numbers(ledger)
        assert ledger.admin.verify().intact


def test_a_child_and_its_parent_give_no_number_of_a_run_twice(ledger: Ledger) -> None:
    ledger.append([said("before", run_id="r1")])
    ledger.append([said("mine by now", run_id="r1")])

    def add() -> None:
        for number in range(10):
            ledger.append([said(f"{number}", run_id="r1")])

    children = [in_child(add) for _ in range(2)]
    add()

    assert [ended_well(child) for child in children] == [True] * 2
    add()
    check_run_numbers(ledger)


def check_run_numbers(ledger: Ledger) -> None:
    """Check that the numbers of each run of s1 go up by one."""
    numbers: dict[str, list[int | None]] = {}
    for header in ledger.session("s1", scope=HERE, agent="lyria").headers():
        if header.run_id is not None:
            numbers.setdefault(header.run_id, []).append(header.run_seq)

    assert numbers == {run_id: list(range(1, len(own) + 1)) for run_id, own in numbers.items()}


# Processes.


@pytest.mark.parametrize("session_id", [None, "shared"], ids=["own sessions", "one session"])
def test_processes_lose_double_and_reorder_nothing(
    url: str, ledger: Ledger, session_id: str | None
) -> None:
    times = 100
    with colleagues(PROCESSES, write_to, url, session_id, times) as writers:
        begin_together(writers)
        told = [writer.hear() for writer in writers]

    assert told == [sorted(seqs) for seqs in told]
    if session_id is None:
        assert told == [list(range(1, times + 1))] * PROCESSES
    else:
        assert sorted(chain(*told)) == list(range(1, PROCESSES * times + 1))
    assert check_order(ledger) == PROCESSES * times


def test_processes_with_threads_and_batches_over_several_sessions_share_one_order(
    url: str, ledger: Ledger
) -> None:
    account = Account()
    with colleagues(3, write, url, 40) as writers:
        begin_together(writers)
        for writer in writers:
            account.add(writer.hear())

    assert account.unsure == set()
    check_account(account, ledger)
    assert check_order(ledger) == len(account.kept)


def test_processes_that_make_a_ledger_at_the_same_time_make_one(postgres: Places) -> None:
    url = postgres.vacant()
    with colleagues(PROCESSES, write_to, url, "s1", 3) as writers:
        for writer in writers:
            writer.hear()
            writer.tell("go")
        for writer in writers:
            writer.hear()

    with open_ledger(url) as ledger:
        assert check_order(ledger) == PROCESSES * 3


@pytest.mark.parametrize("size", [1, 3], ids=["one event", "a batch"])
def test_of_writers_that_expect_the_same_seq_exactly_one_wins(
    url: str, ledger: Ledger, size: int
) -> None:
    with colleagues(PROCESSES, race_for_seq, url) as writers:
        for writer in writers:
            writer.hear()
        for number in range(ROUNDS):
            for writer in writers:
                writer.tell((number * size, size))
            outcomes = [writer.hear() for writer in writers]

            assert sorted(word for word, _ in outcomes) == ["lost"] * (PROCESSES - 1) + ["won"]
            assert {current for _, current in outcomes} == {(number + 1) * size}

    assert check_order(ledger) == ROUNDS * size


@pytest.mark.parametrize("size", [1, 2], ids=["one event", "a batch"])
def test_of_writers_with_the_same_ids_in_one_session_all_get_the_same_events(
    url: str, ledger: Ledger, size: int
) -> None:
    with colleagues(PROCESSES, race_for_id, url) as writers:
        for writer in writers:
            writer.hear()
        for number in range(ROUNDS):
            for writer in writers:
                writer.tell(([f"e{number}-{part}" for part in range(size)], "s1"))
            outcomes = [writer.hear() for writer in writers]

            assert outcomes == [outcomes[0]] * PROCESSES
            assert len(outcomes[0]) == size

    assert check_order(ledger) == ROUNDS * size


@pytest.mark.parametrize("size", [1, 2], ids=["one event", "a batch"])
def test_of_writers_with_the_same_ids_in_sessions_of_their_own_exactly_one_wins(
    url: str, ledger: Ledger, size: int
) -> None:
    with colleagues(PROCESSES, race_for_id, url) as writers:
        for writer in writers:
            writer.hear()
        for number in range(3):
            for writer in writers:
                writer.tell(([f"e{number}-{part}" for part in range(size)], None))
            outcomes = [writer.hear() for writer in writers]

            assert outcomes.count(None) == PROCESSES - 1

    assert check_order(ledger) == 3 * size


# Children.


def test_parent_and_children_both_write(ledger: Ledger) -> None:
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


def test_threads_of_a_child_begin_at_the_same_time(ledger: Ledger) -> None:
    ledger.append([said("before")])

    def write_in_threads() -> None:
        gate = threading.Barrier(8)

        def begin(number: int) -> None:
            gate.wait(PATIENCE_S)
            write_own(ledger, f"thread {number}", 3)

        in_threads(*(partial(begin, number) for number in range(8)))

    children = [in_child(write_in_threads) for _ in range(3)]
    write_own(ledger, "parent", 30)

    assert [ended_well(child) for child in children] == [True] * 3
    write_own(ledger, "parent", 5)
    assert check_order(ledger) == 1 + 3 * 8 * 3 + 35


def test_forks_amid_appending_following_and_verifying_threads_end_and_break_nothing(
    ledger: Ledger,
) -> None:
    over, account = threading.Event(), Account()

    def read() -> None:
        while not over.is_set():
            assert ledger.admin.verify(HERE).intact

    def follow() -> None:
        for _ in ledger.follow(HERE, stop=over):
            pass

    def fork() -> None:
        until(lambda: account.kept)
        children = [in_child(lambda: write_own(ledger, "child", 3)) for _ in range(8)]
        ended.extend(ended_well(child) for child in children)
        over.set()

    ended: list[bool] = []
    in_threads(
        read, follow, fork, *(partial(write_some, ledger, n, unless(over), account) for n in "ab")
    )

    assert ended == [True] * 8
    assert check_order(ledger) == len(account.kept) + 24


def test_a_child_that_is_born_while_another_thread_connects_does_not_wait_for_it(
    ledger: Ledger,
) -> None:
    # As if a thread were just about to connect for the first time.
    with store_of(ledger)._server._lock:
        ended = ended_well(in_child(lambda: write_own(ledger, "child", 3)))

    assert ended
    assert check_order(ledger) == 3


def test_a_connection_that_was_lent_when_a_child_was_born_stays_the_parents(ledger: Ledger) -> None:
    ledger.append([said("before")])
    server = store_of(ledger)._server
    with contextlib.ExitStack() as stack:
        lent = stack.enter_context(server.lend(parse_scope(HERE)))

        def give_back_and_write() -> None:
            stack.close()
            with server.lend(parse_scope(HERE)) as own:
                assert own.info.backend_pid != lent.info.backend_pid
            write_own(ledger, "child", 3)

        assert ended_well(in_child(give_back_and_write))
        assert lent.execute("SELECT 1").fetchone() == (1,)
    write_own(ledger, "parent", 3)

    assert check_order(ledger) == 7


def test_a_child_that_ends_as_programs_do_leaves_the_parent_its_ledger(url: str) -> None:
    script = """
import os, sys, treering
ledger = treering.open(sys.argv[1])
event = lambda text: treering.NewEvent(scope="acme/app", session_id="s1", kind="ops.decision",
                                       agent_id="a", summary=text)
ledger.append([event("before")])
next(ledger.follow("acme/app"))
child = os.fork()
for number in range(5):
    ledger.append([event(f"{number} of the child" if not child else f"{number}")])
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.append([event("after")])
    ledger.close()
"""
    run_python(script, url)

    with open_ledger(url) as ledger:
        assert check_order(ledger) == 12


# Threads.


def test_more_threads_than_connections_lose_and_double_nothing(ledger: Ledger) -> None:
    account = Account()
    threads = server_module.CONNECTIONS_MAX + 8

    in_threads(
        *(partial(write_some, ledger, f"t{number}", range(6), account) for number in range(threads))
    )

    assert account.unsure == set()
    check_account(account, ledger)
    assert check_order(ledger) == len(account.kept)


def test_a_batch_is_not_mixed_with_what_others_append(ledger: Ledger) -> None:
    def write_batches(number: int) -> None:
        for _ in range(20):
            headers = ledger.append([said(f"by {number}") for _ in range(4)])
            ledger.append([said(f"in between by {number}")])
            seqs = [header.seq for header in headers]
            assert seqs == list(range(seqs[0], seqs[0] + 4))

    in_threads(*(partial(write_batches, number) for number in range(4)))

    assert check_order(ledger) == 4 * 20 * 5


@pytest.mark.parametrize(
    "differing",
    [
        lambda number: {"session_id": f"s{number}"},
        lambda number: {"payload": {"text": f"{number}" * LARGE}},
        lambda number: {"payload": {"text": "x" * LARGE}, "scope": f"acme/{number}"},
    ],
    ids=["sessions", "blobs", "blobs of several scopes"],
)
def test_batches_that_touch_the_same_in_another_order_do_not_lock_each_other_out(
    ledger: Ledger, differing: Callable[[int], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[psycopg.Error] = []

    def is_passing(error: psycopg.Error) -> bool:
        met.append(error)
        return faults.is_passing(error)

    def write_batches(number: int) -> None:
        dice = Random(number)
        for at in range(25):
            # What differs is shared by all; the session, unless that is it, is one's own.
            parts = dice.sample(range(10), 10)
            ledger.append(
                [
                    said(f"{number}-{at}-{part}", **{"session_id": f"t{number}"} | differing(part))
                    for part in parts
                ]
            )

    # A deadlock is got past, but only after a second.
    monkeypatch.setattr(server_module, "is_passing", is_passing)
    in_threads(*(partial(write_batches, number) for number in range(4)))
    verification = ledger.admin.verify()

    assert (verification.intact, verification.events) == (True, 4 * 25 * 10)
    assert met == []


def others(connection: psycopg.Connection[Any]) -> list[Any]:
    """Return who else is connected for a ledger."""
    return connection.execute(
        "SELECT pid FROM pg_stat_activity"
        " WHERE application_name = 'treering' AND datname = current_database()"
    ).fetchall()


def test_a_server_that_isolates_transactions_more_strictly_turns_nobody_away(url: str) -> None:
    account = Account()
    with open_ledger(f"{url}&options=-cdefault_transaction_isolation%3Dserializable") as ledger:
        in_threads(*(partial(write_some, ledger, name, range(30), account) for name in "abcdef"))

        assert account.unsure == set()
        check_account(account, ledger)


def test_who_writes_while_the_ledger_is_closed_is_told_so_and_loses_nothing(url: str) -> None:
    account, ledger = Account(), open_ledger(url)

    def write_until_closed(name: str) -> None:
        for at in count():
            try:
                headers = ledger.append([said(f"{name}-{at}", session_id=name)])
            except Closed:
                return
            account.kept |= {header.summary: (name, header.seq) for header in headers}

    def close() -> None:
        until(lambda: len(account.kept) > 50)
        ledger.close()

    in_threads(close, *(partial(write_until_closed, name) for name in "abcdef"))

    with open_ledger(url) as again:
        check_account(account, again)


def test_a_call_that_fails_leaves_nothing_behind(ledger: Ledger) -> None:
    ledger.append([said("taken", event_id="taken")])

    with pytest.raises(DuplicateEvent):
        ledger.append([said("new", session_id="s2"), said("another", event_id="taken")])
    with pytest.raises(Conflict):
        ledger.append([said("stale"), said("stale")], expected_seq=7)
    with pytest.raises(Conflict):
        ledger.append([said("stale", session_id="s3")], expected_seq=7)

    assert check_order(ledger) == 1


def test_a_writer_that_is_kept_waiting_too_long_says_who_is_in_the_way(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "LOCK_PATIENCE", "300ms")
    with open_ledger(url) as ledger:
        ledger.append([said("before")])
        with held_open(ledger, said("in the way")):
            for events in ([said("one")], [said("one"), said("two", session_id="s2")]):
                with pytest.raises(Busy) as caught:
                    ledger.append(events)
            elsewhere = ledger.append([said("elsewhere", session_id="s3")])[0].seq
            seen = [header.summary for header in stored(ledger)]
        ledger.append([said("after")])

        assert caught.value.hint
        assert (seen, elsewhere) == (["before", "elsewhere"], 1)
        assert check_order(ledger) == 4


# Replicas, exports, and what is remembered.


def test_no_event_can_have_an_epoch_below_zero(url: str, ledger: Ledger) -> None:
    ledger.append([said("one")])

    with pytest.raises(CheckViolation), psycopg.connect(url.partition("&schema=")[0]) as outside:
        outside.execute(f"UPDATE {url.rpartition('schema=')[2]}.events SET epoch = -1".encode())


class Promotion:
    """Has connections find a replica at first, and its successor some looks later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: float) -> None:
        self.left = looks
        enter = server_module.Server._enter

        def entering(server: server_module.Server, connection: server_module.Connection) -> None:
            enter(server, connection)
            if self.left > 0:
                self.left -= 1
                connection.epoch = -1

        monkeypatch.setattr(server_module.Server, "_enter", entering)


def _replica(patches: pytest.MonkeyPatch) -> contextlib.nullcontext[Promotion]:
    """Have every connection find a replica, from the first on."""
    return contextlib.nullcontext(Promotion(patches, float("inf")))


@pytest.mark.parametrize("texts", [["a"], ["a", "b"]], ids=["one event", "a batch"])
@pytest.mark.parametrize("looks", [1, 3])
def test_a_write_waits_until_a_replica_has_become_a_primary(
    url: str, monkeypatch: pytest.MonkeyPatch, texts: list[str], looks: int
) -> None:
    promotion = Promotion(monkeypatch, looks)
    with open_ledger(url) as ledger:
        ledger.append([said(text) for text in texts])
        ledger.append([said("last")])

        assert promotion.left == 0
        assert followed(ledger, None, "last")[0] == [*texts, "last"]
        assert check_order(ledger) == len(texts) + 1


def test_a_write_on_a_server_that_stays_a_replica_is_refused_and_leaves_nothing_behind(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_ledger(url) as ledger:
        ledger.append([said("before", event_id="before")])
    with monkeypatch.context() as patches, _replica(patches), open_ledger(url) as ledger:
        assert len(stored(ledger)) == 1
        patches.setattr(server_module, "PATIENCE_S", 0.1)
        writes: list[Callable[[], object]] = [
            lambda: ledger.append([said("x")]),
            lambda: ledger.append([said("x"), said("y", session_id="s2")]),
            lambda: ledger.redact(HERE, event_id="before"),
        ]
        for attempt in writes:
            with pytest.raises(ReadOnly):
                attempt()
    with open_ledger(url) as ledger:
        assert [header.summary for header in stored(ledger)] == ["before"]


def test_more_sessions_than_are_remembered_are_all_named(
    url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{number:02}" for number in range(25)]
    ledger.append([said(name, session_id=name, event_id=name) for name in names])
    monkeypatch.setattr(known_module, "REMEMBERED_MAX", 10)
    with open_ledger(url) as reader:
        for known in (names[:8], names[8:], names):
            for name in known:
                assert len(reader.headers(HERE, session_id=name).items) == 1
            for page in (reader.headers(HERE, first=100), reader.events(HERE, first=100)):
                assert [header.session_id for header in page.items] == names
        heard = [header.session_id for header in reader.follow(HERE, idle_s=0)]
        reader.append([said("again", session_id=name) for name in names])

        assert heard == names
        assert {header.session_id for header in stored(reader)} == set(names)
        assert check_order(reader) == 2 * len(names)


MANY: Final = 3 * RECORDS_PAGE


@pytest.mark.parametrize("pages_taken", [1, 2])
def test_an_export_that_was_left_half_way_does_not_outlive_the_ledger(
    url: str, pages_taken: int
) -> None:
    name = f"export_{secrets.token_hex(4)}"

    def connected() -> int:
        with psycopg.connect(url.partition("&schema=")[0]) as outside:
            return outside.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = %s", (name,)
            ).rowcount

    with open_ledger(f"{url}&application_name={name}") as ledger:
        ledger.append([said("x") for _ in range(MANY)])
        # The pool's, and that of the thread which announces.
        until(lambda: connected() > 1)
        before = connected()
        pages = store_of(ledger).reader.record_pages(parse_scope(HERE))
        taken = [len(next(pages)) for _ in range(pages_taken)]
        within = connected()

    # Kept until here, and so not ended by being let go of.
    until(lambda: not connected())
    assert (taken, within - before) == ([RECORDS_PAGE] * pages_taken, 1)
    with pytest.raises(StorageError):
        list(pages)


def test_a_child_that_lets_go_of_an_export_does_no_harm_to_it(ledger: Ledger) -> None:
    ledger.append([said("x") for _ in range(MANY)])
    pages = store_of(ledger).reader.record_pages(parse_scope(HERE))
    taken = len(next(pages))

    def let_go() -> None:
        nonlocal pages
        pages.close()  # type: ignore[attr-defined]
        pages = iter(())
        gc.collect()

    def let_go_and_close() -> None:
        let_go()
        ledger.close()

    for work in (let_go, let_go_and_close):
        assert ended_well(in_child(work))
        taken += len(next(pages))

    assert taken + sum(len(page) for page in pages) == MANY
    assert check_order(ledger) == MANY


# Ways to open a ledger.


@pytest.mark.parametrize(("durability", "commit"), [("full", "on"), ("normal", "off")])
def test_durability_is_a_matter_of_the_writer(url: str, durability: str, commit: str) -> None:
    with open_ledger(url, durability=durability) as ledger:
        write_own(ledger, "s1", 10)
        ledger.append([said("batch"), said("batch")])
        told = store_of(ledger)._server.read(
            lambda connection: connection.execute("SHOW synchronous_commit").fetchall()
        )

        assert told == [(commit,)]
        assert check_order(ledger) == 12


def test_who_only_reads_reads_all_and_writes_nothing(url: str) -> None:
    with open_ledger(url) as ledger:
        ledger.append([said("before", event_id="before")])
    writes: list[Callable[[Ledger], object]] = [
        lambda ledger: ledger.append([said("x")]),
        lambda ledger: ledger.append([said("x"), said("y", session_id="s2")]),
        lambda ledger: ledger.redact(HERE, event_id="before"),
        lambda ledger: ledger.expire(HERE, policy={"conversation.user": 0}),
        lambda ledger: ledger.set_retention(HERE, {"conversation.user": 1}),
        lambda ledger: ledger.admin.rebuild(),
    ]
    with open_ledger(url, mode="ro") as reader:
        for attempt in writes:
            with pytest.raises(ReadOnly):
                attempt(reader)

        assert reader.event(HERE, "before").payload == {"text": "before"}
        assert followed(reader, None, "before")[0] == ["before"]
        assert check_order(reader) == 1


def test_a_ledger_that_nobody_has_written_to_can_be_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "PATIENCE_S", 2.0)
    with open_ledger(url, mode="ro") as reader:
        assert stored(reader) == []
        assert list(reader.follow(HERE, idle_s=0)) == []


# What stays in a process.


def test_a_connection_keeps_nothing_of_what_it_sent(ledger: Ledger) -> None:
    """It may be erased before anything else is sent."""
    with ledger.session("s1", scope=HERE, agent="lyria").turn() as turn:
        turn.user("quillwort")
    ledger.append([said("quillwort", session_id="s2")])

    living = gc.get_objects()
    connections = [one for one in living if isinstance(one, server_module.Connection)]
    assert connections
    assert "quillwort" not in repr([vars(one) for one in connections])
    assert all(one._query is None for one in living if isinstance(one, psycopg.Cursor))
