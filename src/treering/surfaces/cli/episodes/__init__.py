"""``treering episodes``: the event log of sessions."""

from __future__ import annotations

import os
from typing import Final

import click

from treering.errors import Disabled
from treering.surfaces.cli.commands import LazyGroup, kind_of, reporting
from treering.surfaces.cli.options import db_option, keys_option

SWITCH_VARIABLE: Final = "TREERING_EPISODES"
_OFF: Final = frozenset({"off", "disabled", "false", "no", "0"})
_HERE: Final = "treering.surfaces.cli.episodes"


@click.group(
    name="episodes",
    cls=LazyGroup,
    short_help="Work with single events, at a low level.",
    lazy={
        "append": f"{_HERE}.append:append",
        "query": f"{_HERE}.read:query",
        "replay": f"{_HERE}.read:replay",
        "search": f"{_HERE}.search:search",
        "redact": f"{_HERE}.erase:redact",
        "gc": f"{_HERE}.erase:gc",
        "verify": f"{_HERE}.verify:verify",
        "export": f"{_HERE}.copy:export",
        "import": f"{_HERE}.copy:import_",
        "ingest": f"{_HERE}.ingest:ingest",
        "extract-sessions": f"{_HERE}.extract:extract_sessions",
    },
    invoke_without_command=True,
    examples=r"""
    treering episodes append --scope acme/app --session-id s1 --agent-id lyria \
      --type tool.call --summary "git log --since friday"
    treering episodes query --scope acme/app --types tool.call,tool.result
    treering episodes replay s1 --scope acme/app --include-payload
    """,
)
@keys_option
@db_option
@click.pass_context
def episodes(context: click.Context) -> None:
    """Append, query, replay and redact single events, at a low level.

    For everyday use see treering import, search, show and redact. Every command here names a
    scope, and sees nothing of any other. The group is also known as episodic;
    TREERING_EPISODES=off (or disabled, false, no, 0) switches it off.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        return
    with reporting(context, kind_of(context, context.invoked_subcommand)):
        _check_switch()


def _check_switch() -> None:
    if os.environ.get(SWITCH_VARIABLE, "").strip().lower() in _OFF:
        raise Disabled(
            f"the episodes commands are switched off by {SWITCH_VARIABLE}",
            hint=f"unset {SWITCH_VARIABLE} to use them; what was recorded is untouched",
        )
