from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine


def tamper(path: Path, statement: str) -> None:
    """Change the file behind the ledger's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def test_an_intact_ledger_is_proved_whole(told: CommandLine) -> None:
    outcome = told("verify", "--json")

    assert outcome.receipt["kind"] == "treering.verify.v1"
    assert outcome.body == {
        "intact": True,
        "sessions": 3,
        "events": 6,
        "redacted": 0,
        "expired": 0,
        "sealed": 0,
        "broken_sessions": 0,
        "first_broken": None,
        "anchored_sessions": None,
        "derived_rows": None,
        "checked": ["events", "lookups", "sessions", "scopes", "database"],
        "unchecked": {
            "derived": "add --derived",
            "anchor": "add --anchor FILE, written before and kept elsewhere",
        },
    }


@pytest.mark.parametrize(
    ("arguments", "events"),
    [
        (["verify"], 6),
        (["verify", "--scope", "s"], 5),
        (["verify", "--scope", "s", "--session-id", "b"], 2),
        (["episodes", "verify", "--scope", "s"], 5),
        (["episodes", "verify", "--scope", "s", "--session-id", "a"], 3),
    ],
)
def test_a_proof_covers_what_was_named(
    told: CommandLine, arguments: list[str], events: int
) -> None:
    receipt = told(*arguments, "--json").receipt

    assert receipt["events"] == events
    assert receipt["kind"] == ".".join(
        ["treering", *(word for word in arguments if word in {"episodes", "verify"}), "v1"]
    )


def test_a_changed_summary_is_found_and_its_place_is_named(told: CommandLine) -> None:
    tamper(told.database, "UPDATE events SET summary = 'n9' WHERE position = 2")

    said, receipt = told("verify"), told("episodes", "verify", "--scope", "s", "--json")

    assert said.status == 1
    assert said.out == ""
    assert said.err == (
        "error: the ledger is not as it was recorded: scope s, session a, seq 2, event q1:"
        " content: summary, refs or payload was changed\n"
        "hint: keep a copy of the file as evidence, then compare with an export or a backup\n"
    )
    assert receipt.status == 1
    assert (receipt.receipt["ok"], receipt.receipt["code"]) == (False, "broken")
    assert receipt.receipt["broken_sessions"] == 1
    assert receipt.receipt["first_broken"] == {
        "scope": "s",
        "session_id": "a",
        "seq": 2,
        "event_id": "q1",
        "fault": "content",
        "detail": "summary, refs or payload was changed",
    }


def test_another_scope_stays_proved_when_one_is_broken(told: CommandLine) -> None:
    tamper(told.database, "UPDATE events SET summary = 'n9' WHERE position = 2")

    assert told("episodes", "verify", "--scope", "other").status == 0
    assert told("episodes", "verify", "--scope", "s", "--session-id", "b").status == 0


def test_redaction_and_expiry_leave_a_proof(told: CommandLine) -> None:
    told("episodes", "redact", "--event-id", "q1", "--scope", "s")
    told("episodes", "gc", "--scope", "s", "--policy", "ops.alert=0")

    outcome = told("verify", "--scope", "s")

    assert outcome.status == 0
    assert "redacted" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["verify", "--scope", "t"], 1, "nothing is recorded in scope t"),
        (["verify", "--scope", "s", "--session-id", "z"], 1, "no session z in scope s"),
        (["verify", "--session-id", "a"], 2, "--session needs a scope"),
        (["verify", "--scope", "s", "--global"], 2, "--global cannot be combined"),
        (["verify", "--anchor", "nowhere"], 2, "cannot read nowhere: No such file"),
        (
            ["episodes", "verify", "--scope", "s", "--anchor", "nowhere"],
            2,
            "cannot read nowhere: No such file",
        ),
        (["episodes", "verify"], 2, "scope is required (or pass --global)"),
        (["anchor"], 2, "missing option '--out'"),
    ],
)
def test_a_proof_of_nothing_is_not_given(
    told: CommandLine, arguments: list[str], status: int, message: str
) -> None:
    outcome = told(*arguments, "--json")

    assert outcome.status == status
    assert outcome.receipt["error"].startswith(message)
    assert outcome.receipt["hint"]


@pytest.mark.parametrize(
    "arguments", [["verify"], ["episodes", "verify", "--scope", "s"], ["anchor", "--out", "-"]]
)
def test_a_ledger_that_is_not_there_is_not_intact(cli: CommandLine, arguments: list[str]) -> None:
    outcome = cli(*arguments, "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")
    assert not cli.database.exists()


def test_an_anchor_is_written_and_compared(told: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "monday.anchor"

    written = told("anchor", "--out", str(out), "--json")
    told.append(event_id="later")
    proved = told("verify", "--anchor", str(out), "--json")
    scoped = told("episodes", "verify", "--scope", "s", "--anchor", str(out), "--json")

    assert written.receipt["kind"] == "treering.anchor.v1"
    assert written.body.keys() == {"root", "sessions", "events", "at_ms"}
    assert (written.receipt["sessions"], written.receipt["events"]) == (3, 6)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert (proved.status, proved.receipt["anchored_sessions"]) == (0, 3)
    assert (scoped.status, scoped.receipt["anchored_sessions"]) == (0, 2)


def test_an_anchor_goes_to_standard_output(told: CommandLine) -> None:
    outcome = told("anchor", "--out", "-", "--json")

    assert json.loads(outcome.out.splitlines()[-1])["root"] == json.loads(outcome.err)["root"]


@pytest.mark.parametrize("command", [["verify"], ["episodes", "verify", "--scope", "s"]])
def test_a_ledger_that_was_cut_back_no_longer_reaches_its_anchor(
    told: CommandLine, tmp_path: Path, command: list[str]
) -> None:
    out, before = tmp_path / "anchor", told.database.read_bytes()
    told.append(event_id="cut off")
    told("anchor", "--out", str(out))
    told.database.write_bytes(before)

    outcome = told(*command, "--anchor", str(out))

    assert told(*command).status == 0
    assert outcome.status == 1
    assert "missing: the anchor knows a session up to seq 4" in outcome.err


def test_people_read_what_was_proved_and_what_was_not(told: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "anchor"

    anchored, proved = told("anchor", "--out", str(out)), told("verify", "--anchor", str(out))

    assert anchored.out.splitlines()[0] == f"anchored 6 events of 3 sessions in {out}"
    assert proved.out.splitlines() == [
        "intact: 6 events of 3 sessions; 3 anchored sessions found",
        "checked: events, lookups, sessions, scopes, database, anchor",
        "not checked: derived (add --derived)",
    ]
