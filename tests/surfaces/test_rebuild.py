"""``treering rebuild``."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine


def test_a_rebuild_mends_what_is_derived(told: CommandLine) -> None:
    connection = sqlite3.connect(told.database)
    connection.execute("UPDATE ledger SET value = 9999 WHERE name = 'timed_position'")
    connection.commit()
    connection.close()
    broken = told("verify")

    mended = told("rebuild", "--json")

    assert broken.status == 1
    assert (mended.status, mended.receipt["kind"]) == (0, "treering.rebuild.v1")
    assert mended.receipt["events"] > 0
    assert told("verify").status == 0


def test_a_ledger_that_is_not_there_is_not_made(cli: CommandLine) -> None:
    outcome = cli("rebuild")

    assert outcome.status == 1
    assert not cli.database.exists()
