"""``treering users resolve``, ``link`` and ``unlink``: whose a handle on a channel is."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, TypeVar

import click

from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.ledgers import open_existing, open_to_write
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import note
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.search_commands import scope_flag

if TYPE_CHECKING:
    from collections.abc import Callable

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


def _handled(command: Decorated) -> Decorated:
    """Add CHANNEL and HANDLE, and what every command takes."""
    shared = project_scope_options(keys_option(json_option(db_option(command))))
    return click.argument("channel")(click.argument("handle")(shared))


@click.command(
    "resolve",
    cls=Command,
    short_help="Print the user of a handle.",
    examples="""
    treering users resolve telegram @jo_lisbon --scope acme/app
    treering recall --user "$(treering users resolve telegram @jo_lisbon)" --block
    """,
    if_stopped="see treering users list for whether they are known",
)
@_handled
def resolve(*, channel: str, handle: str, scope: str | None, is_global: bool) -> None:
    """Print the user of HANDLE on CHANNEL; a new user if there is none yet.

    For merged users it prints the one that was kept.
    """
    name = find_scope(scope, is_global=is_global)
    with open_to_write() as ledger:
        memory = ledger.memory(name)
        known = {(link.channel, link.handle) for link in memory.users.handles()}
        user = memory.users.resolve(channel, handle)
        linked = {(link.channel, link.handle) for link in memory.users.handles()}
    is_new = (channel, handle) in linked - known
    if is_new and not invocation().as_json:
        note(f"nobody in scope {name} was called {handle} on {channel}: this is somebody new")
    show(
        {"scope": name, "user": user, "channel": channel, "handle": handle, "is_new": is_new},
        user,
        done=f"the user is {user}",
    )


@click.command(
    "link",
    cls=Command,
    short_help="Link a handle to a user.",
    examples="""
    treering users link jo telegram @jo_lisbon --scope acme/app
    """,
    if_stopped="see treering users list for whose it is",
)
@click.argument("user")
@_handled
def link(*, user: str, channel: str, handle: str, scope: str | None, is_global: bool) -> None:
    """Link HANDLE on CHANNEL to USER. Refused if it belongs to somebody else."""
    name = find_scope(scope, is_global=is_global)
    with open_to_write() as ledger:
        linked = ledger.memory(name).users.link(user, channel, handle)
    pair = f"{shlex.quote(channel)} {shlex.quote(handle)}"
    show(
        {"scope": name, "user": linked.user, "channel": linked.channel, "handle": linked.handle},
        f"{linked.handle} on {linked.channel} is {linked.user} in scope {name}",
        f"to undo it: treering users unlink {pair} {scope_flag(name)}",
        done="the handle was linked",
    )


@click.command(
    "unlink",
    cls=Command,
    short_help="Unlink a handle from its user.",
    examples="""
    treering users unlink telegram @jo_lisbon --scope acme/app
    """,
    if_stopped="see treering users list for whose it is",
)
@_handled
def unlink(*, channel: str, handle: str, scope: str | None, is_global: bool) -> None:
    """Unlink HANDLE on CHANNEL from its user; facts about them stay."""
    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        user = ledger.memory(name).users.unlink(channel, handle)
    show(
        {"scope": name, "user": user, "channel": channel, "handle": handle},
        f"{handle} on {channel} is no longer {user} in scope {name}; what is known of {user} stays",
        done="the handle was unlinked",
    )
