"""Which scope is meant where none is named: the environment's, else that of the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from treering.capture.projects import project_name
from treering.errors import InvalidScope
from treering.model.scopes import parse_scope
from treering.surfaces.cli.options import resolve_scope

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

SCOPE_VARIABLE: Final = "TREERING_SCOPE"


def find_scope(scope: str | None, *, is_global: bool) -> Scope:
    """Return the scope that was named, here or in the environment, else the project's."""
    named = os.environ.get(SCOPE_VARIABLE)
    if scope is not None or is_global:
        return resolve_scope(scope, is_global=is_global)
    if named is not None and named.strip():
        return parse_scope(named)
    return project_scope(Path.cwd())


def known_or_all(ledger: Ledger, scope: Scope | None) -> Scope | None:
    """Return the scope to read; None for all, if nothing is recorded of the folder's project."""
    given = click.get_current_context().params
    is_named = given["scope"] or given["is_global"] or os.environ.get(SCOPE_VARIABLE, "").strip()
    if scope is None or is_named or ledger.headers(scope, first=1).items:
        return scope
    return None


def scope_shown(scope: str | None) -> str:
    """Return which scopes were read, for people."""
    return "all scopes" if scope is None else f"scope {scope}"


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
