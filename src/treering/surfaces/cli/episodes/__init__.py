"""``treering episodes``: the event log of sessions."""

from __future__ import annotations

import os
from typing import Final

import click

from treering.errors import Disabled
from treering.surfaces.cli.commands import kind_of, reporting
from treering.surfaces.cli.declare import group

SWITCH_VARIABLE: Final = "TREERING_EPISODES"
_OFF: Final = frozenset({"off", "disabled", "false", "no", "0"})


@group(
    "episodes",
    commands="""
    episodes.write:append episodes.read:query episodes.read:replay episodes.read:search
    redact=erase:redact_episodes gc=erase:gc_episodes verify=verify:verify_episodes
    episodes.copy:export episodes.copy:import_ episodes.write:ingest
    episodes.write:extract_sessions
    """,
    examples=r"""
    treering episodes append --scope acme/app --session-id s1 --agent-id lyria \
      --type tool.call --summary "git log --since friday"
    treering episodes query --scope acme/app --types tool.call,tool.result
    treering episodes replay s1 --scope acme/app --include-payload
    """,
)
def episodes() -> None:
    """Append, query, replay and redact single events, at a low level.

    For everyday use see treering import, search, show and redact. Every command here names a
    scope, and sees nothing of any other. The group is also known as episodic;
    TREERING_EPISODES=off (or disabled, false, no, 0) switches it off.
    """
    context = click.get_current_context()
    with reporting(context, kind_of(context, context.invoked_subcommand or "")):
        _check_switch()


def _check_switch() -> None:
    if os.environ.get(SWITCH_VARIABLE, "").strip().lower() in _OFF:
        raise Disabled(
            f"the episodes commands are switched off by {SWITCH_VARIABLE}",
            hint=f"unset {SWITCH_VARIABLE} to use them; what was recorded is untouched",
        )
