"""Neighbours on a server: as by an exact search, behind its walls, gone with what is erased."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from psycopg.errors import InsufficientPrivilege

import treering
from builders import ELSEWHERE, HERE, said
from ports import store_of
from postgres_places import Place
from postgres_server import SUPERUSER, Server
from treering.memory.records import IndexEntry
from treering.memory.vectors import SCALE_BYTES, pack, unpack
from treering.model.scopes import Scope
from treering.storage.postgres import memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering import Event, Ledger
    from treering.memory.ports import Matrix

DIMENSIONS: Final = 32
ASK: Final = "SELECT (nearest_documents(%s, 'events', 'space', %s, 5, %s)).numbers"
TABLES: Final = """
SELECT relname FROM pg_class
WHERE relname LIKE 'memory\\_near\\_%%' AND relkind = 'r' AND relnamespace = %s::regnamespace
"""


def drawn(seed: int) -> Matrix:
    """Return vectors of length 1, three for each event that is told; the same for each seed."""
    vectors = np.random.default_rng(seed).standard_normal((900, DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


VECTORS: Final = drawn(7)


@pytest.fixture(scope="module")
def database(server: Server) -> tuple[str, str]:
    """Return a database that has the extension, and who owns it: no superuser."""
    owner, database = f"o_{secrets.token_hex(4)}", f"d_{secrets.token_hex(4)}"
    server.create_role(owner, password="x")
    server.create_database(database, owner=owner)
    Place(server).sql(f"ALTER ROLE {owner} CREATEROLE")
    Place(server, database=database).sql("CREATE EXTENSION vector SCHEMA public")
    return database, owner


@pytest.fixture
def near(server: Server, database: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a ledger that has neighbours of a few documents, all built at once."""
    monkeypatch.setattr(memory, "HNSW_DOCUMENTS", 100)
    monkeypatch.setattr(memory, "BUILD_S", 60.0)
    place = Place(server, database=database[0], owner=database[1])
    place.administration.init(partitions=2)
    return place


def tell(ledger: Ledger, numbers: range, scope: str = HERE, *, vectors: Matrix = VECTORS) -> None:
    """Record events with one to three vectors each, and have the shelf follow them."""
    told = vectors.reshape(-1, 3, DIMENSIONS)

    def read(events: Sequence[Event]) -> list[IndexEntry]:
        return [
            IndexEntry(event.position, b"", pack(told[number, : 1 + number % 3]))
            for event in events
            for number in [int(str(event.summary))]
        ]

    ledger.append([said(f"{one}", event_id=f"e{one}", scope=scope) for one in numbers])
    while (
        store_of(ledger)
        .memory.follow_documents(Scope(scope), "events", read, embedder="space")
        .more
    ):
        pass


def exactly(ledger: Ledger, asked: bytes, scope: str = HERE) -> dict[int, float]:
    """Return the five documents that are nearest of all, with their cosines."""
    [vector], _ = unpack([asked], DIMENSIONS)
    found = store_of(ledger).memory.documents(Scope(scope), "events", after=0, limit=50_000)
    told = [
        (number, max(float(one @ vector) for one in unpack([document.vectors], DIMENSIONS)[0]))
        for number, document in found
    ]
    return dict(sorted(told, key=lambda one: -one[1])[:5])


def nearest(
    ledger: Ledger, asked: bytes, scope: str = HERE, *, space: str = "space"
) -> dict[int, float] | None:
    """Return the same by the index; None without one."""
    found = store_of(ledger).memory.nearest(Scope(scope), "events", asked, embedder=space, limit=5)
    return None if found is None else dict(found)


def tables(place: Place) -> list[str]:
    """Return the tables that hold vectors for an index."""
    return [row[0] for row in place.sql(TABLES, place.schema)]


def test_the_nearest_are_those_of_an_exact_search(near: Place) -> None:
    asked = [pack(VECTORS[[at]]) for at in range(0, 900, 60)]
    with treering.open(near.url) as ledger:
        tell(ledger, range(99))
        assert nearest(ledger, asked[0]) is None
        tell(ledger, range(99, 299))

        for vector in asked:
            assert nearest(ledger, vector) == pytest.approx(exactly(ledger, vector), abs=1e-5)
        tell(ledger, range(299, 300))
        last = pack(VECTORS[[899]])
        assert nearest(ledger, last) == pytest.approx(exactly(ledger, last), abs=1e-5)
        assert nearest(ledger, last, space="another") == {}
        assert nearest(ledger, last) == pytest.approx(exactly(ledger, last), abs=1e-5)
        assert len(tables(near)) == 1
        assert nearest(ledger, b"") is None
    with treering.open(near.url, mode="ro") as ledger:
        assert nearest(ledger, last) is None


def test_a_question_goes_by_the_index(near: Place) -> None:
    with treering.open(near.url) as ledger:
        tell(ledger, range(120))
        assert nearest(ledger, pack(VECTORS[[0]]))

    with near.connect() as connection, connection.transaction():
        connection.execute(ASK, (HERE, pack(VECTORS[[0]]), 0))
        counted = connection.execute(
            "SELECT seq_scan, idx_scan FROM pg_stat_xact_user_tables"
            " WHERE schemaname = %s AND relname = %s",
            (near.schema, *tables(near)),
        ).fetchall()

    assert counted == [(0, 1)]


@pytest.mark.parametrize("sort", ["application", "held"])
def test_a_role_finds_neighbours_in_its_scope_and_in_no_other(near: Place, sort: str) -> None:
    role, asked = near.role(None if sort == "application" else HERE), pack(VECTORS[[0]])
    with treering.open(near.url) as ledger:
        tell(ledger, range(120), ELSEWHERE, vectors=drawn(8))
        theirs = nearest(ledger, asked, ELSEWHERE)
        assert theirs == pytest.approx(exactly(ledger, asked, ELSEWHERE), abs=1e-5)

    with treering.open(near.url_of(role)) as ledger:
        tell(ledger, range(120))
        ours = nearest(ledger, asked)
        assert ours == pytest.approx(exactly(ledger, asked), abs=1e-5)
        if sort == "held":
            assert nearest(ledger, asked, ELSEWHERE) is None

    def numbers(scope: str, stating: str) -> Any:
        [(found,)] = near.sql(ASK, scope, asked, 1, role=role, stating=stating)
        return found

    assert numbers(HERE, HERE) == list(ours or {})
    assert numbers(ELSEWHERE, HERE) is None
    assert numbers(ELSEWHERE, ELSEWHERE) == (None if sort == "held" else list(theirs or {}))
    assert near.sql(ASK, ELSEWHERE, asked, 0) == [(list(theirs or {}),)]


TRAP: Final = """
CREATE TEMP TABLE mine (scope text, shelf text);
CREATE TRIGGER mine AFTER DELETE ON mine FOR EACH ROW EXECUTE FUNCTION drop_neighbours()
"""


def test_nobody_else_reads_the_vectors_or_runs_the_parts_of_a_question(near: Place) -> None:
    with treering.open(near.url) as ledger:
        tell(ledger, range(120), ELSEWHERE)
        nearest(ledger, pack(VECTORS[[0]]), ELSEWHERE)
    [table] = tables(near)
    order = f"ROW('{ELSEWHERE}', 'events', 'space', '', 5, 1)::neighbours_order"

    for role in (near.role(None), near.role(HERE)):
        for statement in (
            f"TABLE {table}",
            "TABLE memory_neighbours",
            "DELETE FROM memory_neighbours",
            f"SELECT run_nearest({order})",
            f"SELECT enter_neighbours({order}, '{table}', 'public')",
            TRAP,
        ):
            with pytest.raises(InsufficientPrivilege, match="permission denied for"):
                near.sql(statement, role=role, stating=HERE)
        near.sql(f"GRANT ALL ON {table}, memory_neighbours TO {role}")
        assert near.sql(f"TABLE {table}", role=role, stating=ELSEWHERE) == []
        assert near.sql("TABLE memory_neighbours", role=role, stating=ELSEWHERE) == []


def test_a_role_cannot_put_a_table_of_its_own_in_the_place_of_the_vectors(near: Place) -> None:
    role, asked = near.role(HERE), pack(VECTORS[[0]])
    with treering.open(near.url) as ledger:
        tell(ledger, range(120))
        nearest(ledger, asked)
        [table] = tables(near)
        store_of(ledger).memory.drop_documents(Scope(HERE))
        tell(ledger, range(120, 240))

    with near.connect(role) as connection:
        connection.execute(f"SET search_path = pg_temp, {near.schema}".encode())
        connection.execute(
            f"CREATE TEMP TABLE {table} (number bigint, near public.halfvec(32))".encode()
        )
        for name in ("memory_neighbours", "memory_shelves", "grants"):
            connection.execute(f"CREATE TEMP TABLE {name} (scope text, shelf text)".encode())
        connection.execute("INSERT INTO memory_shelves VALUES (%s, 'events')", (ELSEWHERE,))

        assert connection.execute(ASK, (ELSEWHERE, asked, 1)).fetchone() == (None,)
        assert connection.execute(ASK, (HERE, asked, 60_000)).fetchone() != (None,)
        taken = connection.execute(f"SELECT count(*) FROM pg_temp.{table}".encode()).fetchone()

    assert taken == (0,)
    assert tables(near).count(table) == 1


@pytest.mark.parametrize("sort", ["application", "held"])
def test_what_was_erased_is_in_no_answer_and_in_no_file(near: Place, sort: str) -> None:
    role = near.role(None if sort == "application" else HERE)
    # No other ledger in the files has these.
    vectors = drawn(secrets.randbits(32))
    asked, kept = pack(vectors[[0]]), pack(vectors[[3]])
    with treering.open(near.url_of(role)) as ledger:
        tell(ledger, range(120), vectors=vectors)
        [first, *_] = nearest(ledger, asked) or {}
    assert in_files(near, asked, kept) == [{"kept", "told", "indexed"}] * 2

    with treering.open(near.url_of(role)) as ledger:
        ledger.redact(HERE, event_id="e0")
    near.administration.scrub()

    assert tables(near) == []
    assert in_files(near, asked, kept) == [set(), {"kept"}]
    with treering.open(near.url) as ledger:
        found = nearest(ledger, asked)
        assert found == pytest.approx(exactly(ledger, asked), abs=1e-5)
        assert first not in (found or {})
        store_of(ledger).rebuild()
    assert in_files(near, asked, kept) == [set(), set()]


def in_files(place: Place, *packed: bytes) -> list[set[str]]:
    """Return in which forms each vector lies in files of the database."""
    # Tables that are not logged are written out for a copy of their database, by no CHECKPOINT.
    above, copy = Place(place.server), f"d_{secrets.token_hex(4)}"
    above.sql(f"CREATE DATABASE {copy} TEMPLATE {place.database} STRATEGY file_copy")
    above.sql(f"DROP DATABASE {copy}")
    [(oid,)] = above.sql("SELECT oid FROM pg_database WHERE datname = %s", place.database)
    found = Path(place.server._cluster, "base", str(oid)).glob("[0-9]*")
    files = b"".join(file.read_bytes() for file in found)
    return [
        {form for form, written in written_as(one).items() if written in files} for one in packed
    ]


def written_as(packed: bytes) -> dict[str, bytes]:
    levels = np.frombuffer(packed[SCALE_BYTES:], np.int8)
    length = np.linalg.norm(levels.astype(np.float64))
    return {
        "kept": levels.tobytes(),
        "told": levels.astype("<f2").tobytes(),
        "indexed": (levels / length).astype("<f2").tobytes(),
    }


def test_an_index_that_a_crash_has_emptied_is_built_anew(near: Place) -> None:
    asked = pack(VECTORS[[0]])
    with treering.open(near.url) as ledger:
        tell(ledger, range(120))
        before = nearest(ledger, asked)
        [table] = tables(near)
        near.sql(f"TRUNCATE {table}, memory_neighbours")

        assert nearest(ledger, asked) == before

    unlogged = near.sql(
        "SELECT relpersistence FROM pg_class WHERE oid = ANY(%s::text[]::regclass[])",
        [table, "memory_neighbours"],
    )
    assert unlogged == [("u",), ("u",)]


def test_an_index_is_built_a_little_with_each_question_and_by_one_at_a_time(
    near: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "BUILD_S", 0.0)
    asked = pack(VECTORS[[0]])
    with treering.open(near.url) as ledger:
        tell(ledger, range(120))
        store: Any = store_of(ledger)
        with near.connect() as other, other.transaction():
            lock = store._cache.lock_of(HERE, "\0memory")
            other.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
            assert nearest(ledger, asked) is None
            assert tables(near) == []

        told = [nearest(ledger, asked) for _ in range(4)]

        assert told[:2] == [None, None]
        assert told[2] == told[3] == pytest.approx(exactly(ledger, asked), abs=1e-5)


@pytest.mark.parametrize("why", ["not on the server", "not in the database", "no right to tables"])
def test_where_the_extension_is_not_to_be_had_there_is_no_index(
    near: Place, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = near
    match why:
        case "not on the server":
            monkeypatch.setattr(memory, "EXTENSION", "nonesuch")
        case "not in the database":
            bare = f"d_{secrets.token_hex(4)}"
            near.server.create_database(bare, owner=near.owner)
            place = Place(near.server, database=bare, owner=near.owner)
            place.administration.init(partitions=2)
        case "no right to tables":
            near.sql(f"REVOKE CREATE ON SCHEMA {near.schema} FROM {near.owner}")
    with treering.open(place.url) as ledger:
        tell(ledger, range(120))

        assert nearest(ledger, pack(VECTORS[[0]])) is None

        assert ledger.redact(HERE, event_id="e0").physical == "done"


def test_a_superuser_puts_the_extension_where_it_is_not_in_the_ledger_s_way(near: Place) -> None:
    database = f"d_{secrets.token_hex(4)}"
    near.server.create_database(database)
    place = Place(near.server, database=database, owner=SUPERUSER)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        tell(ledger, range(120))
        asked = pack(VECTORS[[0]])

        assert nearest(ledger, asked) == pytest.approx(exactly(ledger, asked), abs=1e-5)

    assert place.sql(
        "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
    ) == [("public",)]
