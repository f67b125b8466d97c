"""Where the sessions of logs belong: the scope of their project, and the same ever after."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from treering.capture.projects import scope_of
from treering.errors import InvalidScope
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from treering.formats.parsed import SessionHeader
    from treering.model.scopes import Scope

_UNIQUE: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
"""Ids that no two sessions share: others may come again in another project."""


class LogNotes(Protocol):
    """Where it is noted for good what is known of logs."""

    def find(self, name: str) -> Any:
        """Return what was noted under ``name``; None if nothing was."""

    def keep(self, name: str, note: Any) -> None:
        """Note something under ``name``."""


class DryRunNotes:
    """Notes that a dry run makes on top of others; they end with it."""

    def __init__(self, notes: LogNotes) -> None:
        self._notes = notes
        self._made: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """Return what was noted under ``name``; None if nothing was."""
        return self._made[name] if name in self._made else self._notes.find(name)

    def keep(self, name: str, note: Any) -> None:
        """Note something under ``name``."""
        self._made[name] = note


class ScopeResolver:
    """Finds the scope of each session, and remembers it whatever becomes of its folder."""

    def __init__(self, notes: LogNotes, *, scope: Scope | None, form: str) -> None:
        self._notes = notes
        self._scope = scope
        self._form = form
        self._scopes: dict[str, Scope] = {}
        self.may_be_named = True
        """Whether a log's own word is taken for the scope that it belongs to."""
        self.folder: str | None = None
        """Where the work went on, if a session does not say so itself."""

    @property
    def is_one(self) -> bool:
        """Whether all sessions go to one scope, where ids of several scopes may meet."""
        return self._scope is not None

    def find(self, session: str, opening: SessionHeader | None) -> Scope:
        """Return the scope of a session; the one that was named for all goes before any other."""
        if self._scope is not None:
            return self._scope
        kept = self._scopes.get(session)
        if kept is None:
            kept = self._scopes[session] = self._look_for(session, opening)
        return kept

    def note(self, scope: Scope, session: str) -> None:
        """Remember where a session is that was opened."""
        # What stands in for a scope that is not known is not kept: the log may yet say more.
        known = self._scope is None and scope != parse_scope(self._form)
        if known and _UNIQUE.search(session):
            self._notes.keep(f"{self._form}:{session}", scope)

    def _look_for(self, session: str, opening: SessionHeader | None) -> Scope:
        named = None if opening is None else opening.about.get("scope")
        if isinstance(named, str) and self.may_be_named:
            return self._parsed(named)
        for one in (session, None if opening is None else opening.parent):
            kept = None if one is None else self._scopes.get(one) or self._noted(one)
            if kept is not None:
                return kept
        folder = (opening.cwd if opening is not None else None) or self.folder
        if not folder:
            return parse_scope(self._form)
        remote = None if opening is None else opening.about.get("repository")
        try:
            return scope_of(folder, remote if isinstance(remote, str) else None)
        except (InvalidScope, OSError, ValueError):
            return parse_scope(self._form)

    def _noted(self, session: str) -> Scope | None:
        """Return the scope that a session was given when it was first told of."""
        if not _UNIQUE.search(session):
            return None
        noted = self._notes.find(f"{self._form}:{session}")
        return parse_scope(noted) if isinstance(noted, str) else None

    def _parsed(self, scope: str) -> Scope:
        try:
            return parse_scope(scope)
        except InvalidScope:
            return parse_scope(self._form)
