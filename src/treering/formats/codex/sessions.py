"""What a rollout says of its session: its id, its folder, what it was forked from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from treering.formats.codex.drafts import digest
from treering.formats.loose import fields_of
from treering.formats.loose import name as name_of
from treering.formats.parsed import SessionHeader, content_key
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import PurePath

AGENT: Final = "codex"
_UUID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
_ABOUT: Final = {
    "originator": "originator", "cli_version": "version", "model_provider": "provider",
    "source": "source", "history_mode": "history_mode",
}  # fmt: skip
_GIT: Final = {"branch": "branch", "commit_hash": "commit", "repository_url": "repository"}


def session_named(stated: dict[str, Any]) -> str | None:
    """Return the id that the opening record of a session states."""
    return name_of(stated.get("id")) or name_of(stated.get("session_id"))


def session_of(path: PurePath | None, first: Any) -> str:
    """Return the id of a session that no record names: from its file, or its first record."""
    ids = _UUID.findall(path.name) if path is not None else []
    return ids[-1].lower() if ids else f"codex-{content_key(digest(first))}"


def opening_of(session: str, stated: dict[str, Any]) -> SessionHeader:
    """Return how a session was opened; ``stated`` is its opening record, empty if it has none."""
    spawned = _spawned(stated.get("source"))
    role = name_of(spawned.get("agent_role")) or name_of(spawned.get("agent_type"))
    parent = name_of(spawned.get("parent_thread_id")) or name_of(stated.get("parent_thread_id"))
    cwd = stated.get("cwd")
    return SessionHeader(
        session=session,
        agent=f"{AGENT}:{role}" if role and name_of(f"{AGENT}:{role}") else AGENT,
        cwd=cwd if isinstance(cwd, str) and cwd else None,
        parent=parent if parent != session else None,
        forked_from=name_of(stated.get("forked_from_id")),
        about=_about(stated),
    )


def _spawned(source: Any) -> dict[str, Any]:
    """Return the session that started this one as a subagent; None if it is not one."""
    spawned = fields_of(fields_of(source).get("subagent"))
    return fields_of(spawned.get("thread_spawn")) or spawned


def _about(stated: dict[str, Any]) -> dict[str, Any]:
    git = fields_of(stated.get("git"))
    about = {ours: stated.get(theirs) for theirs, ours in _ABOUT.items()}
    about |= {ours: git.get(theirs) for theirs, ours in _GIT.items()}
    return {name: shorten(value) for name, value in about.items() if value and type(value) is str}
