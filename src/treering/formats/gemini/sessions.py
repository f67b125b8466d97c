"""What a file of the Gemini CLI says of its session: its id, its project, its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex.drafts import digest
from treering.formats.loose import fields_of, word
from treering.formats.loose import name as name_of
from treering.formats.telling import Opening, of_words
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

AGENT: Final = "gemini"
SUBAGENT: Final = "gemini:subagent"
CHATS: Final = "chats"
"""The folder of a project's sessions; those of subagents lie one deeper, by their parent's id."""
_SORTS: Final = frozenset({"user", "gemini", "info", "error", "warning"})
_OF_A_USER: Final = frozenset({"id", "timestamp", "type", "content", "displayContent"})
"""All that a message of a user holds."""


def recognises(values: Sequence[Any]) -> bool:
    """Whether a file that begins with ``values`` is a session of the Gemini CLI."""
    found = [value for value in values if isinstance(value, dict)]
    if not found:
        return False
    first = found[0]
    if isinstance(first.get("sessionId"), str) and "type" not in first:
        messages = first.get("messages")
        sorts = (
            {word(fields_of(one).get("type")) for one in messages}
            if isinstance(messages, list)
            else set()
        )
        return "projectHash" in first or bool(sorts & _SORTS)
    lines = any("$set" in one or "$rewindTo" in one for one in found)
    if lines and any(word(one.get("type")) in _SORTS and "id" in one for one in found):
        return True
    return 2 * sum(map(_is_own, found)) > len(values)


def _is_own(value: dict[str, Any]) -> bool:
    """Whether a message alone tells whose it is: the header may be damaged."""
    if not all(isinstance(value.get(name), str) for name in ("id", "timestamp")):
        return False
    if value.get("type") == "user":
        return "content" in value and value.keys() <= _OF_A_USER
    return value.get("type") == "gemini" and "content" in value


def is_message(value: dict[str, Any]) -> bool:
    """Whether a line is a message, and no header, patch or rewind."""
    return isinstance(value.get("id"), str) and "sessionId" not in value and "$patch" not in value


def session_of(path: PurePath | None, first: Any) -> str:
    """Return the id of a session that no record names: by its file, else by its first record."""
    named = name_of(f"gemini-{path.name.partition('.')[0]}") if path is not None else None
    return named or f"gemini-{of_words(digest(first))}"


def opening_of(session: str, stated: dict[str, Any], path: PurePath | None) -> Opening:
    """Return how a session was opened, as its header and its place tell."""
    parent = _parent(path)
    project = {"project": stated["projectHash"]} if name_of(stated.get("projectHash")) else {}
    subagent = stated.get("kind") == "subagent" or parent is not None
    opened = Opening(
        session=session,
        agent=SUBAGENT if subagent else AGENT,
        parent=parent if parent != session else None,
        about=project,
    )
    return titled(opened, stated)


def titled(opening: Opening, stated: dict[str, Any]) -> Opening:
    """Return ``opening`` with the title and the folder that are known by now."""
    summary, folders = stated.get("summary"), stated.get("directories")
    title = shorten(summary) if isinstance(summary, str) and summary.strip() else opening.title
    cwd = folders[0] if isinstance(folders, list) and folders else None
    return msgspec.structs.replace(
        opening, title=title, cwd=opening.cwd or (cwd if isinstance(cwd, str) and cwd else None)
    )


def _parent(path: PurePath | None) -> str | None:
    """Return the session whose subagent this is, if the folder is named after one."""
    if path is None or path.parent.parent.name != CHATS:
        return None
    return name_of(path.parent.name)
