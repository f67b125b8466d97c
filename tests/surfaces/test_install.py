"""``treering install`` and ``treering uninstall``, as they are typed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from surfaces.processes import patient_hook

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home folder with Claude Code and Codex in it."""
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCLAW_STATE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".codex").mkdir()
    return tmp_path


def test_a_dry_run_shows_a_diff_and_changes_nothing(cli: CommandLine, home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.write_text('{\n  "model": "x"\n}\n')

    done = cli.bare("install", "claude-code", "--dry-run")

    assert done.status == 0
    assert f"+++ {settings}" in done.out
    assert '+    "Stop": [' in done.out
    assert "nothing was changed" in done.out
    assert [path.name for path in (home / ".claude").iterdir()] == ["settings.json"]
    assert settings.read_text() == '{\n  "model": "x"\n}\n'


def test_it_says_what_it_changed_and_what_to_do_next(cli: CommandLine, home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.write_text("{}")

    first = cli.bare("install", "claude-code")
    second = cli.bare("install", "claude-code")
    third = cli.bare("uninstall", "claude-code")
    fourth = cli.bare("uninstall", "claude-code")

    assert f"changed {settings}\n  as it was: {settings}.treering-backup-" in first.out
    assert "next: start a new session" in first.out
    assert second.out == "Claude Code has the hooks already: nothing was changed\n"
    assert f"changed {settings}" in third.out
    assert fourth.out == "Claude Code has no Treering hooks: nothing was changed\n"
    assert settings.read_text() == "{}"


def test_codex_users_are_told_to_trust_the_hooks(cli: CommandLine, home: Path) -> None:
    done = cli.bare("install", "codex", "--json")

    assert done.body["changed"] is True
    assert done.body["files"] == [str(home / ".codex" / "hooks.json")]
    assert done.body["backups"] == []
    assert "/hooks and press t" in done.body["next_steps"][0]


def test_the_command_that_is_installed_works(cli: CommandLine, home: Path, tmp_path: Path) -> None:
    cli.bare("install", "codex")
    hooks = json.loads((home / ".codex" / "hooks.json").read_text())["hooks"]
    command = hooks["Stop"][0]["hooks"][0]["command"]
    # Whether the console script is installed beside this Python is not what is asked here.
    program, agent = shlex.split(command)
    assert Path(program).is_absolute()
    assert Path(program).name == "treering-hook"

    done = subprocess.run(
        [*patient_hook(), agent],
        input=b"{}",
        capture_output=True,
        env={"TREERING_SPOOL": str(tmp_path / "spool")},
        check=True,
    )

    assert done.stdout == b"{}\n"
    assert '"agent":"codex"' in next((tmp_path / "spool").glob("*.jsonl")).read_text()


def test_decisions_come_with_a_warning(cli: CommandLine, home: Path) -> None:
    done = cli.bare("install", "claude-code", "--decisions")

    assert "PermissionDenied" in (home / ".claude" / "settings.json").read_text()
    assert "note: a Claude Code older than" in done.err


def test_settings_with_comments_are_refused_and_left_alone(cli: CommandLine, home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.write_text('{\n  // mine\n  "a": 1\n}')

    done = cli.bare("install", "claude-code", "--json")

    assert (done.status, done.receipt["code"]) == (2, "invalid")
    assert "comments (line 2)" in done.receipt["error"]
    assert settings.read_text() == '{\n  // mine\n  "a": 1\n}'


def test_an_agent_that_is_not_there_is_said_so(cli: CommandLine, home: Path) -> None:
    done = cli.bare("install", "openclaw")

    assert done.status == 1
    assert "OpenClaw has no folder" in done.err
    assert "OPENCLAW_STATE_DIR" in done.err


def test_a_typing_error_in_the_agents_name_is_a_usage_error(cli: CommandLine, home: Path) -> None:
    done = cli.bare("install", "claude")

    assert done.status == 2
    assert "claude-code" in done.err


def test_the_server_is_shown_installed_once_and_removed(cli: CommandLine, home: Path) -> None:
    settings = home / ".claude.json"
    settings.write_text('{"numStartups": 3}')

    shown = cli.bare("install", "claude-code", "--mcp", "--dry-run")
    first = cli.bare("install", "claude-code", "--mcp")
    entry = json.loads(settings.read_text())["mcpServers"]["treering"]
    second = cli.bare("install", "claude-code", "--mcp")
    third = cli.bare("uninstall", "claude-code", "--mcp")
    fourth = cli.bare("uninstall", "claude-code", "--mcp")

    assert '"mcpServers"' in shown.out
    assert f"changed {settings}\n  as it was: {settings}.treering-backup-" in first.out
    assert "next: start a new session" in first.out
    assert entry["args"] == ["mcp"]
    assert Path(entry["command"]) == Path(sys.executable).with_name("treering")
    assert second.out == "Claude Code has the server already: nothing was changed\n"
    assert f"changed {settings}" in third.out
    assert fourth.out == "Claude Code has no Treering server: nothing was changed\n"
    assert settings.read_text() == '{"numStartups": 3}'


def test_the_server_gets_the_ledger_and_the_scope_that_were_named(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)

    done = cli.bare(
        *("--db", "my.db", "install", "codex", "--mcp", "--scope", "Acme/App", "--write")
    )

    assert done.status == 0
    arguments = f'args = ["mcp", "--db", "{home}/my.db", "--scope", "acme/app", "--write"]'
    assert arguments in (home / ".codex" / "config.toml").read_text()


def test_a_server_whose_package_is_missing_is_installed_with_a_remark(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    done = cli.bare("install", "codex", "--mcp")

    assert done.status == 0
    assert "note: the server needs mcp: pip install 'treering[mcp]'" in done.err


@pytest.mark.parametrize("options", [["--write"], ["--scope", "a"], ["--mcp", "--decisions"]])
def test_options_of_the_server_are_not_for_hooks(
    cli: CommandLine, home: Path, options: list[str]
) -> None:
    done = cli.bare("install", "codex", *options)

    assert done.status == 2
    assert list((home / ".codex").iterdir()) == []
