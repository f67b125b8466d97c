"""Search on a server: behind its walls, out of its files, and by its index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

import treering
from builders import ELSEWHERE, HERE, said
from postgres_places import Place

if TYPE_CHECKING:
    from postgres_server import Server

LOOK: Final = "SELECT count(*) FROM search_scope(%s, %s, %s, 100000, 0, 9000000000000000, 10)"
ALL: Final = (["'_e'"], [None])


@pytest.fixture(scope="module")
def guarded(server: Server) -> Place:
    """Return a ledger with one searched event in each of two scopes."""
    place = Place(server)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        for scope in (HERE, ELSEWHERE):
            ledger.append([said("quokka", scope=scope)])
            ledger.index(scope)
    return place


def raw_bytes(place: Place) -> bytes:
    """Return all that the server keeps of the database in files."""
    place.sql("CHECKPOINT")
    [(folder,)] = place.sql(
        "SELECT 'base/' || oid FROM pg_database WHERE datname = current_database()"
    )
    files = Path(place.server._cluster, folder).iterdir()
    return b"".join(file.read_bytes() for file in files if file.is_file())


def looked(place: Place, role: str, scope: str, stating: str | None) -> int:
    [(count,)] = place.sql(LOOK, scope, *ALL, role=role, stating=stating)
    return int(count)


def test_a_role_that_is_held_to_a_scope_searches_no_other(guarded: Place) -> None:
    held = guarded.role(HERE)

    for stating in (None, HERE, ELSEWHERE):
        assert looked(guarded, held, HERE, stating) == 1
        assert looked(guarded, held, ELSEWHERE, stating) == 0
    with treering.open(guarded.url_of(held)) as ledger:
        assert ledger.search("quokka", scope=HERE).total == 1
        assert ledger.search("quokka", scope=ELSEWHERE).total == 0


def test_an_application_searches_what_it_states(guarded: Place) -> None:
    application = guarded.role(None)

    assert looked(guarded, application, HERE, None) == 0
    assert looked(guarded, application, HERE, ELSEWHERE) == 0
    assert looked(guarded, application, HERE, HERE) == 1
    with treering.open(guarded.url_of(application)) as ledger:
        for scope in (HERE, ELSEWHERE):
            ledger.append([said("numbat", scope=scope)])
            assert ledger.search("numbat", scope=scope).total == 1


def test_a_role_cannot_put_tables_of_its_own_before_the_ledger_s(guarded: Place) -> None:
    held = guarded.role(HERE)
    with guarded.connect(held) as connection:
        connection.execute("CREATE TEMP TABLE grants (role name, scope text)")
        connection.execute(f"INSERT INTO grants VALUES (current_user, '{ELSEWHERE}')".encode())

        found = connection.execute(LOOK, (ELSEWHERE, *ALL)).fetchall()

    assert found == [(0,)]


def test_whoever_was_granted_nothing_cannot_search(guarded: Place) -> None:
    stranger = f"{guarded.schema}_stranger"
    guarded.sql(f"CREATE ROLE {stranger} LOGIN")

    with pytest.raises((InsufficientPrivilege, psycopg.errors.UndefinedFunction)):
        looked(guarded, stranger, HERE, HERE)


def test_a_search_goes_by_the_index_of_words(guarded: Place) -> None:
    with guarded.connect() as connection:
        connection.execute("SET enable_seqscan = off")
        plan = connection.execute(
            "EXPLAIN SELECT d.number FROM search_documents AS d"
            " WHERE d.words @@ %s::tsquery AND d.scope || '' = %s",
            ("'quokka'", HERE),
        ).fetchall()

    text = "\n".join(row[0] for row in plan)
    assert "search_documents_00_words_idx" in text
    assert "Seq Scan" not in text


def test_what_others_may_still_overtake_is_found_at_once_and_only_once(server: Server) -> None:
    place = Place(server)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger, place.connect() as earlier:
        earlier.execute("BEGIN")
        earlier.execute("SELECT pg_current_xact_id()")
        ledger.append([said("quokka", event_id="e1")])

        assert ledger.search("quokka", scope=HERE).total == 1
        assert ledger.search_lag(HERE) == 0
        ledger.append([said("quokka", event_id="e2")])
        assert ledger.search("quokka", scope=HERE).total == 2
        earlier.execute("COMMIT")
        assert ledger.search("quokka", scope=HERE).total == 2
        assert place.sql("SELECT number FROM search_documents ORDER BY 1") == [(0,), (1,)]


@pytest.mark.parametrize("how", ["event", "session"])
def test_the_words_of_what_was_erased_are_in_no_file(server: Server, how: str) -> None:
    server.create_database(f"searched_{how}")
    place = Place(server, database=f"searched_{how}")
    place.administration.init(partitions=2)
    gone = [f"quokka{n * 7919 % 10_007:05}x" for n in range(40)]
    kept = [f"numbat{n * 7919 % 10_007:05}x" for n in range(40)]
    with treering.open(place.url) as ledger:
        for number, (one, other) in enumerate(zip(gone, kept, strict=True)):
            events: list[Any] = [
                said("x", event_id=f"g{number}", payload={"text": f"some {one} and my_{one}_name"}),
                said("y", session_id="s2", payload={"text": f"other {other}"}),
            ]
            ledger.append(events)
        ledger.index(HERE)
        place.sql("ANALYZE search_documents")
        before = raw_bytes(place)

        if how == "event":
            done = {ledger.redact(HERE, event_id=f"g{n}").physical for n in range(40)}
        else:
            done = {ledger.redact(HERE, session_id="s1").physical}

        place.sql("ANALYZE search_documents")
        after = raw_bytes(place)
        assert done == {"done"}
        assert all(word.encode() in before for word in (*gone, *kept))
        assert [word for word in gone if word.encode() in after] == []
        assert all(word.encode() in after for word in kept)
        assert [ledger.search(word, scope=HERE).total for word in kept] == [1] * 40
