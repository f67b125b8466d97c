"""``treering episodes ingest``: its words, its receipt, its exit status."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from effort import PATIENCE_S
from surfaces.processes import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine

LINE = (
    '{"event_id":"i1","ts_ms":1000,"scope":"s","session_id":"a","agent_id":"x",'
    '"type":"tool.result","summary":"ok"}\n'
)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool.jsonl"
    path.write_text(LINE)
    return path


def test_the_receipt_has_the_fields_that_programs_read(cli: CommandLine, spool: Path) -> None:
    outcome = cli("episodes", "ingest", "--file", str(spool), "--json")

    assert outcome.status == 0
    assert outcome.receipt["kind"] == "treering.episodes.ingest.v1"
    assert outcome.body == {
        "source": {
            "file": str(spool),
            "state": f"{spool}.treering-state.json",
            "start_offset": 0,
            "next_offset": len(LINE),
            "snapshot_size": len(LINE),
            "offset_recovery": None,
            "trailing_partial_bytes": 0,
            "processed_sha256": outcome.body["source"]["processed_sha256"],
            "spool_schema": "openclaw-mem.episodes.spool.v0",
        },
        "lines": {
            "total": 1,
            "blank": 0,
            "invalid_json": 0,
            "invalid_event": 0,
            "duplicates": 0,
            "mended": 0,
        },
        "inserted": 1,
        "bounded": {
            "payload_cap_bytes": 8192,
            "conversation_payload_cap_bytes": 4096,
            "payload_hard_cap_bytes": 8192,
            "refs_cap_bytes": 4096,
            "payload_truncated": 0,
            "refs_truncated": 0,
            "summary_truncated": 0,
            "redacted_late": 0,
        },
        "maintenance": {"requested": "none", "applied": "none", "reason": None, "rotated_to": None},
        "errors_sample": [],
    }
    assert cli.ids("episodes", "query", "--scope", "s") == ["i1"]


def test_people_are_told_what_was_not_taken(cli: CommandLine, spool: Path) -> None:
    spool.write_text(LINE + LINE + "no json\n" + LINE[:20], encoding="utf-8")

    outcome = cli("episodes", "ingest", "--file", str(spool), "--rotate")

    assert outcome.out.splitlines() == [
        f"imported 1 event of {spool}",
        "  1 was here already",
        "  1 line could not be imported",
        f"    line@{2 * len(LINE)}: invalid_json",
        "  a last line of 20 bytes waits for its newline",
        "  the spool was left as it is: pending_partial_line",
    ]


def test_a_followed_spool_gives_one_receipt_at_its_end(cli: CommandLine, spool: Path) -> None:
    outcome = cli(
        "episodes", "ingest", "--file", str(spool), "--follow", "--poll-interval-ms", "1",
        "--idle-exit-seconds", "0.05", "--scope", "else", "--payload-cap-bytes", "1", "--json",
    )  # fmt: skip

    body = outcome.body
    assert (body["follow"]["stop_reason"], body["follow"]["poll_interval_ms"]) == (
        "idle_timeout",
        100,
    )
    assert (body["aggregate"]["inserted"], body["aggregate"]["passes"]) == (1, 1)
    assert body["rotate_on_idle"]["enabled"] is False
    assert body["bounded"]["payload_cap_bytes"] == 256


def test_a_follower_that_is_told_to_stop_ends_well(
    environment: dict[str, str], spool: Path
) -> None:
    arguments = ("episodes", "ingest", "--file", str(spool), "--follow", "--poll-ms", "100")
    with subprocess.Popen(
        [PROGRAM, *arguments, "--json"], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        state = spool.with_name(f"{spool.name}.treering-state.json")
        end = time.monotonic() + PATIENCE_S
        while not state.exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE_S)

    receipt = json.loads(out)
    assert (process.returncode, receipt["ok"]) == (0, True)
    assert receipt["follow"]["stop_reason"] == "interrupted"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--truncate", "--rotate"), "--truncate cannot be combined with --rotate"),
        (("--follow", "--rotate"), "--follow cannot be combined with --truncate or --rotate"),
        (("--rotate-on-idle-seconds", "1"), "--rotate-on-idle-seconds needs --follow"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    cli: CommandLine, spool: Path, flags: tuple[str, ...], message: str
) -> None:
    outcome = cli("episodes", "ingest", "--file", str(spool), *flags, "--json")

    assert (outcome.status, outcome.receipt["error"]) == (2, message)


def test_a_spool_that_is_not_there_leaves_no_ledger_behind(
    cli: CommandLine, tmp_path: Path
) -> None:
    outcome = cli("episodes", "ingest", "--file", str(tmp_path / "typo"), "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")
    assert not cli.database.exists()


def test_without_a_name_the_spool_is_the_one_that_extraction_writes(
    cli: CommandLine, spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    default = tmp_path / ".openclaw" / "memory" / "openclaw-mem-episodes.jsonl"
    missing = cli("episodes", "ingest")
    default.parent.mkdir(parents=True)
    spool.rename(default)

    outcome = cli("episodes", "ingest", "--json")

    assert missing.status != 0
    assert outcome.receipt["source"]["file"] == str(default)
    assert outcome.receipt["inserted"] > 0
