"""A session of Grok's, as the files in its folder describe it."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from treering.formats.beside import read_beside
from treering.formats.loose import count, fields_of, name, without_none, word
from treering.formats.parsed import SessionHeader
from treering.formats.whole import json_of
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import PurePath

NAME: Final = "grok"
HISTORY: Final = "chat_history.jsonl"
UPDATES: Final = "updates.jsonl"
SESSION_KEY: Final = "session"
"""The key of the first event of a session whose updates were read."""
SUBAGENTS: Final = frozenset({"subagent", "subagent_fork"})
_START_BYTES: Final = 256 * 1024
_SAID: Final = re.compile(rb'"user_message_chunk"')
_ENDED: Final = re.compile(rb'"turn_completed"')
_SPAWNED: Final = b'"subagent_spawned"'
_TOKENS: Final = {
    "input_tokens": ("inputTokens", "totalInputTokens", "input_tokens"),
    "output_tokens": ("outputTokens", "totalOutputTokens", "output_tokens"),
    "cached_tokens": ("cachedReadTokens", "cacheReadTokens", "cached_tokens"),
}


def tells_all(updates: Path) -> bool:
    """Return whether there are updates that tell what was said, as far as they were written."""
    try:
        with updates.open("rb") as stream:
            start = stream.read(_START_BYTES)
    except OSError:
        return False
    return _SAID.search(start) is not None or _ENDED.search(start) is None


def summary_of(path: PurePath | None) -> dict[str, Any]:
    """Return the summary of the session beside a log; {} if there is none."""
    return read_beside(path, "summary.json")


def title_of(summary: dict[str, Any]) -> str | None:
    """Return the title of a session."""
    return word(summary.get("generated_title")) or word(summary.get("session_summary"))


def session_header(
    summary: dict[str, Any], path: PurePath | None, *, agent: str, otherwise: str
) -> SessionHeader:
    """Return the header of the session in a folder; ``otherwise`` is its name if nothing tells."""
    stated = fields_of(summary.get("info"))
    is_in_place = path is not None and path.name.startswith((HISTORY, UPDATES))
    folder = name(path.parent.name) if path is not None and is_in_place else None
    session = name(stated.get("id")) or folder or otherwise
    parent = name(summary.get("parent_session_id")) or name(summary.get("parentSessionId"))
    is_child = word(summary.get("session_kind")) in SUBAGENTS
    if is_child and parent is None and path is not None:
        parent = _parent(Path(path).parent, session)
    kind = name(summary.get("agent_name"))
    remotes = summary.get("git_remotes")
    remote = remotes[0] if isinstance(remotes, list) and remotes else None
    title = title_of(summary)
    return SessionHeader(
        session=session,
        agent=f"{agent}:{kind or 'subagent'}" if is_child else agent,
        cwd=word(stated.get("cwd"))
        or word(summary.get("git_root_dir"))
        or (_project(path) if path is not None and is_in_place else None),
        title=shorten(title) if title else None,
        parent=parent if is_child and parent != session else None,
        forked_from=None if is_child or parent == session else parent,
        about=without_none(
            branch=name(summary.get("head_branch")),
            commit=name(summary.get("head_commit")),
            repository=name(remote),
            model=name(summary.get("current_model_id")),
        ),
    )


def _project(path: PurePath) -> str | None:
    """Return the project that the folder above that of a session is named after."""
    folder = unquote(path.parent.parent.name)
    is_whole = PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).is_absolute()
    return folder if is_whole else None


def token_counts(stated: dict[str, Any]) -> dict[str, int]:
    """Return the tokens in a report of Grok's; those from a cache are among the input."""
    stated = {**stated, **fields_of(stated.get("tokenUsage")), **fields_of(stated.get("usage"))}
    return {
        ours: next((number for at in theirs if (number := count(stated.get(at)))), 0)
        for ours, theirs in _TOKENS.items()
    }


def _parent(folder: Path, session: str) -> str | None:
    """Return the session that began a subagent: it says so in its updates, in a folder beside."""
    try:
        logs = sorted(folder.parent.glob(f"*/{UPDATES}"))
        begun = [(log, _children(log, log.stat().st_mtime_ns)) for log in logs]
    except OSError:
        return None
    return next((name(log.parent.name) for log, children in begun if session in children), None)


@lru_cache(maxsize=512)
def _children(updates: Path, _mtime_ns: int) -> frozenset[str]:
    """Return the sessions that a session began."""
    try:
        with updates.open("rb") as stream:
            lines = [fields_of(json_of(line)) for line in stream if _SPAWNED in line]
    except OSError:
        return frozenset()
    begun = (fields_of(fields_of(line.get("params")).get("update")) for line in lines)
    return frozenset(child for update in begun if (child := name(update.get("child_session_id"))))
