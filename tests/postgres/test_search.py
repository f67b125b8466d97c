"""Search on a server: behind its walls, out of its files, and by its index."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

import treering
from builders import ELSEWHERE, HERE, said
from postgres_places import Place
from postgres_server import SUPERUSER, Server

LOOK: Final = "SELECT cardinality(search_scope(%s, %s, %s, 100000, 0, 9000000000000000, 10))"
ALL: Final = (["'_e'"], [None])


@pytest.fixture(scope="module")
def guarded(server: Server) -> Place:
    """Return a ledger with one searched event in each of two scopes; its owner is no superuser."""
    owner, database = f"o_{secrets.token_hex(4)}", f"d_{secrets.token_hex(4)}"
    server.create_role(owner, password="x")
    server.create_database(database, owner=owner)
    Place(server).sql(f"ALTER ROLE {owner} CREATEROLE")
    place = Place(server, database=database, owner=owner)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        for scope in (HERE, ELSEWHERE):
            ledger.append([said("quokka", scope=scope)])
            ledger.admin.index(scope)
    return place


def raw_bytes(place: Place) -> bytes:
    """Return all that the server keeps of the database in files."""
    place.sql("CHECKPOINT")
    [(folder,)] = place.sql(
        "SELECT 'base/' || oid FROM pg_database WHERE datname = current_database()"
    )
    files = Path(place.server._cluster, folder).iterdir()
    return b"".join(file.read_bytes() for file in files if file.is_file())


def looked(place: Place, role: str, scope: str, stating: str | None) -> bool:
    [(count,)] = place.sql(LOOK, scope, *ALL, role=role, stating=stating)
    return bool(count)


def test_a_role_that_is_held_to_a_scope_searches_no_other(guarded: Place) -> None:
    held = guarded.role(HERE)

    for stating in (None, HERE, ELSEWHERE):
        assert looked(guarded, held, HERE, stating)
        assert not looked(guarded, held, ELSEWHERE, stating)
    with treering.open(guarded.url_of(held)) as ledger:
        assert ledger.search("quokka", scope=HERE).total == 1
        assert ledger.search("quokka", scope=ELSEWHERE).total == 0


def test_an_application_searches_what_it_states(guarded: Place) -> None:
    application = guarded.role(None)

    assert not looked(guarded, application, HERE, None)
    assert not looked(guarded, application, HERE, ELSEWHERE)
    assert looked(guarded, application, HERE, HERE)
    with treering.open(guarded.url_of(application)) as ledger:
        for scope in (HERE, ELSEWHERE):
            ledger.append([said("numbat", scope=scope)])
            assert ledger.search("numbat", scope=scope).total == 1


# Whoever calls, by whatever way: a search shows no more than the tables do.

CALLERS: Final = {
    "held": ("{held}", "", {HERE}),
    "held as its group": ("{held}", "SET ROLE {schema}_scoped", set()),
    "member": ("{member}", "", set()),
    "member as held": ("{member}", "SET ROLE {held}", {HERE}),
    "member as held and back": ("{member}", "SET ROLE {held}; RESET ROLE", set()),
    "apart as held": ("{apart}", "SET ROLE {held}", {HERE}),
    "application": ("{application}", "", {ELSEWHERE}),
    "member of the application": ("{user}", "", {ELSEWHERE}),
    "member of the application as that": ("{user}", "SET ROLE {application}", {ELSEWHERE}),
    "owner": ("{owner}", "", {HERE, ELSEWHERE}),
    "superuser": (SUPERUSER, "", {HERE, ELSEWHERE}),
    "superuser as held": (SUPERUSER, "SET ROLE {held}", {HERE}),
    "superuser as member": (SUPERUSER, "SET ROLE {member}", set()),
    "superuser as application": (SUPERUSER, "SET ROLE {application}", {ELSEWHERE}),
    "superuser logged in as held": (SUPERUSER, "SET SESSION AUTHORIZATION {held}", {HERE}),
    "superuser logged in as member": (SUPERUSER, "SET SESSION AUTHORIZATION {member}", set()),
    "superuser logged in as member as held": (
        SUPERUSER,
        "SET SESSION AUTHORIZATION {member}; SET ROLE {held}",
        {HERE},
    ),
}
"""Who logs in, what he says then, and what he sees while he states the other scope."""


@pytest.fixture(scope="module")
def names(guarded: Place) -> dict[str, str]:
    """Return roles of every sort: a held one, an application, and members of them."""
    held, application = guarded.role(HERE), guarded.role(None)
    members = {"member": held, "apart": held, "user": application}
    for name, group in members.items():
        inherits = "NOINHERIT" if name == "apart" else "INHERIT"
        role = f"{guarded.schema}_{name}"
        guarded.sql(f"CREATE ROLE {role} LOGIN {inherits} IN ROLE {group}")
        members[name] = role
    schema, owner = guarded.schema, guarded.owner
    return members | {"held": held, "application": application, "schema": schema, "owner": owner}


@pytest.mark.parametrize(("login", "said_then", "seen"), CALLERS.values(), ids=CALLERS)
def test_a_search_is_as_closed_as_the_tables_to_every_caller(
    guarded: Place, names: dict[str, str], login: str, said_then: str, seen: set[str]
) -> None:
    with guarded.connect(login.format(**names)) as connection:
        # Seen and kept before the role is another: nothing of that may be left.
        connection.execute("SELECT set_config('treering.scope', %s, false)", (ELSEWHERE,))
        with contextlib.suppress(psycopg.Error):
            searched(connection)
        connection.execute(said_then.format(**names).encode())

        tables = {row[0] for row in connection.execute("SELECT scope FROM search_documents")}
        found = searched(connection)

    assert tables == seen
    assert found == seen


def test_a_member_that_inherits_nothing_may_not_even_ask(
    guarded: Place, names: dict[str, str]
) -> None:
    with pytest.raises((InsufficientPrivilege, psycopg.errors.UndefinedFunction)):
        looked(guarded, names["apart"], HERE, HERE)


def searched(connection: psycopg.Connection[tuple[Any, ...]]) -> set[str]:
    """Return the scopes in which a search finds something."""
    return {
        scope
        for scope in (HERE, ELSEWHERE)
        for row in connection.execute(LOOK, (scope, *ALL))
        if row[0]
    }


SPY: Final = """
CREATE SCHEMA AUTHORIZATION {held};
SET ROLE {held};
CREATE TABLE {held}.seen (scope text, hits integer);
CREATE FUNCTION {held}.look(scope text) RETURNS integer LANGUAGE plpgsql SECURITY {sort} AS $$
DECLARE hits integer;
BEGIN
  PERFORM set_config('treering.scope', scope, false);
  hits := cardinality({schema}.search_scope(
    scope, ARRAY[$q$'_e'$q$]::text[], ARRAY[NULL]::text[], 100000, 0, 9000000000000000, 10
  ));
  INSERT INTO {held}.seen VALUES (scope, hits);
  RETURN hits;
END $$;
CREATE FUNCTION {held}.spy(scope text) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN RETURN {held}.look(scope); END $$;
"""


@pytest.mark.parametrize("way", ["a function of its own", "an index of its own"])
def test_a_held_role_finds_nothing_more_when_a_superuser_runs_what_it_made(
    guarded: Place, way: str
) -> None:
    """Then current_user is the role, and session_user and the role that was set are not."""
    held = guarded.role(HERE)
    sort = "DEFINER" if way == "a function of its own" else "INVOKER"
    trap = f"""
        CREATE TABLE {held}.trap (scope text);
        CREATE INDEX ON {held}.trap ({held}.spy(scope));
        INSERT INTO {held}.trap VALUES ('{HERE}'), ('{ELSEWHERE}');
        TRUNCATE {held}.seen;
        RESET ROLE;
        REINDEX TABLE {held}.trap
    """
    with guarded.connect(SUPERUSER) as connection:
        connection.execute(SPY.format(held=held, schema=guarded.schema, sort=sort).encode())
        if sort == "INVOKER":
            connection.execute(trap.encode())
        else:
            connection.execute("RESET ROLE")
            for scope in (HERE, ELSEWHERE):
                connection.execute(f"SELECT {held}.spy(%s)".encode(), (scope,))

        found = connection.execute(f"TABLE {held}.seen".encode()).fetchall()

    assert {(scope, hits > 0) for scope, hits in found} == {(HERE, True), (ELSEWHERE, False)}


AGGREGATE: Final = """
CREATE AGGREGATE pg_temp.mine(search_order)
  (SFUNC = pg_temp.other, STYPE = search_order, FINALFUNC = run_search)
"""


@pytest.mark.parametrize("sort", ["held", "application"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT run_search(ROW('{scope}', ARRAY['x'], NULL, 9, 0, 9, 9)::search_order)",
        "SELECT admit_search(NULL, '{scope}', NULL, NULL, 9, 0, 9, 9)",
        AGGREGATE,
    ],
)
def test_nobody_else_runs_the_parts_of_a_search(
    guarded: Place, names: dict[str, str], sort: str, statement: str
) -> None:
    with guarded.connect(names[sort]) as connection:
        connection.execute(
            "CREATE FUNCTION pg_temp.other(a search_order, b search_order) RETURNS search_order"
            " LANGUAGE sql AS 'SELECT b'"
        )
        with pytest.raises(InsufficientPrivilege, match="permission denied for function"):
            connection.execute(statement.format(scope=ELSEWHERE).encode())


def test_a_role_cannot_put_tables_of_its_own_before_the_ledger_s(guarded: Place) -> None:
    with guarded.connect(guarded.role(HERE)) as connection:
        connection.execute(f"SET search_path = pg_temp, {guarded.schema}".encode())
        for table in ("search_marks", "grants", "search_documents"):
            connection.execute(f"CREATE TEMP TABLE {table} (role name, scope text)".encode())
            row = f"INSERT INTO {table} VALUES (current_user, '{ELSEWHERE}')"
            connection.execute(row.encode())

        assert searched(connection) == {HERE}


@pytest.mark.parametrize("words", [[], None])
def test_a_search_for_nothing_finds_nothing(guarded: Place, words: list[str] | None) -> None:
    assert guarded.sql(LOOK, HERE, words, words) == [(0,)]
    assert guarded.sql(LOOK, None, *ALL) == [(0,)]


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
        assert ledger.admin.search_lag(HERE) == 0
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
        ledger.admin.index(HERE)
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


def test_an_erasure_writes_anew_only_the_part_of_its_session(place: Place) -> None:
    parts = (
        "SELECT inhrelid::regclass::text, pg_relation_filenode(inhrelid) FROM pg_inherits"
        " WHERE inhparent = 'search_documents'::regclass"
    )
    with treering.open(place.url) as ledger:
        ledger.append([said("quokka", session_id=f"s{n}", event_id=f"e{n}") for n in range(20)])
        ledger.admin.index(HERE)
        held = place.sql("SELECT DISTINCT tableoid::regclass::text FROM search_documents")
        before = dict(place.sql(parts))

        assert ledger.redact(HERE, event_id="e7").physical == "done"

    after = dict(place.sql(parts))
    assert len(held) == 2
    assert sum(after[part] != before[part] for part in before) == 1


def test_an_index_of_an_earlier_version_is_entered_anew(server: Server) -> None:
    place = Place(server)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        ledger.append([said("quokka"), said("wombat")])
        ledger.admin.index(HERE)
        # As an earlier version left it, which entered other words.
        place.sql("UPDATE search_documents SET words = 'once'::tsvector")
        place.sql("UPDATE search_marks SET layout = 1")
        place.sql("DELETE FROM scrubs")

        outdated = ledger.admin.verify(derived=True)
        found = ledger.search("quokka", scope=HERE)

        assert not outdated.intact
        assert outdated.first_broken is not None
        assert "earlier version" in outdated.first_broken.detail
        assert found.total == 1
        assert ledger.admin.search_lag(HERE) == 0
        assert ledger.admin.verify(derived=True).intact
        # What was deleted lies in the files until they are rewritten.
        assert any("search_documents" in row[0] for row in place.sql("SELECT relation FROM scrubs"))
