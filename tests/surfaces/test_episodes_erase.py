from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

import treering
from builders import said

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

DAY_MS = 86_400_000
NO_DELETIONS = {
    "conversation.assistant": 0,
    "conversation.user": 0,
    "ops.alert": 0,
    "ops.decision": 0,
    "ops.observation": 0,
    "tool.call": 0,
    "tool.result": 0,
}
POLICY_DAYS = {
    "context.compacted": 90,
    "conversation.assistant": 90,
    "conversation.user": 60,
    "inbox.received": 60,
    "ops.alert": 90,
    "ops.decision": None,
    "ops.observation": None,
    "ops.receipt": 90,
    "tool.call": 30,
    "tool.result": 30,
}


@pytest.fixture
def aged(cli: CommandLine) -> CommandLine:
    """Events of four types that are 0, 30, 60 and 90 days old at day 100."""
    for kind in ("tool.result", "conversation.user", "conversation.assistant", "ops.decision"):
        for age in (0, 30, 60, 90):
            at = (100 - age) * DAY_MS + 1
            cli.append(event_id=f"{kind} {age}", type=kind, ts_ms=str(at), session_id=f"day {age}")
    return cli


def test_redacting_a_session_accounts_for_what_was_erased(told: CommandLine) -> None:
    outcome = told("episodes", "redact", "--session-id", "b", "--scope", "s", "--json")

    assert outcome.receipt["kind"] == "treering.episodes.redact.v1"
    assert outcome.body == {
        "target": {"event_id": None, "session_id": "b", "scope": "s"},
        "replacement": "placeholder",
        "redacted_count": 2,
        "blobs_erased": 0,
        "blobs_shared": 0,
        "physical": "done",
        "retellings_redacted": 0,
        "memories_redacted": 0,
    }


@pytest.mark.parametrize(
    ("replacement", "payload"), [("placeholder", "[REDACTED]"), ("null", None)]
)
def test_a_redacted_event_keeps_its_row_and_nothing_else(
    told: CommandLine, replacement: str, payload: str | None
) -> None:
    told(
        "episodes", "redact", "--event-id", "q1", "--scope", "s", "--replacement", replacement
    )  # fmt: skip

    items = told("episodes", "query", "--scope", "s", "--include-payload", "--json").receipt
    redacted = next(item for item in items["items"] if item["event_id"] == "q1")
    assert redacted["redacted"] is True
    assert (redacted["summary"], redacted["refs"]) == ("[REDACTED]", None)
    assert redacted["payload"] == payload
    assert (redacted["id"], redacted["ts_ms"], redacted["type"]) == (2, 1000, "tool.call")


def test_an_event_of_another_scope_is_out_of_reach(told: CommandLine) -> None:
    outcome = told("episodes", "redact", "--event-id", "q4", "--scope", "s", "--json")

    (item,) = told("episodes", "query", "--scope", "other", "--json").receipt["items"]
    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")
    assert item["summary"] == "n4"


@pytest.mark.parametrize("command", [("redact",), ("episodes", "redact")])
@pytest.mark.parametrize("flag", ["--event-id", "--session-id", "--event", "--session"])
def test_what_is_unknown_cannot_be_redacted(
    told: CommandLine, command: tuple[str, ...], flag: str
) -> None:
    outcome = told(*command, flag, "nope", "--scope", "s", "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")
    assert outcome.receipt["kind"] == f"treering.{'.'.join(command)}.v1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scope", "s"], "provide exactly one of --event-id or --session-id"),
        (["--event-id", "q", "--session-id", "a", "--scope", "s"], "provide exactly one of"),
        (["--event-id", "q1"], "scope is required (or pass --global)"),
        (["--event-id", "", "--scope", "s"], "event_id is required"),
        (["--session-id", "", "--scope", "s"], "session_id is required"),
        (["--event-id", "q1", "--scope", "s", "--replacement", "no"], "invalid value for '--repl"),
    ],
)
def test_a_redaction_names_one_target_and_its_scope(
    told: CommandLine, arguments: list[str], message: str
) -> None:
    outcome = told("episodes", "redact", *arguments, "--json")

    assert outcome.status == 2
    assert outcome.receipt["error"].startswith(message)
    assert outcome.receipt["hint"]
    assert told.ids("episodes", "query", "--scope", "s") == ["q5", "q1", "q2", "q3", "q0"]


def test_redacting_in_a_ledger_that_is_not_there_fails(cli: CommandLine) -> None:
    outcome = cli("episodes", "redact", "--session-id", "a", "--scope", "s", "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")
    assert not cli.database.exists()


def test_people_are_told_what_was_redacted(told: CommandLine) -> None:
    first = told("episodes", "redact", "--session-id", "b", "--scope", "s")
    again = told("episodes", "redact", "--session-id", "b", "--scope", "s")

    assert first.out == (
        "redacted 2 events of session b in scope s; the bytes are gone from the file\n"
    )
    assert again.out == ("nothing to redact: session b in scope s is already redacted or expired\n")


def test_gc_removes_what_is_past_its_retention_and_counts_it(aged: CommandLine) -> None:
    now = str(100 * DAY_MS + 1)
    before = aged.ids("episodes", "query", "--scope", "s")

    outcome = aged("episodes", "gc", "--scope", "s", "--now-ts-ms", now, "--json")

    after = aged.ids(
        "episodes", "query", "--scope", "s", "--to-ts-ms", now
    )  # what the ledger says about the removal comes later
    assert outcome.receipt["kind"] == "treering.episodes.gc.v1"
    assert outcome.body == {
        "scope": "s",
        "now_ts_ms": int(now),
        "dry_run": False,
        "deleted_total": 3,
        "deleted_by_type": {**NO_DELETIONS, "tool.result": 2, "conversation.user": 1},
        "policy_days": POLICY_DAYS,
        "sessions_touched": 2,
        "sessions_kept_open": 0,
        "sessions_kept_imported": 0,
        "blobs_erased": 0,
        "blobs_shared": 0,
        "physical": "done",
    }
    assert set(before) - set(after) == {"tool.result 60", "tool.result 90", "conversation.user 90"}


def test_gc_obeys_the_policy_of_the_call(aged: CommandLine) -> None:
    outcome = aged(
        "episodes", "gc", "--scope", "s", "--now-ts-ms", str(100 * DAY_MS + 1), "--policy",
        "tool.result=forever", "--policy", "OPS.DECISION=60", "--policy",
        "conversation.user=inf", "--json",
    )  # fmt: skip

    assert outcome.receipt["deleted_by_type"] == {**NO_DELETIONS, "ops.decision": 1}
    assert outcome.receipt["policy_days"] == {
        **POLICY_DAYS,
        "tool.result": None,
        "conversation.user": None,
        "ops.decision": 60,
    }


def test_a_dry_run_counts_and_removes_nothing(aged: CommandLine) -> None:
    before = aged.ids("episodes", "query", "--scope", "s")

    outcome = aged("episodes", "gc", "--scope", "s", "--dry-run", "--json")

    assert (outcome.receipt["dry_run"], outcome.receipt["deleted_total"]) == (True, 12)
    assert aged.ids("episodes", "query", "--scope", "s") == before


def test_gc_stays_in_its_scope(aged: CommandLine) -> None:
    aged.append(event_id="elsewhere", scope="t", ts_ms="5")

    aged("episodes", "gc", "--scope", "s")

    assert aged.ids("episodes", "query", "--scope", "t") == ["elsewhere"]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("tool.call", "invalid --policy entry: tool.call"),
        ("=3", "invalid --policy entry: =3"),
        ("tool.call=x", "invalid retention days for tool.call: x"),
        ("tool.call=-1", "retention days must be >= 0 for tool.call"),
        ("nope=3", "invalid type: nope"),
        ("ledger.redacted=3", "ledger.redacted vouches for what was erased"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    aged: CommandLine, policy: str, message: str
) -> None:
    outcome = aged("episodes", "gc", "--scope", "s", "--policy", policy, "--json")

    assert outcome.status == 2
    assert outcome.receipt["error"].startswith(message)
    assert outcome.receipt["hint"]


def test_gc_with_nothing_to_do_says_so(cli: CommandLine) -> None:
    cli.append()

    outcome = cli("episodes", "gc", "--scope", "s")

    assert outcome.out == "nothing to remove: no event of scope s is past its retention\n"


def test_people_see_what_gc_removed_by_type(aged: CommandLine) -> None:
    outcome = aged(
        "episodes", "gc", "--scope", "s", "--now-ts-ms", str(100 * DAY_MS + 1), "--dry-run"
    )

    assert outcome.out.splitlines() == [
        "would remove 3 events of scope s",
        "  conversation.user: 1 older than 60 days",
        "  tool.result: 2 older than 30 days",
    ]


def test_people_are_told_how_to_reach_imported_sessions(aged: CommandLine) -> None:
    with treering.open(aged.database) as ledger:
        mark = said("session imported", scope="s", session_id="day 90", kind="session.imported")
        ledger.append([mark])

    outcome = aged("episodes", "gc", "--scope", "s", "--now-ts-ms", str(100 * DAY_MS + 1))

    assert outcome.out.splitlines()[-1] == (
        "kept: old events of 1 imported session; --policy TYPE=DAYS removes those, too"
    )


@pytest.fixture
def herons(cli: CommandLine) -> CommandLine:
    """Three events with the same words in two sessions, and one with one of them."""
    for number, (session, text) in enumerate(
        [("a", "blue heron one"), ("a", "blue heron two"), ("b", "a blue heron"), ("b", "blue")]
    ):
        cli.append(session_id=session, event_id=f"e{number}", summary=text)
    return cli


def test_what_matches_is_shown_before_it_is_redacted(herons: CommandLine) -> None:
    words = ("redact", "--matching", "blue heron", "--scope", "s")

    asked = herons(*words)
    tried = herons(*words, "--dry-run")
    done = herons(*words, "--yes", "--json").receipt

    assert asked.status == 2
    assert "this erases 3 events of scope s, for good" in asked.err
    assert "would redact 3 events of scope s" in tried.out
    assert "blue heron two" in tried.out
    assert (done["redacted_count"], sorted(done["events"])) == (3, ["e0", "e1", "e2"])
    assert "nothing in scope s matches" in herons(*words, "--yes").out
    assert "blue" in herons("episodes", "query", "--scope", "s").out


def test_a_preview_shows_short_ids(cli: CommandLine) -> None:
    cli.append(session_id="5c0375b4-57a5-4f26-b12d-d022ee4e51b7", summary="a blue heron")

    shown = cli("redact", "--matching", "heron", "--scope", "s", "--dry-run").out

    assert "  5c0375b4  " in shown


def test_the_same_words_in_other_sessions_are_pointed_out(herons: CommandLine) -> None:
    words = ("redact", "--matching", "blue heron", "--session", "a", "--scope", "s")

    receipt = herons(*words, "--dry-run", "--json").receipt
    done = herons(*words, "--yes")

    assert (receipt["count"], receipt["redacted_count"], receipt["other_sessions"]) == (2, 0, 1)
    assert "redacted 2 events of scope s" in done.out
    assert "the same words are in 1 other session" in done.out


@pytest.mark.parametrize(
    "options", [("--event", "e1", "--matching", "x"), ("--event", "e1", "--dry-run"), ("--yes",)]
)
def test_what_cannot_be_combined_with_matching_is_refused(
    herons: CommandLine, options: tuple[str, ...]
) -> None:
    assert herons("redact", *options, "--scope", "s").status == 2


def test_a_session_can_be_looked_at_before_it_is_redacted(herons: CommandLine) -> None:
    words = ("redact", "--session", "a", "--scope", "s")

    tried = herons(*words, "--dry-run")
    receipt = herons(*words, "--dry-run", "--json").receipt

    assert tried.out.splitlines()[0] == "would redact 2 events of session a in scope s"
    assert (receipt["count"], receipt["redacted_count"]) == (2, 0)
    assert herons(*words, "--json").receipt["redacted_count"] == 2


@pytest.mark.parametrize("target", [("--session", "a"), ("--matching", "heron")])
def test_a_person_at_a_terminal_is_asked_before_much_is_redacted(
    herons: CommandLine, monkeypatch: pytest.MonkeyPatch, target: tuple[str, str]
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(io, "TextIOWrapper", Terminal)
    words = ("redact", *target, "--scope", "s")

    refused = herons(*words, stdin="n\n")

    assert refused.status == 2
    assert "nothing was erased" in refused.err
    assert "heron two" in herons("episodes", "query", "--scope", "s").out
    assert herons(*words, stdin="y\n").status == 0
    assert "heron two" not in herons("episodes", "query", "--scope", "s").out
