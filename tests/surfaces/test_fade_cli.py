"""``treering fade``: facts that nobody used for long are archived, and come back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from builders import DAY
from surfaces.talks import IN

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

LATER = str(time.time_ns() // 1_000_000 + 500 * DAY)


def test_fresh_facts_do_not_fade(facts: CommandLine) -> None:
    outcome = facts("fade", *IN)

    assert outcome.status == 0
    assert outcome.out == "nothing has faded: checked 3 current facts of scope acme/app\n"


def test_a_dry_run_names_what_would_go_and_archives_nothing(facts: CommandLine) -> None:
    outcome = facts("fade", *IN, "--dry-run", "--now-ts-ms", LATER)
    archived = facts("facts", "list", *IN, "--state", "archived", "--json").receipt["facts"]

    assert "would archive 3 of 3 current facts of scope acme/app: unused for" in outcome.out
    assert "  Lives in Porto" in outcome.out
    assert archived == []


def test_what_has_faded_is_archived_and_had_back_by_accepting_it(facts: CommandLine) -> None:
    receipt = facts("fade", *IN, "--now-ts-ms", LATER, "--json").receipt
    told = facts("fade", *IN, "--now-ts-ms", LATER).out
    back = facts("facts", "accept", "fact-porto", *IN).out

    assert receipt["kind"] == "treering.fade.v1"
    assert (receipt["count"], receipt["dry_run"]) == (3, False)
    assert set(receipt["archived"]) == {"fact-porto", "fact-peanuts", "fact-deploys"}
    assert told == "nothing has faded: checked 0 current facts of scope acme/app\n"
    assert back.startswith("fact fact-porto was archived, and is current now: ")


def test_a_ledger_that_is_not_there_is_not_made(cli: CommandLine) -> None:
    told = cli("fade", *IN)
    receipt = cli("fade", *IN, "--json").receipt

    assert (told.status, told.out) == (0, "no facts in scope acme/app\n")
    assert (receipt["ledger"], receipt["count"]) == (None, 0)
    assert not cli.database.exists()
