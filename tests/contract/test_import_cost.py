"""What a copy costs, counted in steps of the database and not in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

import treering
from builders import HERE, said
from ports import store_of
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from pathlib import Path


def test_finding_one_session_costs_the_same_however_many_there_are(tmp_path: Path) -> None:
    few, many = (steps_of_finding(tmp_path / f"{count}.db", count) for count in (10, 3_000))

    assert few == many


def steps_of_finding(path: Path, sessions: int) -> list[int]:
    """Return what each statement takes that finds the last of so many sessions."""
    steps: list[int] = []
    with treering.open(path) as ledger:
        ledger.append([said(session_id=f"s{n}") for n in range(sessions)])
        store = store_of(ledger)
        database = store._database  # type: ignore[attr-defined]
        with database.reading() as connection:
            connection.trace_v2(
                apsw.SQLITE_TRACE_PROFILE,
                lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
            )
        (found,) = store.sessions.records(Scope(HERE), f"s{sessions - 1}")
        assert found.session_id == f"s{sessions - 1}"
    assert steps
    return steps
