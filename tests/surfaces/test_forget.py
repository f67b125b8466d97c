"""``treering forget``: what it says, what it asks, and what it leaves."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

COUNTS = "  conversation.assistant  1\n  conversation.user       1\n  session.opened          1\n"


@pytest.fixture
def told(cli: CommandLine) -> CommandLine:
    """Return a ledger that knows u1 and u2."""
    with treering.open(cli.database) as ledger:
        for user in ("u1", "u2"):
            session = ledger.session(f"of-{user}", scope=HERE, agent="lyria", user=user)
            session.record("conversation.user", f"{user} speaks")
            session.record("conversation.assistant", "an answer")
    return cli


def users(cli: CommandLine) -> set[str | None]:
    with treering.open(cli.database) as ledger:
        return {header.user_id for header in ledger.headers(HERE).items}


def test_it_erases_when_told_to_and_accounts_for_it(told: CommandLine) -> None:
    done = told("forget", "--scope", HERE, "--user", "u1", "--yes")

    assert (done.status, done.err) == (0, "")
    assert done.out == (
        f"erased 3 events of scope {HERE}, among them 1 whole session;"
        f" the bytes are gone from the file\n{COUNTS}"
        "removed from: events 3, sessions 1, contents 3, names 1\n"
    )
    assert users(told) == {"u2", None}
    assert told("verify").status == 0


def test_it_says_what_was_remembered_and_from_where_it_is_taken(told: CommandLine) -> None:
    told("facts", "add", "Prefers tabs over spaces", "--user", "u1", "--scope", HERE)
    told("users", "link", "u1", "telegram", "@u1", "--scope", HERE)

    trial = told("forget", "--scope", HERE, "--user", "u1", "--dry-run")
    done = told("forget", "--scope", HERE, "--user", "u1", "--yes")

    assert "also erased from memory: 1 fact, 1 handle\n" in trial.out
    assert "also erased from memory: 1 fact, 1 handle\n" in done.out
    assert "removed from: events 5, " in done.out
    assert "documents 1" in done.out


def test_its_receipt_is_the_one_of_the_library(told: CommandLine) -> None:
    trial = told("forget", "--scope", HERE, "--user", "u1", "--dry-run", "--json")
    done = told("forget", "--scope", HERE, "--user", "u1", "--yes", "--json")

    assert done.receipt["kind"] == "treering.forget.v1"
    assert (trial.body["dry_run"], done.body["dry_run"]) == (True, False)
    assert trial.body["events_by_kind"] == done.body["events_by_kind"]
    assert (done.body["users"], done.body["sessions_erased"]) == (["u1"], 1)
    assert set(done.body) == set(treering.receipts.ForgetReceipt.__struct_fields__)


def test_a_trial_says_what_would_go_and_erases_nothing(told: CommandLine) -> None:
    trial = told("forget", "--scope", HERE, "--user", "u1", "--dry-run")

    assert trial.out == (
        f"would erase 3 events of scope {HERE}, among them 1 whole session\n{COUNTS}"
    )
    assert users(told) == {"u1", "u2"}


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_without_a_person_to_ask_it_does_nothing(told: CommandLine, more: list[str]) -> None:
    refused = told("forget", "--scope", HERE, "--user", "u1", *more)

    assert refused.status == 2
    assert "--yes" in refused.out + refused.err
    assert users(told) == {"u1", "u2"}


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "status"), [("u1", 0), ("u2", 2), ("", 2)])
def test_a_person_types_the_name_again(
    told: CommandLine, monkeypatch: pytest.MonkeyPatch, typed: str, status: int
) -> None:
    def stdin(content: io.BytesIO, encoding: str) -> _Terminal:
        return _Terminal(content, encoding=encoding)

    monkeypatch.setattr(io, "TextIOWrapper", stdin)

    outcome = told("forget", "--scope", HERE, "--user", "u1", stdin=f"{typed}\n")

    assert outcome.status == status
    assert "would erase 3 events" in outcome.out
    assert ("u1" in users(told)) == bool(status)
    assert sys.stdin.isatty()


def test_a_stranger_is_not_found(told: CommandLine) -> None:
    refused = told("forget", "--scope", HERE, "--user", "u9", "--yes")

    assert refused.status == 1
    assert refused.err.startswith(f"error: no user u9 in scope {HERE}\nhint: ")
