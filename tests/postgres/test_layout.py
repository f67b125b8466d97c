"""Walls, triggers, functions and the order of following are part of what is verified."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import pytest

import treering
from builders import ELSEWHERE, HERE, said
from postgres_places import Place
from postgres_server import Places, Server
from surfaces.command_line import CommandLine
from treering.storage.postgres import schema
from treering.storage.postgres.address import parse_address
from treering.storage.postgres.server import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CHANGES: Final = {
    "ALTER TABLE events DISABLE ROW LEVEL SECURITY": "table events was changed",
    "ALTER TABLE events_00 DISABLE ROW LEVEL SECURITY": (
        "row-level security of events_00 is switched off"
    ),
    "DROP POLICY granted ON events": "policy granted on events is missing",
    "ALTER POLICY stated ON events USING (true)": "policy stated on events was changed",
    "CREATE POLICY mine ON events USING (true)": "policy mine on events was added",
    "GRANT SELECT ON events_00 TO PUBLIC": "SELECT on events_00 was granted to everybody",
    "GRANT TRUNCATE ON events TO PUBLIC": "TRUNCATE on events was granted to everybody",
    "ALTER TABLE sessions DISABLE TRIGGER forgetting": "trigger forgetting on sessions was changed",
    "ALTER TABLE events_00 DISABLE TRIGGER forgetting": "trigger forgetting on events_00 was added",
    "DROP TRIGGER counting ON sessions": "trigger counting on sessions is missing",
    "CREATE TRIGGER spy AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION note_entry()": (
        "trigger spy on events was added"
    ),
    "CREATE RULE hide AS ON INSERT TO runs DO INSTEAD NOTHING": "rule hide on runs was added",
    "CREATE OR REPLACE FUNCTION note_entry() RETURNS trigger LANGUAGE plpgsql"
    " AS 'BEGIN RETURN NULL; END'": "function note_entry() was changed",
    "ALTER FUNCTION enter_epoch() RESET search_path": "function enter_epoch() was changed",
    "GRANT EXECUTE ON FUNCTION enter_epoch() TO PUBLIC": "function enter_epoch() was changed",
    "CREATE FUNCTION extra() RETURNS int LANGUAGE sql AS 'SELECT 1'": "function extra() was added",
    "DROP INDEX events_followed": "index events_followed is missing",
    "CREATE INDEX summaries ON events_00 (summary)": "index summaries was added",
    "ALTER TABLE events DROP CONSTRAINT events_epoch_check": (
        "constraint events_epoch_check on events is missing"
    ),
    "CREATE TABLE copied (payload bytea)": "table copied was added",
    "ALTER TABLE events_00 SET UNLOGGED": (
        "events_00 is unlogged: a crash of the server empties it"
    ),
    "ALTER VIEW episodic_events RESET (security_invoker)": (
        "view episodic_events reads with the rights of its owner"
    ),
    "CREATE VIEW peep AS TABLE events": "view peep reads with the rights of its owner",
    "ALTER TABLE events_00 OWNER TO {stranger}; GRANT {scoped} TO {stranger}": (
        "policies do not hold the role {stranger}"
    ),
    "GRANT CREATE ON SCHEMA {schema} TO {stranger}": (
        "CREATE on the schema was granted to {stranger}"
    ),
    "CREATE VIEW public.peep AS TABLE {schema}.events; GRANT SELECT ON public.peep TO PUBLIC": (
        "view public.peep reads with the rights of its owner"
    ),
    "CREATE VIEW public.base AS TABLE {schema}.blobs_00;"
    "CREATE VIEW public.peep AS TABLE public.base; GRANT SELECT (body) ON public.peep TO PUBLIC": (
        "view public.peep reads with the rights of its owner"
    ),
    "CREATE VIEW public.base WITH (security_invoker) AS TABLE {schema}.events;"
    "CREATE MATERIALIZED VIEW public.peep AS SELECT payload FROM public.base": (
        "materialized view public.peep is a copy: no policy and no erasure reaches it"
    ),
    "CREATE TABLE public.bell (n int); CREATE TABLE public.heard (summary text);"
    "CREATE RULE ring AS ON INSERT TO public.bell"
    " DO ALSO INSERT INTO public.heard SELECT summary FROM {schema}.events": (
        "rule ring on public.bell reads with the rights of its owner"
    ),
    "CREATE FUNCTION public.peep() RETURNS bigint LANGUAGE sql SECURITY DEFINER"
    " BEGIN ATOMIC SELECT count(*) FROM {schema}.events; END": (
        "function public.peep() reads with the rights of its owner"
    ),
    "CREATE FUNCTION public.peep(n int) RETURNS text LANGUAGE plpgsql SECURITY DEFINER"
    " AS $$ BEGIN RETURN (SELECT summary FROM {schema}.events LIMIT 1 OFFSET n); END $$": (
        "function public.peep(integer) reads with the rights of its owner"
    ),
    "CREATE FUNCTION public.peep() RETURNS bigint LANGUAGE sql SECURITY DEFINER"
    " SET search_path = {schema} AS 'SELECT count(*) FROM events'": (
        "function public.peep() reads with the rights of its owner"
    ),
    "SET search_path = {schema}; CREATE FUNCTION public.peep() RETURNS bigint LANGUAGE sql"
    " SECURITY DEFINER AS 'SELECT count(*) FROM events'": (
        "function public.peep() reads with the rights of its owner"
    ),
}
HARMLESS: Final = (
    "CREATE VIEW public.own AS TABLE {schema}.events",
    (
        "CREATE VIEW public.fair WITH (security_invoker = 1) AS TABLE {schema}.events;"
        "GRANT SELECT ON public.fair TO PUBLIC"
    ),
    (
        "CREATE FUNCTION public.fair() RETURNS bigint LANGUAGE sql"
        " BEGIN ATOMIC SELECT count(*) FROM {schema}.events; END"
    ),
    (
        "CREATE FUNCTION public.own() RETURNS bigint LANGUAGE sql SECURITY DEFINER"
        " BEGIN ATOMIC SELECT count(*) FROM {schema}.events; END;"
        "REVOKE ALL ON FUNCTION public.own() FROM PUBLIC"
    ),
    (
        "CREATE TABLE public.events (n int); CREATE FUNCTION public.others() RETURNS bigint"
        " LANGUAGE sql SECURITY DEFINER SET search_path = public AS 'SELECT count(*) FROM events'"
    ),
    "CREATE ROLE {stranger}_pooler LOGIN IN ROLE {scoped}, {app}",
    "CREATE ROLE {stranger}_admin BYPASSRLS IN ROLE {stranger}; GRANT {stranger} TO {scoped}",
)
"""What others do in the same database and on the same server, and no way past the policies."""


@pytest.fixture
def story(server: Server, copies: Places) -> Place:
    """Return a ledger with its roles, two sessions and two scopes."""
    return Place(server, database=copies.copy_told(tell_story), schema=copies.schema)


def tell_story(url: str) -> None:
    with treering.open(url) as ledger:
        for n in range(3):
            ledger.append([said(f"event {n}", scope=scope) for scope in (HERE, ELSEWHERE)])


@pytest.fixture
def stranger(story: Place) -> Iterator[str]:
    """Return a new role without rights; it and all that are called after it are gone afterwards."""
    name = f"r_{secrets.token_hex(4)}"
    story.sql(f"CREATE ROLE {name}")
    yield name
    for (role,) in story.sql("SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", name):
        story.sql(f"REASSIGN OWNED BY {role} TO {story.owner}")
        story.sql(f"DROP OWNED BY {role}")
        story.sql(f"DROP ROLE {role}")


def names_of(story: Place, stranger: str) -> dict[str, str]:
    address = parse_address(story.url)
    return {
        "schema": story.schema,
        "stranger": stranger,
        "app": address.app_role,
        "scoped": address.scoped_role,
    }


def execute(story: Place, statements: str) -> None:
    with story.connect() as connection:
        connection.execute(statements.encode())


def test_the_layout_that_is_shipped_is_that_of_a_fresh_ledger(story: Place) -> None:
    """If not, a migration or a role was changed: run tests/golden/make_layout.py."""
    address = parse_address(story.url)
    with connect(address) as connection:
        found = schema.describe(connection, address)

    assert found == schema._expected()


@pytest.mark.parametrize("schema", ["treering", "user", "bare"])
def test_a_ledger_is_as_it_was_made_whatever_it_is_called(server: Server, schema: str) -> None:
    database = f"d_{secrets.token_hex(4)}"
    server.create_database(database)
    place = Place(server, database=database, schema=schema)
    place.administration.init(partitions=1, with_roles=schema != "bare")

    assert place.administration.status().differences == []
    with treering.open(place.url) as ledger:
        assert ledger.admin.verify().intact


@pytest.mark.parametrize(("statement", "difference"), CHANGES.items(), ids=CHANGES.values())
def test_whatever_changes_the_schema_is_found(
    story: Place, stranger: str, statement: str, difference: str
) -> None:
    names = names_of(story, stranger)
    execute(story, statement.format(**names))

    assert difference.format(**names) in story.administration.status().differences
    with treering.open(story.url, mode="ro") as ledger:
        proof = ledger.admin.verify()
    assert not proof.intact
    assert proof.first_broken is not None
    assert proof.first_broken.detail.startswith("the schema is not as it was made: ")


@pytest.mark.parametrize("statements", HARMLESS)
def test_what_no_one_can_read_past_the_policies_with_is_no_change(
    story: Place, stranger: str, statements: str
) -> None:
    execute(story, statements.format(**names_of(story, stranger)))

    assert story.administration.status().differences == []


@pytest.mark.parametrize("right", ["BYPASSRLS", "SUPERUSER", "REPLICATION"])
def test_a_role_that_policies_do_not_hold_is_found_though_the_owner_is_a_superuser(
    story: Place, stranger: str, right: str
) -> None:
    story.sql(f"GRANT {parse_address(story.url).scoped_role} TO {stranger}")
    assert story.administration.status().differences == []

    story.sql(f"ALTER ROLE {stranger} {right}")

    assert story.administration.status().differences == [
        f"policies do not hold the role {stranger}"
    ]


@pytest.mark.parametrize("option", ["INHERIT FALSE", "SET FALSE", "ADMIN TRUE"])
def test_a_role_that_can_become_one_that_policies_do_not_hold_is_found(
    story: Place, stranger: str, option: str
) -> None:
    """Over memberships of any number, on both sides."""
    story.sql(f"CREATE ROLE {stranger}_team IN ROLE {parse_address(story.url).scoped_role}")
    story.sql(f"GRANT {stranger}_team TO {stranger}")
    story.sql(f"CREATE ROLE {stranger}_free BYPASSRLS")
    story.sql(f"CREATE ROLE {stranger}_between IN ROLE {stranger}_free")
    assert story.administration.status().differences == []

    story.sql(f"GRANT {stranger}_between TO {stranger} WITH {option}")

    assert story.administration.status().differences == [
        f"policies do not hold the role {stranger}: it can become {stranger}_free"
    ]


def test_a_group_of_the_ledger_that_policies_do_not_hold_is_found(story: Place) -> None:
    group = parse_address(story.url).app_role
    story.sql(f"ALTER ROLE {group} BYPASSRLS")
    try:
        differences = story.administration.status().differences
    finally:
        story.sql(f"ALTER ROLE {group} NOBYPASSRLS")

    assert differences == [f"policies do not hold the role {group}"]


def test_an_init_renews_the_walls(story: Place) -> None:
    story.sql("DROP POLICY granted ON events")
    story.sql("ALTER TABLE events DISABLE ROW LEVEL SECURITY")
    story.sql("ALTER TABLE events_00 DISABLE ROW LEVEL SECURITY")
    story.sql("GRANT SELECT ON events_01 TO PUBLIC")

    story.administration.init()

    assert story.administration.status().differences == []


def test_status_and_doctor_say_so(
    story: Place,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story.sql("DROP TRIGGER counting ON sessions")
    line = CommandLine(tmp_path / "unused.db", capsys, monkeypatch)
    status = line("db", "status", "--db", story.url)
    doctor = line("doctor", "--quick", "--scope", HERE, "--db", story.url)

    assert "trigger counting on sessions is missing" in status.out
    assert doctor.status == 1
    assert "trigger counting on sessions is missing" in doctor.out


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET xid = (xid::text::bigint + 1000000)::text::xid8 WHERE seq = 3",
        "UPDATE events SET xid = (xid::text::bigint + 1000000)::text::xid8 WHERE seq = 1",
        "UPDATE events SET xid = '3'::xid8 WHERE seq = 3",
        "UPDATE events SET epoch = epoch + 1 WHERE seq = 3",
        "UPDATE events SET epoch = epoch + 1 WHERE seq = 2",
        "UPDATE events SET position = position + 1000000 WHERE seq = 2",
    ],
)
@pytest.mark.parametrize("scope", [(), (HERE,)])
def test_an_event_that_followers_would_pass_over_is_found(
    story: Place, statement: str, scope: tuple[str, ...]
) -> None:
    with treering.open(story.url, mode="ro") as ledger:
        assert ledger.admin.verify(*scope).intact
    story.sql(statement)

    with treering.open(story.url, mode="ro") as ledger:
        assert not ledger.admin.verify(*scope).intact


def test_a_ledger_on_an_older_server_is_as_it_was_made() -> None:
    with Server(version=16) as server:
        server.create_database("older")
        place = Place(server, database="older", schema="treering")
        place.administration.init(partitions=2)
        assert place.administration.status().differences == []
        with treering.open(place.url) as ledger:
            ledger.append([said("event")])
            proof = ledger.admin.verify(derived=True)
            assert proof.intact, proof.first_broken
