from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from surfaces.command_line import SCHEMA, CommandLine
from treering.model.codec import SPILL_BYTES_MAX
from treering.version import __version__

if TYPE_CHECKING:
    from pathlib import Path


ALLOWED = (
    "conversation.assistant, conversation.user, ops.alert, ops.decision, ops.observation,"
    " tool.call, tool.result"
)


def test_the_receipt_accounts_for_the_event_and_the_caps(cli: CommandLine) -> None:
    outcome = cli.append(
        event_id="e1",
        ts_ms="1000",
        type="conversation.user",
        payload_json='{"intent":"status"}',
        refs_json='{"recordRef":"obs:42"}',
    )

    receipt = outcome.receipt
    assert datetime.fromisoformat(receipt.pop("ts")).utcoffset() is not None
    assert outcome.status == 0
    assert receipt == {
        "kind": "treering.episodes.append.v1",
        "version": {"treering": __version__, "schema": "v0"},
        "ok": True,
        "event": {
            "event_id": "e1",
            "ts_ms": 1000,
            "scope": "s",
            "session_id": "a",
            "agent_id": "x",
            "type": "conversation.user",
            "summary": "hi",
            "payload_bytes": 19,
            "refs_bytes": 22,
            "schema_version": SCHEMA,
            "redacted": False,
            "payload_present": True,
            "refs_present": True,
        },
        "caps": {"payload_cap_bytes": 8192, "refs_cap_bytes": 4096},
    }


def test_an_event_without_payload_and_refs_says_so(cli: CommandLine) -> None:
    event = cli.append().receipt["event"]

    assert (event["payload_bytes"], event["refs_bytes"]) == (0, 0)
    assert (event["payload_present"], event["refs_present"]) == (False, False)


def test_id_and_time_are_made_when_left_out(cli: CommandLine) -> None:
    event = cli.append().receipt["event"]

    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f-]{17}", event["event_id"])
    assert event["ts_ms"] > 1_700_000_000_000


def test_people_are_told_what_was_recorded_and_where(cli: CommandLine) -> None:
    outcome = cli(
        "episodes", "append", "--scope", "Acme App", "--session-id", "a", "--agent-id", "x",
        "--type", " TOOL.CALL ", "--summary", "hi", "--event-id", "e1",
    )  # fmt: skip

    assert outcome.out == "recorded tool.call e1 as number 1 of session a in scope acme-app\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "nope", "scope": ""}, f"invalid type: nope; allowed: {ALLOWED}"),
        ({"type": ""}, f"invalid type: <empty>; allowed: {ALLOWED}"),
        ({"type": "run.started"}, f"invalid type: run.started; allowed: {ALLOWED}"),
        ({"scope": " ", "ts_ms": "abc"}, "scope is required (or pass --global)"),
        ({"scope": "a@b"}, "'a@b' is not a scope: it holds '@'"),
        ({"ts_ms": "abc", "session_id": ""}, "invalid ts_ms: abc"),
        ({"ts_ms": "inf"}, "invalid ts_ms: inf"),
        ({"ts_ms": "0"}, "ts_ms must be > 0"),
        ({"ts_ms": "-5"}, "ts_ms must be > 0"),
        ({"session_id": " ", "agent_id": ""}, "session_id is required"),
        ({"agent_id": "", "summary": ""}, "agent_id is required"),
        ({"summary": " ", "payload_json": "{"}, "summary is required"),
        ({"summary": "x" * 1_001}, "summary exceeds cap (1001 > 1000 characters)"),
        (
            {"payload_json": '{"a":1,"a":2}'},
            "invalid payload JSON: an object has the same key twice",
        ),
        ({"payload_json": '{"a":NaN}'}, "invalid payload JSON: NaN is not a JSON number"),
        ({"payload_json": "{bad"}, "invalid payload JSON: Expecting property name"),
        ({"refs_json": "{bad"}, "invalid refs JSON: Expecting property name"),
        ({"payload_json": '{"x":"\\ud800"}'}, "payload['x'] holds a lone surrogate"),
        ({"payload_json": f'"{"é" * 4_096}"'}, "payload exceeds cap (8194 > 8192 bytes)"),
        ({"refs_json": f'"{"a" * 4_095}"'}, "refs exceeds cap (4097 > 4096 bytes)"),
        ({"payload_json": "1", "payload_file": "x"}, "provide only one of --payload-json or"),
        ({"refs_json": "1", "refs_file": "x"}, "provide only one of --refs-json or --refs-file"),
        ({"payload_file": "nowhere.json"}, "cannot read nowhere.json: No such file"),
        ({"payload_file": "-", "refs_file": "-"}, "payload and refs cannot both come from"),
        ({"event_id": " "}, "event_id is required"),
    ],
)
def test_a_mistake_is_named_and_makes_no_ledger(
    cli: CommandLine, options: dict[str, str], message: str
) -> None:
    outcome = cli.append(**options)

    assert outcome.status == 2
    assert outcome.receipt["error"].startswith(message)
    assert outcome.receipt["hint"]
    assert not cli.database.exists()


@pytest.mark.parametrize(("given", "kept"), [("1.9", 1), (" 1700000000000 ", 1_700_000_000_000)])
def test_a_time_may_be_text_and_loses_its_fraction(cli: CommandLine, given: str, kept: int) -> None:
    assert cli.append(ts_ms=given).receipt["event"]["ts_ms"] == kept


def test_a_payload_of_exactly_the_cap_is_taken(cli: CommandLine) -> None:
    event = cli.append(payload_json=f'"{"a" * 8_190}"').receipt["event"]

    assert event["payload_bytes"] == 8_192


def test_the_cap_counts_canonical_json_not_the_blanks_of_a_file(
    cli: CommandLine, tmp_path: Path
) -> None:
    spacious = tmp_path / "payload.json"
    spacious.write_text('{"a": 1}' + " " * 10_000)

    assert cli.append(payload_file=str(spacious)).receipt["event"]["payload_bytes"] == 7


def test_a_payload_over_the_cap_is_refused_and_spill_takes_it(cli: CommandLine) -> None:
    large = f'"{"a" * 9_000}"'
    wanted = [
        "episodes", "append", "--scope", "s", "--session-id", "a", "--agent-id", "x", "--type",
        "tool.result", "--summary", "hi", "--payload-json", large, "--json",
    ]  # fmt: skip

    refused, taken = cli(*wanted), cli(*wanted, "--spill")

    assert (refused.status, refused.receipt["code"]) == (2, "too_large")
    assert "--spill" in refused.receipt["hint"]
    assert taken.receipt["event"]["payload_bytes"] == 9_002
    assert taken.receipt["caps"]["payload_cap_bytes"] == SPILL_BYTES_MAX


def test_a_payload_comes_from_standard_input(cli: CommandLine) -> None:
    cli(
        "episodes", "append", "--global", "--session-id", "a", "--agent-id", "x", "--type",
        "tool.result", "--summary", "hi", "--payload-file", "-", "--refs-json", "[1]",
        stdin='{"from": "a pipe"}',
    )  # fmt: skip

    (item,) = cli("episodes", "query", "--global", "--include-payload", "--json").receipt["items"]
    assert (item["payload"], item["refs"]) == ({"from": "a pipe"}, [1])


def test_an_event_id_is_taken_once_even_for_the_same_event(cli: CommandLine) -> None:
    first = cli.append(event_id="e1", ts_ms="5")
    same, other = cli.append(event_id="e1", ts_ms="5"), cli.append(event_id="e1", summary="no")

    assert (first.status, same.status, other.status) == (0, 1, 1)
    assert same.receipt == other.receipt
    assert same.receipt == {
        "kind": "treering.episodes.append.v1",
        "ok": False,
        "error": "event_id already exists",
        "code": "duplicate",
        "hint": "give another --event-id, or leave it out",
    }


def test_an_event_id_stays_taken_when_its_event_is_redacted_or_gone(cli: CommandLine) -> None:
    for event_id in ("redacted", "expired"):
        cli.append(event_id=event_id, ts_ms="5", session_id=event_id)
    cli("episodes", "redact", "--scope", "s", "--event-id", "redacted")
    cli("episodes", "gc", "--scope", "s", "--policy", "tool.call=0")

    outcomes = [cli.append(event_id=event_id, ts_ms="5") for event_id in ("redacted", "expired")]

    assert [outcome.status for outcome in outcomes] == [1, 1]


def test_the_same_event_id_in_another_scope_is_another_event(cli: CommandLine) -> None:
    cli.append(event_id="e1")

    assert cli.append(event_id="e1", scope="t").status == 0


@pytest.mark.parametrize(
    ("options", "field", "secret"),
    [
        ({"summary": "mail jo@example.org"}, "summary", "jo@example.org"),
        ({"summary": "call +49 170 1234567"}, "summary", "1234567"),
        ({"payload_json": '{"password":"hunter2hunter2"}'}, "payload", "hunter2"),
        ({"refs_json": '["ghp_0123456789abcdefghijABCDEFGHIJ456789"]'}, "refs", "ghp_"),
    ],
)
def test_secrets_and_personal_details_are_refused_and_never_repeated(
    cli: CommandLine, options: dict[str, str], field: str, secret: str
) -> None:
    outcome = cli.append(**options)

    assert (outcome.status, outcome.receipt["code"]) == (2, "sensitive")
    assert re.fullmatch(
        rf"{field} appears to hold a secret or personal detail \([\w-]+\)", outcome.receipt["error"]
    )
    assert secret not in outcome.out + outcome.err
    assert not cli.database.exists()


@pytest.mark.parametrize("payload", ['{"date":"2026-03-05"}', '{"at":1767225600000}'])
def test_dates_and_times_are_no_phone_numbers(cli: CommandLine, payload: str) -> None:
    assert cli.append(payload_json=payload).status == 0


@pytest.mark.parametrize("flag", ["--allow-sensitive", "--allow-tool-output"])
def test_sensitive_content_is_kept_as_given_when_allowed(cli: CommandLine, flag: str) -> None:
    cli(
        "episodes", "append", "--scope", "s", "--session-id", "a", "--agent-id", "x", "--type",
        "tool.call", "--summary", "mail jo@example.org", "--payload-json",
        '{"password":"hunter2hunter2"}', "--refs-json", '["jo@example.org"]', flag,
    )  # fmt: skip

    (item,) = cli("episodes", "query", "--scope", "s", "--include-payload", "--json").receipt[
        "items"
    ]
    assert item["summary"] == "mail jo@example.org"
    assert item["refs"] == ["jo@example.org"]
    assert item["payload"] == {"password": "hunter2hunter2"}
