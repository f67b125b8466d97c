"""Tamper evidence: whatever plain SQL changes behind the ledger's back, verify finds and names."""

from __future__ import annotations

import io
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import treering
from builders import DAY, HERE, NOON, called, run_of, said
from contract.test_derived_proof import derive_everything

if TYPE_CHECKING:
    from pathlib import Path

    from treering.model.receipts import Verification

ROW = "(SELECT position FROM events WHERE seq = {seq} AND session = 1)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed ledger: s1 with six events, s2 with one."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        ledger.append([said(f"event {n}", event_id=f"e{n}", ts_ms=NOON + n) for n in range(1, 7)])
        ledger.append([said("other", session_id="s2", user_id="u1")])
    return path


def tamper(path: Path, *statements: str) -> None:
    # The standard library's engine, as any other tool would be: nothing of ours is involved.
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def verified(path: Path, **options: Any) -> Verification:
    with treering.open(path) as ledger:
        return ledger.admin.verify(**options)


def test_an_untouched_ledger_is_intact(path: Path) -> None:
    result = verified(path)

    assert result.intact
    assert (result.sessions, result.events) == (2, 7)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "(SELECT id FROM names WHERE name = 'lyria')"),
        ("ts_ms", "ts_ms + 1"),
        ("recorded_ms", "recorded_ms - 1"),
        ("agent", "kind"),
        ("source", "kind"),
        ("user", "kind"),
        ("origin", "kind"),
        ("run", "kind"),
        ("run_seq", "9"),
        ("turn", "kind"),
        ("schema_version", "2"),
        ("flags", "flags & ~1"),
        ("flags", "flags | 128"),
        ("flags", "flags | 4"),
        ("flags", "flags & ~8"),
        ("flags", "flags & ~32"),
        ("event_id", "randomblob(16)"),
        ("link", "randomblob(32)"),
        ("content_digest", "randomblob(32)"),
        ("event_name", "'e99'"),
        ("summary", "'a lie'"),
        ("refs", "CAST('{}' AS BLOB)"),
        ("payload_bytes", "0"),
        ("flags", "flags | 2"),
        ("flags", "flags | 64"),
        ("summary", "NULL"),
    ],
)
def test_a_changed_column_is_found(path: Path, column: str, value: str) -> None:
    before = verified(path)
    tamper(path, f"UPDATE events SET {column} = {value} WHERE position = {ROW.format(seq=3)}")
    result = verified(path)

    assert before.intact
    assert not result.intact
    assert result.first_broken is not None
    assert result.first_broken.detail
    # Some columns are only for finding events: no session's proof depends on them.
    if column != "event_id" and value != "flags & ~8":
        assert result.first_broken.session_id == "s1"
        assert result.first_broken.seq == 3


@pytest.mark.parametrize(
    "change",
    [
        'UPDATE contents SET payload = CAST(\'{"text":"lie"}\' AS BLOB)',
        "UPDATE contents SET payload = NULL",
        "UPDATE contents SET salt = randomblob(16)",
        "UPDATE contents SET salt = NULL",
        "DELETE FROM contents",
    ],
)
def test_changed_content_is_found(path: Path, change: str) -> None:
    tamper(path, f"{change} WHERE position = {ROW.format(seq=4)}")

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.seq, broken.event_id, broken.fault) == (4, "e4", "content")


@pytest.mark.parametrize("seq", [1, 3, 6])
def test_a_dropped_row_is_missing(path: Path, seq: int) -> None:
    tamper(
        path,
        f"DELETE FROM contents WHERE position = {ROW.format(seq=seq)}",
        f"DELETE FROM events WHERE position = {ROW.format(seq=seq)}",
    )

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.session_id, broken.seq, broken.fault) == ("s1", seq, "missing")


@pytest.mark.parametrize(("one", "two"), [(2, 3), (1, 6), (5, 6), (2, 5)])
def test_swapped_rows_are_reordered(path: Path, one: int, two: int) -> None:
    tamper(
        path,
        f"UPDATE events SET seq = -1 WHERE session = 1 AND seq = {one}",
        f"UPDATE events SET seq = {one} WHERE session = 1 AND seq = {two}",
        f"UPDATE events SET seq = {two} WHERE session = 1 AND seq = -1",
    )

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.seq, broken.fault) == (one, "reordered")


def test_swapped_content_is_found(path: Path) -> None:
    tamper(
        path,
        "UPDATE contents SET position = -1 WHERE position = 2",
        "UPDATE contents SET position = 2 WHERE position = 3",
        "UPDATE contents SET position = 3 WHERE position = -1",
    )

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.seq, broken.fault) == (2, "content")


COLUMNS = (
    "scope, session, event_name, kind, source, agent, ts_ms, recorded_ms, flags,"
    " schema_version, payload_bytes, content_digest, link, summary, refs"
)


def insertion(seq: int) -> list[str]:
    event = (
        f"INSERT INTO events (position, seq, event_id, {COLUMNS})"
        f" SELECT 99, {seq}, randomblob(16), {COLUMNS} FROM events WHERE position = 2"
    )
    content = (
        "INSERT INTO contents (position, salt, payload)"
        " SELECT 99, salt, payload FROM contents WHERE position = 2"
    )
    return [event, content]


def test_a_row_put_at_the_end_is_inserted(path: Path) -> None:
    tamper(path, *insertion(7))

    broken = verified(path).first_broken

    assert broken is not None
    assert broken.seq == 7
    assert broken.fault in {"link", "inserted"}


def test_a_row_put_in_between_is_inserted(path: Path) -> None:
    tamper(
        path,
        "UPDATE events SET seq = -seq WHERE session = 1 AND seq >= 4",
        "UPDATE events SET seq = 1 - seq WHERE session = 1 AND seq < 0",
        *insertion(4),
    )

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.seq, broken.fault) == (4, "inserted")


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM events WHERE session = 2", "DELETE FROM sessions WHERE id = 2"],
        ["DELETE FROM sessions WHERE id = 2"],
        ["DELETE FROM heads WHERE session = 2"],
        ["UPDATE heads SET seq = 0 WHERE session = 2"],
        ["UPDATE heads SET link = randomblob(32) WHERE session = 2"],
        ["UPDATE sessions SET name = 's9' WHERE id = 2"],
        ["UPDATE sessions SET genesis = randomblob(32) WHERE id = 2"],
        ["UPDATE scopes SET name = 'acme/stolen'"],
        ["UPDATE names SET name = 'mallory' WHERE name = 'lyria'"],
        ["UPDATE names SET name = 'u2' WHERE name = 'u1'"],
        ["UPDATE events SET session = 1, seq = 7 WHERE session = 2"],
    ],
)
def test_a_session_that_was_moved_renamed_or_removed_is_found(
    path: Path, statements: list[str]
) -> None:
    tamper(path, *statements)

    result = verified(path)

    assert not result.intact
    assert result.first_broken is not None


def test_blanking_by_hand_is_no_erasure(path: Path) -> None:
    """A blank row is accepted only if a chained event covers it."""
    tamper(
        path,
        "UPDATE events SET summary = NULL, refs = NULL, payload_bytes = 0, flags = flags | 2"
        " WHERE position = 3",
        "UPDATE contents SET salt = NULL, payload = NULL WHERE position = 3",
    )

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.seq, broken.fault) == (3, "erasure")


@pytest.mark.parametrize("erase", ["redact", "expire"])
def test_an_erasure_that_was_widened_by_hand_is_found(path: Path, erase: str) -> None:
    with treering.open(path) as ledger:
        ledger.append([called(ts_ms=NOON)])
        if erase == "redact":
            ledger.redact(HERE, event_id="e2")
        else:
            ledger.expire(HERE, now_ms=NOON + 45 * DAY)
        assert ledger.admin.verify().intact
    flags = 2 if erase == "redact" else 66
    tamper(
        path,
        f"UPDATE events SET summary = NULL, refs = NULL, payload_bytes = 0, flags = flags | {flags}"
        " WHERE position = 3",
        "UPDATE contents SET salt = NULL, payload = NULL WHERE position = 3",
    )

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.seq, broken.fault) == (3, "erasure")


def test_content_put_back_after_an_erasure_is_found(path: Path) -> None:
    with treering.open(path) as ledger:
        ledger.redact(HERE, event_id="e2")
    tamper(path, "UPDATE events SET summary = 'event 2', flags = flags & ~6 WHERE position = 2")

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.seq, broken.fault) == (2, "content")


@pytest.fixture
def eventful(path: Path) -> Path:
    """Return the ledger with runs, blobs, a redacted and an expired event."""
    with treering.open(path) as ledger:
        ledger.append(run_of("r1", "a", session_id="s3"))
        ledger.append([said("large", session_id="s3", payload="x" * 9_000)])
        ledger.append([called(event_id="old", ts_ms=NOON)])
        ledger.redact(HERE, event_id="e2")
        ledger.expire(HERE, now_ms=NOON + 45 * DAY)
        assert ledger.admin.verify().intact
    return path


REDACTED_ROW = "flags & 66 = 2"
EXPIRED_ROW = "flags >= 64"


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE events SET flags = flags | 64 WHERE {REDACTED_ROW}",
        f"UPDATE events SET flags = flags & ~4 WHERE {REDACTED_ROW}",
        f"UPDATE events SET payload_bytes = 7 WHERE {REDACTED_ROW}",
        f"UPDATE events SET agent = kind WHERE {EXPIRED_ROW}",
        f"UPDATE events SET ts_ms = 5 WHERE {EXPIRED_ROW}",
        f"UPDATE events SET user = kind WHERE {EXPIRED_ROW}",
        f"UPDATE events SET content_digest = randomblob(32) WHERE {EXPIRED_ROW}",
        f"UPDATE events SET flags = flags & ~64 WHERE {EXPIRED_ROW}",
        f"UPDATE events SET link = randomblob(32) WHERE {EXPIRED_ROW}",
        "DELETE FROM runs",
        "UPDATE runs SET state = 0, last_seq = NULL",
        "UPDATE runs SET first_seq = first_seq + 1",
        "INSERT INTO runs (session, run, state, first_seq) VALUES (1, 1, 0, 1)",
        "DELETE FROM times_by_kind",
        "UPDATE times_by_session SET ts_ms = ts_ms + 1",
        "UPDATE contents SET payload = CAST('{}' AS BLOB) WHERE blob IS NOT NULL",
        "UPDATE blobs SET key = randomblob(32)",
        "UPDATE blobs SET scope = 99",
        "INSERT INTO blobs (scope, key, body) SELECT scope, randomblob(32), body FROM blobs",
        "UPDATE scopes SET key = randomblob(32)",
        "UPDATE names SET key = randomblob(16) WHERE id = 1",
        "UPDATE sessions SET key = randomblob(16) WHERE id = 2",
        "CREATE TRIGGER spy AFTER INSERT ON contents BEGIN SELECT 1; END",
        "CREATE TABLE copy_of_contents (payload BLOB)",
        "CREATE INDEX summaries ON events (summary)",
        "DROP INDEX sessions_by_key",
        "DROP TABLE ids_by_scope",
    ],
)
def test_whatever_surrounds_the_events_is_proved_too(eventful: Path, statement: str) -> None:
    tamper(eventful, statement)

    assert not verified(eventful).intact


def test_dropping_the_view_breaks_nothing(eventful: Path) -> None:
    """The seed lets an operator drop it."""
    tamper(eventful, "DROP VIEW episodic_events")

    assert verified(eventful).intact


def test_an_expired_row_may_not_be_vouched_for_by_a_redaction(eventful: Path) -> None:
    tamper(
        eventful,
        "UPDATE events SET flags = flags | 64, source = 0, agent = 0, ts_ms = 0, recorded_ms = 0,"
        f" content_digest = x'' WHERE {REDACTED_ROW}",
    )

    broken = verified(eventful).first_broken

    assert broken is not None
    assert broken.fault == "erasure"


def test_a_changed_blob_is_found(path: Path) -> None:
    with treering.open(path) as ledger:
        for session in ("s3", "s4"):
            ledger.append([said(session, session_id=session, payload=session * 9_000)])
    tamper(path, "UPDATE blobs SET body = (SELECT body FROM blobs WHERE id = 2) WHERE id = 1")

    broken = verified(path).first_broken

    assert broken is not None
    assert (broken.session_id, broken.fault) == ("s3", "content")


def anchor_of(path: Path) -> io.BytesIO:
    stream = io.BytesIO()
    with treering.open(path) as ledger:
        ledger.admin.anchor(stream)
    stream.seek(0)
    return stream


def test_an_anchor_holds_while_the_ledger_grows(path: Path) -> None:
    anchor = anchor_of(path)
    with treering.open(path) as ledger:
        ledger.append([said("more"), said("new", session_id="s3")])
        ledger.redact(HERE, session_id="s1")

    result = verified(path, anchor=anchor)

    assert result.intact
    assert result.anchored_sessions == 2


def test_an_anchor_finds_a_tail_that_was_cut_off_without_a_trace(path: Path) -> None:
    anchor = anchor_of(path)
    tamper(
        path,
        "DELETE FROM contents WHERE position = 6",
        "DELETE FROM events WHERE position = 6",
        "UPDATE contents SET position = 6 WHERE position = 7",
        "UPDATE events SET position = 6 WHERE position = 7",
        "UPDATE heads SET seq = 5, link = (SELECT link FROM events WHERE position = 5)"
        " WHERE session = 1",
    )

    assert verified(path).intact
    result = verified(path, anchor=anchor)
    assert not result.intact
    assert result.first_broken is not None
    assert result.first_broken.fault == "missing"


def test_an_anchor_finds_a_history_that_was_written_anew(path: Path, tmp_path: Path) -> None:
    anchor = anchor_of(path)
    with treering.open(tmp_path / "new.db") as forged:
        forged.append([said(f"event {n}") for n in range(1, 7)])

        assert not forged.admin.verify(anchor=anchor).intact


def test_an_anchor_names_no_session_of_another_scope(path: Path) -> None:
    """Promise 3: no surface in scope A returns a byte of scope B."""
    with treering.open(path) as ledger:
        ledger.append([said("theirs", scope="acme/other", session_id="secret-project")])
    anchor = anchor_of(path)
    tamper(path, "UPDATE events SET link = randomblob(32) WHERE scope = 2")

    with treering.open(path) as ledger:
        result = ledger.admin.verify(HERE, anchor=anchor)

    assert result.intact
    assert result.anchored_sessions == 2


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"garbage\n",
        b'{"record":"head"}\n',
        b'{"record":"head","genesis":"zz","seq":1,"link":"zz"}\n',
        b'{"record":"head","genesis":"","seq":-1,"link":""}\n',
        b"\xff\xfe\n",
    ],
)
def test_a_damaged_anchor_is_refused(path: Path, damage: bytes) -> None:
    with pytest.raises(treering.InvalidInput, match="anchor file is damaged"):
        verified(path, anchor=io.BytesIO(damage))


def test_an_anchor_whose_lines_were_changed_is_refused(path: Path) -> None:
    lines = anchor_of(path).getvalue().split(b"\n")

    with pytest.raises(treering.InvalidInput, match="do not add up"):
        verified(path, anchor=io.BytesIO(b"\n".join(lines[1:])))


def test_one_session_or_one_scope_can_be_verified_alone(path: Path) -> None:
    tamper(path, "UPDATE events SET summary = 'lie' WHERE session = 2")

    with treering.open(path) as ledger:
        assert ledger.admin.verify(HERE, session_id="s1").intact
        assert not ledger.admin.verify(HERE, session_id="s2").intact
        assert not ledger.admin.verify(HERE).intact
        assert ledger.admin.verify("acme/empty").intact
        with pytest.raises(treering.NotFound):
            ledger.admin.verify(HERE, session_id="nobody")


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a ledger of two scopes that has derived all that it can."""
    path = tmp_path_factory.mktemp("derived") / "ledger.db"
    # As shipped: facts and events have an embedder each.
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TREERING_EMBEDDER", raising=False)
        with treering.open(path) as ledger:
            derive_everything(ledger)
            proof = ledger.admin.verify(derived=True)
            assert proof.intact, proof.first_broken
    return path


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("", "UPDATE snapshots SET body = substr(body, 1, 40)"),
        ("", "UPDATE snapshots SET body = CAST(body || x'00' AS BLOB)"),
        ("", "UPDATE snapshots SET seq = seq - 1"),
        ("", "UPDATE snapshots SET seq = seq + 100000"),
        ("", "UPDATE snapshots SET view = view + 7"),
        ("", "UPDATE snapshots SET scope = 3 - scope"),
        ("", "INSERT INTO snapshots SELECT 3 - scope, session, view, seq, body FROM snapshots"),
        (".memory", "UPDATE documents SET session = 0 WHERE number = 2"),
        (".memory", "UPDATE documents SET session = session + 1000"),
        (".memory", "UPDATE documents SET embedder = '' WHERE number = 2"),
        (
            ".memory",
            """
UPDATE documents AS d
SET embedder = (SELECT o.embedder FROM documents AS o WHERE o.embedder <> d.embedder LIMIT 1)
""",
        ),
        (".memory", "UPDATE documents SET vectors = x'' WHERE number = 2"),
        (".memory", "UPDATE documents SET number = number + 1000000 WHERE number = 2"),
        (".memory", "UPDATE shelves SET newest = 0"),
        (
            ".memory",
            "INSERT INTO memory_rows SELECT scope, 'fact.9', key, body FROM memory_rows LIMIT 1",
        ),
        (".memory", "INSERT INTO memory_rows SELECT 99, sort, key, body FROM memory_rows LIMIT 1"),
        (".memory", "UPDATE documents SET scope = 99, shelf = 'x' WHERE number = 2"),
        (".search", "UPDATE shards SET first = last + 1"),
        (".search", "INSERT INTO shards SELECT 99, 99, first, last, documents FROM shards LIMIT 1"),
    ],
)
def test_derived_rows_that_lie_are_found(
    derived: Path, tmp_path: Path, file: str, statement: str
) -> None:
    path = tmp_path / "copy" / derived.name
    shutil.copytree(derived.parent, path.parent)
    with closing(apsw.Connection(f"{path}{file}")) as connection:
        connection.execute(statement)
        assert connection.total_changes()

    broken = verified(path, derived=True).first_broken

    assert broken is not None
    assert broken.fault in {"derived", "file"}
