from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from surfaces.command_line import CommandLine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cli(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    return CommandLine(tmp_path / "ledger.db", capsys, monkeypatch)


@pytest.fixture
def told(cli: CommandLine) -> CommandLine:
    """Six events: two sessions, out of order in time, one of them in another scope."""
    for number, (ts_ms, scope, session, kind) in enumerate(
        [
            (3000, "s", "a", "conversation.user"),
            (1000, "s", "a", "tool.call"),
            (1000, "s", "a", "tool.result"),
            (2000, "s", "b", "ops.alert"),
            (1500, "other", "a", "ops.decision"),
            (500, "s", "b", "conversation.assistant"),
        ]
    ):
        cli.append(
            event_id=f"q{number}",
            ts_ms=str(ts_ms),
            scope=scope,
            session_id=session,
            type=kind,
            summary=f"n{number}",
            payload_json=f'{{"i":{number}}}',
            refs_json=f'{{"r":{number}}}',
        )
    return cli
