"""Tamper evidence: whatever the owner changes by SQL, verify finds and names."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said
from postgres_places import Place
from treering.errors import Corrupt

if TYPE_CHECKING:
    from postgres_server import Places, Server
    from treering.model.receipts import Broken, Verification

S1: Final = "scope = 'acme/app' AND session = (SELECT id FROM sessions WHERE name = 's1')"
S2: Final = S1.replace("s1", "s2")
ROW: Final = f"{S1} AND seq = {{seq}}"


@pytest.fixture
def story(server: Server, copies: Places) -> Place:
    """Return a ledger: s1 with six events, s2 with one."""
    return Place(server, database=copies.copy_told(tell_story), schema=copies.schema)


def tell_story(url: str) -> None:
    with treering.open(url) as ledger:
        ledger.append([said(f"event {n}", event_id=f"e{n}", ts_ms=NOON + n) for n in range(1, 7)])
        ledger.append([said("other", session_id="s2", user_id="u1")])


@pytest.fixture
def eventful(server: Server, copies: Places) -> Place:
    """Return the ledger with runs, blobs, a redacted and an expired event."""
    return Place(server, database=copies.copy_told(tell_of_events), schema=copies.schema)


def tell_of_events(url: str) -> None:
    tell_story(url)
    with treering.open(url) as ledger:
        ledger.append(run_of("r1", "a", session_id="s3"))
        ledger.append([said("large", session_id="s3", payload="x" * 9_000)])
        ledger.append([called(event_id="old", ts_ms=NOON)])
        ledger.redact(HERE, event_id="e2")
        ledger.expire(HERE, now_ms=NOON + 45 * DAY)


def tamper(place: Place, *statements: str) -> None:
    with place.connect() as connection, connection.transaction():
        for statement in statements:
            connection.execute(statement.encode())


def verified(place: Place, *scope: str, **options: Any) -> Verification:
    with treering.open(place.url, mode="ro") as ledger:
        return ledger.admin.verify(*scope, **options)


def first_broken(place: Place) -> Broken:
    result = verified(place)
    assert not result.intact
    assert result.first_broken is not None
    assert result.first_broken.detail
    return result.first_broken


def test_what_was_not_touched_is_intact(eventful: Place) -> None:
    result = verified(eventful)

    assert result.intact
    assert (result.sessions, result.redacted, result.expired) == (3, 1, 1)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "'tool.call'"),
        ("ts_ms", "ts_ms + 1"),
        ("recorded_ms", "recorded_ms - 1"),
        ("agent_id", "'mallory'"),
        ("source", "'agent'"),
        ("user_id", "'mallory'"),
        ("origin", "'elsewhere'"),
        ("run_id", "'r9'"),
        ("run_seq", "9"),
        ("turn_id", "'t9'"),
        ("schema_version", "2"),
        ("flags", "flags # 1"),
        ("flags", "flags | 2"),
        ("flags", "flags | 4"),
        ("flags", "flags & ~8"),
        ("flags", "flags & ~32"),
        ("flags", "flags | 64"),
        ("flags", "flags | 128"),
        ("event_id", "sha256('x')"),
        ("event_name", "'e99'"),
        ("event_name", "NULL"),
        ("link", "sha256('x')"),
        ("content_digest", "sha256('x')"),
        ("summary", "'a lie'"),
        ("summary", "NULL"),
        ("refs", "'{}'"),
        ("payload", '\'{"text":"a lie"}\''),
        ("payload", "NULL"),
        ("payload_bytes", "0"),
        ("salt", "sha256('x')"),
        ("salt", "NULL"),
        ("blob", "sha256('x')"),
    ],
)
def test_a_changed_column_is_found(story: Place, column: str, value: str) -> None:
    tamper(story, f"UPDATE events SET {column} = {value} WHERE {ROW.format(seq=3)}")

    broken = first_broken(story)

    # Some columns are only for finding events: no session's proof depends on them.
    if column not in {"event_id", "blob"} and value != "flags & ~8":
        assert (broken.session_id, broken.seq) == ("s1", 3)


@pytest.mark.parametrize("column", ["summary", "payload", "salt"])
def test_changed_content_is_said_to_be_that(story: Place, column: str) -> None:
    tamper(story, f"UPDATE events SET {column} = NULL WHERE {ROW.format(seq=4)}")

    broken = first_broken(story)

    assert (broken.seq, broken.event_id, broken.fault) == (4, "e4", "content")


@pytest.mark.parametrize("seq", [1, 3, 6])
def test_a_dropped_row_is_missing(story: Place, seq: int) -> None:
    tamper(story, f"DELETE FROM events WHERE {ROW.format(seq=seq)}")

    broken = first_broken(story)

    assert (broken.session_id, broken.seq, broken.fault) == ("s1", seq, "missing")


@pytest.mark.parametrize(("one", "two"), [(2, 3), (1, 6), (5, 6), (2, 5)])
def test_swapped_rows_are_reordered(story: Place, one: int, two: int) -> None:
    tamper(
        story,
        f"UPDATE events SET seq = -1 WHERE {ROW.format(seq=one)}",
        f"UPDATE events SET seq = {one} WHERE {ROW.format(seq=two)}",
        f"UPDATE events SET seq = {two} WHERE {ROW.format(seq=-1)}",
    )

    broken = first_broken(story)

    assert (broken.seq, broken.fault) == (one, "reordered")


def test_swapped_content_is_found(story: Place) -> None:
    tamper(
        story,
        "UPDATE events AS e SET payload = o.payload, salt = o.salt, summary = o.summary"
        " FROM events AS o WHERE o.scope = e.scope AND o.session = e.session"
        f" AND e.{S1} AND e.seq IN (2, 3) AND o.seq = 5 - e.seq".replace(
            " session =", " e.session ="
        ),
    )

    broken = first_broken(story)

    assert (broken.seq, broken.fault) == (2, "content")


def insertion(seq: int, **changes: int) -> str:
    """Return what puts a copy of the second event of s1 at ``seq``."""
    changed = json.dumps({"seq": seq, "position": 99, "event_id": "\\x78"} | changes)
    return (
        f"INSERT INTO events SELECT (jsonb_populate_record(e, '{changed}')).* FROM events AS e"
        f" WHERE {ROW.format(seq=2)}"
    )


def test_a_row_put_at_the_end_is_inserted(story: Place) -> None:
    tamper(story, insertion(7))

    broken = first_broken(story)

    assert broken.seq == 7
    assert broken.fault in {"link", "inserted"}


def test_a_row_put_in_between_is_inserted(story: Place) -> None:
    tamper(
        story,
        f"UPDATE events SET seq = -seq WHERE {S1} AND seq >= 4",
        f"UPDATE events SET seq = 1 - seq WHERE {S1} AND seq < 0",
        insertion(4),
    )

    broken = first_broken(story)

    assert (broken.seq, broken.fault) == (4, "inserted")


@pytest.mark.parametrize(
    "statements",
    [
        [f"DELETE FROM events WHERE {S2}", "DELETE FROM sessions WHERE name = 's2'"],
        ["DELETE FROM sessions WHERE name = 's2'"],
        [f"DELETE FROM heads WHERE {S2}"],
        [f"UPDATE heads SET seq = 0 WHERE {S2}"],
        [f"UPDATE heads SET seq = 2 WHERE {S2}"],
        [f"UPDATE heads SET link = sha256('x') WHERE {S2}"],
        [f"UPDATE heads SET scope = 'acme/other' WHERE {S2}"],
        ["UPDATE sessions SET name = 's9' WHERE name = 's2'"],
        ["UPDATE sessions SET genesis = sha256('x') WHERE name = 's2'"],
        ["UPDATE sessions SET salt = sha256('x') WHERE name = 's2'"],
        ["UPDATE sessions SET name = NULL WHERE name = 's2'"],
        ["UPDATE sessions SET scope = 'acme/stolen'"],
        ["UPDATE scopes SET scope = 'acme/stolen'"],
        [
            f"UPDATE {table} SET scope = 'acme/stolen'"
            for table in ("scopes", "sessions", "heads", "events")
        ],
        [f"UPDATE events SET seq = 7, {S1.partition(' AND ')[2]} WHERE {S2}"],
        ["UPDATE events SET scope = 'acme/other'"],
    ],
)
def test_a_session_that_was_moved_renamed_or_removed_is_found(
    story: Place, statements: list[str]
) -> None:
    tamper(story, *statements)

    first_broken(story)


def test_a_session_that_cannot_be_read_is_damage(story: Place) -> None:
    tamper(story, "UPDATE sessions SET salt = NULL WHERE name = 's2'")

    with pytest.raises(treering.errors.Corrupt, match="damaged"):
        verified(story)


def blanking(flags: int, seq: int) -> str:
    return (
        "UPDATE events SET summary = NULL, refs = NULL, payload = NULL, salt = NULL,"
        f" payload_bytes = 0, flags = flags | {flags} WHERE {ROW.format(seq=seq)}"
    )


def test_blanking_by_hand_is_no_erasure(story: Place) -> None:
    """A blank row is accepted only if a chained event covers it."""
    tamper(story, blanking(2, 3))

    broken = first_broken(story)

    assert (broken.seq, broken.fault) == (3, "erasure")


@pytest.mark.parametrize("erase", ["redact", "expire"])
def test_an_erasure_that_was_widened_by_hand_is_found(story: Place, erase: str) -> None:
    with treering.open(story.url) as ledger:
        ledger.append([called(ts_ms=NOON)])
        if erase == "redact":
            ledger.redact(HERE, event_id="e2")
        else:
            ledger.expire(HERE, now_ms=NOON + 45 * DAY)
        assert ledger.admin.verify().intact
    tamper(story, blanking(2 if erase == "redact" else 66, 3))

    broken = first_broken(story)

    assert (broken.seq, broken.fault) == (3, "erasure")


def test_content_put_back_after_an_erasure_is_found(story: Place) -> None:
    with treering.open(story.url) as ledger:
        ledger.redact(HERE, event_id="e2")
    tamper(
        story,
        f"UPDATE events SET summary = 'event 2', flags = flags & ~6 WHERE {ROW.format(seq=2)}",
    )

    broken = first_broken(story)

    assert (broken.seq, broken.fault) == (2, "content")


REDACTED_ROW: Final = "flags & 66 = 2"
EXPIRED_ROW: Final = "flags >= 64"
RUN: Final = "SELECT scope, session, 'r9', 0, 1 FROM heads LIMIT 1"
BLOB: Final = "SELECT scope, sha256('x'), body FROM blobs"
MOVED: Final = """
SELECT (jsonb_populate_record(d, '{{"scope": "nobody"}}')).* FROM {table} AS d
"""
HEAD: Final = """SELECT (jsonb_populate_record(h, '{"session": 99}')).* FROM heads AS h LIMIT 1"""


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE events SET flags = flags | 64 WHERE {REDACTED_ROW}",
        f"UPDATE events SET flags = flags & ~4 WHERE {REDACTED_ROW}",
        f"UPDATE events SET payload_bytes = 7 WHERE {REDACTED_ROW}",
        f"UPDATE events SET agent_id = 'mallory' WHERE {EXPIRED_ROW}",
        f"UPDATE events SET ts_ms = 5 WHERE {EXPIRED_ROW}",
        f"UPDATE events SET user_id = 'mallory' WHERE {EXPIRED_ROW}",
        f"UPDATE events SET content_digest = sha256('x') WHERE {EXPIRED_ROW}",
        f"UPDATE events SET flags = flags & ~64 WHERE {EXPIRED_ROW}",
        f"UPDATE events SET link = sha256('x') WHERE {EXPIRED_ROW}",
        f"UPDATE events SET summary = 'x' WHERE {EXPIRED_ROW}",
        "DELETE FROM runs",
        "UPDATE runs SET state = 0, last_seq = NULL",
        "UPDATE runs SET state = 2",
        "UPDATE runs SET first_seq = first_seq + 1",
        "UPDATE runs SET run_id = 'r2'",
        f"INSERT INTO runs (scope, session, run_id, state, first_seq) {RUN}",
        "UPDATE events SET payload = '{}' WHERE blob IS NOT NULL",
        "UPDATE events SET blob = NULL, flags = flags & ~16 WHERE blob IS NOT NULL",
        "DELETE FROM blobs",
        "UPDATE blobs SET key = sha256('x')",
        "UPDATE blobs SET scope = 'acme/other'",
        "UPDATE blobs SET body = 'no zstd'",
        f"INSERT INTO blobs (scope, key, body) {BLOB}",
        "UPDATE scopes SET key = sha256('x')",
        "DELETE FROM scopes",
        "UPDATE sessions SET key = sha256('x') WHERE name = 's2'",
        "UPDATE events SET position = 1",
        f"INSERT INTO heads {HEAD}",
        insertion(1, session=99),
    ],
)
def test_whatever_surrounds_the_events_is_proved_too(eventful: Place, statement: str) -> None:
    tamper(eventful, statement)

    first_broken(eventful)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET value = value || 'x' WHERE name = 'version'",
        "UPDATE ledger SET value = value || 'x' WHERE name = 'lock_key'",
        "DELETE FROM ledger WHERE name = 'lock_key'",
        "DELETE FROM ledger WHERE name = 'id'",
    ],
)
def test_a_ledger_whose_notes_cannot_be_read_is_damaged(story: Place, statement: str) -> None:
    tamper(story, statement)

    with pytest.raises(Corrupt, match="is damaged"):
        treering.open(story.url)


def test_dropping_the_view_breaks_nothing(eventful: Place) -> None:
    tamper(eventful, "DROP VIEW episodic_events")

    assert verified(eventful).intact


def test_an_expired_row_may_not_be_vouched_for_by_a_redaction(eventful: Place) -> None:
    tamper(
        eventful,
        "UPDATE events SET flags = flags | 64, source = '', agent_id = '', ts_ms = 0,"
        f" recorded_ms = 0, content_digest = '' WHERE {REDACTED_ROW}",
    )

    assert first_broken(eventful).fault == "erasure"


def test_a_changed_blob_is_found(story: Place) -> None:
    with treering.open(story.url) as ledger:
        for session in ("s3", "s4"):
            ledger.append([said(session, session_id=session, payload=session * 9_000)])
    tamper(
        story,
        "UPDATE blobs SET body = (SELECT b.body FROM blobs AS b JOIN events AS e ON e.blob = b.key"
        " WHERE e.summary = 's4') WHERE key = (SELECT blob FROM events WHERE summary = 's3')",
    )

    broken = first_broken(story)

    assert (broken.session_id, broken.fault) == ("s3", "content")


def test_a_rebuild_mends_what_is_derived_and_nothing_else(eventful: Place) -> None:
    tamper(
        eventful, "UPDATE runs SET state = 2", f"INSERT INTO runs {RUN.replace(', 1 ', ', 1, 1 ')}"
    )
    with treering.open(eventful.url) as ledger:
        ledger.admin.rebuild()

        assert ledger.admin.verify().intact
        tamper(eventful, f"UPDATE events SET summary = 'a lie' WHERE {ROW.format(seq=4)}")
        ledger.admin.rebuild()

        assert not ledger.admin.verify().intact


# Anchors, scopes and sessions.


def anchor_of(place: Place) -> io.BytesIO:
    stream = io.BytesIO()
    with treering.open(place.url) as ledger:
        ledger.admin.anchor(stream)
    stream.seek(0)
    return stream


def test_an_anchor_holds_while_the_ledger_grows(story: Place) -> None:
    anchor = anchor_of(story)
    with treering.open(story.url) as ledger:
        ledger.append([said("more"), said("new", session_id="s3")])
        ledger.redact(HERE, session_id="s1")

    result = verified(story, anchor=anchor)

    assert (result.intact, result.anchored_sessions) == (True, 2)


def test_an_anchor_finds_a_tail_that_was_cut_off_without_a_trace(story: Place) -> None:
    anchor = anchor_of(story)
    tamper(
        story,
        f"DELETE FROM events WHERE {ROW.format(seq=6)}",
        f"UPDATE heads SET seq = 5, link = (SELECT link FROM events WHERE {ROW.format(seq=5)})"
        f" WHERE {S1}",
    )

    assert verified(story).intact
    result = verified(story, anchor=anchor)
    assert result.first_broken is not None
    assert result.first_broken.fault == "missing"


def test_an_anchor_of_a_file_proves_what_was_copied_to_a_server(place: Place) -> None:
    with treering.open(":memory:") as source, treering.open(place.url) as target:
        source.append([said("one"), said("two", session_id="s2")])
        stream = io.BytesIO()
        source.admin.anchor(stream)
        source.admin.copy_to(target)

        stream.seek(0)
        assert target.admin.verify(anchor=stream).anchored_sessions == 2


def test_one_session_or_one_scope_can_be_verified_alone(story: Place) -> None:
    with treering.open(story.url) as ledger:
        ledger.append([said("theirs", scope=ELSEWHERE)])
    tamper(story, f"UPDATE events SET summary = 'a lie' WHERE {S2}")

    assert verified(story, HERE, session_id="s1").intact
    assert not verified(story, HERE, session_id="s2").intact
    assert not verified(story, HERE).intact
    assert verified(story, ELSEWHERE).intact
    assert verified(story, "acme/empty").intact
    with pytest.raises(treering.NotFound):
        verified(story, HERE, session_id="nobody")


def test_a_role_finds_what_was_changed_in_its_scope(story: Place) -> None:
    with treering.open(story.url) as ledger:
        ledger.append([said("theirs", scope=ELSEWHERE)])
    tamper(story, "UPDATE events SET summary = 'a lie'")

    for role in (story.role(None), story.role(HERE)):
        with treering.open(story.url_of(role)) as ledger:
            result = ledger.admin.verify(HERE)
            assert (result.sessions, result.broken_sessions) == (2, 2)


def without_session(name: str) -> list[str]:
    """Return all that removes a session of HERE with its events."""
    one = S1.replace("s1", name)
    return [
        *(f"DELETE FROM {table} WHERE {one}" for table in ("events", "heads", "runs")),
        f"DELETE FROM sessions WHERE name = '{name}'",
    ]


@pytest.mark.parametrize("scope", [(), (HERE,)])
def test_a_session_that_vanished_with_all_its_rows_is_missed(
    story: Place, scope: tuple[str, ...]
) -> None:
    tamper(story, *without_session("s2"))

    broken = verified(story, *scope).first_broken

    assert broken is not None
    assert broken.detail == f"2 sessions were opened in scope {HERE}, and 1 of them are here"


def test_a_scope_that_vanished_with_all_its_rows_is_missed(story: Place) -> None:
    with treering.open(story.url) as ledger:
        ledger.append([said("theirs", scope=ELSEWHERE)])
        assert ledger.admin.verify().intact
    tables = ("events", "heads", "sessions", "scopes")
    tamper(story, *(f"DELETE FROM {table} WHERE scope = '{ELSEWHERE}'" for table in tables))

    assert first_broken(story).detail == "2 scopes were opened, and 1 of them are here"
    assert verified(story, HERE).intact


@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM scopes WHERE scope = '{HERE}'",
        f"UPDATE events SET event_id = sha256('x') WHERE {ROW.format(seq=3)}",
        f"UPDATE events SET scope = '{ELSEWHERE}' WHERE {ROW.format(seq=3)}",
        "UPDATE sessions SET key = sha256('x') WHERE name = 's2'",
        "UPDATE scopes SET sessions = sessions + 1",
        "UPDATE scopes SET digest = ~digest",
    ],
)
def test_what_nobody_finds_any_more_is_missed_in_its_scope(story: Place, statement: str) -> None:
    assert verified(story, HERE).intact
    tamper(story, statement)

    assert not verified(story, HERE).intact
    assert not verified(story).intact


def test_many_who_open_sessions_at_once_are_all_counted(story: Place) -> None:
    def open_many(worker: int) -> None:
        with treering.open(story.url) as ledger:
            for n in range(5):
                scopes = (HERE, ELSEWHERE) if worker % 2 else (ELSEWHERE, HERE)
                ledger.append([said("x", scope=s, session_id=f"{worker}-{n}") for s in scopes])

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(open_many, range(4)))

    assert verified(story).sessions == 2 + 4 * 5 * 2
    assert verified(story).intact


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tool_calls SET status = 2",
        "UPDATE tool_calls SET duration_ms = coalesce(duration_ms, 0) + 1",
        "UPDATE search_documents SET words = 'x'::tsvector",
        "UPDATE search_documents SET ts_ms = ts_ms + 1",
        "DELETE FROM search_documents",
        "UPDATE memory_documents SET terms = sha256('x')",
        "DELETE FROM memory_documents",
        "UPDATE memory_rows SET body = substring(body FOR length(body) - 1)",
        "DELETE FROM memory_rows WHERE sort = 'fact.3'",
        "INSERT INTO memory_rows SELECT scope, 'fact.9', key, body FROM memory_rows",
        f"UPDATE memory_rows SET scope = '{ELSEWHERE}'",
        "UPDATE search_documents SET number = 0",
        f"INSERT INTO search_documents {MOVED.format(table='search_documents')}",
        "INSERT INTO memory_rows SELECT 'nobody', sort, key, body FROM memory_rows",
        "UPDATE memory_documents SET session = session + 1000",
        "UPDATE memory_documents SET embedder = ''",
        "UPDATE memory_documents SET number = 0",
        "UPDATE memory_documents SET number = 1",
        "UPDATE memory_documents SET number = number + 1000",
        "UPDATE memory_shelves SET newest = 0",
        f"INSERT INTO memory_documents {MOVED.format(table='memory_documents')}",
    ],
)
def test_derived_rows_that_lie_are_found(story: Place, statement: str) -> None:
    refs = {"call_id": "c", "tool": "t"}
    with treering.open(story.url) as ledger:
        ledger.append(
            [
                said("call", kind="tool.call", refs=refs),
                said("got", kind="tool.result", refs=refs | {"status": "ok"}),
            ]
        )
        ledger.memory(HERE).learn("Lives in Porto", user="ann")
        ledger.memory(HERE).recall("Where does ann live?", user="ann", record=False)
        ledger.search("event", scope=HERE)
        ledger.tool_calls(HERE)
    proof = verified(story, derived=True)
    assert proof.intact, proof.first_broken
    assert proof.derived_rows is not None
    assert all(proof.derived_rows[name] for name in ("tool_calls", "search", "documents"))
    assert proof.derived_rows["memory_rows"]
    tamper(story, statement)

    broken = verified(story, derived=True).first_broken

    assert broken is not None
    assert broken.fault == "derived"
