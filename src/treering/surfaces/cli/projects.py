"""Which scope is meant where none is named: the environment's, else that of the project."""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from treering.errors import InvalidScope
from treering.model.scopes import parse_scope
from treering.surfaces.cli.options import resolve_scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from treering.model.scopes import Scope

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

SCOPE_VARIABLE: Final = "TREERING_SCOPE"
_REMOTE: Final = re.compile(r"(?:^|[/:])([^/:]+/[^/:]+?)(?:\.git)?/?$")
"""The last two names of a remote's address: who, and what."""


def project_scope_options(command: Decorated) -> Decorated:
    """Add ``--scope`` and ``--global``; read them with ``find_scope``."""
    scope = click.option(
        "--scope",
        metavar="SCOPE",
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
    root = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
    name = _remote(root / ".git") or root.name
    try:
        return parse_scope(name)
    except InvalidScope as error:
        raise InvalidScope(
            f"scope is required: {name!r}, the name of this folder, cannot be one",
            hint=f"name one, as in --scope acme/app, or set {SCOPE_VARIABLE}",
        ) from error


def _remote(git: Path) -> str | None:
    """Return owner and name of the repository that ``git`` was cloned from, if it says so."""
    settings = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        settings.read_string((_common(git) / "config").read_text(errors="replace"))
    except (OSError, configparser.Error):
        return None
    address = settings.get('remote "origin"', "url", fallback="")
    found = _REMOTE.search(address)
    return found[1] if found else None


def _common(git: Path) -> Path:
    """Return the folder of a repository's settings; a work tree has a file that leads there."""
    if git.is_dir():
        return git
    target = git.read_text(errors="replace").partition("gitdir:")[2].strip()
    found = (git.parent / target).resolve()
    common = found / "commondir"
    return (found / common.read_text().strip()).resolve() if common.is_file() else found
