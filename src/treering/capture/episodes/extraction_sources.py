"""Transcripts of OpenClaw's agents: their files, owners and read positions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.episodes.files import Fingerprint, fingerprint_of
from treering.errors import InvalidScope
from treering.formats import openclaw
from treering.model.scopes import GLOBAL, Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import IO

STATE_SCHEMA: Final = "treering.episodes.extract.state.v1"
STORE: Final = "sessions.json"
STORE_BYTES_MAX: Final = 16 * 1024 * 1024
AGENT: Final = "main"
"""The default agent."""
_REPLAYS: Final = (".checkpoint.", ".bak", ".trajectory.")
"""Parts of the names of files that repeat others."""
_PUT_ASIDE: Final = (".jsonl.reset.", ".jsonl.deleted.")


class FileState(msgspec.Struct, kw_only=True):
    """The read position of one transcript."""

    offset: int = 0
    inode: int | None = None
    size: int = 0
    updated_at: str | None = None
    last_ts_ms: int | None = None
    print: Fingerprint | None = None

    def settle(self, stream: IO[bytes], key: Callable[[], bytes]) -> None:
        """Restart at the beginning if the file was replaced or rewritten."""
        status = os.fstat(stream.fileno())
        is_same = (
            self.inode in {None, status.st_ino}
            and status.st_size >= self.offset
            and (self.print is None or self.print.fits(stream, key))
        )
        if not is_same:
            self.offset, self.last_ts_ms = 0, None
        self.inode = status.st_ino

    def reached(self, stream: IO[bytes], offset: int, at: str, *, key: bytes) -> None:
        """Note that everything before ``offset`` is in the spool."""
        self.offset, self.updated_at = offset, at
        self.size = os.fstat(stream.fileno()).st_size
        self.print = fingerprint_of(stream, offset, key)


class ExtractState(msgspec.Struct, kw_only=True):
    """The read positions of all transcripts."""

    schema: str = STATE_SCHEMA
    sessions_root: str = ""
    files: dict[str, FileState] = {}
    updated_at: str | None = None


def default_root() -> Path:
    """Return the folder of OpenClaw's agents, each with its sessions."""
    return openclaw.home() / "agents"


def transcripts(root: Path) -> tuple[list[Path], int]:
    """Return the transcripts below ``root``, sorted, and the number of ignored files."""
    paths: list[Path] = []
    ignored = 0
    for path in sorted(root.rglob("*.jsonl*")):
        name = path.name
        is_log = name.endswith(".jsonl") or any(part in name for part in _PUT_ASIDE)
        if not is_log or any(part in name for part in _REPLAYS) or name.startswith(STORE):
            ignored += 1
        elif path.is_file():
            paths.append(path)
    return paths, ignored


class TranscriptOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a transcript, from its path and the session index beside it."""

    session: str
    agent: str | None
    scope: Scope
    links: dict[str, str] = {}


class Owners:
    """Looks up the owners of transcripts; each session index is read once."""

    def __init__(self, scope: Scope | None) -> None:
        self._scope = scope
        self._stores: dict[Path, dict[str, dict[str, Any]]] = {}

    def of(self, path: Path) -> TranscriptOwner:
        """Return the owner of the transcript at ``path``."""
        stem = path.name.partition(".jsonl")[0]
        entry = self._store(path.parent).get(stem.partition("-topic-")[0], {})
        key = entry.get("key")
        agent = _agent_of_key(key) or _agent_of_path(path)
        links = {
            name: value
            for name, value in (("session_key", key), ("channel", entry.get("channel")))
            if isinstance(value, str) and value
        }
        scope = self._scope or _scope_of(agent)
        return TranscriptOwner(session=stem, agent=agent, scope=scope, links=links)

    def _store(self, folder: Path) -> dict[str, dict[str, Any]]:
        store = self._stores.get(folder)
        if store is None:
            store = self._stores[folder] = _read_store(folder / STORE)
        return store


def _read_store(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of a session index by session id; empty if it cannot be read."""
    try:
        if path.stat().st_size > STORE_BYTES_MAX:
            return {}
        index = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    entries = index.items() if isinstance(index, dict) else ()
    return {
        entry["sessionId"]: {**entry, "key": key}
        for key, entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("sessionId"), str)
    }


def _agent_of_key(key: Any) -> str | None:
    parts = key.split(":") if isinstance(key, str) else []
    return parts[1] if len(parts) > 2 and parts[0] == "agent" and parts[1] else None


def _agent_of_path(path: Path) -> str | None:
    parts = path.parts
    # …/agents/<agent>/sessions/<session>.jsonl
    if len(parts) >= 4 and parts[-2] == "sessions" and parts[-4] == "agents":
        return parts[-3]
    return None


def _scope_of(agent: str | None) -> Scope:
    if agent is None:
        return GLOBAL
    try:
        return parse_scope(f"openclaw/{agent}")
    except InvalidScope:
        return GLOBAL
