"""The MCP server in the settings of other agents: planned, shown and applied as hooks are.

    Claude Code  .claude.json   mcpServers.treering
    Codex        config.toml    [mcp_servers.treering]
    Gemini CLI   settings.json  mcpServers.treering
    OpenClaw     openclaw.json  mcp.servers.treering

An entry is ours if it is named treering, and runs a program of that name with ``mcp``.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.hooks.installing import (
    MAIN_PROGRAM,
    Plan,
    check_folder,
    edit,
    openclaw_folder,
    restored,
)
from treering.capture.hooks.settings import HOOKED, JsonNode, insert, parse, remove
from treering.capture.hooks.settings_openclaw import AGENT as OPENCLAW
from treering.capture.hooks.settings_openclaw import NAME as OPENCLAW_NAME
from treering.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.capture.hooks.installing import Change

ENTRY: Final = "treering"
_COMMAND: Final = "mcp"
_FOREIGN: Final = "its MCP server named treering is another program"
_RESTART: Final = "start a new session of {name}: servers are read when it starts"
_TABLES: Final = "mcp_servers"
_HEADER: Final = re.compile(r"[ \t]*\[")
_OWN_HEADER: Final = re.compile(
    r"[ \t]*\[[ \t]*mcp_servers[ \t]*\.[ \t]*([\"']?)treering\1[ \t]*[\].]"
)


class ServerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent starts the server."""

    program: Path
    arguments: tuple[str, ...] = (_COMMAND,)

    @property
    def fields(self) -> dict[str, Any]:
        """Return the command in the words of all agents."""
        return {"command": str(self.program), "args": list(self.arguments)}


class ServedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that starts MCP servers, and where its settings name them."""

    name: str
    settings: Path
    folder: Path
    variable: str
    """The environment variable for another folder."""
    path: tuple[str, ...] = ()
    """Where the servers are in JSON; a file without is TOML."""
    extra: dict[str, Any] = {}
    """Other fields of the entry."""
    next_step: str = _RESTART

    @property
    def empty(self) -> str:
        """Return the content of missing settings."""
        return "{}\n" if self.path else ""

    def with_server(self, text: str, command: ServerCommand) -> str:
        """Return settings with the server added once. Raise InvalidInput if that is not safe."""
        if not self.path:
            return _with_table(text, command)
        return _with_member(text, self.path, {**self.extra, **command.fields})

    def without_server(self, text: str) -> str:
        """Return settings without our server, and without containers that become empty."""
        return _without_member(text, self.path) if self.path else _without_table(text)


def served_agent(agent: str, home: Path, environment: Mapping[str, str]) -> ServedAgent:
    """Return where an agent names its servers. Raise InvalidInput if it is unknown."""
    if agent == OPENCLAW:
        folder, settings = openclaw_folder(home, environment)
        return ServedAgent(
            name=OPENCLAW_NAME,
            settings=settings,
            folder=folder,
            variable="OPENCLAW_STATE_DIR",
            path=("mcp", "servers"),
            next_step="restart the gateway, as in: openclaw gateway restart",
        )
    if agent not in HOOKED:
        agents = ", ".join((*HOOKED, OPENCLAW))
        raise InvalidInput(f"unknown agent: {agent}", hint=f"name one of {agents}")
    hooked = HOOKED[agent]
    folder = hooked.settings(home, environment).parent
    if agent == "codex":
        return ServedAgent(
            name=hooked.name,
            settings=folder / "config.toml",
            folder=folder,
            variable=hooked.variable,
        )
    if agent == "claude-code":
        # Beside the folder of settings, unless the variable names another folder: then inside.
        is_named = bool(environment.get(hooked.variable, "").strip())
        return ServedAgent(
            name=hooked.name,
            settings=(folder if is_named else home) / ".claude.json",
            folder=folder,
            variable=hooked.variable,
            path=("mcpServers",),
            extra={"type": "stdio"},
        )
    return ServedAgent(
        name=hooked.name,
        settings=folder / hooked.file,
        folder=folder,
        variable=hooked.variable,
        path=("mcpServers",),
    )


def plan_server(
    agent: str, command: ServerCommand, *, home: Path, environment: Mapping[str, str]
) -> Plan:
    """Plan to add the server to the settings of ``agent``. Raise InvalidInput if it is not safe."""
    served = served_agent(agent, home, environment)
    check_folder(served.name, served.folder, served.variable)
    change = edit(
        served.settings, lambda text: served.with_server(text, command), empty=served.empty
    )
    remarks = []
    if agent == OPENCLAW and "--scope" not in command.arguments:
        remarks = ["OpenClaw starts it in the folder of its gateway: --scope names another project"]
    return _plan(agent, served, change, remarks)


def plan_server_removal(agent: str, *, home: Path, environment: Mapping[str, str]) -> Plan:
    """Plan to remove what ``plan_server`` added, and nothing else."""
    served = served_agent(agent, home, environment)
    change = edit(served.settings, served.without_server, empty=served.empty)
    if change is not None:
        command = _present(served, (change.before or b"").decode().removeprefix("\ufeff"))
        change = restored(
            change, lambda text: served.with_server(text, command), empty=served.empty
        )
    return _plan(agent, served, change, [])


def _plan(agent: str, served: ServedAgent, change: Change | None, remarks: list[str]) -> Plan:
    return Plan(
        agent=agent,
        name=served.name,
        settings=served.settings,
        changes=[change] if change else [],
        remarks=remarks,
        next_steps=[served.next_step.format(name=served.name)] if change else [],
    )


def _present(served: ServedAgent, text: str) -> ServerCommand:
    """Return how the settings start the server now."""
    if served.path:
        servers = _object_at(text, served.path)
        node = None if servers is None else (servers.members or {}).get(ENTRY)
        entry = {} if node is None else node.plain()
    else:
        entry = _tables(text).get(ENTRY, {})
    return ServerCommand(program=Path(entry["command"]), arguments=tuple(entry["args"]))


def _is_ours(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("command"), str):
        return False
    arguments = entry.get("args")
    is_server = isinstance(arguments, list) and _COMMAND in arguments
    return is_server and os.path.basename(entry["command"]) == MAIN_PROGRAM  # noqa: PTH119


# Settings in JSON.


def _with_member(text: str, path: tuple[str, ...], entry: dict[str, Any]) -> str:
    servers = _object_at(text, path)
    node = None if servers is None else (servers.members or {}).get(ENTRY)
    if node is not None:
        present = node.plain()
        if not _is_ours(present):
            raise InvalidInput(_FOREIGN, hint="rename that one, then try again")
        # What its user added, such as a time limit, stays.
        entry = {**present, **entry}
        if entry == present:
            return text
        text = _without_member(text, path)
    at = parse(text)
    for depth, name in enumerate(path):
        inner = (at.members or {}).get(name)
        if inner is None:
            value: dict[str, Any] = {ENTRY: entry}
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return insert(text, at, value, name=name)
        at = inner
    return insert(text, at, entry, name=ENTRY)


def _without_member(text: str, path: tuple[str, ...]) -> str:
    servers = _object_at(text, path)
    node = None if servers is None else (servers.members or {}).get(ENTRY)
    if node is None or not _is_ours(node.plain()):
        return text
    chain = [parse(text)]
    for name in (*path, ENTRY):
        chain.append((chain[-1].members or {})[name])
    # The outermost container that would be left with nothing goes as a whole.
    depth = len(chain) - 1
    while depth > 1 and len(chain[depth - 1].children) == 1:
        depth -= 1
    return remove(text, chain[depth - 1], chain[depth])


def _object_at(text: str, path: tuple[str, ...]) -> JsonNode | None:
    node = parse(text)
    for name in path:
        if node.members is None:
            raise InvalidInput(
                f"the parent of {name} is not an object", hint="repair it, then try again"
            )
        inner = node.members.get(name)
        if inner is None:
            return None
        node = inner
    if node.members is None:
        raise InvalidInput(f"its {path[-1]} are not an object", hint="repair them, then try again")
    return node


# Settings in TOML: a table is added at the end, and cut out as it is.


def _with_table(text: str, command: ServerCommand) -> str:
    present = _tables(text).get(ENTRY)
    if present is not None:
        if not _is_ours(present):
            raise InvalidInput(_FOREIGN, hint="rename that one, then try again")
        if {**present, **command.fields} == present:
            return text
        if set(present) - set(command.fields):
            raise InvalidInput(
                "its table mcp_servers.treering has other settings",
                hint="set command and args there by hand, or remove the table, then try again",
            )
        text = _without_table(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{_TABLES}.{ENTRY}]"]
    lines += [f"{name} = {_toml(value)}" for name, value in command.fields.items()]
    body = newline.join(lines) + newline
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    return _checked(text + gap + body, text, {**_tables(text), ENTRY: command.fields})


def _without_table(text: str) -> str:
    tables = _tables(text)
    if not _is_ours(tables.get(ENTRY)):
        return text
    lines: list[str] = []
    is_own = False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            if _OWN_HEADER.match(line) and not is_own and lines and not lines[-1].strip():
                lines.pop()
            is_own = bool(_OWN_HEADER.match(line))
        if not is_own:
            lines.append(line)
    rest = {name: table for name, table in tables.items() if name != ENTRY}
    return _checked("".join(lines), text, rest)


def _tables(text: str) -> dict[str, Any]:
    """Return the servers in TOML. Raise InvalidInput if it is not valid."""
    servers = _document(text).get(_TABLES, {})
    if not isinstance(servers, dict):
        raise InvalidInput("its mcp_servers are not a table", hint="repair them, then try again")
    return servers


def _document(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"it is not TOML: {error}", hint="repair it, then try again") from error


def _checked(text: str, before: str, servers: dict[str, Any]) -> str:
    """Return ``text`` if it says what was said ``before``, but for these servers.

    Raise InvalidInput otherwise: TOML can be written in ways that we do not edit.
    """
    expected = {**_document(before), _TABLES: servers}
    try:
        document = _document(text)
    except InvalidInput:
        document = {}
    if {_TABLES: {}, **document} != expected:
        raise InvalidInput(
            "its mcp_servers are written in another way", hint="edit mcp_servers.treering by hand"
        )
    return text


def _toml(value: Any) -> str:
    # Strings and lists of strings are written in TOML as in JSON.
    return json.dumps(value, ensure_ascii=False)
