"""``treering install`` and ``treering uninstall``: hooks in the settings of other agents."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treering.capture.hooks.installing import AGENTS, apply, diff, plan_install, plan_uninstall
from treering.capture.hooks.settings import PROGRAM
from treering.capture.hooks.spool import default_spool
from treering.errors import NotFound
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.options import json_option
from treering.surfaces.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.capture.hooks.installing import Plan
    from treering.capture.hooks.installing_files import Done

_agent = click.argument("agent", type=click.Choice(AGENTS), metavar="AGENT")
_dry_run = click.option(
    "--dry-run", is_flag=True, help="Show a diff of what would change, and change nothing."
)


@click.command(
    "install",
    cls=Command,
    short_help="Install hooks so that an agent notifies Treering.",
    examples="""
    treering install claude-code --dry-run
    treering install claude-code
    treering install codex
    """,
    if_stopped="run it again: hooks are never installed twice",
)
@_agent
@click.option(
    "--decisions",
    is_flag=True,
    help="Record permission requests and denials, too. Needs a recent version of the agent.",
)
@_dry_run
@json_option
def install(*, agent: str, decisions: bool, dry_run: bool) -> None:
    """Put hooks into the settings of claude-code, codex, gemini or openclaw.

    At the end of each turn they notify treering watch which transcript has grown. They read no
    conversation, add nothing to it, take a few hundredths of a second and never stop the agent.

    The rest of the settings stays the same, to the byte, and a backup is kept beside them.
    Settings that cannot be changed safely are left alone. Running it twice changes nothing
    more.
    """
    plan = plan_install(
        agent,
        program=_program(),
        spool=default_spool(),
        home=Path.home(),
        environment=os.environ,
        decisions=decisions,
    )
    _finish(plan, dry_run=dry_run, unchanged=f"{plan.name} has the hooks already")


@click.command(
    "uninstall",
    cls=Command,
    short_help="Remove those hooks from an agent.",
    examples="""
    treering uninstall claude-code --dry-run
    treering uninstall claude-code
    """,
    if_stopped="run it again: nothing else is removed",
)
@_agent
@_dry_run
@json_option
def uninstall(*, agent: str, dry_run: bool) -> None:
    """Remove the hooks of treering install, and nothing else.

    If nothing else has changed since, the settings are what they were, to the byte. The ledger
    keeps all events.
    """
    plan = plan_uninstall(agent, home=Path.home(), environment=os.environ)
    _finish(plan, dry_run=dry_run, unchanged=f"{plan.name} has no Treering hooks")


def _program() -> Path:
    """Return the program that hooks call, by its full path: agents have a PATH of their own."""
    beside = Path(sys.executable).with_name(PROGRAM)
    program = str(beside) if beside.is_file() else shutil.which(PROGRAM)
    if program is None:
        raise NotFound(
            f"there is no {PROGRAM} beside {sys.executable}", hint="install treering again"
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
        "backups": [one.backup for one in done if one.backup],
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
    for change, one in zip(plan.changes, done, strict=True):
        verb = "wrote" if change.before is None else "removed"
        yield f"{'changed' if change.before and change.after else verb} {one.path}"
        if one.backup:
            yield f"  as it was: {one.backup}"
    for step in plan.next_steps:
        yield f"next: {step}"
