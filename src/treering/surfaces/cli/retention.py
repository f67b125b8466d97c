"""``treering retention``: how long each kind of event is kept, shown and set for a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, LazyGroup, show
from treering.surfaces.cli.episodes.erase import policy_entry
from treering.surfaces.cli.ledgers import open_existing, open_to_write
from treering.surfaces.cli.options import (
    db_option,
    json_option,
    keys_option,
    parse_any_kind,
    resolve_scope,
    scope_options,
)
from treering.surfaces.cli.output import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treering.ledger.ledger import Ledger

_HERE: Final = "treering.surfaces.cli.retention"


@click.group(
    name="retention",
    cls=LazyGroup,
    lazy={"list": f"{_HERE}:list_", "set": f"{_HERE}:set_", "unset": f"{_HERE}:unset"},
    invoke_without_command=True,
    examples="""
    treering retention list --scope acme/app
    treering retention set tool.result=7 ops.alert=forever --scope acme/app
    treering retention unset tool.result --scope acme/app
    """,
)
@keys_option
@db_option
@click.pass_context
def retention(context: click.Context) -> None:
    """Show and set how long a scope keeps each kind of event.

    Setting it removes nothing: treering gc removes events past their retention.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command(
    "list",
    cls=Command,
    short_help="Show how long a scope keeps each kind.",
    examples="""
    treering retention list --scope acme/app
    treering retention list --scope acme/app --json
    """,
)
@scope_options
@keys_option
@json_option
@db_option
def list_(*, scope: str | None, is_global: bool) -> None:
    """Show the retention of a scope: what was set for it, and the defaults for the rest."""
    name = resolve_scope(scope, is_global=is_global)
    with open_existing("read") as ledger:
        _show(ledger, name)


@click.command(
    "set",
    cls=Command,
    short_help="Keep a kind for some days, or forever.",
    examples="""
    treering retention set tool.result=7 --scope acme/app
    treering retention set tool.result=forever ops.alert=365 --scope acme/app
    """,
    if_stopped="all of it was set, or nothing",
)
@click.argument("entries", nargs=-1, required=True, metavar="TYPE=DAYS...")
@scope_options
@keys_option
@json_option
@db_option
def set_(*, entries: Sequence[str], scope: str | None, is_global: bool) -> None:
    """Keep each TYPE for DAYS days, or forever; other types stay as they are."""
    name = resolve_scope(scope, is_global=is_global)
    chosen = dict(policy_entry(entry) for entry in entries)
    with open_to_write() as ledger:
        ledger.set_retention(name, {**ledger.own_retention(name), **chosen})
        _show(ledger, name, done="the retention was set")


@click.command(
    "unset",
    cls=Command,
    short_help="Go back to the default for a kind.",
    examples="""
    treering retention unset tool.result --scope acme/app
    treering retention unset --scope acme/app
    """,
    if_stopped="all of it was unset, or nothing",
)
@click.argument("kinds", nargs=-1, metavar="[TYPE]...")
@scope_options
@keys_option
@json_option
@db_option
def unset(*, kinds: Sequence[str], scope: str | None, is_global: bool) -> None:
    """Go back to the default for each TYPE, or for all if none is named."""
    name = resolve_scope(scope, is_global=is_global)
    dropped = {parse_any_kind(kind) for kind in kinds}
    with open_existing("change") as ledger:
        own = ledger.own_retention(name)
        if unknown := sorted(dropped - set(own)):
            raise InvalidInput(
                f"nothing is set for {unknown[0]} in scope {name}",
                hint=f"see treering retention list --scope {name}",
            )
        kept = {kind: days for kind, days in own.items() if kinds and kind not in dropped}
        ledger.set_retention(name, kept)
        _show(ledger, name, done="the retention was unset")


def _show(ledger: Ledger, scope: str, *, done: str = "") -> None:
    own, held = ledger.own_retention(scope), ledger.retention(scope)
    body = {
        "scope": scope,
        "policy_days": dict(sorted(held.items())),
        "set": dict(sorted(own.items())),
    }
    show(body, *_lines(scope, held, own), done=done)


def _lines(
    scope: str, held: Mapping[str, int | None], own: Mapping[str, int | None]
) -> Iterator[str]:
    yield f"retention of scope {scope}; what is not listed is kept forever"
    for kind, days in sorted(held.items()):
        kept = "forever" if days is None else counted(days, "day")
        yield f"  {kind}: {kept}{'' if kind in own else ' (default)'}"
