"""The scopes of imported sessions: that of their project, and the same ever after."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.capture.projects import scope_of
from treering.errors import InvalidScope
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from treering.capture.intake.ledger_buffer import NoteBuffer
    from treering.formats.parsed import SessionHeader
    from treering.model.scopes import Scope

_UNIQUE: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
"""Ids that no two sessions share: others may come again in another project."""


class ScopeResolver:
    """Finds the scope of each session, and remembers it whatever becomes of its folder."""

    def __init__(
        self,
        notes: NoteBuffer,
        *,
        scope: Scope | None,
        format_name: str,
        former: str | None = None,
    ) -> None:
        self._notes = notes
        self._scope = scope
        self._format = format_name
        self._formats = [format_name] if former is None else [former, format_name]
        self._scopes: dict[str, Scope] = {}
        self.may_be_named = True
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
        if isinstance(named, str) and self.may_be_named:
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
