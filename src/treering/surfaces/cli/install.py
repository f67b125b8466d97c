"""``treering install`` and ``treering uninstall``: hooks, or the MCP server, in other agents."""

from __future__ import annotations

import os
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from treering.capture.hooks.installing import (
    AGENTS,
    MAIN_PROGRAM,
    apply,
    diff,
    plan_install,
    plan_uninstall,
)
from treering.capture.hooks.servers import ServerCommand, plan_server, plan_server_removal
from treering.capture.hooks.settings import PROGRAM
from treering.capture.hooks.spool import default_spool
from treering.errors import InvalidInput, NotFound
from treering.model.scopes import parse_scope
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.completing import complete_scope
from treering.surfaces.cli.declare import argument, command, flag, option
from treering.surfaces.cli.ledgers import database_path, is_on_server
from treering.surfaces.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.capture.hooks.installing import Done, Plan

_agent = argument(type=click.Choice(AGENTS), metavar="AGENT")
_dry_run = flag("Show a diff of what would change, and change nothing.")


@command(
    keys=False,
    examples="""
    treering install claude-code --dry-run
    treering install claude-code
    treering install codex --mcp
    """,
    if_stopped="run it again: nothing is installed twice",
)
def install(
    *,
    agent: str = _agent,
    mcp: bool = flag("Install the server of treering mcp, not the hooks."),
    write: bool = flag("With --mcp: let the agent remember and forget facts."),
    scope: str | None = option(
        "SCOPE",
        "With --mcp: answer for this scope. Default: the project the agent works in.",
        shell_complete=complete_scope,
    ),
    decisions: bool = flag(
        "Record permission requests and denials, too. Needs a recent version of the agent."
    ),
    dry_run: bool = _dry_run,
) -> None:
    """Put hooks, or the MCP server, into the settings of claude-code, codex, gemini or openclaw.

    At the end of each turn hooks tell treering watch which transcript has grown. They read no
    conversation, add nothing to it, take a few hundredths of a second and never stop the agent.
    With --mcp the agent gets tools instead, with which it can ask about earlier sessions.

    The rest of the settings stays the same, to the byte, and a backup is kept next to them.
    Settings that cannot be changed safely are left alone. Running it twice changes nothing
    more.
    """
    if mcp and decisions:
        raise InvalidInput("--decisions is for hooks", hint="drop --mcp, or --decisions")
    if mcp:
        arguments = _arguments(scope, *(("--write",) if write else ()))
        server = ServerCommand(program=_program(MAIN_PROGRAM), arguments=arguments)
        plan = plan_server(agent, server, home=Path.home(), environment=os.environ)
        if find_spec("mcp") is None:
            needed = "the server needs mcp: pip install 'treering[mcp]'"
            plan = msgspec.structs.replace(plan, remarks=[*plan.remarks, needed])
        _finish(plan, dry_run=dry_run, unchanged=f"{plan.name} has the server already")
        return
    if write or scope is not None:
        raise InvalidInput("--write and --scope need --mcp", hint="add --mcp")
    plan = plan_install(
        agent,
        program=_program(PROGRAM),
        spool=default_spool(),
        home=Path.home(),
        environment=os.environ,
        decisions=decisions,
    )
    _finish(plan, dry_run=dry_run, unchanged=f"{plan.name} has the hooks already")


@command(
    keys=False,
    examples="""
    treering uninstall claude-code --dry-run
    treering uninstall claude-code
    treering uninstall codex --mcp
    """,
    if_stopped="run it again: nothing else is removed",
)
def uninstall(
    *,
    agent: str = _agent,
    mcp: bool = flag("Remove the server of treering mcp, not the hooks."),
    dry_run: bool = _dry_run,
) -> None:
    """Remove what treering install added, and nothing else.

    If nothing else has changed since, the settings are what they were, to the byte. The ledger
    keeps all events.
    """
    if mcp:
        plan = plan_server_removal(agent, home=Path.home(), environment=os.environ)
        _finish(plan, dry_run=dry_run, unchanged=f"{plan.name} has no Treering server")
        return
    plan = plan_uninstall(agent, home=Path.home(), environment=os.environ)
    _finish(plan, dry_run=dry_run, unchanged=f"{plan.name} has no Treering hooks")


def _arguments(scope: str | None, *more: str) -> tuple[str, ...]:
    """Return the command line of the server; a ledger that was named is named there, too."""
    named: list[str] = []
    if invocation().database is not None:
        path = database_path()
        # Agents start it in folders of their own.
        named += ["--db", path if is_on_server() else os.path.abspath(path)]  # noqa: PTH100
    if scope is not None:
        named += ["--scope", parse_scope(scope)]
    return ("mcp", *named, *more)


def _program(name: str) -> Path:
    """Return a program that agents call, by its full path: agents have a PATH of their own."""
    beside = Path(sys.executable).with_name(name)
    program = str(beside) if beside.is_file() else shutil.which(name)
    if program is None:
        raise NotFound(
            f"there is no {name} next to {sys.executable}", hint="install treering again"
        )
    return Path(os.path.abspath(program))  # noqa: PTH100  (a link to the program stays one)


def _finish(plan: Plan, *, dry_run: bool, unchanged: str) -> None:
    done: list[Done] = []
    if not dry_run:
        done = apply(plan, stamp=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    if not invocation().as_json:
        for remark in plan.remarks:
            note(remark)
    body: dict[str, Any] = {
        "agent": plan.agent,
        "settings": str(plan.settings),
        "dry_run": dry_run,
        "changed": bool(plan.changes),
        "files": [str(change.path) for change in plan.changes],
        "backups": [result.backup for result in done if result.backup],
        "diff": diff(plan),
        "remarks": plan.remarks,
        "next_steps": plan.next_steps,
    }
    show(
        body,
        *_lines(plan, done, dry_run=dry_run, unchanged=unchanged),
        done="the settings were changed",
    )


def _lines(plan: Plan, done: list[Done], *, dry_run: bool, unchanged: str) -> Iterator[str]:
    if not plan.changes:
        yield f"{unchanged}: nothing was changed"
        return
    if dry_run:
        yield from diff(plan).splitlines()
        yield "nothing was changed; run it without --dry-run to do so"
        return
    for change, result in zip(plan.changes, done, strict=True):
        verb = "wrote" if change.before is None else "removed"
        yield f"{'changed' if change.before and change.after else verb} {result.path}"
        if result.backup:
            yield f"  as it was: {result.backup}"
    for step in plan.next_steps:
        yield f"next: {step}"
