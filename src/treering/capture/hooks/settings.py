"""Hooks in the settings of Claude Code, Codex and Gemini CLI: add, find and remove them.

All three have the same structure: a list of groups for each event, each with a list of hooks. An
entry is ours if its command is ``…/treering-hook AGENT`` and nothing else.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.hooks.settings_text import JsonNode, insert, parse, remove
from treering.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAM: Final = "treering-hook"
_GROUP_FIELDS: Final = frozenset({"hooks", "matcher", "sequential"})
"""The fields of a group that nobody has extended."""


class HookedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent with hooks in a settings file."""

    agent: str
    name: str
    variable: str
    """The environment variable for another folder."""
    folder: str
    """The default folder, below the user's home."""
    below_variable: str = ""
    """The subfolder of the folder in the variable."""
    file: str
    events: tuple[str, ...]
    """Events at the end of a turn or later; every version since 2025 knows them."""
    decisions: tuple[str, ...] = ()
    """Permission events, which older versions may not know."""
    extra: dict[str, Any]
    """Other fields of each hook."""
    off: tuple[str, ...] = ()
    """The path of the setting that disables all hooks."""
    off_value: bool = True
    next_steps: tuple[str, ...] = ()
    decisions_note: str = ""

    def settings(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the path of the agent's settings file, which may not exist."""
        named = environment.get(self.variable, "").strip()
        folder = Path(named).expanduser() / self.below_variable if named else home / self.folder
        return folder / self.file


HOOKED: Final = {
    agent.agent: agent
    for agent in (
        HookedAgent(
            agent="claude-code",
            name="Claude Code",
            variable="CLAUDE_CONFIG_DIR",
            folder=".claude",
            file="settings.json",
            # Claude Code ignores the whole file if it contains an unknown event. So only events
            # that have existed for long are added by default.
            events=("SessionStart", "Stop", "SubagentStop", "PreCompact", "SessionEnd"),
            decisions=("PermissionRequest", "PermissionDenied"),
            extra={"timeout": 5},
            off=("disableAllHooks",),
            next_steps=("start a new session of Claude Code: hooks are read when it starts",),
            decisions_note="a Claude Code older than 2.1.89 would skip the whole settings file"
            " because of PermissionDenied: start it once and look for a settings error",
        ),
        HookedAgent(
            agent="codex",
            name="Codex",
            variable="CODEX_HOME",
            folder=".codex",
            file="hooks.json",
            events=("SessionStart", "Stop", "SubagentStop", "PreCompact", "SessionEnd"),
            decisions=("PermissionRequest",),
            # Codex allows a SessionEnd hook three seconds, and warns above that.
            extra={"timeout": 3},
            next_steps=(
                "start Codex, type /hooks and press t to trust each hook: until then it is skipped",
            ),
        ),
        HookedAgent(
            agent="gemini",
            name="Gemini CLI",
            variable="GEMINI_CLI_HOME",
            folder=".gemini",
            below_variable=".gemini",
            file="settings.json",
            events=("SessionStart", "AfterAgent", "PreCompress", "SessionEnd"),
            extra={"name": "treering", "timeout": 5_000},
            off=("hooksConfig", "enabled"),
            off_value=False,
            next_steps=("start a new session of Gemini CLI: hooks are read when it starts",),
        ),
    )
}


def with_hooks(text: str, hooked: HookedAgent, program: Path, *, decisions: bool) -> str:
    """Return settings with our hooks added once; unchanged if they are present.

    Raises InvalidInput if that is not possible without losing something.
    """
    wanted = {
        event: _hook(hooked, program)
        for event in (*hooked.events, *(hooked.decisions if decisions else ()))
    }
    present = [(event, hook.plain()) for event, _, _, hook in _ours(_hooks(text), hooked)]
    if present and sorted(map(repr, present)) == sorted(map(repr, wanted.items())):
        return text
    text = without_hooks(text, hooked)
    for event, hook in wanted.items():
        group = {"hooks": [hook]}
        root = parse(text)
        hooks = (root.members or {}).get("hooks")
        if hooks is None:
            text = insert(text, root, {event: [group]}, name="hooks")
            continue
        groups = (hooks.members or {}).get(event)
        if groups is None:
            text = insert(text, hooks, [group], name=event)
        else:
            text = insert(text, groups, group)
    return text


def without_hooks(text: str, hooked: HookedAgent) -> str:
    """Return settings without our hooks, and without containers that become empty."""
    while True:
        root = parse(text)
        hooks = _hooks(text)
        entry = next(_ours(hooks, hooked), None)
        if entry is None or hooks is None:
            return text
        event, group, listed, hook = entry
        groups = (hooks.members or {})[event]
        if len(listed.children) > 1 or set(group.members or {}) - _GROUP_FIELDS:
            text = remove(text, listed, hook)
        elif len(groups.children) > 1:
            text = remove(text, groups, group)
        elif len(hooks.children) > 1:
            text = remove(text, hooks, groups)
        else:
            text = remove(text, root, (root.members or {})["hooks"])


def switched_off(text: str, hooked: HookedAgent) -> str | None:
    """Return the setting that disables all hooks, or None."""
    value = parse(text).plain() if hooked.off else None
    for name in hooked.off:
        value = value.get(name) if isinstance(value, dict) else None
    return ".".join(hooked.off) if value is hooked.off_value else None


def found_hooks(text: str, hooked: HookedAgent) -> tuple[Path, bool]:
    """Return the program of our hooks in the settings, and whether they cover permissions."""
    ours = [(event, hook.plain()) for event, _, _, hook in _ours(_hooks(text), hooked)]
    program = shlex.split(ours[0][1]["command"])[0] if ours else PROGRAM
    return Path(program), any(event in hooked.decisions for event, _ in ours)


def _hook(hooked: HookedAgent, program: Path) -> dict[str, Any]:
    command = f"{shlex.quote(str(program))} {hooked.agent}"
    named = {name: value for name, value in hooked.extra.items() if name == "name"}
    rest = {name: value for name, value in hooked.extra.items() if name != "name"}
    return {**named, "type": "command", "command": command, **rest}


def _hooks(text: str) -> JsonNode | None:
    """Return the hooks in the settings, or None. Raises InvalidInput for another structure."""
    root = parse(text)
    if root.members is None:
        raise InvalidInput("it is not an object", hint="repair it, then try again")
    hooks = root.members.get("hooks")
    if hooks is None:
        return None
    if hooks.members is None:
        raise InvalidInput("its hooks are not an object", hint="repair them, then try again")
    return hooks


def _ours(
    hooks: JsonNode | None, hooked: HookedAgent
) -> Iterator[tuple[str, JsonNode, JsonNode, JsonNode]]:
    """Yield our entries: the event, the group, its list of hooks and the hook."""
    expected = {*hooked.events, *hooked.decisions}
    for event, groups in ((hooks.members or {}) if hooks else {}).items():
        if groups.items is None:
            if event in expected:
                raise InvalidInput(
                    f"its hooks of {event} are not a list", hint="repair them, then try again"
                )
            continue
        for group in groups.items:
            listed = (group.members or {}).get("hooks")
            for hook in (listed.items or []) if listed else []:
                command = (hook.members or {}).get("command")
                if listed and command and _is_ours(command.value, hooked.agent):
                    yield event, group, listed, hook


def _is_ours(command: Any, agent: str) -> bool:
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return len(words) == 2 and Path(words[0]).name == PROGRAM and words[1] == agent
