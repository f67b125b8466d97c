"""``treering users``: who is who in a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import ELSEWHERE
from surfaces.talks import IN

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine


@pytest.fixture
def people(facts: CommandLine) -> CommandLine:
    """Jo, of whom two facts are known, and who has a handle."""
    facts("users", "link", "jo", "slack", "U123", *IN)
    return facts


def test_people_are_listed_with_what_they_are_called_and_how_much_is_known(
    people: CommandLine,
) -> None:
    outcome = people("users", "list", *IN)
    receipt = people("users", "list", *IN, "--user", "jo", "--json").receipt

    assert outcome.out.splitlines() == ["jo  2 facts  U123 on slack", "1 user of scope acme/app"]
    assert receipt["kind"] == "treering.users.list.v1"
    [jo] = receipt["users"]
    assert (jo["user"], jo["also"], jo["facts"]) == ("jo", [], 2)
    assert [(one["channel"], one["handle"]) for one in jo["handles"]] == [("slack", "U123")]


def test_a_handle_leads_to_its_user_and_a_new_one_to_somebody_new(people: CommandLine) -> None:
    known = people("users", "resolve", "slack", "U123", *IN)
    new = people("users", "resolve", "telegram", "@jo", *IN)
    again = people("users", "resolve", "telegram", "@jo", *IN, "--json").receipt
    elsewhere = people("users", "list", "--scope", ELSEWHERE, "--json").receipt["users"]

    assert (known.out, known.err) == ("jo\n", "")
    assert new.err.startswith("note: nobody in scope acme/app was called @jo on telegram")
    assert (again["user"], again["is_new"]) == (new.out.strip(), False)
    assert [one["handles"] for one in elsewhere] == [[]]


def test_two_users_are_merged_and_told_apart_again(people: CommandLine) -> None:
    other = people("users", "resolve", "telegram", "@jo", *IN).out.strip()
    merged = people("users", "merge", "jo", other, *IN)
    together = people("users", "list", *IN, "--json").receipt["users"]
    kept = people("users", "resolve", "telegram", "@jo", *IN).out.strip()
    of_other = people("recall", "peanuts", *IN, "--user", other, "--json").receipt["ids"]
    command = merged.out.splitlines()[-1].partition("to undo it: treering ")[2]
    apart = people(*command.split())

    assert merged.status == 0
    assert [(one["user"], one["also"]) for one in together] == [("jo", [other])]
    assert (kept, of_other) == ("jo", ["fact-peanuts"])
    assert apart.out == (
        f"jo and {other} are two people again in scope acme/app: each has their own facts\n"
    )
    assert people("recall", "peanuts", *IN, "--user", other, "--json").receipt["ids"] == []


def test_a_handle_is_taken_from_its_user_who_stays_known(people: CommandLine) -> None:
    outcome = people("users", "unlink", "slack", "U123", *IN)
    listed = people("users", "list", *IN)

    assert outcome.out == (
        "U123 on slack is no longer jo in scope acme/app; what is known of jo stays\n"
    )
    assert listed.out.splitlines()[0] == "jo  2 facts  -"


def test_what_is_somebody_elses_or_nobodys_is_refused(people: CommandLine) -> None:
    taken = people("users", "link", "kim", "slack", "U123", *IN, "--json")
    nobody = people("users", "unlink", "slack", "U999", *IN)
    strangers = people("users", "unmerge", "jo", "kim", *IN)
    one = people("users", "merge", "jo", "jo", *IN)

    assert (taken.status, taken.receipt["code"]) == (2, "invalid")
    assert (nobody.status, strangers.status, one.status) == (1, 1, 2)
    assert "no user has the handle U999 on slack" in nobody.err


def test_two_who_are_one_already_are_not_merged_again(people: CommandLine) -> None:
    people("users", "merge", "jo", "kim", *IN)

    outcome = people("users", "merge", "jo", "kim", *IN, "--json")

    assert (outcome.status, outcome.receipt["code"]) == (2, "invalid")


def test_where_nobody_is_known_it_says_how_to_name_somebody(cli: CommandLine) -> None:
    nobody = cli("users", "list", *IN)
    max_ = cli("users", "list", *IN, "--user", "max")

    assert nobody.out.splitlines()[0] == "no users in scope acme/app"
    assert "treering users link jo telegram @jo --scope acme/app" in nobody.out
    assert max_.out.splitlines()[0] == "nothing is known about user max in scope acme/app"
    assert not cli.database.exists()
