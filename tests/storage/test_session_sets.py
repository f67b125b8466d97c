"""Which sessions and scopes there are is proved, too: verify alone misses one that is gone."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, said

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treering import Ledger
    from treering.model.receipts import Verification


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed ledger: three sessions in one scope, one in another."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        for session in ("s1", "s2", "s3"):
            ledger.append([said(session, session_id=session, event_id=f"e-{session}")])
        ledger.append([said("theirs", scope=ELSEWHERE)])
    return path


def tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def verified(path: Path, *scope: str) -> Verification:
    with treering.open(path) as ledger:
        return ledger.admin.verify(*scope)


def without_session(session: int) -> list[str]:
    """Return all that removes a session and its events, leaving no gap between positions."""
    row = f"(SELECT position FROM events WHERE session = {session})"
    return [
        f"UPDATE contents SET position = -position WHERE position > {row}",
        f"UPDATE events SET position = -position WHERE position > {row}",
        f"DELETE FROM contents WHERE position = {row}",
        f"DELETE FROM events WHERE session = {session}",
        "UPDATE contents SET position = -position - 1 WHERE position < 0",
        "UPDATE events SET position = -position - 1 WHERE position < 0",
        f"DELETE FROM heads WHERE session = {session}",
        f"DELETE FROM sessions WHERE id = {session}",
    ]


@pytest.mark.parametrize("session", [1, 2, 3])
@pytest.mark.parametrize("scope", [(), (HERE,)])
def test_a_session_that_vanished_with_all_its_rows_is_missed(
    path: Path, session: int, scope: tuple[str, ...]
) -> None:
    tamper(path, *without_session(session))

    broken = verified(path, *scope).first_broken

    assert broken is not None
    assert broken.detail == f"3 sessions were opened in scope {HERE}, and 2 of them are here"
    assert verified(path, ELSEWHERE).intact


@pytest.mark.parametrize("scope", [(), (ELSEWHERE,)])
@pytest.mark.parametrize(
    "statements",
    [
        [f"DELETE FROM scopes WHERE name = '{ELSEWHERE}'"],
        [*without_session(4), f"DELETE FROM scopes WHERE name = '{ELSEWHERE}'"],
    ],
)
def test_a_scope_that_vanished_is_missed(
    path: Path, scope: tuple[str, ...], statements: list[str]
) -> None:
    tamper(path, *statements)

    broken = verified(path, *scope).first_broken

    assert broken is not None
    assert broken.detail == "2 scopes were opened, and 1 of them are here"


@pytest.mark.parametrize("scope", ["99", "2"])
def test_a_session_that_was_pointed_at_another_scope_is_missed(path: Path, scope: str) -> None:
    tamper(
        path,
        f"UPDATE sessions SET scope = {scope} WHERE id = 2",
        f"UPDATE events SET scope = {scope} WHERE session = 2",
    )

    assert not verified(path).intact
    assert not verified(path, HERE).intact


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET scope = 2 WHERE session = 2",
        "UPDATE events SET scope = 99 WHERE session = 2",
        "UPDATE events SET event_id = randomblob(16) WHERE session = 2",
        "UPDATE sessions SET key = randomblob(16) WHERE id = 2",
        "UPDATE names SET key = randomblob(16) WHERE name = 'conversation.user'",
        "UPDATE events SET event_name = 'e-s4' WHERE session = 2",
    ],
)
def test_an_event_that_nobody_finds_any_more_is_missed_in_its_scope(
    path: Path, statement: str
) -> None:
    with treering.open(path) as ledger:
        assert ledger.admin.verify(HERE).intact
        assert ledger.admin.verify(HERE, session_id="s2").intact
    tamper(path, statement)

    with treering.open(path) as ledger:
        assert not ledger.admin.verify(HERE).intact


@pytest.mark.parametrize("table", ["times_by_session", "times_by_kind"])
def test_an_event_that_left_the_orders_of_time_is_missed_in_its_scope(
    path: Path, table: str
) -> None:
    with treering.open(path) as ledger:
        ledger.admin.rebuild()
        assert ledger.admin.verify(HERE).intact
        assert ledger.admin.verify(ELSEWHERE).intact
    tamper(path, f"DELETE FROM {table} WHERE position = 2")

    with treering.open(path) as ledger:
        assert not ledger.admin.verify(HERE).intact
        assert not ledger.admin.verify(HERE, session_id="s2").intact
        assert ledger.admin.verify(HERE, session_id="s1").intact
        assert ledger.admin.verify(ELSEWHERE).intact


def test_asking_for_a_session_that_vanished_says_that_one_is_missing(path: Path) -> None:
    tamper(path, *without_session(2))

    with treering.open(path) as ledger:
        assert not ledger.admin.verify(HERE, session_id="s2").intact


def test_a_ledger_of_an_earlier_schema_gets_its_sets_from_what_it_holds(path: Path) -> None:
    tamper(
        path,
        "ALTER TABLE scopes DROP COLUMN sessions",
        "ALTER TABLE scopes DROP COLUMN digest",
        "DELETE FROM ledger WHERE name IN ('scopes', 'sessions')",
        "DROP TABLE record_keys",
        "DROP TABLE seqs_by_session",
        "DROP TABLE ids_by_scope",
        "DELETE FROM ledger WHERE name = 'indexed_position'",
        "CREATE UNIQUE INDEX events_by_seq ON events (session, seq)",
        "CREATE UNIQUE INDEX events_by_id ON events (scope, event_id)",
        "PRAGMA user_version = 5",
    )

    assert verified(path).intact
    tamper(path, *without_session(2))
    assert not verified(path).intact


def test_a_session_of_an_earlier_program_is_counted_with_the_next(path: Path) -> None:
    # What an earlier program leaves behind: a session that nothing has counted.
    with closing(sqlite3.connect(path)) as connection, connection:
        sets = connection.execute("SELECT sessions, digest FROM scopes WHERE id = 1").fetchone()
    with treering.open(path) as ledger:
        ledger.append([said("late", session_id="s4")])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE scopes SET sessions = ?, digest = ? WHERE id = 1", sets)
        connection.execute("UPDATE ledger SET value = 4 WHERE name = 'sessions'")
    assert verified(path).intact

    with treering.open(path) as ledger:
        ledger.append([said("next", session_id="s5")])
        assert ledger.admin.verify().intact
    tamper(path, *without_session(5))
    assert not verified(path).intact


def test_sets_hold_through_expiry_forgetting_forks_exports_and_copies(
    open_ledger: Callable[[], Ledger],
) -> None:
    ledger, copied, restored = open_ledger(), open_ledger(), open_ledger()
    ledger.append([called(session_id="old", ts_ms=NOON), said("u", session_id="u", user_id="u1")])
    session = ledger.session("talk", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("hello")
    session.fork("branch")
    ledger.append([said("theirs", scope=ELSEWHERE), called(scope=ELSEWHERE, session_id="two")])
    ledger.expire(HERE, now_ms=NOON + 45 * DAY)
    ledger.forget(HERE, user="u1")
    ledger.admin.copy_to(copied)
    stream = io.BytesIO()
    ledger.admin.export(HERE, stream, payloads="included")
    stream.seek(0)
    restored.admin.restore(stream)

    for one in (ledger, copied, restored):
        proof = one.admin.verify()
        assert proof.intact, proof.first_broken
        assert "sessions" in proof.checked
        assert one.admin.verify(HERE).intact


def test_a_scope_that_was_renamed_is_missed_under_its_own_name(path: Path) -> None:
    assert verified(path, "renamed").intact
    tamper(path, "UPDATE scopes SET name = 'renamed' WHERE id = 1")

    broken = verified(path, HERE).first_broken

    assert broken is not None
    assert broken.detail == f"scope {HERE} was renamed: its sessions are in scope renamed now"
    assert not verified(path, "renamed").intact
    assert verified(path, ELSEWHERE).intact


def test_opening_hides_and_erases_nothing_that_was_not_erased_before(path: Path) -> None:
    """The list of what earlier versions erased is not believed where the events say otherwise."""
    content_key = "0c1d2e3f-0000-8000-8000-000000000001"
    with treering.open(path) as ledger:
        ledger.append([said("kept", session_id="s2", event_id=content_key)])
    for number in (0, 1):
        tamper(
            path, f"INSERT INTO legacy_events SELECT position, {number} FROM events WHERE scope = 1"
        )

        assert verified(path).intact
        with treering.open(path) as ledger:
            assert set(ledger.find_ids(HERE, ["e-s2", content_key])) == {"e-s2", content_key}
            kept = [event.summary for event in ledger.events(HERE, session_id="s2").items]
            assert kept == ["s2", "kept"]
