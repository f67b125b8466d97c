"""The folders of agents' logs, and their retention according to the settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from treering.capture.intake.log_search import LogFolder, log_folders

if TYPE_CHECKING:
    from pathlib import Path


ROOTS = [
    ".claude/projects", ".config/claude/projects", ".codex/sessions", ".codex/archived_sessions",
    ".openclaw/agents",
    ".openclaw/cron/runs", ".openclaw/memory", ".pi/agent/sessions", ".gemini/tmp",
    ".qwen/projects", ".copilot/session-state", ".factory/sessions", ".grok/sessions",
    ".kimi/sessions", ".kimi-code/sessions", ".gemini/antigravity/brain",
    ".gemini/antigravity-cli/brain", ".iflow/projects", ".trae/cli/sessions",
    ".trae/cli/archived_sessions", ".trae/sessions",
    ".prime/agent/sessions", ".omp/agent/sessions",
    "Library/Application Support/Claude/local-agent-mode-sessions",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCLAW_STATE_DIR",
                 "PI_CODING_AGENT_DIR"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def place(home: Path, root: str) -> LogFolder:
    (home / root).mkdir(parents=True, exist_ok=True)
    return next(one for one in log_folders() if one.root == home / root)


def settle(home: Path, name: str, settings: Any) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))


def test_only_places_that_are_there_are_known(home: Path) -> None:
    assert log_folders() == []
    for root in ROOTS:
        (home / root).mkdir(parents=True)

    found = [str(one.root.relative_to(home)) for one in log_folders()]

    assert [root for root in found if root in ROOTS] == ROOTS


def test_another_home_is_searched_whatever_this_one_says(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    other = tmp_path / "mnt" / "c" / "Users" / "jo"
    for root in ("home/.codex/sessions", "home/elsewhere/sessions"):
        (tmp_path / root).mkdir(parents=True)
    (other / ".codex" / "sessions").mkdir(parents=True)

    assert [one.root for one in log_folders(other)] == [other / ".codex" / "sessions"]


@pytest.mark.parametrize(
    ("variable", "root"),
    [
        ("CLAUDE_CONFIG_DIR", "projects"),
        ("CODEX_HOME", "sessions"),
        ("GEMINI_CLI_HOME", ".gemini/tmp"),
        ("OPENCLAW_STATE_DIR", "agents"),
        ("PI_CODING_AGENT_DIR", "sessions"),
    ],
)
def test_an_agent_that_was_told_to_live_elsewhere_is_found_there(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, root: str
) -> None:
    (home / "elsewhere" / root).mkdir(parents=True)
    monkeypatch.setenv(variable, "~/elsewhere")

    assert [one.root for one in log_folders()] == [home / "elsewhere" / root]


@pytest.mark.parametrize(
    ("root", "name", "settings", "days"),
    [
        (".claude/projects", ".claude/settings.json", {}, 30),
        (".claude/projects", ".claude/settings.json", {"cleanupPeriodDays": 36_500}, 36_500),
        (".claude/projects", ".claude/settings.local.json", {"cleanupPeriodDays": 3}, 3),
        (".claude/projects", ".claude/settings.json", {"cleanupPeriodDays": True}, 30),
        (".claude/projects", ".claude/settings.json", {"cleanupPeriodDays": "soon"}, 30),
        (".claude/projects", ".claude/settings.json", [1], 30),
        (".codex/sessions", ".codex/config.toml", "", None),
        (".openclaw/agents", ".openclaw/openclaw.json", {}, None),
        (".openclaw/agents", ".openclaw/openclaw.json",
         {"session": {"maintenance": {"mode": "enforce"}}}, 30),
        (".openclaw/agents", ".openclaw/openclaw.json",
         {"session": {"maintenance": {"mode": "enforce", "pruneAfter": "12h"}}}, 0.5),
        (".openclaw/agents", ".openclaw/openclaw.json",
         {"session": {"maintenance": {"mode": "warn", "pruneAfter": "2w"}}}, None),
        (".gemini/tmp", ".gemini/settings.json", {}, 30),
        (".gemini/tmp", ".gemini/settings.json",
         {"general": {"sessionRetention": {"enabled": False}}}, None),
        (".gemini/tmp", ".gemini/settings.json",
         {"general": {"sessionRetention": {"enabled": True, "maxAge": "2w"}}}, 14),
        (".gemini/tmp", ".gemini/settings.json", {"general": {"sessionRetention": 7}}, 30),
        (".pi/agent/sessions", ".pi/settings.json", {}, None),
    ],
)  # fmt: skip
def test_how_long_logs_are_kept_is_as_the_settings_say(
    home: Path, root: str, name: str, settings: Any, days: float | None
) -> None:
    settle(home, name, settings)

    keeping = place(home, root).keeping

    assert keeping.days == days
    assert keeping.source
    if days is not None:
        assert keeping.remedy is not None
        assert str(home) in keeping.remedy


def test_settings_for_this_machine_go_before_those_for_all(home: Path) -> None:
    settle(home, ".claude/settings.json", {"cleanupPeriodDays": 9})
    settle(home, ".claude/settings.local.json", {"cleanupPeriodDays": 4})

    assert place(home, ".claude/projects").keeping.days == 4


@pytest.mark.parametrize("content", ["{", "\x00", "[" * 100_000, '{"cleanupPeriodDays": 1e999}'])
def test_settings_that_cannot_be_read_are_no_reason_to_stop(home: Path, content: str) -> None:
    settle(home, ".claude/settings.json", content)

    keeping = place(home, ".claude/projects").keeping

    assert keeping.days in {None, 30}
    assert keeping.source
