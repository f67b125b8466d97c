"""The scopes of imported sessions: that of their project, and the same ever after."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidScope
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.capture.intake.ledger_buffer import NoteBuffer
    from treering.formats.parsed import SessionHeader

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
    match = _REMOTE.search(address.rstrip("/."))  # As in a clone of `.`
    return match[1] if match else None


def _common(git: Path) -> Path:
    """Return the folder with a repository's settings; a work tree has a file that points there."""
    if git.is_dir():
        return git
    target = git.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
    git_folder = (git.parent / target).resolve()
    common = git_folder / "commondir"
    return (git_folder / common.read_text().strip()).resolve() if common.is_file() else git_folder


_UNIQUE: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
"""Ids that no two sessions share: others may come again in another project."""


class ScopeResolver:
    """Finds the scope of each session, and remembers it whatever becomes of its folder."""

    def __init__(
        self, notes: NoteBuffer, *, scope: Scope | None, format_name: str, former: str | None = None
    ) -> None:
        self._notes = notes
        self._scope = scope
        self._format = format_name
        self._formats = [format_name] if former is None else [former, format_name]
        self._scopes: dict[str, Scope] = {}
        self.may_be_named: Callable[[], bool] = lambda: True
        """Whether a log may name the scope that it belongs to."""
        self.folder: str | None = None
        """The folder of a session that does not name its own."""
        self.home: Scope | None = None
        """The scope of sessions that were given none before, wherever they work."""

    @property
    def is_one(self) -> bool:
        """Whether all sessions go to one scope, where ids of several scopes may meet."""
        return self._scope is not None

    def find(self, session: str, header: SessionHeader | None) -> Scope:
        """Return the scope of a session: the one given for all, or its own."""
        if self._scope is not None:
            return self._scope
        scope = self._scopes.get(session)
        if scope is None:
            scope = self._scopes[session] = self._resolve(session, header)
        return scope

    def note(self, scope: Scope, session: str) -> None:
        """Remember the scope of a session that was opened."""
        # The fallback is not kept: the log may still say where its session belongs.
        is_known = self._scope is None and scope != parse_scope(self._format)
        if is_known and _UNIQUE.search(session):
            self._notes.keep(note_of(self._format, session), scope)

    def _resolve(self, session: str, header: SessionHeader | None) -> Scope:
        named = None if header is None else header.about.get("scope")
        if isinstance(named, str) and self.may_be_named():
            return self._parsed(named)
        for relative in (session, None if header is None else header.parent):
            scope = (
                None if relative is None else self._scopes.get(relative) or self._noted(relative)
            )
            if scope is not None:
                return scope
        if self.home is not None:
            return self.home
        folder = (header.cwd if header is not None else None) or self.folder
        if not folder:
            return parse_scope(self._format)
        remote = None if header is None else header.about.get("repository")
        try:
            return scope_of(folder, remote if isinstance(remote, str) else None)
        except (InvalidScope, OSError, ValueError):
            return parse_scope(self._format)

    def _noted(self, session: str) -> Scope | None:
        """Return the scope that a session was given at its first import."""
        if not _UNIQUE.search(session):
            return None
        noted = (self._notes.find(note_of(name, session)) for name in self._formats)
        return next((parse_scope(scope) for scope in noted if isinstance(scope, str)), None)

    def _parsed(self, scope: str) -> Scope:
        try:
            return parse_scope(scope)
        except InvalidScope:
            return parse_scope(self._format)


def note_of(format_name: str, session: str) -> str:
    """Return the name of the note that keeps the scope of a session."""
    return f"{format_name}:{session}"
