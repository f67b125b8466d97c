"""Promise 1 and 2 when servers stop, crash, and are taken over from by their replicas."""

from __future__ import annotations

import contextlib
import io
import socket
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import psycopg
import pytest

from builders import DAY, HERE, NOON, run_of, said
from concurrency.processes import colleagues
from effort import PATIENCE_S
from forks import fork
from postgres_server import Replica, Server, StopMode, laid_out
from postgres_writers import (
    LAST,
    Account,
    Following,
    Pauses,
    check_account,
    check_followed,
    follow,
    followed,
    held_open,
    open_ledger,
    store_of,
    stored,
    told_by,
    unless,
    until,
    write_some,
    write_until_told,
)
from threads import in_threads
from treering.app import administer
from treering.errors import OutcomeUnknown, ReadOnly, StorageError
from treering.storage.postgres import announcements
from treering.storage.postgres import server as server_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Ledger, NewEvent

SAFE: Final = {"fsync": "on", "full_page_writes": "on"}
"""PostgreSQL's own settings, for servers that are meant to crash."""
STOPS: Final[tuple[StopMode, ...]] = ("fast", "immediate", "fast", "immediate")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Return a server that tests may stop, as long as they start it again."""
    with Server(SAFE) as server:
        server.create_database("treering")
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return laid_out(server.url("treering"))


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with open_ledger(url) as ledger:
        yield ledger


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a lost server up soon."""
    monkeypatch.setattr(server_module, "PATIENCE_S", 2.0)


# Stops and crashes.


def test_nothing_is_lost_or_doubled_when_the_server_stops_and_crashes_under_load(
    server: Server, url: str, ledger: Ledger
) -> None:
    with under_load(url, ledger) as account:
        for mode in STOPS:
            time.sleep(0.3)
            server.restart(mode)
            # Everybody has to find back before the next one.
            account.append(ledger, [said(f"{mode} at {time.monotonic()}", session_id="between")])

    assert account.unsure == set()
    check_account(account, ledger)


def test_what_is_cut_off_amid_an_answer_is_read_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append([said("hello")])
    execute = psycopg.Connection._exec_command
    cut: list[Any] = []

    def cut_off(self: Any, command: Any, *others: Any, **named: Any) -> Any:
        if not cut and "FETCH" in str(command):
            cut.append(command)
            self.pgconn.finish()
            # What psycopg raises for the server's last words beside an answer.
            raise psycopg.InternalError(f"received 2 results from command {command!r}")
        return execute(self, command, *others, **named)

    monkeypatch.setattr(psycopg.Connection, "_exec_command", cut_off)

    assert ledger.admin.verify(HERE).intact
    assert len(cut) == 1


def test_nothing_is_lost_or_doubled_when_connections_are_cut_off_under_load(
    server: Server, url: str, ledger: Ledger
) -> None:
    with (
        under_load(url, ledger) as account,
        psycopg.connect(server.url("treering"), autocommit=True) as killer,
    ):
        for _ in range(15):
            time.sleep(0.05)
            killer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'treering'"
            )

    assert account.unsure == set()
    check_account(account, ledger)


@contextlib.contextmanager
def under_load(url: str, ledger: Ledger) -> Iterator[Account]:
    """Have processes and threads write, read and follow meanwhile; check that nobody failed."""
    account, over, here = Account(), threading.Event(), Following(ledger)

    def read() -> None:
        while not over.is_set():
            known = len(account.kept)
            assert len(stored(ledger)) >= known
            proof = ledger.admin.verify(HERE)
            assert proof.intact, proof.first_broken

    def threads() -> None:
        in_threads(
            read,
            *(
                partial(write_some, ledger, f"t{number}", unless(over), account)
                for number in range(2)
            ),
        )

    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            threads()
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failures.append(error)

    with (
        colleagues(2, write_until_told, url) as writers,
        colleagues(1, follow, url, None, False) as (there,),
    ):
        for colleague in (*writers, there):
            colleague.hear()
        busy = threading.Thread(target=attempt)
        busy.start()
        try:
            yield account
        finally:
            over.set()
            busy.join(PATIENCE_S)
        if failures:
            raise failures[0]
        for writer in writers:
            writer.tell("enough")
        for writer in writers:
            account.add(writer.hear())
        account.append(ledger, [said(LAST, session_id="last")])
        check_followed(told_by(there), ledger)
        check_followed(here.all(), ledger)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_who_had_many_connections_finds_back_after_a_restart_as_soon_as_others(
    server: Server, ledger: Ledger, mode: StopMode
) -> None:
    ledger.append([said("before")])
    gate = threading.Barrier(16)

    def hold(number: int) -> None:
        with held_open(ledger, said("x", session_id=f"s{number}")):
            gate.wait(PATIENCE_S)

    in_threads(*(partial(hold, number) for number in range(16)))
    server.restart(mode)
    tries = 0

    def work(connection: object) -> None:
        nonlocal tries
        tries += 1
        assert isinstance(connection, psycopg.Connection)
        connection.execute("SELECT 1")

    store_of(ledger)._server.write(work)

    assert tries <= 3


@pytest.mark.usefixtures("impatient")
def test_an_append_that_was_sent_to_a_lost_server_is_unknown_and_can_be_repeated(
    server: Server, ledger: Ledger
) -> None:
    ledger.append([said("before")])
    outcomes: list[object] = []

    def append(*texts: str) -> None:
        try:
            outcomes.append(ledger.append([said(text, event_id=text) for text in texts]))
        except StorageError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=append, args=texts) for texts in (["one"], ["two", "three"])]
    with contextlib.suppress(psycopg.OperationalError), held_open(ledger, said("in the way")):
        for thread in threads:
            thread.start()
        until(lambda: waiting(ledger) == 2)
        server.stop("immediate")
        for thread in threads:
            thread.join(PATIENCE_S)
    server.start()

    unknown = [error for error in outcomes if isinstance(error, OutcomeUnknown)]
    assert sorted(error.event_ids for error in unknown) == [("one",), ("two", "three")]
    append("one")
    append("two", "three")
    assert [header.summary for header in stored(ledger)] == ["before", "one", "two", "three"]
    assert ledger.admin.verify().intact


def waiting(ledger: Ledger) -> int:
    """Return how many wait for a session's lock."""
    found: int = store_of(ledger)._server.read(
        lambda connection: connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchall()[0][0]
    )
    return found


def test_a_connection_that_was_idle_for_too_long_is_replaced(server: Server) -> None:
    server.create_database("idle")
    with psycopg.connect(server.url("idle"), autocommit=True) as outside:
        outside.execute("ALTER DATABASE idle SET idle_session_timeout = '2s'")
        outside.execute("SET idle_session_timeout = 0")

        def is_alone() -> bool:
            # Behind a pipeline the server forgets to look at the time; behind a query it does not.
            stored(idle)
            time.sleep(2.5)
            found = outside.execute("SELECT 1 FROM pg_stat_activity WHERE datname = 'idle'")
            return len(found.fetchall()) == 1

        with open_ledger(laid_out(server.url("idle"))) as idle:
            idle.append([said("one")])
            until(is_alone)
            idle.append([said("two")])

            assert [header.summary for header in stored(idle)] == ["one", "two"]


def test_an_address_tells_the_server_its_options(url: str) -> None:
    options = quote("-c statement_timeout=12345 -c lock_timeout=1")
    with open_ledger(f"{url}&options={options}") as ledger:
        told = store_of(ledger)._server.read(
            lambda connection: connection.execute("SHOW statement_timeout").fetchall()
        )

    assert told == [("12345ms",)]


# Answers that are lost.


class Wire:
    """Stands between a ledger and its server, and can lose what the server answers."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._address = str(server.folder / f".s.PGSQL.{server.port}")
        self.url = server.url("treering").replace(str(server.folder), str(folder))
        self._losing: bytes | None = None
        self._then: Callable[[], object] = bool
        self.lost = 0
        self._ear = socket.socket(socket.AF_UNIX)
        self._ear.bind(str(folder / f".s.PGSQL.{server.port}"))
        self._ear.listen()
        threading.Thread(target=self._take, daemon=True).start()

    def lose_answer_to(self, words: bytes, then: Callable[[], object] = bool) -> None:
        """Once, lose the answer to what says ``words``, do ``then``, and lose the connection."""
        self._losing, self._then = words, then

    def close(self) -> None:
        """Take no more connections."""
        self._ear.shutdown(socket.SHUT_RDWR)
        self._ear.close()

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._ear.accept()[0]
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        losing = threading.Event()
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(self._address)
            answers = threading.Thread(target=self._answer, args=(server, client, losing))
            answers.start()
            while asked := client.recv(65_536):
                if self._losing is not None and self._losing in asked:
                    self._losing = None
                    losing.set()
                server.sendall(asked)
            server.shutdown(socket.SHUT_RDWR)
            answers.join(PATIENCE_S)

    def _answer(
        self, server: socket.socket, client: socket.socket, losing: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while answer := server.recv(65_536):
                if not losing.is_set():
                    client.sendall(answer)
                elif answer.endswith(_IDLE):
                    self.lost += 1
                    self._then()
                    break
            client.shutdown(socket.SHUT_RDWR)


_IDLE: Final = b"Z\0\0\0\x05I"
"""What a server says when it has done what it was told and no transaction is open."""


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        wire = Wire(server, Path(folder))
        yield wire
        wire.close()


@pytest.fixture
def wired(wire: Wire, url: str) -> Iterator[Ledger]:
    """Return a ledger that talks over the wire."""
    with open_ledger(f"{wire.url}&{url.rpartition('&')[2]}") as ledger:
        ledger.append([said("before", run_id="r0")])
        yield ledger


CALLS: Final[dict[str, tuple[bytes, list[NewEvent], int | None]]] = {
    "made id": (b"UPDATE heads", [said("a")], None),
    "given id": (b"UPDATE heads", [said("a", event_id="a")], None),
    "expected seq": (b"UPDATE heads", [said("a")], 1),
    "start of a run": (b"append_event", run_of("r1")[:1], None),
    "next of a run": (b"UPDATE heads", [said("a", run_id="r0")], None),
    "end of a run": (b"append_event", [said("a", run_id="r0", kind="run.ended")], None),
    "batch": (b"COMMIT", [said("a"), said("b", event_id="b"), said("c", session_id="s2")], None),
    "expected seq of a batch": (b"COMMIT", [said("a"), said("b")], 1),
    "run": (b"COMMIT", run_of("r1", "a"), None),
}
"""What is appended when an answer is lost: what it is known by on the wire, and the call."""


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_was_committed_but_not_answered_is_recorded_once(
    wire: Wire, wired: Ledger, call: tuple[bytes, list[NewEvent], int | None]
) -> None:
    words, events, expected_seq = call
    wire.lose_answer_to(words)

    headers = wired.append(events, expected_seq=expected_seq)

    assert wire.lost == 1
    assert [header.summary for header in headers] == [event.summary for event in events]
    assert {header.event_id for header in stored(wired)[1:]} == {h.event_id for h in headers}
    assert len(stored(wired)) == 1 + len(events)
    assert wired.admin.verify().intact


@pytest.mark.parametrize("event_id", [None, "chosen"], ids=["made id", "given id"])
def test_a_fork_that_was_committed_but_not_answered_is_made_once(
    wire: Wire, wired: Ledger, event_id: str | None
) -> None:
    wire.lose_answer_to(b"COMMIT")

    header = fork(wired, "forked", parent="s1", seq=1, event_id=event_id)

    assert wire.lost == 1
    assert (header.session_id, header.seq) == ("forked", 2)
    assert [kept.event_id for kept in stored(wired)[1:]] == [header.event_id]
    assert wired.admin.verify().intact


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon where somebody keeps a session locked."""
    monkeypatch.setattr(server_module, "LOCK_PATIENCE", "300ms")


@pytest.mark.usefixtures("hasty")
def test_what_was_committed_but_not_answered_is_unknown_if_somebody_is_in_the_way_of_asking(
    wire: Wire, wired: Ledger, ledger: Ledger
) -> None:
    with contextlib.ExitStack() as stack:
        in_the_way = partial(stack.enter_context, held_open(ledger, said("in the way")))
        wire.lose_answer_to(b"UPDATE heads", then=in_the_way)

        with pytest.raises(OutcomeUnknown) as unknown:
            wired.append([said("a", event_id="a")])

    assert unknown.value.event_ids == ("a",)
    assert [header.summary for header in stored(ledger)] == ["before", "a", "in the way"]


LARGE: Final = {"text": "a long story " * 2_000}


def redact(ledger: Ledger) -> tuple[int, int]:
    """Redact what was said in s2; return how many events and blobs that took."""
    receipt = ledger.redact(HERE, session_id="s2")
    return receipt.redacted_count, receipt.blobs_erased


def expire(ledger: Ledger) -> tuple[int, int]:
    """Have the same expire by its age; return how many events and blobs that took."""
    receipt = ledger.expire(HERE, policy={"conversation.user": 1}, now_ms=NOON + 2 * DAY)
    return receipt.deleted_total, receipt.blobs_erased


@pytest.mark.parametrize("erase", [redact, expire])
def test_an_erasure_that_was_committed_but_not_answered_says_what_it_took(
    wire: Wire, wired: Ledger, erase: Callable[[Ledger], tuple[int, int]]
) -> None:
    old = {"session_id": "s2", "ts_ms": NOON}
    wired.append([said("one", **old), said("two", payload=LARGE, **old), said("three", **old)])
    wire.lose_answer_to(b"COMMIT")

    taken = erase(wired)

    assert wire.lost == 1
    assert taken == (3, 1)
    assert erase(wired) == (0, 0)
    assert len([h for h in stored(wired) if h.kind.startswith("ledger.")]) == 1
    assert wired.admin.verify().intact


@pytest.mark.parametrize("known", [0, 2])
def test_a_restore_that_was_committed_but_not_answered_says_what_was_new(
    wire: Wire, wired: Ledger, server: Server, known: int
) -> None:
    with open_ledger(laid_out(server.url("treering"))) as source:
        for number in range(5):
            if number == known != 0:
                wired.admin.restore(exported(source))
            source.append([said(f"event {number}", session_id="copied")])
        wire.lose_answer_to(b"COMMIT")

        receipt = wired.admin.restore(exported(source))

    assert wire.lost == 1
    assert (receipt.imported, receipt.duplicates, receipt.complete) == (5 - known, known, True)
    assert len(wired.headers(HERE, session_id="copied").items) == 5
    assert wired.admin.verify().intact


def exported(ledger: Ledger) -> io.BytesIO:
    stream = io.BytesIO()
    ledger.admin.export(HERE, stream, payloads="included")
    stream.seek(0)
    return stream


# Replicas.


def burn_xids(url: str, times: int = 5_000) -> None:
    """Have a server give out so many transaction ids."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"DO $$ BEGIN FOR i IN 1..{times} LOOP"
            " PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
        )


def either(first: Server, second: Server, schema: str, **options: str) -> str:
    """Return the address of a ledger that is on one of two servers."""
    extra = "".join(f"&{name}={value}" for name, value in options.items())
    return (
        f"postgresql://postgres@/treering?host={first.folder},{second.folder}"
        f"&port={first.port},{second.port}&schema={schema}{extra}"
    )


@pytest.fixture
def replica(server: Server, url: str) -> Iterator[Replica]:
    """Return a replica that has the ledger with one event in it."""
    with open_ledger(url) as ledger:
        ledger.append([said("known to both")])
    with server.replica() as replica:
        catch_up(server, replica)
        yield replica


@contextlib.contextmanager
def crashed(server: Server) -> Iterator[None]:
    """Have no server meanwhile."""
    server.stop("immediate")
    try:
        yield
    finally:
        server.start()


def catch_up(server: Server, replica: Replica) -> None:
    """Wait until a replica has all that was committed."""
    # A commit takes along what is only in memory, and would go out at the next one.
    burn_xids(server.url("treering"), 1)
    replica.catch_up()


def schema_of(url: str) -> str:
    """Return the schema of a ledger."""
    return url.rpartition("schema=")[2]


def epoch_and_xid(ledger: Ledger, text: str) -> tuple[int, int]:
    """Return the epoch and the transaction of what says ``text``."""
    found = store_of(ledger)._server.read(
        lambda connection: connection.execute(
            "SELECT epoch, xid::text::bigint FROM events WHERE summary = %s", (text,)
        ).fetchall()
    )
    return (found[0][0], found[0][1])


def test_a_replica_is_read_and_followed_and_refuses_to_be_written(
    server: Server, url: str, ledger: Ledger, replica: Replica
) -> None:
    there = f"{replica.url('treering')}&schema={schema_of(url)}"
    with pytest.raises(ReadOnly):
        open_ledger(there)
    with open_ledger(there, mode="ro") as reader:
        following = Following(reader)
        with held_open(ledger, said("early", session_id="a")):
            ledger.append([said("later", session_id="b")])
            catch_up(server, replica)
            between = [header.summary for header in reader.follow(HERE, idle_s=0)]
        ledger.append([said(LAST)])
        heard = following.all()

        with pytest.raises(ReadOnly):
            reader.append([said("x")])
        assert between == ["known to both"]
        check_followed(heard, reader)
        assert reader.admin.verify().intact
        assert [header.summary for header in heard] == ["known to both", "early", "later", LAST]


def test_who_follows_a_replica_does_not_try_to_listen_again_and_again(
    url: str, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = f"{replica.url('treering')}&schema={schema_of(url)}"
    with open_ledger(there, mode="ro") as reader:
        server, pauses = store_of(reader)._server, Pauses()
        connect, made = server.connect, []

        def counting() -> server_module.Connection:
            made.append(pauses.lasted[-1:])
            return connect()

        monkeypatch.setattr(server, "connect", counting)
        store_of(reader)._listener._over = pauses
        texts = [header.summary for header in reader.follow(HERE, idle_s=0.1)]
        until(pauses.is_set)

    # One connection behind each pause, and each pause longer, to the longest.
    assert texts == ["known to both"]
    assert made == [[], *([pause] for pause in pauses.lasted[:-1])]
    assert pauses.lasted == sorted(pauses.lasted)
    assert pauses.lasted[-1] == announcements.PAUSE_MAX_S


def test_nothing_acknowledged_by_both_is_lost_when_a_replica_takes_over_under_load() -> None:
    with Server(SAFE) as first:
        first.create_database("treering")
        url = laid_out(first.url("treering"))
        with first.replica() as second:
            execute(first.url(), "ALTER SYSTEM SET synchronous_standby_names = '*'")
            execute(first.url(), "SELECT pg_reload_conf()")
            both = either(first, second, schema_of(url), target_session_attrs="read-write")
            with open_ledger(both) as ledger:
                account = Account()
                account.append(ledger, [said("before", session_id="between")])
                before = administer(both).status().epoch
                with under_load(both, ledger) as account_under_load:
                    time.sleep(0.5)
                    first.stop("immediate")
                    second.promote()
                    account.append(ledger, [said("after", session_id="between")])
                    time.sleep(0.5)
                account.add(account_under_load)

                assert account.unsure == set()
                check_account(account, ledger)
                assert administer(both).status().epoch == before + 1


def test_a_follower_goes_on_after_a_takeover_although_transactions_count_lower(
    server: Server, url: str, replica: Replica
) -> None:
    both = either(server, replica, schema_of(url), target_session_attrs="read-write")
    replica.stop()
    burn_xids(server.url())
    with open_ledger(both) as ledger:
        ledger.append([said("lost")])
        (_, cursor), lost = followed(ledger, None, "lost"), epoch_and_xid(ledger, "lost")
        live = Following(ledger, after=cursor)
        with crashed(server):
            replica.start()
            replica.promote()
            ledger.append([said("new")])
            ledger.append([said(LAST)])
            new = epoch_and_xid(ledger, "new")

            assert (new[0], new[1] < lost[1]) == (lost[0] + 1, True)
            assert followed(ledger, cursor, LAST)[0] == ["new", LAST]
            assert [header.summary for header in live.all()] == ["new", LAST]
            assert [header.seq for header in stored(ledger)] == [1, 2, 3]
            assert ledger.admin.verify().intact


def test_what_was_lost_with_a_server_is_not_mistaken_for_what_others_made_since(
    server: Server, url: str, replica: Replica
) -> None:
    both = either(server, replica, schema_of(url), target_session_attrs="read-write")
    ours, theirs = ([f"{whose}-{n}" for n in range(80)] for whose in ("ours", "theirs"))
    once = said("once", scope="acme/lost", event_id="once")
    replica.stop()
    with open_ledger(both) as ledger:
        ledger.append([said("lost", session_id=name) for name in ours])
        ledger.append([once])
        with crashed(server):
            replica.start()
            replica.promote()
            with open_ledger(both) as other:
                other.append([said("new", session_id=name) for name in theirs])
                other.append([once])

            ledger.append([once])
            for name in ours:
                ledger.append([said("again", session_id=name)])

            expected = {("s1", 1, "known to both")}
            expected |= {(name, 1, "new") for name in theirs} | {
                (name, 1, "again") for name in ours
            }
            with open_ledger(both) as fresh:
                found = [
                    {(header.session_id, header.seq, header.summary) for header in stored(reader)}
                    for reader in (ledger, fresh)
                ]
                assert found == [expected, expected]
                assert len(fresh.headers("acme/lost").items) == 1
                assert fresh.admin.verify().intact


def test_a_writer_whose_connection_outlives_the_takeover_is_followed_from_an_older_cursor(
    server: Server, url: str, replica: Replica
) -> None:
    # Whichever answers first, so that the writer waits at the replica until it is promoted.
    both = either(server, replica, schema_of(url))
    replica.stop()
    burn_xids(server.url())
    with open_ledger(both) as ledger:
        ledger.append([said("lost")])
        (_, cursor), lost = followed(ledger, None, "lost"), epoch_and_xid(ledger, "lost")
        with crashed(server):
            replica.start()
            writer = threading.Thread(target=ledger.append, args=([said("new")],))
            writer.start()
            until(lambda: visitors(replica))
            replica.promote()
            writer.join(PATIENCE_S)

            assert epoch_and_xid(ledger, "new") > lost
            assert followed(ledger, cursor, "new")[0] == ["new"]


def visitors(server: Server) -> list[tuple[Any, ...]]:
    """Return the processes of a server that serve ledgers."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        return connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'treering'"
        ).fetchall()


@pytest.mark.usefixtures("impatient")
def test_readers_follow_what_is_new_after_a_takeover_also_over_the_connections_they_had(
    url: str, replica: Replica
) -> None:
    there = f"{replica.url('treering')}&schema={schema_of(url)}"
    with open_ledger(there, mode="ro") as reader:
        following = Following(reader)
        until(lambda: following.heard)
        replica.promote()
        # Nobody has written here yet who would have noticed the takeover.
        with open_ledger(there, mode="ro") as other:
            before = followed(other, None, "known to both")[0]
            with open_ledger(there) as writer:
                writer.append([said(LAST)])

            assert before == ["known to both"]
            assert followed(other, None, LAST)[0] == ["known to both", LAST]
            assert [header.summary for header in following.all()] == ["known to both", LAST]


def test_a_follower_goes_on_in_a_restored_dump_although_transactions_count_lower(
    server: Server, url: str, ledger: Ledger
) -> None:
    burn_xids(server.url())
    ledger.append([said("before")])
    (_, cursor), before = followed(ledger, None, "before"), epoch_and_xid(ledger, "before")
    dump = server.folder / "dump"
    server._run(
        *("pg_dump", f"--dbname={server.url('treering')}", f"--schema={schema_of(url)}"),
        *("--format=custom", f"--file={dump}"),
    )
    with Server() as elsewhere:
        elsewhere.create_database("treering")
        elsewhere._run("pg_restore", f"--dbname={elsewhere.url('treering')}", str(dump))
        with open_ledger(f"{elsewhere.url('treering')}&schema={schema_of(url)}") as restored:
            restored.append([said("after")])
            after = epoch_and_xid(restored, "after")

            assert (after[0], after[1] < before[1]) == (before[0] + 1, True)
            assert followed(restored, cursor, "after")[0] == ["after"]
            assert followed(restored, None, "after")[0] == ["before", "after"]
            assert restored.admin.verify().intact


# What is not yet safe when it is acknowledged.


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Server]:
    """Return a server that writes nothing to disk by itself for long."""
    with Server(SAFE | {"wal_writer_delay": "10s"}) as server:
        server.create_database("treering")
        yield server


def test_a_follower_skips_nothing_when_a_crash_takes_back_what_it_has_seen(
    forgetful: Server,
) -> None:
    url = laid_out(forgetful.url("treering"))
    with open_ledger(url, durability="normal") as ledger:
        for number in range(20):
            ledger.append([said(f"soon lost {number}")])
        follower = ledger.follow(HERE, idle_s=0.5)
        seen = {header.summary for header in follower}
        forgetful.restart("immediate")
        ledger.append([said("new")])
        since = followed(ledger, follower.cursor, "new")[0]

        assert "new" in since
        assert {header.summary for header in stored(ledger)} <= seen | set(since)
        assert ledger.admin.verify().intact


def test_who_only_reads_follows_what_is_not_yet_safe_too(forgetful: Server) -> None:
    url = laid_out(forgetful.url("treering"))
    with open_ledger(url, durability="normal") as ledger, open_ledger(url, mode="ro") as reader:
        for text in ("one", "two", "three"):
            ledger.append([said(text)])

        assert followed(reader, None, "three")[0] == ["one", "two", "three"]


def test_what_a_crash_has_taken_back_is_not_mistaken_for_what_others_made_since(
    forgetful: Server,
) -> None:
    url = laid_out(forgetful.url("treering"))
    with open_ledger(url, durability="normal") as ledger:
        ledger.append([said("lost", session_id=f"ours-{n}") for n in range(20)])
        forgetful.restart("immediate")
        with open_ledger(url) as other:
            other.append([said("new", session_id=f"theirs-{n}") for n in range(20)])
        for n in range(20):
            ledger.append([said("again", session_id=f"ours-{n}")])

        again = {header.session_id for header in stored(ledger) if header.summary == "again"}
        new = {header.session_id for header in stored(ledger) if header.summary == "new"}
        assert again == {f"ours-{n}" for n in range(20)}
        assert new == {f"theirs-{n}" for n in range(20)}
        assert ledger.admin.verify().intact


def execute(url: str, statement: str) -> None:
    """Run one statement and commit it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
