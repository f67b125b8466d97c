"""``treering recall``: what is known of something, the best first, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import treering
from builders import HERE
from surfaces.talks import IN, NEIGHBOUR, TOKEN
from treering.context.tokens import estimate

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

JO = (*IN, "--user", "jo")


def used(cli: CommandLine, fact: str) -> int:
    """Return how often a fact was used."""
    count: int = cli("facts", "show", fact, *IN, "--json").receipt["fact"]["access_count"]
    return count


def test_what_is_recalled_comes_with_its_score_why_and_evidence(facts: CommandLine) -> None:
    outcome = facts("recall", "allergic", "to", "peanuts", *JO)

    lines = outcome.out.splitlines()
    assert outcome.status == 0
    assert lines[0].endswith("  Is allergic to peanuts")
    assert float(lines[0].split()[0]) > 0.5
    assert lines[1].strip().startswith("personal · of jo · since 2024-09-22 · ")
    assert "words 1.00" in lines[1]
    assert lines[2].strip() == "evidence: e-nuts, e-moved"
    assert lines[3].strip() == "→ treering facts show fact-peanuts --scope acme/app"
    assert lines[-2:] == [
        "1 fact and 1 turn of scope acme/app for jo",
        "  not counted as used: add --record if it is",
    ]


def test_the_receipt_has_the_facts_and_what_their_scores_are_made_of(facts: CommandLine) -> None:
    receipt = facts("recall", "peanuts", *JO, "--json").receipt

    assert receipt["kind"] == "treering.recall.v1"
    assert (receipt["query"], receipt["user"], receipt["count"]) == ("peanuts", "jo", 1)
    assert receipt["facts"][0]["fact"]["id"] == "fact-peanuts"
    assert {"words", "vector", "importance", "recency"} <= set(receipt["facts"][0]["why"])
    assert (receipt["recorded"], receipt["event_id"], "block" in receipt) == (False, None, False)


def test_without_a_question_it_is_a_brief_of_what_matters_most(facts: CommandLine) -> None:
    of_jo = facts("recall", *JO, "--json").receipt
    of_all = facts("recall", *IN, "--json").receipt
    short = facts("recall", *JO, "--limit", "1", "--json").receipt

    assert set(of_jo["ids"]) == {"fact-peanuts", "fact-porto", "fact-deploys"}
    assert of_all["ids"] == ["fact-deploys"]
    assert short["ids"] == ["fact-peanuts"]


def test_looking_changes_nothing_unless_it_is_to_be_recorded(facts: CommandLine) -> None:
    facts("recall", "peanuts", *JO)
    facts("recall", "peanuts", *JO, "--block")
    looked = used(facts, "fact-peanuts")

    recorded = facts("recall", "peanuts", *JO, "--record")

    assert (looked, used(facts, "fact-peanuts")) == (0, 1)
    assert recorded.out.splitlines()[-1] == "  counted as used"


def test_a_use_is_recorded_in_the_session_that_is_named(facts: CommandLine) -> None:
    receipt = facts("recall", "peanuts", *JO, "--session", "s1", "--record", "--json").receipt

    with treering.open(facts.database) as ledger:
        event = ledger.event(HERE, receipt["event_id"])
    assert (event.kind, event.session_id, receipt["session"]) == ("memory.recalled", "s1", "s1")


def test_the_block_is_printed_alone_for_a_prompt(facts: CommandLine) -> None:
    outcome = facts("recall", "peanuts", *JO, "--block")

    assert outcome.err == ""
    assert outcome.out.startswith("<memory>\n")
    assert outcome.out.endswith("\n</memory>\n")
    facts_shown, turns_shown = outcome.out.split("\n\n")
    assert facts_shown.endswith("- Is allergic to peanuts")
    assert turns_shown.startswith("## Said Earlier, Word For Word\n- ")


def test_only_what_fits_the_block_counts_as_used(facts: CommandLine) -> None:
    whole = facts("recall", *JO, "--block", "--json").receipt
    room = str(estimate(whole["block"]) - 1)
    fitting = facts("recall", *JO, "--block", "--max-tokens", room, "--record", "--json").receipt

    assert len(whole["ids"]) == 3
    assert 0 < len(fitting["ids"]) < 3
    assert [used(facts, one) for one in whole["ids"]] == [
        int(one in fitting["ids"]) for one in whole["ids"]
    ]


def test_a_block_without_anything_to_tell_is_empty(facts: CommandLine, cli: CommandLine) -> None:
    nothing = facts("recall", "zeppelins", *JO, "--block")
    tight = facts("recall", "peanuts", *JO, "--block", "--max-tokens", "1", "--json").receipt

    assert (nothing.status, nothing.out) == (0, "")
    assert nothing.err.startswith("note: ")
    assert (tight["block"], tight["ids"], tight["recorded"]) == ("", [], False)
    assert "--max-tokens" in facts("recall", "peanuts", *JO, "--block", "--max-tokens", "1").err
    assert cli("recall", "--scope", "acme/empty", "--block").out == ""


def test_the_past_is_asked_as_it_was_believed(facts: CommandLine) -> None:
    now = facts("recall", "where does jo live", *JO, "--json").receipt
    lisbon = facts("facts", "history", "fact-lisbon", *IN, "--json").receipt["changes"]
    then = str(lisbon[0]["recorded_ms"])
    past = facts("recall", "where does jo live", *JO, "--as-of", then, "--json").receipt
    told = facts("recall", "where does jo live", *JO, "--as-of", then).out

    assert "fact-lisbon" not in now["ids"]
    assert past["ids"] == ["fact-lisbon"]
    assert ", as of 20" in told.splitlines()[-1]


def test_what_goes_together_only_in_part_is_refused(facts: CommandLine) -> None:
    tokens = facts("recall", *JO, "--max-tokens", "9")
    past = facts("recall", *JO, "--as-of", "3d", "--record")
    many = facts("recall", *JO, "--limit", "101")
    session = facts("recall", *JO, "--session", "nowhere")

    assert (tokens.status, past.status, many.status, session.status) == (2, 2, 2, 1)
    assert "add --block" in tokens.err
    assert "drop --record" in past.err


def test_where_nothing_is_known_it_says_what_to_try(facts: CommandLine) -> None:
    outcome = facts("recall", "zeppelins", *IN)

    assert outcome.status == 0
    assert outcome.out.splitlines() == [
        "nothing is known about zeppelins in scope acme/app",
        "  facts about a person are recalled only for them: name them with --user",
        "  ask in other words, or without words for what matters most",
        "  all facts: treering facts list --scope acme/app",
        "  search everything: treering search --scope acme/app --mode hybrid zeppelins",
    ]


def test_no_scope_recalls_what_another_knows(facts: CommandLine) -> None:
    outcome = facts("recall", "where does jo live", *JO)

    assert NEIGHBOUR not in outcome.out
    assert NEIGHBOUR in facts("recall", "--scope", "acme/other", "--user", "jo").out


def test_asking_makes_no_ledger(cli: CommandLine) -> None:
    looked = cli("recall", "peanuts", *JO, "--json")
    recorded = cli("recall", "peanuts", *JO, "--record", "--json")

    assert (looked.status, looked.receipt["ledger"], looked.receipt["ids"]) == (0, None, [])
    assert (recorded.status, recorded.receipt["recorded"]) == (0, False)
    assert not cli.database.exists()


def test_episodes_are_recalled_with_the_command_that_shows_them_and_no_secret(
    cli: CommandLine,
) -> None:
    with treering.open(cli.database, guard="off") as ledger:
        session = ledger.session("talk-7", scope=HERE, agent="lyria", user="jo")
        session.record(
            "episode.written",
            "what it was about",
            payload={"summary": f"Planned the harbour festival, {TOKEN}", "user": "jo"},
        )

    told = cli("recall", "harbour", "festival", *JO)
    receipt = cli("recall", "harbour", "festival", *JO, "--json").receipt

    assert "  Planned the harbour festival, [redacted:" in told.out.splitlines()[0]
    assert "      → treering show talk-7 --scope acme/app" in told.out.splitlines()
    assert "1 episode of scope acme/app for jo" in told.out.splitlines()
    assert TOKEN not in told.out + str(receipt)
    assert TOKEN not in cli("recall", "harbour", "festival", *JO, "--block").out
    assert (len(receipt["episodes"]), receipt["masked"]) == (1, 1)
