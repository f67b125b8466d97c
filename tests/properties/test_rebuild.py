"""Promise 6: drop every derived table, rebuild, get the same bytes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import treering
from builders import DAY, HERE, NOON, called, run_of, said

if TYPE_CHECKING:
    from pathlib import Path

DERIVED = ("seqs_by_session", "ids_by_scope", "times_by_session", "times_by_kind", "runs")


def derived(path: Path) -> dict[str, list[tuple[int, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
            for table in DERIVED
        }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed ledger in which all has happened that derived tables follow."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        ledger.append(run_of("good", "a", "b", ts_ms=NOON))
        ledger.append(run_of("bad", "c", end="run.failed", ts_ms=NOON, session_id="s2"))
        ledger.append(run_of("cut", end="run.interrupted", ts_ms=NOON))
        ledger.append([called(ts_ms=NOON - n, session_id=f"s{n % 3}") for n in range(700)])
        ledger.redact(HERE, session_id="s2")
        ledger.expire(HERE, now_ms=NOON + 45 * DAY)
        ledger.append([said("open", run_id="open"), said("late", ts_ms=NOON - 5)])
        ledger.admin.rebuild()
    return path


def test_derived_tables_come_back_the_same(path: Path) -> None:
    before = derived(path)
    connection = sqlite3.connect(path)
    for table in DERIVED:
        connection.execute(f"DELETE FROM {table}")
    connection.execute("UPDATE ledger SET value = 0 WHERE name LIKE '%ed_position'")
    connection.commit()
    connection.close()

    with treering.open(path) as ledger:
        receipt = ledger.admin.rebuild()
        assert ledger.admin.verify().intact

    assert derived(path) == before
    assert all(before.values())
    assert (receipt.events, receipt.runs) == (len(before["times_by_session"]), 4)


def test_what_was_kept_as_it_happened_is_what_a_rebuild_makes(path: Path) -> None:
    with treering.open(path) as ledger:
        ledger.append(run_of("more", *map(str, range(600))))
        ledger.append([said("x", run_id="open", kind="run.ended")])
    connection = sqlite3.connect(path)
    kept = connection.execute("SELECT * FROM runs ORDER BY 1, 2").fetchall()
    connection.close()

    with treering.open(path) as ledger:
        ledger.admin.rebuild()

    assert derived(path)["runs"] == kept


def test_a_ledger_reads_the_same_after_a_rebuild(path: Path) -> None:
    with treering.open(path) as ledger:
        before = ledger.headers(HERE, first=1_000).items, ledger.headers(HERE, last=5).items
        ledger.admin.rebuild()
        after = ledger.headers(HERE, first=1_000).items, ledger.headers(HERE, last=5).items
        with pytest.raises(treering.errors.RunClosed):
            ledger.append([said("late", run_id="good")])
        ledger.append([said("in time", run_id="open")])

    assert before == after


def test_damage_to_what_is_derived_is_found_and_mended(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM times_by_kind WHERE position % 2 = 0")
    connection.execute("UPDATE runs SET state = 1")
    connection.commit()
    connection.close()

    with treering.open(path) as ledger:
        assert not ledger.admin.verify().intact
        ledger.admin.rebuild()
        assert ledger.admin.verify().intact
