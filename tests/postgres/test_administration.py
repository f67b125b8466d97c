"""Laying out a ledger on a server, its schema's versions, and what its status tells."""

from __future__ import annotations

import contextlib
import secrets
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import psycopg
import pytest

import treering
from builders import ELSEWHERE, HERE, said
from effort import PATIENCE_S, rounds
from postgres_places import Place
from postgres_server import Server
from threads import in_threads
from treering.errors import NotFound, NotPermitted, Unsupported
from treering.storage.postgres import administration, schema
from treering.storage.postgres import server as server_module

VERSION = len(schema.migrations())
"""The schema that this program makes."""


@pytest.fixture
def empty(server: Server) -> Place:
    """Return a place where no ledger is yet."""
    return Place(server)


# Laying out.


def test_a_ledger_is_laid_out_with_its_roles(empty: Place) -> None:
    receipt = empty.administration.init()

    assert (receipt.schema, receipt.schema_version_before, receipt.schema_version) == (
        empty.schema,
        0,
        VERSION,
    )
    assert receipt.partitions == schema.PARTITIONS
    assert receipt.roles == [f"{empty.schema}_app", f"{empty.schema}_scoped"]


def test_whoever_lays_out_at_the_same_time_gets_the_same_ledger_with_its_roles(
    empty: Place,
) -> None:
    with ThreadPoolExecutor(6) as threads:
        receipts = list(threads.map(lambda _: empty.administration.init(partitions=2), range(6)))

    assert sorted(receipt.schema_version_before for receipt in receipts) == [0, *[VERSION] * 5]
    assert {len(receipt.roles) for receipt in receipts} == {2}


def test_a_role_that_is_let_in_from_many_places_at_once_has_all_its_scopes(place: Place) -> None:
    scopes, role = ["a", "b", "c", "d"], f"r_{secrets.token_hex(4)}"
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(partial(place.administration.grant, role), scopes))

    assert place.administration.status().roles[role] == scopes


def test_laying_out_again_changes_nothing(place: Place) -> None:
    role = place.role(HERE)
    with treering.open(place.url) as ledger:
        ledger.append([said("kept")])

    first = place.administration.init()
    second = place.administration.init(partitions=64)

    assert first == second
    assert (first.schema_version_before, first.schema_version) == (VERSION, VERSION)
    assert first.partitions == 2
    assert place.administration.status().roles == {role: [HERE]}
    with treering.open(place.url_of(role)) as ledger:
        assert [header.summary for header in ledger.headers(HERE).items] == ["kept"]


@pytest.mark.parametrize("partitions", [1, 5])
def test_the_events_are_spread_over_as_many_partitions_as_asked(
    empty: Place, partitions: int
) -> None:
    receipt = empty.administration.init(partitions=partitions)

    status = empty.administration.status()
    assert receipt.partitions == partitions
    assert [part.name for part in status.partitions] == [
        f"events_{n:02}" for n in range(partitions)
    ]


@pytest.mark.parametrize("partitions", [0, -1, administration.PARTITIONS_MAX + 1])
def test_a_number_of_partitions_that_makes_no_sense_is_refused(
    empty: Place, partitions: int
) -> None:
    with pytest.raises(treering.InvalidInput, match="1 to 1024 partitions") as refused:
        empty.administration.init(partitions=partitions)

    assert refused.value.hint
    assert empty.sql("SELECT to_regnamespace(%s)", empty.schema) == [(None,)]


def test_an_owner_who_may_not_make_roles_gets_a_ledger_without_them(server: Server) -> None:
    owner, database = f"o_{secrets.token_hex(4)}", f"d_{secrets.token_hex(4)}"
    server.create_role(owner, password="x")
    server.create_database(database, owner=owner)
    place = Place(server, database=database, owner=owner)

    receipt = place.administration.init(partitions=2)

    assert receipt.roles == []
    with treering.open(place.url) as ledger:
        ledger.append([said("hello", event_id="e1")])
        assert ledger.redact(HERE, event_id="e1").physical == "done"
        assert ledger.admin.verify().intact
    status = place.administration.status()
    assert (status.roles, status.replicas, status.erasure_pending) == ({}, [], [])
    with pytest.raises(treering.InvalidInput) as refused:
        place.administration.grant("somebody", HERE)
    assert "treering db init" in str(refused.value.hint)


def test_roles_can_be_made_later_by_somebody_who_may(server: Server) -> None:
    owner, database = f"o_{secrets.token_hex(4)}", f"d_{secrets.token_hex(4)}"
    server.create_role(owner, password="x")
    server.create_database(database, owner=owner)
    place = Place(server, database=database, owner=owner)
    place.administration.init(partitions=2)
    Place(server).sql(f"ALTER ROLE {owner} CREATEROLE")

    receipt = place.administration.init()
    role = place.role(HERE)

    assert len(receipt.roles) == 2
    with treering.open(place.url_of(role)) as ledger:
        ledger.append([said("hello")])
        assert ledger.admin.verify(HERE).events == 1


def test_opening_lays_out_what_is_not_there(empty: Place) -> None:
    with treering.open(empty.url) as ledger:
        ledger.append([said("first")])

    status = empty.administration.status()
    assert (status.schema_version, len(status.partitions)) == (VERSION, schema.PARTITIONS)


def test_opening_to_read_lays_out_nothing(empty: Place) -> None:
    with pytest.raises(treering.TreeringError) as refused:
        treering.open(empty.url, mode="ro")

    assert refused.value.hint
    assert empty.sql("SELECT to_regnamespace(%s)", empty.schema) == [(None,)]


@pytest.mark.parametrize("cluster", ["", "7000000000000000000/00000001"], ids=["new", "moved"])
def test_a_ledger_can_be_read_before_anything_is_written_here(
    place: Place, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was just laid out, restored from a dump, or its server has taken over."""
    monkeypatch.setattr(server_module, "PATIENCE_S", 1.0)
    if cluster:
        with treering.open(place.url) as ledger:
            ledger.append([said("hello")])
        place.sql("UPDATE ledger SET value = %s WHERE name = 'cluster'", cluster)

    with treering.open(place.url, mode="ro") as ledger:
        found = [header.summary for header in ledger.follow(HERE, idle_s=0)]

        assert found == ["hello"] * bool(cluster)
        assert ledger.admin.verify().intact


def test_connections_that_come_at_once_after_a_takeover_agree_on_the_epoch(place: Place) -> None:
    """One that had the old epoch would write events that are followed before earlier ones."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(place.connect()) for _ in range(6)]
        for number in range(rounds(20, times=30)):
            place.sql("UPDATE ledger SET value = 'elsewhere' WHERE name = 'cluster'")
            gate = threading.Barrier(len(connections))
            epochs: list[int] = []

            in_threads(*(partial(enter, one, gate, epochs) for one in connections))

            assert epochs == [number + 1] * 18


def enter(connection: psycopg.Connection[Any], gate: threading.Barrier, epochs: list[int]) -> None:
    """Ask three times for the epoch that a connection is in, with all others at one moment."""
    gate.wait(PATIENCE_S)
    for _ in range(3):
        epochs += connection.execute("SELECT enter_epoch()").fetchone() or ()


def test_processes_that_open_a_fresh_place_together_agree_on_one_ledger(empty: Place) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as processes:
        seqs = list(processes.map(append_one, [empty.url] * 8, range(8)))

    assert sorted(seqs) == list(range(1, 9))
    with treering.open(empty.url) as ledger:
        assert ledger.admin.verify().events == 8


def append_one(url: str, number: int) -> int:
    """Open the ledger and append one event, in a process of its own."""
    with treering.open(url) as ledger:
        return ledger.append([said(f"event {number}")])[0].seq


# Versions.


def test_a_newer_schema_is_refused(place: Place) -> None:
    place.sql("UPDATE ledger SET value = '99' WHERE name = 'version'")

    for mode in ("rw", "ro"):
        with pytest.raises(treering.errors.SchemaTooNew, match="schema 99") as refused:
            treering.open(place.url, mode=mode)
        assert "upgrade treering" in str(refused.value.hint)
    with pytest.raises(treering.errors.SchemaTooNew):
        place.administration.init()
    status = place.administration.status()
    assert (status.schema_version, status.schema_version_known) == (99, VERSION)


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this program know one more migration."""
    known = (*schema.migrations(), "CREATE TABLE notes (text text)")
    monkeypatch.setattr(schema, "migrations", lambda: known)


def test_an_older_schema_is_refused_for_reading_and_brought_up_for_writing(
    place: Place, next_version: None
) -> None:
    with treering.open(place.url) as ledger:
        assert ledger.admin.verify(HERE).intact

    assert place.sql("SELECT count(*) FROM notes") == [(0,)]
    assert place.sql("SELECT value FROM ledger WHERE name = 'version'") == [(f"{VERSION + 1}",)]


def test_an_older_schema_is_refused_for_reading(place: Place, next_version: None) -> None:
    with pytest.raises(treering.errors.SchemaTooOld, match="has schema") as refused:
        treering.open(place.url, mode="ro")

    assert f"schema {VERSION} and needs {VERSION + 1}" in str(refused.value)
    assert "treering db init" in str(refused.value.hint)
    assert place.administration.status().schema_version_known == VERSION + 1


def test_a_role_that_may_not_upgrade_is_told_who_may(place: Place, next_version: None) -> None:
    with pytest.raises(NotPermitted) as refused:
        treering.open(place.url_of(place.role(HERE)))

    assert "treering db init" in str(refused.value.hint)


def test_an_upgrade_keeps_what_is_there_and_says_what_it_did(
    place: Place, next_version: None
) -> None:
    receipt = place.administration.init()

    assert (receipt.schema_version_before, receipt.schema_version) == (VERSION, VERSION + 1)
    assert receipt.partitions == 2


def test_an_upgrade_that_fails_leaves_all_as_it_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = (*schema.migrations(), "CREATE TABLE notes (text text); SELECT no_such_function()")
    monkeypatch.setattr(schema, "migrations", lambda: known)

    with pytest.raises(treering.errors.StorageError):
        treering.open(place.url)

    assert place.sql("SELECT to_regclass('notes')") == [(None,)]
    assert place.sql("SELECT value FROM ledger WHERE name = 'version'") == [(f"{VERSION}",)]


def test_a_missing_extension_is_named_with_what_to_do(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = (*schema.migrations(), "-- requires extension: nonesuch\nCREATE EXTENSION nonesuch")
    monkeypatch.setattr(schema, "migrations", lambda: known)

    for work in (lambda: treering.open(place.url), place.administration.init):
        with pytest.raises(Unsupported, match="nonesuch") as refused:
            work()
        assert "install nonesuch" in str(refused.value.hint)

    assert place.sql("SELECT value FROM ledger WHERE name = 'version'") == [(f"{VERSION}",)]


# Roles.


def test_what_was_not_granted_cannot_be_revoked(place: Place) -> None:
    application, held = place.role(None), place.role(HERE)

    for role, scope in ((application, HERE), (held, ELSEWHERE), (held, None), ("nobody", HERE)):
        with pytest.raises(NotFound) as refused:
            place.administration.revoke(role, scope)
        told = f"it is limited to {HERE}" if role == held else "treering db status"
        assert told in str(refused.value.hint)

    assert place.administration.status().roles == {application: None, held: [HERE]}


def test_whoever_has_nothing_left_is_no_longer_listed(place: Place) -> None:
    role = place.role(HERE, ELSEWHERE)

    place.administration.revoke(role, HERE)
    less = place.administration.status().roles
    place.administration.revoke(role, ELSEWHERE)
    none = place.administration.status().roles

    assert (less, none) == ({role: [ELSEWHERE]}, {})


def test_roles_of_a_ledger_in_another_database_are_refused_with_what_to_do(
    place: Place, server: Server
) -> None:
    """Roles are the whole server's: who was let in there would be let in here, too."""
    database = f"d_{secrets.token_hex(4)}"
    server.create_database(database)
    role, twin = place.role(None), Place(server, database=database, schema=place.schema)

    for _ in range(2):
        with pytest.raises(treering.InvalidInput, match="another database") as refused:
            twin.administration.init(partitions=2)
        assert f"?schema={place.schema}_2" in str(refused.value.hint)

    with treering.open(twin.url) as ledger:
        ledger.append([said("of the other database")])
    with pytest.raises(treering.TreeringError):
        treering.open(twin.url_of(role))
    apart = Place(server, database=database, schema=f"{place.schema}_2")
    assert len(apart.administration.init(partitions=2).roles) == 2
    assert place.administration.init().roles == [f"{place.schema}_app", f"{place.schema}_scoped"]
    assert list(place.administration.status().roles) == [role]


def test_a_ledger_that_was_moved_to_another_database_keeps_its_roles(server: Server) -> None:
    """A dump that is restored has the privileges of the roles, but not what is noted of them."""
    old = Place(server, database=f"d_{secrets.token_hex(4)}")
    server.create_database(old.database)
    old.administration.init(partitions=2)
    role, new = old.role(HERE), Place(server, database=f"{old.database}_2", schema=old.schema)

    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {new.database} TEMPLATE {old.database}".encode())
        with pytest.raises(treering.InvalidInput, match="another database"):
            new.administration.init()
        connection.execute(f"DROP DATABASE {old.database}".encode())

    assert len(new.administration.init().roles) == 2
    with treering.open(new.url_of(role)) as ledger:
        ledger.append([said("hello")])
        with pytest.raises(NotPermitted):
            ledger.append([said("hello", scope=ELSEWHERE)])


def test_nobody_is_let_into_a_ledger_by_a_grant_in_another_database(
    place: Place, server: Server
) -> None:
    database = f"d_{secrets.token_hex(4)}"
    server.create_database(database)
    twin = Place(server, database=database, schema=place.schema)
    twin.administration.init(partitions=2, with_roles=False)

    for number, scope in enumerate((None, HERE)):
        role = f"{place.schema}_{number}"
        with pytest.raises(treering.InvalidInput):
            twin.administration.grant(role, scope)
        with pytest.raises(treering.TreeringError):
            treering.open(place.url_of(role))

    assert place.administration.status().roles == {}


def test_a_role_is_made_with_its_password_and_the_server_s_log_does_not_tell_it(
    place: Place, server: Server
) -> None:
    role, password = f"r_{secrets.token_hex(4)}", "hunter2'; DROP ROLE postgres; --"
    place.sql(f"ALTER DATABASE {place.database} SET log_statement = 'all'")

    place.administration.grant(role, HERE, password=password)

    place.sql(f"ALTER DATABASE {place.database} RESET log_statement")
    url = f"{server.tcp_url(place.database, user=role, password=password)}?schema={place.schema}"
    with treering.open(url) as ledger:
        ledger.append([said("hello")])
    log = server.log.read_text()
    assert role in log
    assert "hunter2" not in log


# Status.


def test_the_status_of_a_quiet_ledger(place: Place, server: Server) -> None:
    with treering.open(place.url) as ledger:
        ledger.append([said(f"event {n}") for n in range(50)])
    place.sql("ANALYZE events")

    status = place.administration.status()

    assert status.server.startswith(f"{server.version}.")
    assert (status.schema, status.schema_version, status.schema_version_known) == (
        place.schema,
        VERSION,
        VERSION,
    )
    assert not status.is_replica
    assert sum(part.events_estimated for part in status.partitions) == 50
    assert status.bytes > sum(part.bytes for part in status.partitions) > 0
    assert (status.events_unsettled, status.blocker, status.replicas) == (0, None, [])
    assert (status.erasure_pending, status.roles) == ([], {})
    assert set(status.extensions) == {"vector", "pg_trgm"}


def test_whoever_holds_followers_up_is_named(place: Place) -> None:
    with treering.open(place.url) as ledger, place.connect() as writer:
        pid = writer.info.backend_pid
        ledger.append([said("before")])
        writer.execute("SET application_name = 'nightly-import'")
        writer.execute("BEGIN")
        writer.execute("INSERT INTO retention VALUES ('acme/app', 'tool.call', 1)")
        ledger.append([said("after 1"), said("after 2", scope=ELSEWHERE)])
        ledger.append([said("after 3")])

        status = place.administration.status()
        followed = [header.summary for header in ledger.follow(HERE, idle_s=0)]
        writer.execute("ROLLBACK")
        after = place.administration.status()

    assert status.events_unsettled == 3
    assert status.blocker is not None
    assert status.blocker.pid == pid
    assert (status.blocker.user, status.blocker.application) == ("postgres", "nightly-import")
    assert status.blocker.state == "idle in transaction"
    assert status.blocker.seconds is not None
    assert status.blocker.prepared is None
    assert followed == ["before"]
    assert after.events_unsettled == 0
    assert after.blocker is None or after.blocker.pid != pid


def test_an_owner_who_sees_no_other_s_activity_still_learns_who_it_is(server: Server) -> None:
    owner, database = f"o_{secrets.token_hex(4)}", f"d_{secrets.token_hex(4)}"
    server.create_role(owner, password="x")
    server.create_database(database, owner=owner)
    place = Place(server, database=database, owner=owner)
    place.administration.init(partitions=2)
    with Place(server).connect() as writer:
        pid = writer.info.backend_pid
        writer.execute("BEGIN")
        writer.execute("SELECT pg_current_xact_id()")

        blocker = place.administration.status().blocker

    assert blocker is not None
    assert (blocker.pid, blocker.user) == (pid, "postgres")


def test_two_statuses_do_not_take_each_other_for_a_blocker(place: Place) -> None:
    with place.connect() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events")

        assert place.administration.status().blocker is None


def test_a_replica_is_listed_and_can_say_itself_how_it_is() -> None:
    # Of its own, for a replica copies all that other tests have made.
    with Server() as server, server.replica() as replica:
        here = Place(server, database="postgres")
        here.administration.init(partitions=2)
        with treering.open(here.url) as ledger:
            ledger.append([said("hello")])
        replica.catch_up()
        there = Place(replica, database="postgres", schema=here.schema)

        [listed] = here.administration.status().replicas
        status = there.administration.status()

        assert listed.name
        assert listed.state == "streaming"
        assert listed.bytes_behind is not None
        assert (status.is_replica, status.schema_version, status.replicas) == (True, VERSION, [])
        check_is_read_only(there)


def check_is_read_only(there: Place) -> None:
    with treering.open(there.url, mode="ro") as ledger:
        assert ledger.admin.verify().intact
        assert [header.summary for header in ledger.follow(HERE, idle_s=0)] == ["hello"]
        with pytest.raises(treering.errors.ReadOnly):
            ledger.append([said("more")])
    with pytest.raises(treering.errors.ReadOnly) as refused:
        treering.open(there.url)
    assert "mode='ro'" in str(refused.value.hint)
    for work in (there.administration.init, lambda: there.administration.grant("somebody", HERE)):
        with pytest.raises(treering.errors.ReadOnly):
            work()
