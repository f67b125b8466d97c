"""Which project a folder belongs to: what the scope of a session is named after."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from treering.model.scopes import Scope

_REMOTE: Final = re.compile(r"(?:^|[/:])([^/:]+/[^/:]+?)(?:\.git)?/?$")
"""The last two names of a remote's address: who, and what."""
_WORKTREES: Final = frozenset({"worktrees", ".worktrees"})
"""Folders in which work trees of a repository lie, each under a name that says little."""
_OWN_WORKTREES: Final = {".codex": 2, ".cursor": 1}
"""Where agents keep those of all repositories, and how far behind that the repository is named."""
FOLDERS_MAX: Final = 4_096
"""Folders whose projects are remembered."""


def project_name(folder: Path, remote: str | None = None) -> str:
    """Return what a folder's project is called: its git remote, else its own name.

    ``remote`` is the address it was cloned from, in case that it is no repository any more.
    """
    # One that is not absolute is another machine's: what lies around this process is not its own.
    around = (folder, *folder.parents) if folder.is_absolute() else ()
    root = next((one for one in around if (one / ".git").exists()), None)
    if root is None:
        return (_owned(remote) if remote else None) or _telling_name(folder)
    return _remote(root / ".git") or root.name


def _telling_name(folder: Path) -> str:
    """Return what a folder that is gone was called.

    A work tree is called after its repository; one called by a number, after the folder above, too.
    """
    parts = folder.parts
    at = next((place for place, part in enumerate(parts) if part in _WORKTREES), None)
    if at is not None and at + 1 < len(parts):
        behind = at + _OWN_WORKTREES.get(parts[at - 1], len(parts))
        if behind < len(parts):
            return parts[behind]
        above = [part for part in parts[1:at] if not part.startswith(".")]
        if above:
            return above[-1]
    has_letters = any(character.isalpha() for character in folder.name)
    above_it = folder.parent.name
    return folder.name if has_letters or not above_it else f"{above_it}/{folder.name}"


@lru_cache(maxsize=FOLDERS_MAX)
def scope_of(folder: str, remote: str | None = None) -> Scope:
    """Return the scope that a session belongs to which worked in ``folder``.

    The folder may be gone by now, or have been on another machine; then its name is what is left,
    unless it is known from which ``remote`` it was cloned.
    Raises InvalidScope if that cannot name a scope.
    """
    return parse_scope(project_name(Path(folder.replace("\\", "/")), remote))


def _remote(git: Path) -> str | None:
    """Return owner and name of the repository that ``git`` was cloned from, if it says so."""
    import configparser  # noqa: PLC0415  (3 ms, and only inside a repository)

    settings = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        settings.read_string((_common(git) / "config").read_text(errors="replace"))
    except (OSError, configparser.Error):
        return None
    return _owned(settings.get('remote "origin"', "url", fallback=""))


def _owned(address: str) -> str | None:
    """Return the owner and the name in a remote's address, if it has such."""
    found = _REMOTE.search(address)
    return found[1] if found else None


def _common(git: Path) -> Path:
    """Return the folder of a repository's settings; a work tree has a file that leads there."""
    if git.is_dir():
        return git
    target = git.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
    found = (git.parent / target).resolve()
    common = found / "commondir"
    return (found / common.read_text().strip()).resolve() if common.is_file() else found
