"""The same OpenClaw session through both lanes: imported as a log, and extracted to a spool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import treering

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine

SESSION = "5e551011-0000-4000-8000-00000000000a"
ENTRIES = [
    {"type": "session", "version": 3, "id": SESSION, "timestamp": "2026-03-02T09:00:00.000Z",
     "cwd": "/srv/.openclaw/workspace"},
    {"type": "message", "id": "a1b2c3d4", "parentId": None,
     "timestamp": "2026-03-02T09:00:01.000Z",
     "message": {"role": "user", "content": "is the harbour open?", "timestamp": 1772442001000}},
    {"type": "message", "id": "a1b2c3d5", "parentId": "a1b2c3d4",
     "timestamp": "2026-03-02T09:00:02.000Z",
     "message": {"role": "assistant", "provider": "x", "model": "m", "timestamp": 1772442002000,
                 "content": [{"type": "thinking", "thinking": "tides"},
                             {"type": "text", "text": "It is open until nine."}]}},
]  # fmt: skip


@pytest.mark.parametrize("first", ["import", "extract"])
def test_what_came_by_one_lane_does_not_come_again_by_the_other(
    cli: CommandLine, tmp_path: Path, first: str
) -> None:
    sessions = tmp_path / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    log = sessions / f"{SESSION}.jsonl"
    log.write_text("".join(json.dumps(entry) + "\n" for entry in ENTRIES))
    spool = tmp_path / "spool.jsonl"

    def by_import() -> None:
        assert cli("import", str(log)).status == 0

    def by_spool() -> None:
        state = ["--state", str(tmp_path / "extract.json")]
        roots = ["--sessions-root", str(tmp_path / "agents"), "--spool", str(spool)]
        assert cli("episodes", "extract-sessions", *roots, *state).status == 0
        assert cli("episodes", "ingest", "--file", str(spool)).status == 0

    lanes = [by_import, by_spool]
    for lane in lanes if first == "import" else reversed(lanes):
        lane()

    with treering.open(cli.database) as ledger:
        said = ledger.headers(
            "openclaw/main", kinds=["conversation.user", "conversation.assistant"]
        ).items
        assert len(said) == 2
        assert {header.session_id for header in said} == {SESSION}
