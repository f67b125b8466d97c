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


def test_vectors_alone_are_made_anew_with_the_embedder_in_use(told: CommandLine) -> None:
    told("facts", "add", "Prefers tabs over spaces", "--scope", "s")
    told("facts", "add", "Deploys run on Fridays", "--scope", "other")

    outcome = told("rebuild", "--vectors", "--json")

    assert (outcome.status, outcome.receipt["kind"]) == (0, "treering.rebuild.v1")
    assert outcome.receipt["documents"] >= 2
    assert outcome.receipt["embedder"]
    assert told("rebuild", "--vectors").out.startswith("rebuilt the vectors of ")
    assert told("recall", "tabs", "--scope", "s", "--json").receipt["count"] == 1
