"""The MCP server in the settings of other agents: added once, and removed without a trace."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.capture.hooks.installing import AGENTS, apply, diff
from treering.capture.hooks.servers import (
    ServerCommand,
    plan_server,
    plan_server_removal,
    served_agent,
)
from treering.errors import InvalidInput, NotFound

COMMAND: Final = ServerCommand(program=Path("/opt/tree ring/bin/treering"))
MOVED: Final = ServerCommand(
    program=Path("/new/treering"), arguments=("mcp", "--scope", "a/b", "--write")
)
SETTINGS: Final = {
    "claude-code": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "openclaw": ".openclaw/openclaw.json",
}
JSON_AGENTS: Final = ("claude-code", "gemini", "openclaw")
JSON_LAYOUTS: Final = {
    "absent": None,
    "empty": "",
    "object": "{}",
    "two": '{\n  "model": "x",\n  "list": [1, 2]\n}\n',
    "others": '{"mcpServers": {"git": {"command": "git-mcp"}}, "mcp": {"servers": {"x": {}}}}',
    "none": '{\n\t"mcpServers": {},\n\t"mcp": {"servers": {}, "sessionIdleTtlMs": 5}\n}',
    "windows": '{\r\n  "a": 1\r\n}\r\n',
    "bom": '\ufeff{\n  "a": 1\n}\n',
}
TOML_LAYOUTS: Final = {
    "absent": None,
    "empty": "",
    "plain": 'model = "gpt-5"  # the best\n\n[tui]\ntheme = "dark"\n',
    "unended": "[tui]\nx = 1",
    "others": '[mcp_servers.git]\ncommand = "git-mcp"\n\n[mcp_servers.git.env]\nA = "1"\n\n\n',
    "windows": "a = 1\r\n\r\n[b]\r\nc = 2\r\n",
}
CASES: Final = [
    *((agent, layout, text) for agent in JSON_AGENTS for layout, text in JSON_LAYOUTS.items()),
    *(("codex", layout, text) for layout, text in TOML_LAYOUTS.items()),
]


class Home:
    """A home folder with agents in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment: dict[str, str] = {}
        for folder in (".claude", ".codex", ".gemini", ".openclaw"):
            (path / folder).mkdir()

    def install(self, agent: str, command: ServerCommand = COMMAND) -> list[str | None]:
        plan = plan_server(agent, command, home=self.path, environment=self.environment)
        return [done.backup for done in apply(plan, stamp="20260305T100000Z")]

    def uninstall(self, agent: str) -> None:
        plan = plan_server_removal(agent, home=self.path, environment=self.environment)
        apply(plan, stamp="20260306T100000Z")

    def settings(self, agent: str) -> Path:
        return self.path / SETTINGS[agent]

    def entry(self, agent: str) -> dict[str, Any] | None:
        """Return the server as the agent reads it."""
        text = self.settings(agent).read_text(encoding="utf-8-sig")
        whole = tomllib.loads(text) if agent == "codex" else json.loads(text)
        servers = {
            "codex": lambda: whole.get("mcp_servers", {}),
            "openclaw": lambda: whole.get("mcp", {}).get("servers", {}),
        }.get(agent, lambda: whole.get("mcpServers", {}))()
        found: dict[str, Any] | None = servers.get("treering")
        return found

    def files(self) -> dict[str, bytes]:
        """Return all files but backups, by name."""
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and "treering-backup" not in path.name
        }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize(("agent", "layout", "text"), CASES, ids=[f"{a}-{b}" for a, b, _ in CASES])
def test_uninstalling_gives_back_the_same_bytes(
    home: Home, agent: str, layout: str, text: str | None
) -> None:
    if text is not None:
        home.settings(agent).write_bytes(text.encode())
    before = home.files()

    backups = home.install(agent)
    between = home.files()
    entry = home.entry(agent)
    again = home.install(agent)
    after = home.files()
    home.uninstall(agent)

    stdio = {"type": "stdio"} if agent == "claude-code" else {}
    assert entry == {**stdio, "command": "/opt/tree ring/bin/treering", "args": ["mcp"]}
    assert len(backups) == 1
    assert (backups[0] is None) == (text is None)
    assert (again, after) == ([], between)
    assert home.files() == before


@pytest.mark.parametrize("agent", AGENTS)
def test_a_server_that_moved_is_replaced_and_what_came_since_stays(home: Home, agent: str) -> None:
    home.install(agent)
    home.install(agent, MOVED)
    entry = home.entry(agent)
    settings = home.settings(agent)
    text = settings.read_text()
    settings.write_text(
        f"{text}\n[later]\nx = 1\n" if agent == "codex" else text.replace("{", '{"later": 1,', 1)
    )

    home.uninstall(agent)

    assert entry is not None
    assert (entry["command"], entry["args"]) == (str(MOVED.program), list(MOVED.arguments))
    assert home.entry(agent) is None
    assert "later" in settings.read_text()
    assert "treering" not in settings.read_text()


@pytest.mark.parametrize("agent", JSON_AGENTS)
def test_what_its_user_added_to_the_server_stays(home: Home, agent: str) -> None:
    home.install(agent)
    settings = home.settings(agent)
    text = settings.read_text().replace('"command"', '"timeout": 9, "command"')
    settings.write_text(text)

    assert home.install(agent) == []
    home.install(agent, MOVED)

    entry = home.entry(agent)
    assert entry is not None
    assert (entry["timeout"], entry["command"]) == (9, "/new/treering")


@pytest.mark.parametrize(
    ("agent", "text", "reason"),
    [
        ("claude-code", '{"mcpServers": {"treering": {"command": "other"}}}', "another program"),
        ("claude-code", '{"mcpServers": []}', "not an object"),
        ("gemini", '{"mcpServers": {}, // mine\n}', "comments"),
        ("openclaw", '{"mcp": 3}', "not an object"),
        ("codex", '[mcp_servers.treering]\ncommand = "other"\n', "another program"),
        ("codex", "[mcp_servers\n", "not TOML"),
        ("codex", 'mcp_servers = "x"\n', "not a table"),
        ("codex", 'mcp_servers = { git = { command = "git" } }\n', "written in another way"),
        (
            "codex",
            '[mcp_servers.treering]\ncommand = "/a/treering"\nargs = ["mcp"]\nenv = {A = "1"}\n',
            "other settings",
        ),
    ],
)
def test_settings_that_cannot_be_changed_safely_are_left_alone(
    home: Home, agent: str, text: str, reason: str
) -> None:
    home.settings(agent).write_text(text)

    with pytest.raises(InvalidInput, match=reason):
        home.install(agent)

    assert home.files() == {SETTINGS[agent]: text.encode()}


def test_a_text_that_looks_like_our_table_is_not_cut_up(home: Home) -> None:
    home.settings("codex").write_text('prompt = """\n[mcp_servers.treering]\nhere\n"""\n')
    home.install("codex")
    before = home.files()

    with pytest.raises(InvalidInput, match="another way"):
        home.uninstall("codex")

    assert home.files() == before


def test_a_server_of_somebody_else_is_not_removed(home: Home) -> None:
    text = '{"mcpServers": {"treering": {"command": "other", "args": ["mcp"]}}}'
    home.settings("claude-code").write_text(text)

    home.uninstall("claude-code")

    assert home.settings("claude-code").read_text() == text


@pytest.mark.parametrize(
    ("agent", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("openclaw", "OPENCLAW_STATE_DIR", "openclaw.json"),
    ],
)
def test_the_folder_of_an_agent_may_be_elsewhere(
    home: Home, tmp_path: Path, agent: str, variable: str, file: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".gemini").mkdir(parents=True)
    home.environment = {variable: str(elsewhere)}

    home.install(agent)

    assert "treering" in (elsewhere / file).read_text()
    assert served_agent(agent, home.path, home.environment).settings == elsewhere / file


def test_an_agent_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Codex has no folder"):
        plan_server("codex", COMMAND, home=tmp_path, environment={})
    with pytest.raises(InvalidInput, match="unknown agent"):
        plan_server("emacs", COMMAND, home=tmp_path, environment={})


def test_a_plan_is_shown_as_a_diff_with_what_to_do_next(home: Home) -> None:
    home.settings("codex").write_text('model = "x"\n')

    plan = plan_server("codex", COMMAND, home=home.path, environment={})
    elsewhere = plan_server("openclaw", COMMAND, home=home.path, environment={})

    assert '+[mcp_servers.treering]\n+command = "/opt/tree ring/bin/treering"\n' in diff(plan)
    assert plan.next_steps == ["start a new session of Codex: servers are read when it starts"]
    assert "--scope" in elsewhere.remarks[0]
    assert home.settings("codex").read_text() == 'model = "x"\n'


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(names, values, max_size=3),
    st.none() | st.dictionaries(names, st.dictionaries(names, values, max_size=2), max_size=2),
    st.sampled_from([None, 2, "\t"]),
)
def test_whatever_the_settings_say_only_our_server_comes_and_goes(
    settings: dict[str, Any], servers: dict[str, Any] | None, indent: Any
) -> None:
    claude = served_agent("claude-code", Path("/h"), {})
    whole = settings if servers is None else {**settings, "mcpServers": servers}
    text = json.dumps(whole, indent=indent, ensure_ascii=False)

    put_in = claude.with_server(text, COMMAND)
    taken_out = claude.without_server(put_in)

    expected = {**whole, "mcpServers": {**(servers or {}), "treering": {"type": "stdio"}}}
    expected["mcpServers"]["treering"] |= COMMAND.fields
    assert json.loads(put_in) == expected
    assert claude.with_server(put_in, COMMAND) == put_in
    assert json.loads(taken_out) == (whole if servers else settings)
