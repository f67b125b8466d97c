from __future__ import annotations

import json
from types import ModuleType
from typing import TYPE_CHECKING, Any

from children import run_python
from treering.sinks.hooks import SPECIFICATION, Hooks, hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GOOD = """
from treering.sinks.hooks import hookimpl

@hookimpl
def treering_register_hooks(hooks):
    @hooks.on("agent_end", priority=5)
    def told(event, context):
        print("told of", event["success"])

    hooks.on_internal("command:new")(lambda event: event["messages"].append("from the plugin"))
"""
HALF = """
from treering.sinks.hooks import hookimpl

@hookimpl
def treering_register_hooks(hooks):
    hooks.on("agent_end")(lambda event: print("never"))
    hooks.on("no_such_hook")
"""
UNMARKED = """
def treering_register_hooks(hooks):
    hooks.on("agent_end")(lambda event: print("never"))
"""
PROGRAM = """
import json, logging, sys
from treering.sinks.hooks import Hooks

logging.basicConfig(stream=sys.stderr)
hooks = Hooks()
loaded = hooks.load_plugins()
again = hooks.load_plugins()
hooks.fire("agent_end", {"success": True}, {})
messages = hooks.trigger("command", "new")
failed = {one.function: one.last_error for one in hooks.metrics() if one.errors}
print(json.dumps({"loaded": loaded, "again": again, "messages": messages, "failed": failed}))
"""


def install(place: Path, package: str, modules: dict[str, str]) -> None:
    """Put a package with these modules into ``place``, as an installer would."""
    records = place / f"{package}-1.0.dist-info"
    records.mkdir(parents=True)
    records.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    )
    lines = [f"{name.replace('_', '-')} = {name}" for name in modules]
    records.joinpath("entry_points.txt").write_text("[treering]\n" + "\n".join(lines) + "\n")
    for name, text in modules.items():
        place.joinpath(f"{name}.py").write_text(text)


def load(place: Path) -> tuple[list[str], dict[str, Any], str]:
    """Run PROGRAM with ``place`` on its path; return what it printed, its account and its log."""
    done = run_python(f"import sys; sys.path.insert(0, {str(place)!r})\n{PROGRAM}")
    *printed, account = done.stdout.splitlines()
    return printed, json.loads(account), done.stderr


def test_installed_plugins_register_their_hooks_once(tmp_path: Path) -> None:
    """The requirement: "registration by decorator and by entry point (pluggy)"."""
    install(tmp_path, "watcher", {"watcher_hooks": GOOD})

    printed, account, _ = load(tmp_path)

    assert printed == ["told of True"]
    assert account == {
        "loaded": ["watcher:watcher-hooks"],
        "again": [],
        "messages": ["from the plugin"],
        "failed": {},
    }


def test_a_plugin_that_fails_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    broken = {
        "broken_import": "import no_such_module_anywhere",
        "broken_exit": "raise SystemExit(9)",
        "broken_half": HALF,
        "broken_unmarked": UNMARKED,
    }
    install(tmp_path, "a-broken", broken)
    install(tmp_path, "watcher", {"watcher_hooks": GOOD})

    printed, account, log = load(tmp_path)

    assert printed == ["told of True"]
    assert account["loaded"] == ["watcher:watcher-hooks"]
    assert account["failed"] == {
        "a-broken:broken-import": "ModuleNotFoundError",
        "a-broken:broken-exit": "SystemExit",
        "a-broken:broken-half": "InvalidInput",
        "a-broken:broken-unmarked": "InvalidInput",
    }
    assert log.count("WARNING") == 8  # Both times that plugins were loaded.


def test_an_object_can_be_a_plugin() -> None:
    hooks, seen = Hooks(), list[Any]()

    class Watcher:
        @hookimpl
        def treering_register_hooks(self, hooks: Hooks) -> None:
            hooks.on("llm_output")(seen.append)

    assert hooks.add_plugin(Watcher(), "first")
    assert hooks.add_plugin(Watcher(), "second")
    hooks.fire("llm_output", {"chars": 3}, {})

    assert seen == [{"chars": 3}] * 2  # Each was asked once.


def test_a_plugin_that_fails_half_way_leaves_nothing_registered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks = Hooks()
    hooks.on("agent_end")(print)

    class Broken:
        @hookimpl
        def treering_register_hooks(self, hooks: Hooks) -> None:
            hooks.on("llm_output")(print)
            hooks.on_internal("command")(print)
            raise LookupError("not there")

    assert not hooks.add_plugin(Broken(), "broken")

    assert (hooks.has("agent_end"), hooks.has("llm_output")) == (True, False)
    assert not hooks.has_internal("command", "new")
    assert [(one.hook, one.function, one.errors) for one in hooks.metrics()] == [
        (SPECIFICATION, "broken", 1)
    ]
    assert "broken" in caplog.text


def test_a_plugin_of_a_name_that_is_taken_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Hooks()
    first, second = ModuleType("first"), ModuleType("second")
    for module in (first, second):

        @hookimpl
        def treering_register_hooks(hooks: Hooks) -> None:
            hooks.on("agent_end")(print)

        vars(module)["treering_register_hooks"] = treering_register_hooks

    assert hooks.add_plugin(first, "watcher")
    assert not hooks.add_plugin(second, "watcher")

    assert hooks.remove(print) == 1
    assert "watcher" in caplog.text
