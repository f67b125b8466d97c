"""Which scope is meant where none is named: the environment's, else that of the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from treering.capture.projects import project_name
from treering.errors import InvalidScope
from treering.model.scopes import parse_scope
from treering.surfaces.cli.completing import complete_scope
from treering.surfaces.cli.options import resolve_scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from treering.model.scopes import Scope

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

SCOPE_VARIABLE: Final = "TREERING_SCOPE"


def project_scope_options(command: Decorated) -> Decorated:
    """Add ``--scope`` and ``--global``; read them with ``find_scope``."""
    scope = click.option(
        "--scope",
        metavar="SCOPE",
        shell_complete=complete_scope,
        help=f"The scope. Default: {SCOPE_VARIABLE}, else the project's git remote or folder.",
    )
    everyone = click.option(
        "--global", "is_global", is_flag=True, help="Use the scope named global (not all scopes)."
    )
    return scope(everyone(command))


def find_scope(scope: str | None, *, is_global: bool) -> Scope:
    """Return the scope that was named, here or in the environment, else the project's."""
    named = os.environ.get(SCOPE_VARIABLE)
    if scope is not None or is_global:
        return resolve_scope(scope, is_global=is_global)
    if named is not None and named.strip():
        return parse_scope(named)
    return project_scope(Path.cwd())


def project_scope(folder: Path) -> Scope:
    """Return the scope of the project that ``folder`` is part of: its git remote, else its name.

    Raises InvalidScope if that cannot name a scope.
    """
    name = project_name(folder)
    try:
        return parse_scope(name)
    except InvalidScope as error:
        raise InvalidScope(
            f"scope is required: {name!r}, the name of this folder, cannot be one",
            hint=f"name one, as in --scope acme/app, or set {SCOPE_VARIABLE}",
        ) from error
