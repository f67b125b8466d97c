"""The episodic events ledger: every line of its acceptance checklist, posture and rollback."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from surfaces.command_line import CommandLine
from treering.model.scopes import DEFAULT_RETENTION

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS: Final = 86_400_000
TYPES: Final = (
    "conversation.user",
    "conversation.assistant",
    "tool.call",
    "tool.result",
    "ops.decision",
    "ops.alert",
)
COLUMNS: Final = [
    "id", "event_id", "ts_ms", "scope", "session_id", "agent_id", "type", "summary",
    "payload_json", "refs_json", "redacted", "schema_version", "created_at",
]  # fmt: skip


@pytest.fixture
def cli(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    return CommandLine(tmp_path / "ledger.db", capsys, monkeypatch)


def items(cli: CommandLine, *arguments: str) -> list[dict[str, Any]]:
    """Return what a query of the ``episodes`` group finds."""
    found: list[dict[str, Any]] = cli("episodes", "query", *arguments, "--json").receipt["items"]
    return found


def rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Ask the file itself, as any other SQLite program would."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


# The data model.


def test_every_type_of_the_initial_set_is_recorded_under_its_own_name(cli: CommandLine) -> None:
    """Keep the taxonomy small and OpenClaw-aligned."""
    for at, name in enumerate(TYPES, start=1):
        cli.append(type=name, ts_ms=str(at))

    assert tuple(item["type"] for item in items(cli, "--scope", "s")) == TYPES


def test_an_event_carries_every_field_of_the_logical_schema(cli: CommandLine) -> None:
    """Each event is an append-only JSON-like object."""
    cli.append(payload_json='{"a":1}', refs_json='{"memory_ids":["m1"]}')

    (item,) = items(cli, "--scope", "s", "--include-payload")

    assert item.keys() == {
        "id", "event_id", "ts_ms", "scope", "session_id", "agent_id", "type", "summary",
        "payload", "refs", "redacted", "schema_version", "created_at",
    }  # fmt: skip
    assert item["schema_version"] == "openclaw-mem.episodic.v0"
    assert item["created_at"].endswith("+00:00")


# The acceptance checklist.


def test_the_table_is_there_with_its_columns(cli: CommandLine) -> None:
    """[x] DB migration: table + indexes created (idempotent)."""
    cli.append()

    columns = rows(cli.database, "SELECT name FROM pragma_table_info('episodic_events')")
    indexes = rows(cli.database, "SELECT count(*) FROM sqlite_schema WHERE type = 'index'")

    assert [name for (name,) in columns] == COLUMNS
    assert indexes[0][0] > 0


def test_migrating_again_changes_nothing(cli: CommandLine) -> None:
    """[x] DB migration: table + indexes created (idempotent)."""
    cli.append()
    before = rows(cli.database, "SELECT type, name, sql FROM sqlite_schema ORDER BY name")

    treering.open(cli.database).close()
    treering.open(cli.database).close()

    assert rows(cli.database, "SELECT type, name, sql FROM sqlite_schema ORDER BY name") == before


def test_the_table_shows_what_the_query_shows(cli: CommandLine) -> None:
    """Store in the existing openclaw-mem.sqlite as a new table."""
    cli.append(event_id="e1", ts_ms="5", payload_json='{"a":1}', refs_json='{"r":2}')
    cli.append(ts_ms="6")
    cli.append(event_id="e3", ts_ms="7", payload_json='"secret"')
    cli("episodes", "redact", "--event-id", "e3", "--scope", "s")
    shown = items(cli, "--scope", "s", "--include-payload")

    stored = rows(cli.database, "SELECT * FROM episodic_events ORDER BY ts_ms, id")

    named = [dict(zip(COLUMNS, row, strict=True)) for row in stored]
    for row in named:
        row["payload"] = json.loads(row.pop("payload_json") or "null")
        row["refs"] = json.loads(row.pop("refs_json") or "null")
        row["redacted"] = bool(row["redacted"])
    assert named == shown


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": "///"},
        {"scope": "a@b"},
        {"type": "note"},
        {"payload_json": f'"{"x" * 8_191}"'},
        {"refs_json": f'"{"x" * 4_095}"'},
    ],
)
def test_append_validates_scope_and_type_and_enforces_caps(
    cli: CommandLine, wrong: dict[str, str]
) -> None:
    """[x] episodes append validates scope/type and enforces payload size caps."""
    outcome = cli.append(**wrong)

    assert (outcome.status, outcome.receipt["ok"]) == (2, False)
    assert items(cli, "--scope", "s") == []


def test_query_filters_by_scope_session_time_type_and_limit(cli: CommandLine) -> None:
    """[x] episodes query supports scope/session_id/from/to/types/limit and is deterministic."""
    for at in range(1, 9):
        cli.append(
            event_id=f"e{at}",
            ts_ms=str(at),
            session_id=f"session {at % 2}",
            type="tool.call" if at % 4 < 2 else "tool.result",
        )

    found = cli.ids(
        "episodes", "query", "--scope", "s", "--session-id", "session 1", "--from-ts-ms", "2",
        "--to-ts-ms", "7", "--types", "tool.call,ops.alert", "--limit", "1",
    )  # fmt: skip

    assert found == ["e5"]


def test_query_gives_the_same_order_whatever_the_order_of_arrival(cli: CommandLine) -> None:
    """[x] episodes query supports scope/session_id/from/to/types/limit and is deterministic."""
    for event_id, ts_ms in [("late", 9), ("first", 1), ("tie 1", 5), ("tie 2", 5)]:
        cli.append(event_id=event_id, ts_ms=str(ts_ms))

    asked = [cli.ids("episodes", "query", "--scope", "s") for _ in range(3)]

    assert asked == [["first", "tie 1", "tie 2", "late"]] * 3


def test_summaries_alone_are_given_by_default(cli: CommandLine) -> None:
    """[x] Summary-only default confirmed by tests."""
    cli.append(payload_json='{"private":"not for every eye"}', refs_json='{"run":"r1"}')

    query = cli("episodes", "query", "--scope", "s", "--json")
    replay = cli("episodes", "replay", "a", "--scope", "s", "--json")
    table = cli("episodes", "query", "--scope", "s")

    for outcome in (query, replay, table):
        assert "not for every eye" not in outcome.out
    assert query.receipt["items"][0]["refs"] == {"run": "r1"}
    assert query.receipt["filters"]["include_payload"] is False


def test_redaction_removes_the_payload_and_sets_the_flag(cli: CommandLine) -> None:
    """[x] Redaction command works (payload removed; redacted flag set)."""
    cli.append(payload_json='{"private":"not for every eye"}')

    receipt = cli("episodes", "redact", "--session-id", "a", "--scope", "s", "--json").receipt

    first, *_ = items(cli, "--scope", "s", "--include-payload")
    assert (receipt["redacted_count"], receipt["physical"]) == (1, "done")
    assert (first["redacted"], first["payload"]) == (True, "[REDACTED]")
    for file in cli.database.parent.glob("ledger.db*"):
        assert b"not for every eye" not in file.read_bytes()


def test_retention_gives_an_aggregate_receipt_and_no_content(cli: CommandLine) -> None:
    """[x] Retention GC produces an aggregate receipt."""
    for number in range(2):
        cli.append(
            type="tool.result",
            ts_ms="5",
            event_id=f"the-id-{number}",
            session_id="the-session",
            agent_id="the-agent",
            summary="not for every eye",
            payload_json='{"the-payload":"private"}',
            refs_json='{"the-refs":"private"}',
        )

    outcome = cli("episodes", "gc", "--scope", "s", "--json")

    assert outcome.receipt["deleted_total"] == 2
    assert outcome.receipt["deleted_by_type"]["tool.result"] == 2
    for content in ("the-", "private", "not for every eye"):
        assert content not in outcome.out


def test_one_scope_cannot_query_another(cli: CommandLine) -> None:
    """[x] Scope isolation tests: scope X cannot query scope Y."""
    cli.append(scope="y", session_id="shared", event_id="hidden", summary="of y alone")
    cli.append(scope="x", session_id="shared", event_id="mine")

    outcomes = [
        cli("episodes", "query", "--scope", "x", "--json"),
        cli("episodes", "replay", "shared", "--scope", "x", "--include-payload", "--json"),
        cli("episodes", "export", "--scope", "x", "--include-payload"),
        cli("episodes", "query", "--global", "--json"),
        cli("episodes", "gc", "--scope", "x", "--policy", "tool.call=0", "--dry-run", "--json"),
    ]

    for outcome in outcomes:
        assert "hidden" not in outcome.out
        assert "of y alone" not in outcome.out
    assert cli.ids("episodes", "query", "--scope", "x") == ["mine"]


# Security and privacy posture.


def test_a_payload_needs_an_explicit_request(cli: CommandLine) -> None:
    """Query returns summary + refs only; payload requires explicit includePayload=true."""
    cli.append(payload_json='{"a":1}')

    assert "payload" not in items(cli, "--scope", "s")[0]
    assert items(cli, "--scope", "s", "--include-payload")[0]["payload"] == {"a": 1}


@pytest.mark.parametrize(
    ("field", "cap"), [("payload_json", 8_192), ("refs_json", 4_096)], ids=["payload", "refs"]
)
def test_payload_and_refs_are_bounded_to_the_byte(cli: CommandLine, field: str, cap: int) -> None:
    """Hard bounds: payload_json max bytes/chars on ingest; refs_json also bounded."""
    fits, exceeds = ({field: f'"{"x" * (cap - 2 + more)}"'} for more in (0, 1))

    assert (cli.append(**fits).status, cli.append(**exceeds).status) == (0, 2)


@pytest.mark.parametrize(
    ("replacement", "payload"), [("placeholder", "[REDACTED]"), ("null", None)]
)
def test_redaction_overwrites_summary_refs_and_payload(
    cli: CommandLine, replacement: str, payload: str | None
) -> None:
    """Redaction overwrites summary with [REDACTED], clears refs_json, and replaces payload_json."""
    cli.append(event_id="e1", payload_json='{"a":1}', refs_json='{"r":1}')

    cli("episodes", "redact", "--event-id", "e1", "--scope", "s", "--replacement", replacement)

    first, *_ = items(cli, "--scope", "s", "--include-payload")
    assert (first["summary"], first["refs"], first["payload"]) == ("[REDACTED]", None, payload)


def test_a_redacted_row_stays_for_audit(cli: CommandLine) -> None:
    """Keep the event row for audit continuity."""
    cli.append(event_id="e1", ts_ms="5")
    (before,) = items(cli, "--scope", "s")

    cli("episodes", "redact", "--event-id", "e1", "--scope", "s")

    after, *_ = items(cli, "--scope", "s")
    kept = ("id", "event_id", "ts_ms", "scope", "session_id", "agent_id", "type", "created_at")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert cli("episodes", "verify", "--scope", "s").status == 0


def test_redacting_by_event_id_needs_a_scope(cli: CommandLine) -> None:
    """Scope posture: --event-id redaction requires --scope (or explicit --global)."""
    cli.append(event_id="e1")

    unscoped = cli("episodes", "redact", "--event-id", "e1", "--json")
    elsewhere = cli("episodes", "redact", "--event-id", "e1", "--global", "--json")

    assert (unscoped.status, elsewhere.status) == (2, 1)
    assert items(cli, "--scope", "s")[0]["redacted"] is False


@pytest.mark.parametrize(
    "command",
    [
        ["append", "--type", "tool.call"],
        ["query"],
        ["replay", "a"],
        ["redact", "--event-id", "e1"],
        ["redact", "--session-id", "a"],
        ["gc"],
        ["verify"],
        ["export"],
        ["import", "-"],
    ],
    ids=lambda command: command[0],
)
def test_no_command_falls_back_to_all_scopes(cli: CommandLine, command: list[str]) -> None:
    """Every query must include a scope; no “fallback to unscoped” behavior."""
    cli.append(event_id="e1")

    outcome = cli("episodes", *command, "--json")

    assert (outcome.status, outcome.receipt["error"]) == (2, "scope is required (or pass --global)")


# Retention.


def test_the_default_retention_is_the_one_that_was_promised() -> None:
    """30 days for tool.result, 60 for conversation.user, 90 for conversation.assistant."""
    kinds = ("tool.result", "conversation.user", "conversation.assistant", "ops.decision")

    assert [DEFAULT_RETENTION.get(kind) for kind in kinds] == [30, 60, 90, None]


def test_retention_counts_by_type_within_the_scope(cli: CommandLine) -> None:
    """Enforced by a GC command/cron that emits an aggregate-only receipt."""
    now = 200 * DAY_MS
    for scope in ("s", "t"):
        for kind in TYPES:
            cli.append(scope=scope, type=kind, ts_ms=str(now - 91 * DAY_MS))

    receipt = cli("episodes", "gc", "--scope", "s", "--now-ts-ms", str(now), "--json").receipt

    assert receipt["scope"] == "s"
    assert receipt["deleted_by_type"] == {
        "conversation.assistant": 1,
        "conversation.user": 1,
        "ops.alert": 1,
        "ops.decision": 0,
        "ops.observation": 0,
        "tool.call": 1,
        "tool.result": 1,
    }
    assert len(items(cli, "--scope", "t")) == len(TYPES)


# Rollback.


def test_the_group_can_be_switched_off_without_touching_the_schema(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Feature-flag the command group; disable without schema drop."""
    cli.append(event_id="e1")
    monkeypatch.setenv("TREERING_EPISODES", "off")

    refused = cli("episodes", "query", "--scope", "s", "--json")
    before = rows(cli.database, "SELECT event_id FROM episodic_events")
    monkeypatch.delenv("TREERING_EPISODES")

    assert (refused.status, refused.receipt["code"]) == (2, "disabled")
    assert before == [("e1",)]
    assert cli.ids("episodes", "query", "--scope", "s") == ["e1"]


def test_dropping_the_table_is_the_operators_own_act_and_loses_no_event(cli: CommandLine) -> None:
    """If needed, drop the table (explicit operator action); not part of normal rollback."""
    cli.append(event_id="e1")

    with closing(sqlite3.connect(cli.database)) as connection, connection:
        connection.execute("DROP VIEW episodic_events")

    assert cli.ids("episodes", "query", "--scope", "s") == ["e1"]
    assert cli("episodes", "verify", "--scope", "s").status == 0
