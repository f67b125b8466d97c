"""``treering episodes extract-sessions``: from transcripts to the ledger."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give one agent of OpenClaw a transcript, and return where its words go."""
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "claw"))
    sessions = tmp_path / "claw" / "agents" / "lyria" / "sessions"
    sessions.mkdir(parents=True)
    rows = [
        {"ts_ms": 1000, "sessionKey": "k", "role": "user", "content": "[SCOPE: demo] hi"},
        {"ts_ms": 1001, "role": "assistant", "content": [{"type": "text", "text": "hello"}]},
    ]
    body = "".join(f"{json.dumps(row)}\n" for row in rows)
    (sessions / "one.jsonl").write_text(body)
    return tmp_path / "spool.jsonl"


def test_what_agents_said_reaches_the_ledger(cli: CommandLine, spool: Path) -> None:
    outcome = cli.bare(
        "episodes", "extract-sessions", "--file", str(spool), "--allow-scope-markers", "--json"
    )
    cli("episodes", "ingest", "--file", str(spool))

    body = outcome.body
    assert outcome.receipt["kind"] == "treering.episodes.extract-sessions.v1"
    assert body.pop("duration_ms") >= 0
    assert body == {
        "source": {
            "sessions_root": str(spool.parent / "claw" / "agents"),
            "state": f"{spool}.treering-extract.json",
            "spool": str(spool),
        },
        "files_seen": 1,
        "files_with_updates": 1,
        "lines_total": 2,
        "invalid_json": 0,
        "unsupported_rows": 0,
        "emitted": 2,
        "payload_redacted": 0,
        "payload_truncated": 0,
        "sanitized_dropped": 0,
        "trailing_partial_bytes": 0,
        "ignored_files": 0,
        "errors_sample": [],
        "iterations": 1,
        "mended": 0,
        "payload_cap_bytes": 4096,
        "stop_reason": "one_shot",
        "counters": {"ignored": {"files": 0}},
    }
    (said,) = cli("episodes", "query", "--scope", "demo", "--json").receipt["items"]
    assert (said["session_id"], said["summary"]) == ("k", "conversation.user: hi")
    (answer,) = cli("episodes", "query", "--scope", "openclaw/lyria", "--json").receipt["items"]
    assert (answer["session_id"], answer["agent_id"]) == ("one", "lyria")


def test_transcripts_are_followed_for_so_long(cli: CommandLine, spool: Path) -> None:
    outcome = cli.bare(
        "episodes", "extract-sessions", "--spool", str(spool), "--follow", "--poll-ms", "1",
        "--max-duration-seconds", "0.05", "--json",
    )  # fmt: skip

    assert outcome.body["stop_reason"] == "max_duration"
    assert (outcome.body["emitted"], len(spool.read_text(encoding="utf-8").splitlines())) == (2, 2)


def test_people_are_told_how_many(cli: CommandLine, spool: Path) -> None:
    outcome = cli.bare("episodes", "extract-sessions", "--file", str(spool))

    assert outcome.out == f"brought 2 events of 1 transcript to {spool}\n"


def test_a_duration_without_following_is_refused(cli: CommandLine, spool: Path) -> None:
    outcome = cli.bare(
        "episodes", "extract-sessions", "--file", str(spool), "--max-duration-seconds", "1"
    )

    assert outcome.status == 2
