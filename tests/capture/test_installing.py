"""Hooks are installed in the settings of other agents, and removed without a trace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from effort import PATIENCE_S
from treering.capture.hooks.installing import AGENTS, apply, diff, plan_install, plan_uninstall
from treering.capture.hooks.settings import HOOKED, insert, parse, remove, with_hooks, without_hooks
from treering.capture.hooks.spool import drain
from treering.capture.secrets import SecretGuard
from treering.errors import InvalidInput, NotFound, StorageError
from treering.tools import MEMORY_EPISODES_QUERY

PROGRAM: Final = Path("/opt/tree ring/bin/treering-hook")
FOLDERS: Final = {
    "claude-code": ".claude",
    "codex": ".codex",
    "gemini": ".gemini",
    "openclaw": ".openclaw",
}
SETTINGS: Final = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "openclaw": ".openclaw/openclaw.json",
}
LAYOUTS: Final = {
    "absent": None,
    "empty": "",
    "object": "{}",
    "spaced": "{ }\n",
    "two": '{\n  "model": "x",\n  "list": [1, 2],\n  "e": 1e5\n}\n',
    "four": '{\n    "a": {"b": []},\n    "hooks": {}\n}',
    "tabs": '{\n\t"a": "\\u00e9",\n\t"plugins": {\n\t\t"allow": ["x"]\n\t}\n}\n',
    "one-line": '{"a": 1, "hooks": {"Stop": [], "PreToolUse": [{"hooks": []}]}}',
    "windows": '{\r\n  "a": 1\r\n}\r\n',
    "bom": '\ufeff{\n  "a": 1\n}\n',
    "others": '{"hooks": {"Stop": [{"matcher": "*", "hooks": [{"type": "command", "command":'
    ' "other-hook claude-code"}]}], "AfterAgent": [ ]}, "plugins": {"entries": {"y": {}}}}\n',
}


class Home:
    """A home folder with agents in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment: dict[str, str] = {}
        for folder in FOLDERS.values():
            (path / folder).mkdir()

    def install(self, agent: str, program: Path = PROGRAM, **more: Any) -> list[str | None]:
        plan = plan_install(
            agent,
            program=program,
            spool=self.path / "spool",
            home=self.path,
            environment=self.environment,
            **more,
        )
        return [done.backup for done in apply(plan, stamp="20260305T100000Z")]

    def uninstall(self, agent: str) -> list[str | None]:
        plan = plan_uninstall(agent, home=self.path, environment=self.environment)
        return [done.backup for done in apply(plan, stamp="20260306T100000Z")]

    def settings(self, agent: str) -> Path:
        return self.path / SETTINGS[agent]

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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("agent", AGENTS)
def test_uninstalling_gives_back_the_same_bytes(home: Home, agent: str, layout: str) -> None:
    text = LAYOUTS[layout]
    if text is not None:
        home.settings(agent).write_bytes(text.encode())
    before = home.files()

    home.install(agent)
    between = home.files()
    home.install(agent)
    again = home.files()
    home.uninstall(agent)

    assert between != before
    assert again == between
    assert home.files() == before


@pytest.mark.parametrize("layout", [name for name, text in LAYOUTS.items() if text])
@pytest.mark.parametrize("agent", AGENTS)
def test_everything_else_in_the_settings_stays(home: Home, agent: str, layout: str) -> None:
    text = LAYOUTS[layout] or ""
    home.settings(agent).write_bytes(text.encode())

    home.install(agent)

    after = home.settings(agent).read_bytes().decode()
    kept = json.loads(text.removeprefix("\ufeff"))
    assert contains(json.loads(after.removeprefix("\ufeff")), kept)
    assert after.startswith("\ufeff") == text.startswith("\ufeff")
    assert ("\r\n" in after) == ("\r\n" in text)
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in text
    assert list(json.loads(after.removeprefix("\ufeff")))[: len(kept)] == list(kept)


def contains(whole: Any, part: Any) -> bool:
    """Return whether ``whole`` contains all of ``part``, at the same paths."""
    if isinstance(part, dict):
        return all(name in whole and contains(whole[name], one) for name, one in part.items())
    if isinstance(part, list):
        return bool(whole[: len(part)] == part)
    return bool(whole == part)


def test_the_hooks_are_those_that_each_agent_takes(home: Home) -> None:
    for agent in HOOKED:
        home.install(agent)

    claude, codex, gemini = (
        json.loads(home.settings(agent).read_text())["hooks"] for agent in HOOKED
    )

    command = "'/opt/tree ring/bin/treering-hook'"
    assert claude["Stop"] == [
        {"hooks": [{"type": "command", "command": f"{command} claude-code", "timeout": 5}]}
    ]
    assert codex["Stop"][0]["hooks"][0] == {
        "type": "command",
        "command": f"{command} codex",
        "timeout": 3,
    }
    assert gemini["AfterAgent"][0]["hooks"][0] == {
        "name": "treering",
        "type": "command",
        "command": f"{command} gemini",
        "timeout": 5000,
    }
    # Claude Code skips a whole settings file for one name that it does not know.
    assert set(claude) == {"SessionStart", "Stop", "SubagentStop", "PreCompact", "SessionEnd"}


def test_decisions_are_put_in_when_asked_for_and_taken_out_again(home: Home) -> None:
    before = home.files()

    home.install("claude-code", decisions=True)
    hooks = json.loads(home.settings("claude-code").read_text())["hooks"]
    home.uninstall("claude-code")

    assert {"PermissionRequest", "PermissionDenied"} < set(hooks)
    assert home.files() == before


@pytest.mark.parametrize(
    ("agent", "text", "named"),
    [
        ("claude-code", '{"disableAllHooks": true}', "disableAllHooks"),
        ("claude-code", '{"disableAllHooks": false}', None),
        ("gemini", '{"hooksConfig": {"enabled": false}}', "hooksConfig.enabled"),
        ("gemini", '{"hooksConfig": 7}', None),
        ("openclaw", '{"plugins": {"enabled": false}}', "plugins.enabled"),
    ],
)
def test_a_setting_that_switches_all_hooks_off_is_told_of(
    home: Home, agent: str, text: str, named: str | None
) -> None:
    home.settings(agent).write_text(text)

    plan = plan_install(agent, program=PROGRAM, spool=home.path, home=home.path, environment={})

    assert [remark.split()[0] for remark in plan.remarks] == ([named] if named else [])


@pytest.mark.parametrize("agent", ["gemini", "openclaw"])
def test_an_agent_that_tells_of_no_decisions_is_said_so(home: Home, agent: str) -> None:
    plan = plan_install(
        agent, program=PROGRAM, spool=home.path, home=home.path, environment={}, decisions=True
    )

    assert "no hook for permissions" in plan.remarks[0]


def test_another_place_of_the_program_replaces_the_old_one(home: Home) -> None:
    home.install("codex", Path("/old/treering-hook"))

    home.install("codex", Path("/new/treering-hook"))

    text = home.settings("codex").read_text()
    assert "/old/" not in text
    assert text.count("/new/treering-hook codex") == 5


def test_only_our_own_entries_are_taken_out(home: Home) -> None:
    theirs = [
        "treering-hook claude-code --more",
        "nice treering-hook claude-code",
        "/bin/treering-hook codex",
        "treering-hook 'claude-code",
        "other claude-code",
    ]
    hooks = [{"type": "command", "command": one} for one in theirs]
    home.settings("claude-code").write_text(json.dumps({"hooks": {"Stop": [{"hooks": hooks}]}}))
    before = home.settings("claude-code").read_bytes()

    home.uninstall("claude-code")

    assert home.settings("claude-code").read_bytes() == before


def test_what_came_in_meanwhile_stays_when_ours_goes(home: Home) -> None:
    home.settings("claude-code").write_text('{\n  "a": 1\n}\n')
    home.install("claude-code")
    changed = home.settings("claude-code").read_text().replace('"a": 1', '"a": 2,\n  "b": 3')
    ours = '"timeout": 5\n          }'
    changed = changed.replace(ours, ours + ',\n          {"type": "command", "command": "me"}', 1)
    home.settings("claude-code").write_text(changed)

    home.uninstall("claude-code")

    settings = json.loads(home.settings("claude-code").read_text())
    assert settings == {
        "a": 2,
        "b": 3,
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "me"}]}]},
    }


def test_a_backup_is_kept_of_what_is_changed_and_of_nothing_else(home: Home) -> None:
    home.settings("codex").write_text('{"hooks": {}}\n')
    home.settings("codex").chmod(0o640)

    first = home.install("codex")
    second = home.install("codex")
    fresh = home.install("gemini")

    (backup,) = first
    assert backup == f"{home.settings('codex')}.treering-backup-20260305T100000Z"
    assert Path(backup).read_text(encoding="utf-8") == '{"hooks": {}}\n'
    assert second == []
    assert fresh == [None]
    modes = [path.stat().st_mode & 0o777 for path in (Path(backup), home.settings("codex"))]
    assert modes == [0o640, 0o640]


def test_a_link_is_followed_and_stays_one(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text('{"a": 1}')
    home.settings("gemini").symlink_to(target)

    home.install("gemini")

    assert home.settings("gemini").is_symlink()
    assert "treering-hook" in target.read_text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{\n  // mine\n  "a": 1\n}', "comments (line 2)"),
        ('{"a": 1} /* mine */', "comments (line 1)"),
        ('{\n  "a": 1,\n}', "an extra comma (line 3)"),
        ('{"a": 1', "not JSON (line 1)"),
        ("{a: 1}", "not JSON (line 1)"),
        ('{"a": NaN}', "not JSON (line 1)"),
        ("[]", "not an object"),
        ('{"a": 1, "a": 2}', "occurs twice"),
        ("[" * 100_000, "nested deeper"),
        ("nul", "not JSON"),
    ],
)
@pytest.mark.parametrize("agent", AGENTS)
def test_settings_that_are_not_plain_json_are_left_alone(
    home: Home, agent: str, text: str, reason: str
) -> None:
    home.settings(agent).write_text(text)
    before = home.files()

    with pytest.raises(InvalidInput) as refused:
        home.install(agent)

    assert reason in str(refused.value)
    assert str(home.settings(agent)) in str(refused.value)
    assert refused.value.hint
    assert home.files() == before


@pytest.mark.parametrize(
    "text", ['{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"hooks": {"SessionEnd": "x"}}']
)
def test_hooks_of_another_shape_are_left_alone(home: Home, text: str) -> None:
    home.settings("codex").write_text(text)

    with pytest.raises(InvalidInput, match="are no"):
        home.install("codex")

    assert home.settings("codex").read_text() == text


def test_bytes_that_are_no_text_are_left_alone(home: Home) -> None:
    home.settings("codex").write_bytes(b'{"a": "\xff"}')

    with pytest.raises(InvalidInput, match="not UTF-8"):
        home.install("codex")


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_that_is_not_there_is_not_made_up(home: Home, agent: str) -> None:
    (home.path / FOLDERS[agent]).rmdir()

    with pytest.raises(NotFound):
        home.install(agent)

    assert home.uninstall(agent) == []
    assert not (home.path / FOLDERS[agent]).exists()


def test_an_agent_that_nobody_knows_is_refused(home: Home) -> None:
    with pytest.raises(InvalidInput, match="unknown agent"):
        home.install("nobody")


@pytest.mark.parametrize(
    ("agent", "variable", "below"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("openclaw", "OPENCLAW_STATE_DIR", "openclaw.json"),
        ("openclaw", "OPENCLAW_HOME", ".openclaw/openclaw.json"),
    ],
)
def test_the_folder_of_an_agent_can_be_named(
    home: Home, tmp_path: Path, agent: str, variable: str, below: str
) -> None:
    home.environment = {variable: str(tmp_path / "elsewhere")}
    (tmp_path / "elsewhere" / below).parent.mkdir(parents=True)

    home.install(agent)

    assert "treering" in (tmp_path / "elsewhere" / below).read_text()
    assert not home.settings(agent).exists()


def test_what_has_changed_since_it_was_planned_is_not_overwritten(home: Home) -> None:
    plan = plan_install("codex", program=PROGRAM, spool=home.path, home=home.path, environment={})
    home.settings("codex").write_text('{"mine": 1}')

    with pytest.raises(StorageError, match="changed meanwhile"):
        apply(plan, stamp="x")

    assert home.settings("codex").read_text() == '{"mine": 1}'


def test_a_plan_shows_what_it_would_do(home: Home) -> None:
    home.settings("codex").write_text('{\n  "hooks": {}\n}\n')
    plan = plan_install("codex", program=PROGRAM, spool=home.path, home=home.path, environment={})

    shown = diff(plan)

    assert '-  "hooks": {}\n' in shown
    assert '+    "Stop": [\n' in shown
    assert home.settings("codex").read_text() == '{\n  "hooks": {}\n}\n'


def test_a_plugin_of_somebody_else_is_left_alone(home: Home) -> None:
    place = home.path / ".openclaw/extensions/treering"
    place.mkdir(parents=True)
    (place / "index.js").write_text("// mine\n")

    with pytest.raises(InvalidInput, match="is not ours"):
        home.install("openclaw")
    home.uninstall("openclaw")

    assert (place / "index.js").read_text() == "// mine\n"


def test_openclaw_is_told_to_load_the_plugin(home: Home) -> None:
    home.settings("openclaw").write_text('{"plugins": {"allow": ["voice"]}}')

    home.install("openclaw")

    assert json.loads(home.settings("openclaw").read_text()) == {
        "plugins": {"allow": ["voice", "treering"], "entries": {"treering": {"enabled": True}}}
    }


@pytest.mark.parametrize(
    "text",
    ['{"plugins": {"deny": ["treering"]}}', '{"plugins": {"entries": {"treering": {"x": 1}}}}'],
)
def test_openclaw_settings_that_say_otherwise_are_left_alone(home: Home, text: str) -> None:
    home.settings("openclaw").write_text(text)

    with pytest.raises(InvalidInput):
        home.install("openclaw")

    assert home.files() == {".openclaw/openclaw.json": text.encode()}


@pytest.mark.skipif(shutil.which("node") is None, reason="OpenClaw's plugins are run by node")
def test_the_plugin_tells_the_spool_which_session_moved_on(home: Home, tmp_path: Path) -> None:
    home.install("openclaw")
    log = home.path / ".openclaw/agents/main/sessions/s1.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("{}\n")
    script = tmp_path / "run.mjs"
    script.write_text(
        f"""
        import plugin from "{home.path}/.openclaw/extensions/treering/index.js";
        const hooks = {{}};
        plugin.register({{ on: (name, act) => {{
          if (name === "subagent_ended") throw new Error("unknown hook");
          hooks[name] = act;
        }} }});
        const context = {{ agentId: "main", sessionId: "s1", sessionKey: "main:x" }};
        for (let n = 0; n < 5; n += 1) hooks.model_call_ended({{ runId: "r" }}, context);
        hooks.session_end({{ sessionId: "../../s1" }}, {{ agentId: ".." }});
        hooks.before_reset({{ sessionFile: "{log}" }}, undefined);
        hooks.gateway_stop(undefined, undefined);
        """
    )

    done = subprocess.run(
        ["node", str(script)],
        env={"PATH": os.environ["PATH"], "HOME": str(home.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    found: list[Path] = []
    receipt = drain(home.path / "spool", take=found.extend, note=print, guard=SecretGuard(key=b"k"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (receipt.lines, receipt.unread) == (4, 0)
    assert found == [log]


@pytest.mark.skipif(shutil.which("node") is None, reason="OpenClaw's plugins are run by node")
def test_the_plugin_gives_agents_a_tool_that_asks_about_earlier_sessions(
    home: Home, tmp_path: Path
) -> None:
    project = tmp_path / "harbour"
    project.mkdir()
    with treering.open(tmp_path / "ledger.db") as ledger:
        session = ledger.session("monday", scope="harbour", agent="main")
        with session.turn() as turn:
            turn.user("ship the release")
    home.install("openclaw", Path(sys.executable).with_name("treering-hook"))
    plugin = home.path / ".openclaw/extensions/treering"
    script = tmp_path / "run.mjs"
    script.write_text(
        f"""
        import plugin from "{plugin}/index.js";
        const made = [];
        const registerTool = (make, options) => made.push([make, options]);
        plugin.register({{ on() {{}}, registerTool }});
        const [[make, options]] = made;
        const tool = make({{ workspaceDir: "{project}" }});
        const answers = [options.name, tool.name, Object.keys(tool.parameters.properties)];
        answers.push([make({{}}), make({{ workspaceDir: "{project}", sandboxed: true }})]);
        for (const given of [{{ types: ["conversation.user"] }}, {{ scope: "other" }}, undefined])
          answers.push(await tool.execute("id", given));
        const lost = make({{ workspaceDir: "{tmp_path}/nowhere" }});
        answers.push(await lost.execute("id", {{}}));
        console.log(JSON.stringify(answers));
        """
    )

    done = subprocess.run(
        ["node", str(script)],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home.path),
            "TREERING_DB": str(tmp_path / "ledger.db"),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    registered, name, properties, absent, *answers = json.loads(done.stdout)
    found, refused, all_events, lost = (json.loads(one["content"][0]["text"]) for one in answers)
    assert registered == name == "memory_episodes_query"
    assert properties == list(MEMORY_EPISODES_QUERY["parameters"]["properties"])
    assert absent == [None, None]
    assert [item["summary"] for item in found["items"]] == ["ship the release"]
    assert refused["error"]["code"] == "invalid_scope"
    assert all_events["count"] > 1
    assert lost["error"]["code"] == "unavailable"
    manifest = json.loads((plugin / "openclaw.plugin.json").read_text())
    assert manifest["contracts"] == {"tools": ["memory_episodes_query"]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
hooks_values = st.dictionaries(
    st.sampled_from(["Stop", "SessionEnd", "PreToolUse"]),
    st.lists(
        st.fixed_dictionaries(
            {"hooks": st.lists(st.fixed_dictionaries({"command": st.text(max_size=5)}), max_size=2)}
        ),
        max_size=2,
    ),
    max_size=3,
)


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name != "hooks"), json_values, max_size=4
    ),
    st.none() | hooks_values,
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.sampled_from(["", "\n", " \n\n"]),
)
def test_whatever_the_settings_say_only_our_hooks_come_and_go(
    settings: dict[str, Any], hooks: dict[str, Any] | None, indent: Any, end: str
) -> None:
    whole = settings if hooks is None else {**settings, "hooks": hooks}
    text = json.dumps(whole, indent=indent, ensure_ascii=False) + end
    claude = HOOKED["claude-code"]

    put_in = with_hooks(text, claude, PROGRAM, decisions=True)
    taken_out = without_hooks(put_in, claude)

    assert contains(json.loads(put_in), whole)
    assert with_hooks(put_in, claude, PROGRAM, decisions=True) == put_in
    assert put_in.count("treering-hook") == 7
    assert pruned(json.loads(taken_out)) == pruned(whole)
    if whole and (hooks is None or (hooks and all(hooks.values()))):
        assert taken_out == text


def pruned(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without hooks that hold nothing."""
    hooks = {name: groups for name, groups in settings.get("hooks", {}).items() if groups}
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {**rest, "hooks": hooks} if hooks else rest


@given(json_values, st.sampled_from([None, 2, "\t"]))
def test_a_text_is_read_as_json_reads_it(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)

    node = parse(text)

    assert node.plain() == value
    if isinstance(value, dict | list):
        name = "a new name" if isinstance(value, dict) else None
        grown = insert(text, node, {"x": [1]}, name=name)
        again = parse(grown)
        more: Any = {name: {"x": [1]}} if name else [{"x": [1]}]
        assert json.loads(grown) == (value | more if isinstance(value, dict) else value + more)
        assert json.loads(remove(grown, again, again.children[-1])) == value


@given(st.text(alphabet='{}[]",:1 \n\\/ab', max_size=12))
def test_a_text_that_json_refuses_is_refused(text: str) -> None:
    try:
        expected = json.loads(text, object_pairs_hook=distinct)
    except ValueError:
        with pytest.raises(InvalidInput):
            parse(text)
    else:
        assert parse(text).plain() == expected


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises ValueError if a name occurs twice in it."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)
