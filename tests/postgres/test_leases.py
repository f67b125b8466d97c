"""What is held on a server, through restarts and lost connections, by every sort of role."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
import pytest

import treering
from builders import ELSEWHERE, HERE, said
from concurrency.processes import Colleague, colleagues
from effort import PATIENCE_S
from listeners import SCOPE, note
from postgres_places import Place
from postgres_server import Server, StopMode, laid_out
from postgres_writers import store_of, until
from run_records import Doorkeeper
from treering.clock import now_ms
from treering.model.scopes import Scope
from treering.model.views import start_id
from treering.spine.ports import Delivery, Occasion, Preparation
from treering.storage.leases import LeaseOwner
from treering.storage.postgres import leases, runs, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from treering.model.carried import SafeEvent
    from treering.storage.postgres.store import PostgresStore

ANOTHER_MACHINE: Final = "0123456789ab"


@pytest.fixture(scope="module")
def frail() -> Iterator[Server]:
    """Return a server that tests may stop, as long as they start it again."""
    with Server() as server:
        server.create_database("treering")
        yield server


@pytest.fixture
def store(place: Place) -> Iterator[PostgresStore]:
    with treering.open(place.url) as ledger:
        yield store_of(ledger)


def locked(server: Server) -> int:
    """Return how many locks are held for as long as their connections last."""
    with psycopg.connect(server.url("treering"), autocommit=True) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        ).fetchall()
    return int(found[0][0])


def hold_and_look(pipe: Connection, url: str, _: int = 0) -> None:
    """Hold what is named, and tell on demand whether an owner is gone or a name can be held."""
    store: Any = store_of(treering.open(url))
    pipe.send(store.leases.owner())
    while (asked := pipe.recv()) is not None:
        word, *values = asked
        pipe.send(getattr(store.leases, word)(*values))


def ask(colleague: Colleague, *words: object) -> Any:
    colleague.tell(words)
    return colleague.hear()


# Restarts and lost connections.


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_what_was_held_is_taken_back_after_a_restart(frail: Server, mode: StopMode) -> None:
    url = laid_out(frail.url("treering"))
    with treering.open(url) as ledger, colleagues(1, hold_and_look, url) as (other,):
        store = store_of(ledger)
        owner = store.leases.owner()
        assert store.leases.hold("sink")
        other.hear()
        frail.restart(mode)

        assert ask(other, "is_gone", owner, 0) is False
        until(lambda: locked(frail) == 3)
        assert (ask(other, "hold", "sink"), store.leases.hold("sink")) == (False, True)
        assert ask(other, "is_gone", owner, 0) is False


def test_what_was_held_is_taken_back_when_connections_are_cut_off(
    place: Place, store: PostgresStore
) -> None:
    owner = store.leases.owner()
    assert store.leases.hold("sink")
    with treering.open(place.url) as other:
        cut_off(place)

        until(lambda: is_locked(place, store, owner))
        assert not store_of(other).leases.is_gone(owner, 0)
        assert store.leases.hold("sink")
        assert not store_of(other).leases.hold("sink")


def test_what_another_took_meanwhile_is_not_held_any_more(
    place: Place, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 3_600.0)
    assert store.leases.hold("sink")
    with treering.open(place.url) as other:
        cut_off(place)
        until(lambda: store_of(other).leases.hold("sink"))

        assert not store.leases.hold("sink")


def test_who_loses_the_connection_while_a_run_begins_does_not_begin_a_second_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the session and the start, another process gets what we held."""
    monkeypatch.setattr(leases, "BEAT_S", 3_600.0)
    with treering.open(place.url) as ledger, treering.open(place.url) as other:
        theirs = other.session("s", scope=HERE, agent="lyria").turn()

        class Absent(Doorkeeper):
            def before_run(self, occasion: Occasion, prompt: str | None, /) -> Preparation:
                cut_off(place)
                theirs.start()
                return super().before_run(occasion, prompt)

        ledger.spine([Absent()])
        ours = ledger.session("s", scope=HERE, agent="lyria").turn(wait_s=0.0)
        with pytest.raises(treering.errors.RunActive, match=theirs.run_id):
            ours.start()

        started = [h.run_id for h in other.headers(HERE).items if h.kind == "run.started"]
        assert started == [theirs.run_id]


def test_a_run_begins_in_a_session_that_others_write_to_all_the_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(place.url) as ledger:
        ledger.append([said("hello", session_id="s")])
        # As if somebody wrote between every look at the session and what comes of it.
        monkeypatch.setattr(ledger._engine, "head_seq", lambda *_: 0)

        with ledger.session("s", scope=HERE, agent="lyria").turn(wait_s=0.0):
            kinds = [header.kind for header in ledger.headers(HERE).items]

    assert kinds == ["conversation.user", "run.started"]


class Scribe:
    """Notes what it hears, durably; ``slow`` takes nothing but the first event, and late."""

    name = "scribe"
    delivery = Delivery(durable=True, on_error="retry")

    def __init__(self, *, slow: bool = False) -> None:
        self.slow = slow
        self.heard: list[str | None] = []
        self.go_on = threading.Event()

    def accepts(self, event: SafeEvent, /) -> bool:
        return event.kind == "ops.decision"

    def handle(self, event: SafeEvent, /) -> None:
        self.heard.append(event.summary)
        if self.slow and event.summary != "0":
            raise RuntimeError("too much")
        if self.slow:
            self.go_on.wait(PATIENCE_S)


def test_who_has_a_sink_back_from_another_process_does_not_set_its_cursor_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 3_600.0)
    slow, quick = Scribe(slow=True), Scribe()
    with treering.open(place.url) as ledger:
        with treering.open(place.url) as other:
            note(ledger, "0")
            ledger.spine([slow]).follow(SCOPE)
            until(lambda: slow.heard)
            cut_off(place)
            other.spine([quick]).follow(SCOPE)
            until(lambda: quick.heard == ["0"])
            note(other, "1", "2")
            assert other.spine().flush(PATIENCE_S)
        kept = store_of(ledger).cursors.find(Scope(HERE), "scribe")

        slow.go_on.set()
        until(lambda: "1" in slow.heard)

        assert ledger.spine().flush(PATIENCE_S)
        assert slow.heard == ["0", "1"]
        assert store_of(ledger).cursors.find(Scope(HERE), "scribe") == kept


def test_who_lost_a_sink_to_another_process_does_not_set_its_cursor_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 3_600.0)
    slow, quick = Scribe(slow=True), Scribe()
    with treering.open(place.url) as ledger, treering.open(place.url) as other:
        note(ledger, "0")
        ledger.spine([slow]).follow(SCOPE)
        until(lambda: slow.heard)
        cut_off(place)
        other.spine([quick]).follow(SCOPE)
        until(lambda: quick.heard == ["0"])
        note(other, "1", "2")
        assert other.spine().flush(PATIENCE_S)

        slow.go_on.set()
        until(lambda: "1" in slow.heard)

        assert ledger.spine().flush(PATIENCE_S)
        assert slow.heard == ["0", "1"]
        for _ in range(2):  # The next looks begin at the cursor that is kept.
            assert other.spine().flush(PATIENCE_S)
        assert quick.heard == ["0", "1", "2"]


def cut_off(place: Place) -> None:
    """End every connection to the ledgers of the server."""
    place.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'treering'"
    )


def is_locked(place: Place, store: PostgresStore, owner: str) -> bool:
    key = store.leases._locks.key(owner)
    with place.connect() as connection:
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
    return row == (False,)


def test_who_holds_something_is_not_hung_up_on_for_its_silence(place: Place) -> None:
    with treering.open(f"{place.url}&options=-c%20idle_session_timeout%3D12345") as ledger:
        store_of(ledger).leases.owner()

        connection = store_of(ledger).leases._locks._connection
        assert connection is not None
        told = connection.execute("SHOW idle_session_timeout").fetchall()

    assert told == [("0",)]


def test_a_server_that_stays_away_is_waited_for_as_long_as_usual(
    frail: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "PATIENCE_S", 0.2)
    with treering.open(laid_out(frail.url("treering"))) as ledger:
        frail.stop()
        try:
            with pytest.raises(treering.errors.StorageError) as refused:
                store_of(ledger).leases.owner()
        finally:
            frail.start()

        assert refused.value.hint
        assert store_of(ledger).leases.owner()


# Other machines.


@pytest.fixture
def elsewhere(store: PostgresStore) -> str:
    """Return a name that a process of another machine has."""
    owner = LeaseOwner.parse(store.leases.owner())
    assert owner is not None
    return str(msgspec.structs.replace(owner, machine=ANOTHER_MACHINE))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bear little silence, and wait little for who may take back what it held."""
    monkeypatch.setattr(leases, "SILENCE_MS", -1)
    monkeypatch.setattr(leases, "RETAKING_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_who_is_silent_on_another_machine_and_holds_nothing_is_gone(
    store: PostgresStore, elsewhere: str
) -> None:
    assert store.leases.is_gone(elsewhere, 0)


@pytest.mark.usefixtures("impatient")
def test_who_is_silent_on_another_machine_and_holds_its_name_is_not_gone(
    place: Place, store: PostgresStore, elsewhere: str
) -> None:
    with place.connect() as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (store.leases._locks.key(elsewhere),))

        assert not store.leases.is_gone(elsewhere, 0)


def test_who_was_heard_of_lately_is_not_gone(
    store: PostgresStore, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RETAKING_S", 0.0)

    assert not store.leases.is_gone(elsewhere, now_ms())


def test_nobody_elsewhere_is_gone_when_the_server_has_just_started(
    frail: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds nothing at first, and all who live get the time to find back."""
    monkeypatch.setattr(leases, "RETAKING_S", 0.0)
    place = Place(frail)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        store = store_of(ledger)
        owner = LeaseOwner.parse(store.leases.owner())
        assert owner is not None
        frail.restart()

        assert not store.leases.is_gone(
            str(msgspec.structs.replace(owner, machine=ANOTHER_MACHINE)), 0
        )


def test_a_server_that_has_taken_over_serves_since_then(
    place: Place, store: PostgresStore, elsewhere: str
) -> None:
    before = store.leases._look(elsewhere)
    place.sql("UPDATE ledger SET value = '7000000000000000000/00000001' WHERE name = 'cluster'")

    after = store.leases._look(elsewhere)

    assert before[3] <= before[2] <= after[3] <= after[2]


def test_who_was_cut_off_for_a_moment_is_not_gone(
    place: Place, store: PostgresStore, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SILENCE_MS", -1)
    looking, told = threading.Event(), []
    look: Callable[[str], tuple[Any, ...]] = store.leases._look

    def noting(owner: str) -> tuple[Any, ...]:
        seen = look(owner)
        looking.set()
        return seen

    monkeypatch.setattr(store.leases, "_look", noting)
    asking = threading.Thread(target=lambda: told.append(store.leases.is_gone(elsewhere, 0)))
    asking.start()
    looking.wait(PATIENCE_S)
    with place.connect() as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (store.leases._locks.key(elsewhere),))
        asking.join(PATIENCE_S)

    assert told == [False]


@pytest.mark.usefixtures("impatient")
def test_on_a_replica_nobody_elsewhere_is_gone(frail: Server) -> None:
    """Nobody holds anything there."""
    url = laid_out(frail.url("treering"))
    with treering.open(url) as ledger, frail.replica() as replica:
        owner = LeaseOwner.parse(store_of(ledger).leases.owner())
        assert owner is not None
        replica.catch_up()
        there = f"{replica.url('treering')}&schema={url.rpartition('schema=')[2]}"
        with treering.open(there, mode="ro") as reading:
            remote = str(msgspec.structs.replace(owner, machine=ANOTHER_MACHINE))
            told = [store_of(opened).leases.is_gone(remote, 0) for opened in (reading, ledger)]

    assert told == [False, True]


# Roles.


@pytest.mark.parametrize("grants", [(None,), (HERE,)], ids=["application", "held"])
def test_whoever_sees_one_scope_holds_and_finds_like_the_owner(
    place: Place, grants: tuple[str | None, ...]
) -> None:
    scope = Scope(HERE)
    with (
        treering.open(place.url) as ledger,
        treering.open(place.url_of(place.role(*grants))) as walled,
    ):
        ledger.append([said("start", kind="run.started", run_id="r1", scope=ELSEWHERE)])
        ours = store_of(walled).leases.owner()
        mine = start_id("r2", ours)
        walled.append([said("start", kind="run.started", run_id="r2", event_id=mine)])
        store_of(walled).cursors.set(scope, "sink", "one")
        store_of(walled).cursors.set(scope, "sink", "two")

        assert [run.owner for run in store_of(walled).reader.open_runs(scope)] == [ours]
        assert [run.run_id for run in store_of(walled).reader.open_runs(scope, "s1")] == ["r2"]
        assert store_of(walled).reader.open_runs() == []
        assert [run.run_id for run in store_of(ledger).reader.open_runs()] == ["r2", "r1"]
        assert store_of(ledger).cursors.find(scope, "sink") == "two"
        assert store_of(walled).leases.hold("sink")
        leases = store_of(ledger).leases
        assert not leases.hold("sink")
        assert not leases.is_gone(ours, 0)
        assert not store_of(walled).leases.is_gone(leases.owner(), 0)
        walled.close()
        assert leases.hold("sink")
        assert leases.is_gone(ours, 0)


def test_a_held_role_keeps_no_cursor_in_another_scope(place: Place) -> None:
    with treering.open(place.url_of(place.role(HERE))) as walled:
        with pytest.raises(treering.TreeringError) as refused:
            store_of(walled).cursors.set(Scope(ELSEWHERE), "sink", "one")
        assert store_of(walled).cursors.find(Scope(ELSEWHERE), "sink") is None

    assert "db grant" in str(refused.value.hint)


# Ledgers of the first schema.


@pytest.fixture
def first(server: Server, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a ledger as the first version made it, with a role that is held to a scope."""
    place = Place(server)
    known = schema.migrations()
    with monkeypatch.context() as then:
        then.setattr(schema, "migrations", lambda: known[:1])
        then.setattr("treering.storage.postgres.roles.WALLED", ("scopes", "sessions", "events"))
        then.setattr("treering.storage.postgres.roles.SCRUBBED", ("events", "blobs"))
        then.setattr("treering.storage.postgres.roles.HASHING", ("sessions", "runs"))
        then.setattr(
            "treering.storage.postgres.roles._PRIVILEGES",
            "GRANT USAGE ON SCHEMA {schema} TO {app}, {scoped};"
            "GRANT SELECT ON ledger, grants TO {app}, {scoped};",
        )
        then.setattr("treering.storage.postgres.reader.Reader.has_legacy", lambda _: False)
        then.setattr(
            "treering.storage.postgres.batch._POSITIONS",
            "SELECT nextval('positions') FROM generate_series(1, %s::bigint)",
        )
        place.administration.init(partitions=2)
        with treering.open(place.url) as ledger:
            ledger.append([said("of the first schema")])
    return place


def test_a_ledger_of_the_first_schema_is_brought_up_with_its_roles(first: Place) -> None:
    role = first.role(HERE)

    receipt = first.administration.init()

    assert receipt.schema_version_before == 1
    assert receipt.schema_version == len(schema.migrations())
    check_walled(first, role)


def test_an_owner_who_opens_a_ledger_of_the_first_schema_brings_its_roles_along(
    first: Place,
) -> None:
    role = first.role(HERE)

    treering.open(first.url).close()

    check_walled(first, role)


def check_walled(place: Place, role: str) -> None:
    """Check that a role can use what came with an upgrade, and sees what was there before."""
    with treering.open(place.url_of(role)) as ledger:
        store_of(ledger).cursors.set(Scope(HERE), "sink", "one")
        assert store_of(ledger).cursors.find(Scope(HERE), "sink") == "one"
        assert [header.summary for header in ledger.headers(HERE).items] == ["of the first schema"]
        assert ledger.admin.verify(HERE).intact


def test_a_ledger_without_roles_is_brought_up_without_them(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, known = Place(server), schema.migrations()
    with monkeypatch.context() as then:
        then.setattr(schema, "migrations", lambda: known[:1])
        place.administration.init(partitions=2, with_roles=False)

    with treering.open(place.url) as ledger:
        store_of(ledger).cursors.set(Scope(HERE), "sink", "one")

    assert place.administration.status().schema_version == len(known)
    assert place.sql("SELECT 1 FROM pg_policies WHERE schemaname = %s", place.schema) == []


# Plans.


def test_open_runs_are_found_by_their_index(store: PostgresStore) -> None:
    bound = {"redacted": "", "limit": 9, "scope": HERE, "session": 1, "owned": True}

    def plan(statement: str) -> str:
        found = store._server.read(
            lambda connection: connection.execute(f"EXPLAIN {statement}", bound).fetchall()
        )
        return "\n".join(row[0] for row in found)

    for statement in (runs.ALL_OPEN, runs.OPEN_IN_SCOPE, runs.OPEN_IN_SESSION, runs.RUNNING):
        told = plan(statement)
        assert "runs_open" in told
        assert "Seq Scan" not in told
