"""Hooks in the settings of Claude Code, Codex and Gemini CLI, edited in place.

All three have the same structure: a list of groups for each event, each with a list of hooks. An
entry is ours if its command is ``…/treering-hook AGENT`` and nothing else.

Settings belong to their user, who may have formatted them by hand. So a member is inserted or
removed within the text, which is never serialized again.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from treering.errors import InvalidInput

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


NESTING_MAX: Final = 64
_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = " \t\r\n"
_SCALAR: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")


class JsonNode(msgspec.Struct):
    """One value of a JSON text, and its position."""

    start: int
    end: int
    value: Any = None
    """The value, if it is neither an object nor an array."""
    members: dict[str, JsonNode] | None = None
    items: list[JsonNode] | None = None
    entry_start: int = 0
    """The start of the member's name, or of the value itself."""

    @property
    def children(self) -> list[JsonNode]:
        """Return the values inside, in order."""
        return list((self.members or {}).values()) if self.items is None else self.items

    def plain(self) -> Any:
        """Return the value as a Python object."""
        if self.members is not None:
            return {name: node.plain() for name, node in self.members.items()}
        return self.value if self.items is None else [node.plain() for node in self.items]


def parse(text: str) -> JsonNode:
    """Return ``text`` as nodes. Raises InvalidInput if it is not strict JSON."""
    at = _skip(text, 0)
    node = _value(text, at, 0)
    if _skip(text, node.end) != len(text):
        _refuse(text, _skip(text, node.end))
    return node


def insert(text: str, into: JsonNode, value: Any, *, name: str | None = None) -> str:
    """Return ``text`` with ``value`` appended to an array, or to an object as ``name``."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    children = into.children
    # An empty container is formatted like the rest: on one line if everything is.
    of_one_line = "\n" not in text.strip() and into.start > 0
    is_spread = "\n" in text[into.start : children[0].entry_start] if children else not of_one_line
    if children:
        depth = _indent(text, children[-1].entry_start)
        lead = f",{newline}{depth}" if is_spread else ", "
        return _spliced(
            text,
            children[-1].end,
            children[-1].end,
            lead + _written(value, name, depth if is_spread else None, unit, newline),
        )
    outer = _indent(text, into.entry_start)
    depth = outer + unit
    opening, closing = text[into.start], text[into.end - 1]
    if not is_spread:
        whole = opening + _written(value, name, None, unit, newline) + closing
        return _spliced(text, into.start, into.end, whole)
    body = _written(value, name, depth, unit, newline)
    whole = f"{opening}{newline}{depth}{body}{newline}{outer}{closing}"
    return _spliced(text, into.start, into.end, whole)


def remove(text: str, parent: JsonNode, child: JsonNode) -> str:
    """Return ``text`` without one value of an object or array, and without its comma."""
    children = parent.children
    index = children.index(child)
    if len(children) == 1:
        return _spliced(text, parent.start + 1, parent.end - 1, "")
    if index:
        return _spliced(text, children[index - 1].end, child.end, "")
    return _spliced(text, child.entry_start, children[1].entry_start, "")


def _value(text: str, at: int, depth: int) -> JsonNode:
    if depth > NESTING_MAX:
        raise InvalidInput(f"it is nested deeper than {NESTING_MAX} levels", hint="edit it by hand")
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at, depth)
    if first == "[":
        return _array(text, at, depth)
    if first == '"':
        value, end = _string(text, at)
        return JsonNode(at, end, value, entry_start=at)
    match = _SCALAR.match(text, at)
    if not match:
        _refuse(text, at)
    return JsonNode(at, match.end(), json.loads(match[0]), entry_start=at)


def _object(text: str, start: int, depth: int) -> JsonNode:
    members: dict[str, JsonNode] = {}
    at = _skip(text, start + 1)
    if text[at : at + 1] == "}":
        return JsonNode(start, at + 1, members=members, entry_start=start)
    while True:
        if text[at : at + 1] != '"':
            _refuse(text, at)
        entry_start = at
        name, at = _string(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            _refuse(text, at)
        node = _value(text, _skip(text, at + 1), depth + 1)
        node.entry_start = entry_start
        if name in members:
            raise InvalidInput(
                f"{name!r} occurs twice in one object (line {_line(text, entry_start)})",
                hint="remove one of the two, then try again",
            )
        members[name] = node
        at = _skip(text, node.end)
        if text[at : at + 1] == "}":
            return JsonNode(start, at + 1, members=members, entry_start=start)
        if text[at : at + 1] != ",":
            _refuse(text, at)
        at = _skip(text, at + 1)


def _array(text: str, start: int, depth: int) -> JsonNode:
    items: list[JsonNode] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == "]":
        return JsonNode(start, at + 1, items=items, entry_start=start)
    while True:
        items.append(_value(text, at, depth + 1))
        at = _skip(text, items[-1].end)
        if text[at : at + 1] == "]":
            return JsonNode(start, at + 1, items=items, entry_start=start)
        if text[at : at + 1] != ",":
            _refuse(text, at)
        at = _skip(text, at + 1)


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except ValueError:
        _refuse(text, at)
    return str(value), end


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _refuse(text: str, at: int) -> NoReturn:
    line = _line(text, at)
    before = text[:at].rstrip()
    if text[at : at + 2] in {"//", "/*"} or text[at : at + 1] == "#":
        raise InvalidInput(
            f"it has comments (line {line}), which would be at risk",
            hint="remove the comments, or edit it by hand",
        )
    if before.endswith(",") and text[at : at + 1] in {"}", "]"}:
        raise InvalidInput(f"it has an extra comma (line {line})", hint="remove it, then try again")
    raise InvalidInput(f"it is not JSON (line {line})", hint="repair it, then try again")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _unit(text: str) -> str:
    """Return the indentation of one level, taken from the first indented line."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _indent(text: str, at: int) -> str:
    """Return the indentation of the line at ``at``."""
    begin = text.rfind("\n", 0, at) + 1
    match = re.compile(r"[ \t]*").match(text, begin)
    return match[0] if match else ""


def _written(value: Any, name: str | None, depth: str | None, unit: str, newline: str) -> str:
    """Return a value as JSON, indented, or on one line if ``depth`` is None."""
    label = "" if name is None else json.dumps(name, ensure_ascii=False) + ": "
    if depth is None:
        return label + json.dumps(value, ensure_ascii=False)
    laid_out = json.dumps(value, ensure_ascii=False, indent=unit)
    return label + laid_out.replace("\n", newline + depth)


def _spliced(text: str, start: int, end: int, middle: str) -> str:
    return text[:start] + middle + text[end:]
