"""The project of a folder, which a session's scope is named after."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from treering.model.scopes import Scope

_REMOTE: Final = re.compile(r"(?:^|[/:])([^/:]+/[^/:]+?)(?:\.git)?/?$")
"""The last two names in a remote's URL: owner and repository."""
_WORKTREES: Final = frozenset({"worktrees", ".worktrees"})
"""Folders that contain work trees of a repository, whose own names mean little."""
_OWN_WORKTREES: Final = {".codex": 2, ".cursor": 1}
"""Folders of agents with work trees of all repositories, and the depth of the repository's name."""
FOLDERS_MAX: Final = 4_096
"""The number of folders whose projects are cached."""


def project_name(folder: Path, remote: str | None = None) -> str:
    """Return the name of a folder's project: its git remote, else its own name.

    ``remote`` is the URL it was cloned from, in case it is no longer a repository.
    """
    # A relative path is from another machine: the folders around this process are not its own.
    around = (folder, *folder.parents) if folder.is_absolute() else ()
    root = next((parent for parent in around if (parent / ".git").exists()), None)
    if root is None:
        return (_owned(remote) if remote else None) or _name_from_path(folder)
    return _remote(root / ".git") or root.name


def _name_from_path(folder: Path) -> str:
    """Return the project name of a folder that no longer exists.

    A work tree is named after its repository; a folder without letters in its name, after its
    parent, too.
    """
    parts = folder.parts
    at = next((index for index, part in enumerate(parts) if part in _WORKTREES), None)
    if at is not None and at + 1 < len(parts):
        repository = at + _OWN_WORKTREES.get(parts[at - 1], len(parts))
        if repository < len(parts):
            return parts[repository]
        ancestors = [part for part in parts[1:at] if not part.startswith(".")]
        if ancestors:
            return ancestors[-1]
    has_letters = any(character.isalpha() for character in folder.name)
    parent = folder.parent.name
    return folder.name if has_letters or not parent else f"{parent}/{folder.name}"


@lru_cache(maxsize=FOLDERS_MAX)
def scope_of(folder: str, remote: str | None = None) -> Scope:
    """Return the scope of a session that worked in ``folder``.

    The folder may no longer exist, or be on another machine; then its name is used, unless its
    ``remote`` is known. Raises InvalidScope if the name is not a valid scope.
    """
    return parse_scope(project_name(Path(folder.replace("\\", "/")), remote))


def _remote(git: Path) -> str | None:
    """Return owner and name of the repository that ``git`` was cloned from, or None."""
    import configparser  # noqa: PLC0415  (3 ms, and only inside a repository)

    settings = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        settings.read_string((_common(git) / "config").read_text(errors="replace"))
    except (OSError, configparser.Error):
        return None
    return _owned(settings.get('remote "origin"', "url", fallback=""))


def _owned(address: str) -> str | None:
    """Return the owner and the name in a remote's URL, or None."""
    match = _REMOTE.search(address)
    return match[1] if match else None


def _common(git: Path) -> Path:
    """Return the folder with a repository's settings; a work tree has a file that points there."""
    if git.is_dir():
        return git
    target = git.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
    git_folder = (git.parent / target).resolve()
    common = git_folder / "commondir"
    return (git_folder / common.read_text().strip()).resolve() if common.is_file() else git_folder
