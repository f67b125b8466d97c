"""Declaring a command: a function of its own arguments, with what all commands share.

``@command`` adds ``--scope`` and ``--global`` by the scope rule, ``--keys``, ``--json``, ``--db``
and ``--utc``, and hands the function its ``scope``. What the function returns is printed: a
receipt as JSON, or its lines for people.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from treering.errors import InvalidInput, InvalidScope
from treering.surfaces.cli.commands import Command, LazyGroup
from treering.surfaces.cli.completing import complete_scope
from treering.surfaces.cli.options import (
    EVERYWHERE,
    JSON,
    KEYS,
    SCOPE_VARIABLE,
    find_scope,
    resolve_scope,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from treering.model.scopes import Scope

_PACKAGE: Final = __name__.rpartition(".")[0]
ScopeRule = Literal["project", "wide", "optional", "named", "required", "all", "each"]
"""Which scope is meant without ``--scope``.

project: that of the environment, else of the folder's project; optional: the same, or None;
wide: the same, and all scopes if nothing is recorded of that project (see ``known_or_all``);
named: only that of the environment, because nothing is erased or encrypted by a guess;
required: none; all: all scopes; each: for each log its own.
"""

_SCOPE_HELP: Final[Mapping[ScopeRule, str]] = {
    "project": f"The scope. Default: {SCOPE_VARIABLE}, else the project's git remote or folder.",
    "wide": f"The scope. Default: {SCOPE_VARIABLE}, else the project's, if known, else all.",
    "optional": f"The scope. Default: {SCOPE_VARIABLE}, else the project's git remote or folder.",
    "named": f"The scope. Required, unless {SCOPE_VARIABLE} is set.",
    "required": "The scope; required.",
    "all": f"Only this scope. Default: all scopes; {SCOPE_VARIABLE} is ignored.",
    "each": "Put all sessions here. Default: each by its project's git remote or folder.",
}


def command(
    name: str,
    *,
    scope: ScopeRule | None = None,
    all_scopes: str | None = None,
    options: Sequence[click.Option] = (),
    keys: bool = True,
    json: bool = True,
    db: bool = True,
    cls: type[Command] = Command,
    **settings: Any,
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command.

    ``all_scopes`` is the help of ``--all-scopes``, which passes None as the scope.
    ``options`` come before those that decorate the function.
    """

    def declare(function: Callable[..., Any]) -> Command:
        own = own_options(function)
        scoped = [] if scope is None else scope_options(scope, all_scopes)
        shared = [KEYS] * keys + [JSON] * json + [*EVERYWHERE] * db
        return cls(
            name=name,
            callback=function if scope is None else _scoped(function, scope),
            params=[*scoped, *options, *own, *shared],
            help=inspect.cleandoc(function.__doc__ or ""),
            **settings,
        )

    return declare


def group(
    name: str, commands: str, *, keys: bool = True, db: bool = True, **settings: Any
) -> Callable[[Callable[..., Any]], LazyGroup]:
    """Return a decorator that makes a function a group; called alone, it prints its help.

    ``commands`` are functions of its module, or of others: ``add``, ``facts.write:add``; with a
    name where it is not that of the function: ``show=show_run``.
    """

    def declare(function: Callable[..., Any]) -> LazyGroup:
        @click.pass_context
        @functools.wraps(function)
        def callback(context: click.Context) -> None:
            if context.invoked_subcommand is None:
                click.echo(context.get_help())
            else:
                function()

        return LazyGroup(
            name=name,
            lazy=dict(_named(function.__module__, entry) for entry in commands.split()),
            callback=callback,
            invoke_without_command=True,
            params=[KEYS] * keys + [*EVERYWHERE] * db,
            help=inspect.cleandoc(function.__doc__ or ""),
            **settings,
        )

    return declare


def _named(module: str, entry: str) -> tuple[str, str]:
    """Return the name of a command, and where its function is."""
    name, _, address = entry.rpartition("=")
    place, _, function = address.rpartition(":")
    module = f"{_PACKAGE}.{place}" if place else module
    return name or function.removesuffix("_").replace("_", "-"), f"{module}:{function}"


def own_options(function: Callable[..., Any]) -> list[Any]:
    """Return the options and arguments that decorate ``function``, in order."""
    return list(reversed(getattr(function, "__click_params__", [])))


def scope_options(rule: ScopeRule, all_scopes: str | None = None) -> list[click.Option]:
    """Return ``--scope`` and ``--global``; read them with ``scope_by``."""
    every = click.Option(["--all-scopes", "--all"], is_flag=True, help=all_scopes)
    return [
        click.Option(
            ["--scope"], metavar="SCOPE", shell_complete=complete_scope, help=_SCOPE_HELP[rule]
        ),
        click.Option(
            ["--global", "is_global"],
            is_flag=True,
            help="Use the scope named global (not all scopes).",
        ),
        *([every] if all_scopes else []),
    ]


def scope_by(rule: ScopeRule, scope: str | None, *, is_global: bool) -> Scope | None:
    """Return the scope that was named, else the one that the rule gives.

    Raise InvalidScope if there is none, unless None means something to the command.
    """
    if rule in {"all", "each"} and scope is None and not is_global:
        return None
    if rule in {"project", "wide", "optional"}:
        try:
            return find_scope(scope, is_global=is_global)
        except InvalidScope:
            if rule == "project" or scope is not None:
                raise
            return None
    if rule == "named" and not is_global:
        scope = scope or os.environ.get(SCOPE_VARIABLE)
    return resolve_scope(scope, is_global=is_global)


def _scoped(function: Callable[..., Any], rule: ScopeRule) -> Callable[..., Any]:
    @functools.wraps(function)
    def callback(
        *, scope: str | None, is_global: bool, all_scopes: bool = False, **arguments: Any
    ) -> Any:
        if not all_scopes:
            return function(scope=scope_by(rule, scope, is_global=is_global), **arguments)
        if scope is not None or is_global:
            raise InvalidInput(
                "--all-scopes cannot be combined with a scope", hint="drop one of the two"
            )
        return function(scope=None, **arguments)

    return callback
