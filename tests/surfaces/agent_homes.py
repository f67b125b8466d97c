"""A home folder with the logs of every agent in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from capture.intake_logs import VOYAGES, write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FOLDERS: Final = {
    "claude-code": ".claude/projects/-srv-lighthouse",
    "codex": ".codex/sessions/2026/09/21",
    "gemini": ".gemini/tmp/cafe/chats",
    "openclaw": ".openclaw/agents/main/sessions",
    "pi": ".pi/agent/sessions/--home-ada-harbour--",
}
CWDS: Final = ("/srv/lighthouse", "/srv/harbour", "/home/ada/harbour")
"""Folders that the logs tell of work in; they are nowhere."""
_VARIABLES: Final = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCLAW_STATE_DIR"),
    *("PI_CODING_AGENT_DIR", "TREERING_SPOOL", "TREERING_SCOPE", "XDG_STATE_HOME"),
)


def move_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make ``home``, which is empty, the home of whoever runs commands."""
    home.mkdir(exist_ok=True)
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


def write_log(home: Path, agent: str) -> Path:
    """Write a log of ``agent`` where it would, and return it."""
    name, records = VOYAGES[agent]
    return write(home / FOLDERS[agent] / name, records)


def work_in(folder: Path, log: Path) -> None:
    """Let a log tell of work in ``folder``, which is there."""
    folder.mkdir(parents=True, exist_ok=True)
    text = log.read_text(encoding="utf-8")
    for cwd in CWDS:
        text = text.replace(json.dumps(cwd), json.dumps(str(folder)))
    log.write_text(text, encoding="utf-8")
