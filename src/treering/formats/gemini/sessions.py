"""The session header of a Gemini CLI file: its id, project and parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex.drafts import digest
from treering.formats.gemini.messages import ANSWERS
from treering.formats.grammar import share
from treering.formats.loose import fields_of, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import SessionHeader, content_key
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import PurePath

AGENT: Final = "gemini"
CHATS: Final = "chats"
"""The folder of a project's sessions; subagent sessions are in a subfolder named by their
parent."""
_MESSAGE_TYPES: Final = frozenset({"user", "info", "error", "warning"}) | ANSWERS
_OF_A_USER: Final = frozenset({"id", "timestamp", "type", "content", "displayContent"})
"""All fields of a user's message."""


def score(values: Sequence[Any]) -> float:
    """Return the share of values that belong to a Gemini CLI session."""
    return share(verdict for value in values for verdict in _verdicts(fields_of(value)))


def _verdicts(value: dict[str, Any]) -> Iterator[bool | None]:
    """Yield a verdict for a value; for a whole session, one for each of its messages."""
    if isinstance(value.get("sessionId"), str) and "type" not in value:
        messages = value.get("messages")
        yield True if "projectHash" in value else None
        for message in messages if isinstance(messages, list) else []:
            yield word(fields_of(message).get("type")) in _MESSAGE_TYPES
    elif "$set" in value or "$rewindTo" in value:
        yield True
    else:
        yield _is_own(value)


def _is_own(value: dict[str, Any]) -> bool | None:
    """Return the verdict for a single message, since the header may be damaged."""
    type_ = word(value.get("type"))
    if (
        not isinstance(value.get("id"), str)
        or "timestamp" not in value
        or type_ not in _MESSAGE_TYPES
    ):
        return False
    if not isinstance(value["timestamp"], str):
        return None
    if type_ == "user":
        return "content" in value and value.keys() <= _OF_A_USER
    return "content" in value if type_ in ANSWERS else None


def is_message(value: dict[str, Any]) -> bool:
    """Return whether a line is a message, not a header, patch or rewind."""
    return isinstance(value.get("id"), str) and "sessionId" not in value and "$patch" not in value


def session_of(path: PurePath | None, first: Any) -> str:
    """Return an id for a session that no record names: from its file name or first record."""
    named = name_of(f"gemini-{path.name.partition('.')[0]}") if path is not None else None
    return named or f"gemini-{content_key(digest(first))}"


def opening_of(
    session: str, stated: dict[str, Any], path: PurePath | None, *, agent: str = AGENT
) -> SessionHeader:
    """Return the session header from its first record and its file's location."""
    parent = _parent(path)
    project = {"project": stated["projectHash"]} if name_of(stated.get("projectHash")) else {}
    subagent = stated.get("kind") == "subagent" or parent is not None
    opened = SessionHeader(
        session=session,
        agent=f"{agent}:subagent" if subagent else agent,
        parent=parent if parent != session else None,
        about=project,
    )
    return titled(opened, stated)


def titled(opening: SessionHeader, stated: dict[str, Any]) -> SessionHeader:
    """Return ``opening`` with the title and folder in ``stated``."""
    summary, folders = stated.get("summary"), stated.get("directories")
    title = shorten(summary) if isinstance(summary, str) and summary.strip() else opening.title
    cwd = folders[0] if isinstance(folders, list) and folders else None
    return msgspec.structs.replace(
        opening, title=title, cwd=opening.cwd or (cwd if isinstance(cwd, str) and cwd else None)
    )


def _parent(path: PurePath | None) -> str | None:
    """Return the parent session of a subagent, which its folder is named after."""
    if path is None or path.parent.parent.name != CHATS:
        return None
    return name_of(path.parent.name)
