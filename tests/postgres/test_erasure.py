"""Promise 5 on a server: after redact or expire, the bytes are in no file of the database."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

import msgspec
import pytest

import treering
from broken.ledgers import SCOPE, marked, marker, shown, traces
from builders import DAY, HERE, NOON, said
from postgres_places import Place
from postgres_server import Server
from treering.storage.postgres import eraser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Ledger, NewEvent

SIZES: Final = (60, 700, 3_000, 8_000, 9_000, 40_000, 300_000)
"""Inline, in the TOAST table, and spilled to blobs."""
LATER_MS: Final = NOON + 100 * DAY
UNERASED: Final = {"forks", "grants", "ledger", "legacy_events", "retention", "scopes", "scrubs"}
"""Tables of which nothing is erased."""
LASTING: Final = {
    *("position", "session", "seq", "xid", "epoch", "flags", "schema_version", "scope", "kind"),
    *("link", "genesis", "id", "number", "shelf", "embedder", "sort", "view", "layout", "round"),
    *("state", "first_seq", "last_seq", "writer", "status", "reason"),
    *("call_seq", "result_seq", "late_seq", "newest", "documents", "generation"),
    *("relation", "dimensions"),
}
"""Columns that no erasure blanks, or that say nothing about what was erased."""


@pytest.fixture(scope="module")
def database(server: Server) -> str:
    """Return the name of a database whose files hold nothing of other tests."""
    name = f"erasure_{uuid4().hex}"  # In a random order there are several.
    server.create_database(name)
    return name


@pytest.fixture
def place(server: Server, database: str) -> Place:
    place = Place(server, database=database)
    place.administration.init(partitions=2)
    return place


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with treering.open(place.url, guard="off") as ledger:
        yield ledger


def raw_bytes(place: Place) -> bytes:
    """Return all that the server keeps in files, but for its log of what was written."""
    place.sql("CHECKPOINT")
    cluster = place.server._cluster
    [(folder,)] = place.sql(
        "SELECT 'base/' || oid FROM pg_database WHERE datname = current_database()"
    )
    files = [*Path(cluster, folder).iterdir(), *Path(cluster, "global").iterdir()]
    return b"".join(file.read_bytes() for file in files if file.is_file())


def described(dice: Random, name: str, size: int, **fields: Any) -> NewEvent:
    """Return a marked event that says who, where and in which turn, each in its own words."""
    mark = marker(dice)
    event = marked(dice, f"{name}-{mark}", size=size, session_id="s1")
    said = {"agent_id": "agent", "user_id": "user", "turn_id": "turn", "origin": "origin"}
    words = {field: f"{word}-{mark}" for field, word in said.items()}
    return msgspec.structs.replace(event, **(words | fields))


def words_of(event: NewEvent) -> list[bytes]:
    """Return what goes when an event expires, beyond its content."""
    words = (event.event_id, event.agent_id, event.user_id, event.turn_id, event.origin)
    return [str(word).encode() for word in words]


def erase(ledger: Ledger, how: str, events: list[NewEvent]) -> list[str]:
    """Erase ``events``; return how far each call says that it got."""
    if how == "event":
        return [
            ledger.redact(SCOPE, event_id=str(event.event_id)).physical for event in events[::-1]
        ]
    if how == "session":
        return [ledger.redact(SCOPE, session_id="s1", replacement="null").physical]
    return [ledger.expire(SCOPE, now_ms=LATER_MS).physical]


@pytest.mark.parametrize("how", ["event", "session", "expired"])
def test_nothing_of_what_was_erased_is_left_in_any_file(
    place: Place, ledger: Ledger, how: str
) -> None:
    dice = Random(how)
    erased = [described(dice, f"gone{size}", size, ts_ms=NOON) for size in SIZES]
    kept = [described(dice, f"kept{size}", size, session_id="s2", ts_ms=LATER_MS) for size in SIZES]
    for pair in zip(erased, kept, strict=True):
        ledger.append(pair)
    # Samples that were taken before are no better than those taken after.
    place.sql("ANALYZE events, blobs, sessions")
    before = raw_bytes(place)

    physical = erase(ledger, how, erased)

    place.sql("ANALYZE events, blobs, sessions")
    content = raw_bytes(place)
    assert shown(erased, before) == {event.event_id for event in erased}
    assert set(physical) == {"done"}
    assert shown(erased, content) == set()
    assert shown(kept, content) == {event.event_id for event in kept}
    if how == "expired":
        words = [word for event in erased for word in words_of(event)]
        assert all(word in before for word in words)
        assert [word for word in words if word in content] == []
    assert place.administration.status().erasure_pending == []
    assert ledger.admin.verify().intact


def test_erasures_of_all_sorts_in_any_order_leave_no_byte_behind(
    place: Place, ledger: Ledger
) -> None:
    dice = Random("any order")
    live: dict[str, NewEvent] = {}
    gone: dict[str, NewEvent] = {}
    for number in range(40):
        size = dice.choice(SIZES[:-1])
        event = described(dice, f"e{number}", size, session_id=dice.choice(("s1", "s2", "s3")))
        ledger.append([event])
        live[str(event.event_id)] = event
        if number % 4 == 3:
            event_id = dice.choice(sorted(live))
            assert ledger.redact(SCOPE, event_id=event_id).physical == "done"
            gone[event_id] = live.pop(event_id)
        if number % 13 == 12:
            assert ledger.redact(SCOPE, session_id="s1").physical == "done"
            gone |= {name: e for name, e in live.items() if e.session_id == "s1"}
            live = {name: e for name, e in live.items() if name not in gone}

    content = raw_bytes(place)

    assert shown(gone.values(), content) == set()
    assert shown(live.values(), content) == live.keys()
    assert ledger.admin.verify().intact


def test_no_samples_are_kept_of_what_can_be_erased(place: Place) -> None:
    sampled = place.sql(
        "SELECT c.relname, a.attname"
        " FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid"
        " WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0"
        " AND NOT a.attisdropped AND coalesce(a.attstattarget, -1) <> 0",
        place.schema,
    )

    assert {column for table, column in sampled if table not in UNERASED} == LASTING


def test_an_upgrade_removes_samples_of_erased_ids_from_the_files(place: Place) -> None:
    sampled = sample_ids(place)

    place.administration.init()
    with treering.open(place.url) as ledger:
        expired = ledger.expire(HERE, now_ms=LATER_MS)

    assert (expired.deleted_total, expired.physical) == (30, "done")
    content = raw_bytes(place)
    assert [key for key in sampled if key in content] == []
    assert place.administration.status().erasure_pending == []


@pytest.mark.parametrize(("version", "left"), [(16, ["pg_statistic"]), (18, [])], ids=["16", "18"])
def test_samples_wait_for_a_superuser_where_the_owner_may_not_remove_them(
    version: Literal[16, 18], left: list[str]
) -> None:
    with Server(version=version) as server:
        server.create_role("owner", password="x")
        server.create_database("owned", owner="owner")
        place = Place(server, database="owned", owner="owner")
        place.administration.init(partitions=2)
        sampled = sample_ids(place)

        place.administration.init()
        with treering.open(place.url) as ledger:
            expired = ledger.expire(HERE, now_ms=LATER_MS)
        waiting = place.administration.status().erasure_pending
        above = Place(server, database="owned", schema=place.schema)
        above.administration.scrub()

        assert (expired.physical, waiting) == ("pending" if left else "done", left)
        content = raw_bytes(above)
        assert [key for key in sampled if key in content] == []
        assert place.administration.status().erasure_pending == []


def sample_ids(place: Place) -> set[bytes]:
    """Record events and let the planner sample their ids, as up to version 16; return the ids."""
    with treering.open(place.url) as ledger:
        ledger.append(
            [
                said("a word", session_id=f"s{number}", event_id=f"e{number}", ts_ms=NOON)
                for number in range(30)
            ]
        )
    for table in ("events", "events_00", "events_01"):
        place.sql(f"ALTER TABLE {table} ALTER COLUMN event_id SET STATISTICS -1")
    place.sql("UPDATE ledger SET value = '16' WHERE name = 'version'")
    place.sql("ANALYZE")
    sampled = {bytes(row[0]) for row in place.sql("SELECT event_id FROM events")}
    kept = str(place.sql("SELECT histogram_bounds FROM pg_stats WHERE attname = 'event_id'"))
    assert all(key.hex() in kept for key in sampled)
    return sampled


def test_content_that_two_events_share_goes_with_the_second(place: Place, ledger: Ledger) -> None:
    dice = Random("shared")
    first = marked(dice, "first", size=50_000, session_id="s1")
    second = msgspec.structs.replace(first, event_id="second", summary="the same", refs=None)
    body = traces(first)[3:]
    ledger.append([first, second])

    kept = ledger.redact(SCOPE, event_id="first")
    between = raw_bytes(place)
    gone = ledger.redact(SCOPE, event_id="second")
    after = raw_bytes(place)

    assert (kept.blobs_erased, kept.blobs_shared, kept.physical) == (0, 1, "done")
    assert (gone.blobs_erased, gone.blobs_shared, gone.physical) == (1, 0, "done")
    assert any(trace in between for trace in body)
    assert [trace for trace in body if trace in after] == []


@pytest.mark.parametrize("size", [60, 3_000, 50_000], ids=["inline", "toasted", "spilled"])
def test_an_older_reader_makes_it_wait_and_a_scrub_ends_that(
    place: Place, ledger: Ledger, size: int
) -> None:
    event = marked(Random(f"older {size}"), "e1", size=size, session_id="s1")
    ledger.append([event])
    with place.connect() as reader:
        # It has looked at nothing of ours, and might still.
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pg_class")

        receipt = ledger.redact(SCOPE, event_id="e1")

        waiting = place.administration.status().erasure_pending
        still = place.administration.scrub()
        seen = reader.execute("SELECT summary FROM events").fetchall()
        reader.execute("COMMIT")

    done = place.administration.scrub()
    assert (receipt.redacted_count, receipt.physical) == (1, "pending")
    assert waiting
    assert (still.done, still.pending) == ([], waiting)
    assert seen[0][0] == event.summary
    assert (done.done, done.pending) == (waiting, [])
    assert place.administration.status().erasure_pending == []
    assert shown([event], raw_bytes(place)) == set()
    assert ledger.admin.verify().intact


def test_a_lock_makes_it_wait_only_so_long(
    place: Place, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eraser, "SCRUB_PATIENCE", "100ms")
    event = marked(Random("locked"), "e1", size=60, session_id="s1")
    ledger.append([event])
    with place.connect() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events")

        receipt = ledger.redact(SCOPE, event_id="e1")
        # The wait was for that alone: what follows has the patience that it had.
        ledger.append([marked(Random("unlocked"), "e2", size=60, session_id="s1")])

        reader.execute("COMMIT")
    waiting = place.administration.status().erasure_pending
    done = place.administration.scrub()

    assert receipt.physical == "pending"
    assert (done.done, done.pending) == (waiting, [])
    assert shown([event], raw_bytes(place)) == set()


def test_the_next_erasure_drives_out_what_waited(place: Place, ledger: Ledger) -> None:
    events = [marked(Random(f"next {n}"), f"e{n}", size=3_000, session_id="s1") for n in range(2)]
    ledger.append(events)
    with place.connect() as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pg_class")
        waiting = ledger.redact(SCOPE, event_id="e0")
        reader.execute("COMMIT")

    done = ledger.redact(SCOPE, event_id="e1")

    assert (waiting.physical, done.physical) == ("pending", "done")
    assert shown(events, raw_bytes(place)) == set()


def test_a_large_table_waits_until_it_is_asked_for(
    place: Place, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eraser, "SCRUB_BYTES_MAX", 1)
    event = marked(Random("large"), "e1", size=60, session_id="s1")
    ledger.append([event])

    receipt = ledger.redact(SCOPE, event_id="e1")

    assert receipt.physical == "pending"
    assert place.administration.scrub().pending == []
    assert shown([event], raw_bytes(place)) == set()


def test_an_erasure_that_arrives_with_an_import_is_physical_too(
    place: Place, ledger: Ledger, server: Server, database: str
) -> None:
    events = [
        marked(Random(f"import {n}"), f"i{n}", size=size, session_id="s1")
        for n, size in enumerate(SIZES)
    ]
    ledger.append(events)
    copied = Place(server, database=database)
    copied.administration.init(partitions=2)
    with treering.open(copied.url) as target:
        target.admin.restore(exported(ledger))
        ledger.redact(SCOPE, session_id="s1")

        target.admin.restore(exported(ledger))

        assert copied.administration.status().erasure_pending == []
        assert shown(events, raw_bytes(place)) == set()
        assert target.admin.verify().intact


def exported(ledger: Ledger) -> io.BytesIO:
    stream = io.BytesIO()
    ledger.admin.export(SCOPE, stream, payloads="included")
    stream.seek(0)
    return stream


def test_a_role_that_may_not_write_tables_anew_says_so_and_the_owner_does_it() -> None:
    """Before PostgreSQL 17 VACUUM cannot be granted, and is skipped with a warning."""
    with Server(version=16) as server:
        place = Place(server, database="postgres")
        place.administration.init(partitions=2)
        event = marked(Random("sixteen"), "e1", size=3_000, session_id="s1")
        with treering.open(place.url_of(place.role(None))) as ledger:
            ledger.append([event])
            receipt = ledger.redact(SCOPE, event_id="e1")

        assert receipt.physical == "pending"
        assert place.administration.status().erasure_pending != []
        assert place.administration.scrub().pending == []
        assert shown([event], raw_bytes(place)) == set()
