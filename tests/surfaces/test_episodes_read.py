from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import treering
from surfaces.command_line import SCHEMA, CommandLine


def item(number: int, session: str, kind: str, ts_ms: int) -> dict[str, Any]:
    """Return the item of one of the six events, as a query without payloads gives it."""
    return {
        "id": number + 1,
        "event_id": f"q{number}",
        "ts_ms": ts_ms,
        "scope": "s",
        "session_id": session,
        "agent_id": "x",
        "type": kind,
        "summary": f"n{number}",
        "refs": {"r": number},
        "redacted": False,
        "schema_version": SCHEMA,
    }


def without_created(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for entry in items:
        assert datetime.fromisoformat(entry.pop("created_at")).isoformat().endswith("+00:00")
    return items


def test_a_query_gives_the_scope_by_time_then_by_position(told: CommandLine) -> None:
    outcome = told("episodes", "query", "--scope", "S ", "--json")

    body = outcome.body
    body["items"] = without_created(body["items"])
    assert outcome.receipt["kind"] == "treering.episodes.query.v1"
    assert body == {
        "scope": "s",
        "filters": {
            "session_id": None,
            "from_ts_ms": None,
            "to_ts_ms": None,
            "types": [],
            "limit": 50,
            "include_payload": False,
        },
        "count": 5,
        "items": [
            item(5, "b", "conversation.assistant", 500),
            item(1, "a", "tool.call", 1000),
            item(2, "a", "tool.result", 1000),
            item(3, "b", "ops.alert", 2000),
            item(0, "a", "conversation.user", 3000),
        ],
        "has_more": False,
        "next_cursor": None,
    }


def test_a_replay_gives_one_session_in_order(told: CommandLine) -> None:
    outcome = told("episodes", "replay", "a", "--scope", "s", "--json")

    body = outcome.body
    body["items"] = without_created(body["items"])
    assert outcome.receipt["kind"] == "treering.episodes.replay.v1"
    assert body == {
        "scope": "s",
        "session_id": "a",
        "order": "time",
        "count": 3,
        "limit": 200,
        "include_payload": False,
        "items": [
            {**item(1, "a", "tool.call", 1000), "seq": 2},
            {**item(2, "a", "tool.result", 1000), "seq": 3},
            {**item(0, "a", "conversation.user", 3000), "seq": 1},
        ],
        "has_more": False,
        "next_cursor": None,
    }


def test_a_replay_by_seq_goes_as_it_was_recorded_page_by_page(told: CommandLine) -> None:
    replay = ["episodes", "replay", "a", "--scope", "s", "--by", "seq", "--json"]
    first = told(*replay, "--limit", "2").body
    second = told(*replay, "--limit", "2", "--cursor", first["next_cursor"]).body
    full = told(*replay, "--include-payload").body
    foreign = told(
        "episodes", "replay", "b", "--scope", "s", "--by", "seq", "--cursor", first["next_cursor"]
    )

    pages = [*first["items"], *second["items"]]
    assert [(one["event_id"], one["seq"]) for one in pages] == [("q0", 1), ("q1", 2), ("q2", 3)]
    assert (first["has_more"], second["has_more"], second["next_cursor"]) == (True, False, None)
    assert all("payload" not in one for one in pages)
    assert [one["payload"] for one in full["items"]] == [{"i": 0}, {"i": 1}, {"i": 2}]
    assert foreign.status == 2
    assert "the cursor belongs to another session" in foreign.err


def test_a_replay_says_when_events_arrived_late(told: CommandLine) -> None:
    by_time = told("episodes", "replay", "a", "--scope", "s").out
    by_seq = told("episodes", "replay", "a", "--scope", "s", "--by", "seq").out

    assert "recorded in another order" in by_time
    assert [line.split()[0] for line in by_time.splitlines()[:3]] == ["2", "3", "1"]
    assert [line.split()[0] for line in by_seq.splitlines()] == ["1", "2", "3", "3"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["--from-ts-ms", "1000", "--to-ts-ms", "2000"], ["q1", "q2", "q3"]),
        (["--types", "tool.call,tool.call", "--types", " ops.alert"], ["q1", "q3"]),
        (["--types", " , "], ["q5", "q1", "q2", "q3", "q0"]),
        (["--types", "run.started"], []),
        (["--session-id", "b"], ["q5", "q3"]),
        (["--session-id", "b", "--types", "ops.alert", "--from-ts-ms", "2000.9"], ["q3"]),
        (["--session-id", "zzz"], []),
        (["--limit", "2"], ["q5", "q1"]),
    ],
)
def test_filters_narrow_what_is_found(
    told: CommandLine, filters: list[str], found: list[str]
) -> None:
    assert told.ids("episodes", "query", "--scope", "s", *filters) == found


def test_filters_are_repeated_in_the_receipt_as_understood(told: CommandLine) -> None:
    outcome = told(
        "episodes", "query", "--scope", "s", "--session-id", "a", "--types",
        "TOOL.CALL,tool.call", "--from-ts-ms", "1.5", "--to-ts-ms", "9", "--limit", "9999",
        "--include-payload", "--json",
    )  # fmt: skip

    assert outcome.receipt["filters"] == {
        "session_id": "a",
        "from_ts_ms": 1,
        "to_ts_ms": 9,
        "types": ["tool.call"],
        "limit": 500,
        "include_payload": True,
    }


@pytest.mark.parametrize(
    ("asked", "used"), [("0", 1), ("-7", 1), ("3", 3), ("501", 500), ("9" * 30, 500)]
)
def test_a_limit_is_kept_within_bounds(told: CommandLine, asked: str, used: int) -> None:
    query = told("episodes", "query", "--scope", "s", "--limit", asked, "--json").receipt
    replay = told("episodes", "replay", "a", "--scope", "s", "--limit", asked, "--json").receipt

    assert (query["filters"]["limit"], replay["limit"]) == (used, used)


def test_payloads_come_only_when_asked_for(told: CommandLine) -> None:
    plain = told("episodes", "replay", "a", "--scope", "s", "--json").receipt["items"]
    full = told("episodes", "replay", "a", "--scope", "s", "--include-payload", "--json")

    assert all("payload" not in entry for entry in plain)
    assert [entry["payload"] for entry in full.receipt["items"]] == [{"i": 1}, {"i": 2}, {"i": 0}]


@pytest.mark.parametrize("command", [["query"], ["replay", "a"]])
def test_cursors_lead_through_everything_once(told: CommandLine, command: list[str]) -> None:
    whole = told.ids("episodes", *command, "--scope", "s")

    pages: list[list[str]] = []
    on: list[str] = []
    while True:
        page = told("episodes", *command, "--scope", "s", "--limit", "2", *on, "--json").receipt
        pages.append([entry["event_id"] for entry in page["items"]])
        cursor = page["next_cursor"]
        assert page["has_more"] is (cursor is not None)
        if cursor is None:
            break
        on = ["--cursor", cursor]

    assert [event_id for page in pages for event_id in page] == whole
    assert all(len(page) == 2 for page in pages[:-1])


def test_a_cursor_of_another_scope_is_refused(told: CommandLine) -> None:
    page = told("episodes", "query", "--scope", "s", "--limit", "1", "--json").receipt

    outcome = told(
        "episodes", "query", "--scope", "other", "--cursor", page["next_cursor"], "--json"
    )

    assert (outcome.status, outcome.receipt["code"]) == (2, "invalid_cursor")
    assert outcome.receipt["hint"]


def test_a_cursor_of_another_question_is_refused(told: CommandLine) -> None:
    query = ["episodes", "query", "--scope", "s", "--limit", "1"]
    cursor = told(*query, "--json").receipt["next_cursor"]

    outcomes = [
        told(*query, "--session-id", "a", "--cursor", cursor, "--json"),
        told(*query, "--types", "tool.call", "--cursor", cursor, "--json"),
        told("episodes", "replay", "a", "--scope", "s", "--cursor", cursor, "--json"),
    ]

    assert [(outcome.status, outcome.receipt["code"]) for outcome in outcomes] == [
        (2, "invalid_cursor")
    ] * 3
    assert all(outcome.receipt["hint"] for outcome in outcomes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query"], "scope is required (or pass --global)"),
        (["query", "--scope", "  "], "scope is required (or pass --global)"),
        (["query", "--scope", "s", "--global"], "--global cannot be combined with non-global"),
        (["query", "--scope", "s", "--from-ts-ms", "0"], "ts_ms must be > 0"),
        (
            ["query", "--scope", "s", "--from-ts-ms", "2", "--to-ts-ms", "1"],
            "from_ts_ms must be <= to_ts_ms",
        ),
        (["query", "--scope", "s", "--session-id", ""], "session_id is required"),
        (["query", "--scope", "s", "--types", "tool.cal"], "invalid type: tool.cal"),
        (["query", "--scope", "s", "--cursor", "zzz"], "the cursor is damaged"),
        (["query", "--scope", "s", "--cursor", ""], "the cursor is damaged"),
        (["replay", "a", "--scope", "s", "--cursor", "zzz"], "the cursor is damaged"),
        (["query", "--scope", "s", "--limit", "many"], "invalid value for '--limit'"),
        (["replay", "", "--scope", "s"], "session_id is required"),
        (["replay", "a"], "scope is required (or pass --global)"),
        (["replay"], "missing argument 'SESSION_ID'"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(
    cli: CommandLine, arguments: list[str], message: str
) -> None:
    outcome = cli("episodes", *arguments, "--json")

    assert outcome.status == 2
    assert outcome.receipt["error"].startswith(message)
    assert outcome.receipt["hint"]
    assert outcome.receipt["kind"] == f"treering.episodes.{arguments[0]}.v1"
    assert outcome.err == ""


@pytest.mark.parametrize("arguments", [["--global"], ["--scope", "GLOBAL", "--global"]])
def test_global_is_a_scope_and_not_all_of_them(told: CommandLine, arguments: list[str]) -> None:
    receipt = told("episodes", "query", *arguments, "--json").receipt

    assert (receipt["scope"], receipt["count"]) == ("global", 0)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["query", "--scope", "t"], "nothing is recorded in scope t: check its name, or record"),
        (["query", "--scope", "s", "--session-id", "z"], "no events of scope s match: drop a"),
        (["replay", "z", "--scope", "s"], "scope s has no events of session z: check both"),
    ],
)
def test_nothing_found_says_so_and_what_to_try(
    told: CommandLine, arguments: list[str], advice: str
) -> None:
    outcome = told("episodes", *arguments)

    assert outcome.status == 0
    assert outcome.out.startswith(advice)


def test_asking_a_ledger_that_is_not_there_makes_none(cli: CommandLine) -> None:
    said = cli("episodes", "query", "--scope", "s")
    receipt = cli("episodes", "replay", "a", "--scope", "s", "--json")

    assert said.err == f"note: no ledger at {cli.database} yet\n"
    assert (receipt.status, receipt.receipt["count"], receipt.err) == (0, 0, "")
    assert not cli.database.exists()


def test_a_query_can_keep_to_one_turn(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("tides", scope="s", agent="lyria")
        for text in ("Tide?", "Wind?"):
            with session.turn() as turn:
                turn.user(text)
        turn_id = list(session.turns())[1].turn_id

    found = cli("episodes", "query", "--scope", "s", "--turn", str(turn_id), "--json").body
    nothing = cli("episodes", "query", "--scope", "s", "--turn", "none such")

    said = [one["summary"] for one in found["items"] if one["type"] == "conversation.user"]
    assert said == ["Wind?"]
    assert found["filters"]["turn"] == turn_id
    assert "drop a filter" in nothing.out
