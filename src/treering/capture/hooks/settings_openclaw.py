"""The plugin for OpenClaw, which reports changed sessions and answers about earlier ones.

OpenClaw runs plugins inside itself. Ours only uses hooks without conversation content: it needs no
permission to read any, and only writes which session has changed. Its tool asks ``treering mcp``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from treering.capture.hooks.settings import JsonNode, insert, parse, remove
from treering.errors import InvalidInput
from treering.hook import SCHEMA, SUFFIX
from treering.version import __version__

AGENT: Final = "openclaw"
NAME: Final = "OpenClaw"
PLUGIN: Final = "treering"
MARK: Final = "// Written by `treering install openclaw`; `treering uninstall openclaw` removes it."
TOOL: Final = "memory_episodes_query"
"""The tool that the plugin gives agents."""
_DESCRIPTION: Final = "Reports changed sessions to Treering, and answers about earlier ones"
_DESCRIPTIONS: Final = (_DESCRIPTION, "Tells Treering which sessions have moved on")
"""What the plugin is, and was, described as: by that its files are known."""
EVENTS: Final = (
    *("model_call_ended", "message_sent", "after_compaction", "before_reset"),
    *("session_start", "session_end", "subagent_ended", "gateway_stop"),
)

_SOURCE: Final = "openclaw_plugin.js"
"""The plugin's source with placeholders, beside this file."""


def plugin_files(spool: Path, program: Path) -> dict[str, str]:
    """Return the plugin's files by name; its tool runs ``program``."""
    manifest = {
        "id": PLUGIN,
        "name": "Treering",
        "description": _DESCRIPTION,
        "version": __version__,
        "configSchema": {"type": "object", "additionalProperties": False, "properties": {}},
        "activation": {"onStartup": True, "onCapabilities": ["hook", "tool"]},
        "contracts": {"tools": [TOOL]},
    }
    package = {
        "name": PLUGIN,
        "version": __version__,
        "description": _DESCRIPTION,
        "private": True,
        "type": "module",
        "openclaw": {"extensions": ["./index.js"]},
    }
    source = f"{MARK}\n{Path(__file__).with_name(_SOURCE).read_text()}"
    for mark, value in (
        ("@SPOOL@", json.dumps(str(spool))),
        ("@PROGRAM@", json.dumps(str(program))),
        ("@VERSION@", __version__),
        ("@EVENTS@", json.dumps(EVENTS)),
        ("@SUFFIX@", SUFFIX),
        ("@SCHEMA@", SCHEMA),
        ("@DESCRIPTION@", _DESCRIPTION),
    ):
        source = source.replace(mark, value)
    return {
        "openclaw.plugin.json": json.dumps(manifest, indent=2) + "\n",
        "package.json": json.dumps(package, indent=2) + "\n",
        "index.js": source,
    }


def is_own_file(name: str, text: str) -> bool:
    """Return whether Treering wrote a file of the plugin's folder."""
    if name == "index.js":
        return text.startswith(MARK)
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("description") in _DESCRIPTIONS


def with_plugin(text: str) -> str:
    """Return OpenClaw's settings with the plugin enabled. Raises InvalidInput if that fails."""
    plugins = _plugins(text)
    if PLUGIN in _names(plugins, "deny"):
        raise InvalidInput(
            "its plugins.deny names treering", hint="remove it from the list, then try again"
        )
    if plugins is None:
        return insert(text, parse(text), {"entries": {PLUGIN: {"enabled": True}}}, name="plugins")
    entries = _member(plugins, "entries")
    entry = _member(entries, PLUGIN)
    if entries is None:
        text = insert(text, plugins, {PLUGIN: {"enabled": True}}, name="entries")
    elif entry is None:
        text = insert(text, entries, {"enabled": True}, name=PLUGIN)
    elif entry.plain() != {"enabled": True}:
        raise InvalidInput(
            "its plugins.entries.treering has other settings",
            hint='set it to {"enabled": true}, or remove it, then try again',
        )
    allowed = _member(_plugins(text), "allow")
    if allowed is not None and allowed.items is not None and PLUGIN not in allowed.plain():
        text = insert(text, allowed, PLUGIN)
    return text


def without_plugin(text: str) -> str:
    """Return OpenClaw's settings without the plugin and without containers that become empty."""
    allowed = _member(_plugins(text), "allow")
    if allowed is not None:
        ours = next((item for item in allowed.items or [] if item.value == PLUGIN), None)
        text = remove(text, allowed, ours) if ours else text
    root, plugins = parse(text), _plugins(text)
    entries = _member(plugins, "entries")
    entry = _member(entries, PLUGIN)
    if plugins is None or entries is None or entry is None:
        return text
    if len(entries.children) > 1:
        return remove(text, entries, entry)
    if len(plugins.children) > 1:
        return remove(text, plugins, entries)
    return remove(text, root, plugins)


def remarks(text: str) -> list[str]:
    """Return why OpenClaw does not load the plugin, apart from its own entry."""
    enabled = _member(_plugins(text), "enabled")
    if enabled is not None and enabled.value is False:
        return ["plugins.enabled is false: OpenClaw loads no plugin until that is changed"]
    return []


def _plugins(text: str) -> JsonNode | None:
    root = parse(text)
    if root.members is None:
        raise InvalidInput("it is not an object", hint="repair it, then try again")
    return _member(root, "plugins")


def _member(node: JsonNode | None, name: str) -> JsonNode | None:
    if node is None:
        return None
    if node.members is None:
        raise InvalidInput(
            f"the parent of {name} is not an object", hint="repair it, then try again"
        )
    return node.members.get(name)


def _names(plugins: JsonNode | None, name: str) -> list[Any]:
    node = _member(plugins, name)
    return [item.value for item in (node.items or [])] if node else []
