"""The servers that the other tests stand on do what they say."""

from __future__ import annotations

import re
import signal
import socket
import time
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from children import run_python
from effort import PATIENCE_S
from postgres_server import Places, Server, laid_out

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLED_MAKER = """
import os, signal
from postgres_server import Places, Server, laid_out
server = Server()
server.start()
print(server.folder, server.port, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def database(server: Server, request: pytest.FixtureRequest) -> str:
    """Return the name of an empty database of the test's own."""
    name: str = request.node.name
    server.create_database(name)
    return name


def test_a_commit_survives_a_crash_and_what_was_open_does_not(
    server: Server, database: str
) -> None:
    url = server.url(database)
    execute(url, "CREATE TABLE rings (year int)")
    execute(url, "INSERT INTO rings VALUES (1)")
    unfinished = psycopg.connect(url)
    unfinished.execute("INSERT INTO rings VALUES (2)")

    server.restart("immediate")

    unfinished.close()
    assert execute(url, "SELECT year FROM rings") == [(1,)]


def test_a_replica_follows_and_is_read_only_until_it_is_promoted(
    server: Server, database: str
) -> None:
    execute(server.url(database), "CREATE TABLE rings (year int)")
    with server.replica() as replica:
        execute(server.url(database), "INSERT INTO rings VALUES (1)")
        replica.catch_up()

        assert execute(replica.url(database), "SELECT year FROM rings") == [(1,)]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            execute(replica.url(database), "INSERT INTO rings VALUES (2)")

        replica.promote()

        execute(replica.url(database), "INSERT INTO rings VALUES (2)")
        assert execute(replica.url(database), "SELECT year FROM rings") == [(1,), (2,)]
        assert execute(server.url(database), "SELECT year FROM rings") == [(1,)]


def test_a_replica_that_was_stopped_catches_up(server: Server, database: str) -> None:
    with server.replica() as replica:
        replica.stop()
        execute(server.url(database), "CREATE TABLE rings AS SELECT generate_series(1, 3) AS year")
        server.restart()
        replica.start()
        replica.catch_up()

        assert execute(replica.url(database), "SELECT count(*) FROM rings") == [(3,)]


def test_over_tcp_only_the_right_password_opens(server: Server) -> None:
    server.create_role("keeper", password="p@ss/word?")

    entered = execute(server.tcp_url(user="keeper", password="p@ss/word?"), "SELECT current_user")

    assert entered == [("keeper",)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        execute(server.tcp_url(user="keeper", password="wrong"), "SELECT 1")


def test_the_older_version_starts_too() -> None:
    with Server(version=16) as server:
        [(version,)] = execute(server.url(), "SHOW server_version")

    assert version.startswith("16.")


def test_a_setting_that_is_refused_shows_why() -> None:
    with pytest.raises(RuntimeError, match="no_such_setting"), Server({"no_such_setting": 1}):
        pass


def test_closing_leaves_nothing_behind() -> None:
    with Server() as server:
        assert listens(server.port)

    assert not listens(server.port)
    assert not server.folder.exists()


def test_a_killed_maker_leaves_nothing_behind() -> None:
    done = run_python(KILLED_MAKER, status=-signal.SIGKILL, cwd=Path(__file__).parents[1])

    folder, port = done.stdout.split()
    deadline = time.monotonic() + PATIENCE_S
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert not listens(int(port))


def test_a_copied_place_is_a_fresh_ledger_of_its_own(server: Server) -> None:
    server.create_database("places")
    with closing(Places(server.url("places"))) as places:
        urls = [places.fresh(), places.fresh(), laid_out(places.url)]

        identities = [identity(url) for url in urls]
        first, second, expected = [dumped(server, url) for url in urls]

    assert first == second == expected
    assert "CREATE TABLE ledger.events_01" in expected
    assert len(set(chain.from_iterable(identities))) == 9, "each has all three for itself"


def test_copied_places_are_gone_when_they_are_cleared(server: Server) -> None:
    server.create_database("cleared")
    with closing(Places(server.url("cleared"))) as places:
        with psycopg.connect(places.fresh().partition("&schema=")[0]):
            places.clear()

        assert execute(server.url(), "SELECT 1 FROM pg_database WHERE datname LIKE 't\\_%'") == []


def identity(url: str) -> list[tuple[Any, ...]]:
    """Return what tells a ledger from every other."""
    database, _, schema = url.partition("&schema=")
    return execute(
        database,
        f"SELECT name, value FROM {schema}.ledger WHERE name IN ('id', 'created_ms', 'lock_key')",
    )


def dumped(server: Server, url: str) -> str:
    """Return all that is at ``url``, without what is a ledger's own: its names and identity."""
    database, _, schema = url.partition("&schema=")
    dump = server.folder / schema
    server._run("pg_dump", f"--dbname={database}", f"--schema={schema}", f"--file={dump}")
    text = dump.read_text().replace(schema, "ledger")
    # The tool guards each dump by a key of its own.
    text = re.sub(r"^\\(un)?restrict .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(id|created_ms|lock_key)\t.*$", r"\1", text, flags=re.MULTILINE)
    head, copying, rest = text.partition("COPY ledger.ledger (name, value) FROM stdin;\n")
    rows, end, rest = rest.partition("\\.\n")
    assert copying
    assert end
    return "".join((head, copying, *sorted(rows.splitlines(keepends=True)), end, rest))


def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Run one statement and commit it; return its rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def listens(port: int) -> bool:
    """Say whether a server takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
