"""Lines besides the conversation: where and how a session works, titles, compactions, errors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from treering.derive.tool_facts import plausible
from treering.formats.claude_code.lines import ID_CHARACTERS_MAX, LineEvent, name_in, observed
from treering.formats.claude_code.state import TITLES_MAX, Leaf, PendingCompaction, Title
from treering.formats.loose import digest, keep
from treering.spine.words import shorten

if TYPE_CHECKING:
    from treering.formats.claude_code.lines import LogLine
    from treering.formats.claude_code.state import ClaudeCodeState


_FACTS: Final = {
    "version": "version",
    "gitBranch": "git_branch",
    "entrypoint": "entrypoint",
    "slug": "slug",
    "permissionMode": "permission_mode",
}
_FIELDS: Final = (*_FACTS, "cwd")
_REPEATED_MAX: Final = 8
_OWN_LINES: Final = frozenset({"mode", "permission-mode"})
"""Lines whose only purpose is to state a fact."""
_PATH_CHARACTERS_MAX: Final = 4_096
_DIGITS: Final = 8


def facts_in(line: LogLine) -> dict[str, str]:
    """Return what a line says about where and how its session works."""
    facts = {ours: name_in(line.value, theirs) for theirs, ours in _FACTS.items()}
    facts["cwd"] = name_in(line.value, "cwd", most=_PATH_CHARACTERS_MAX)
    return {name: fact for name, fact in facts.items() if fact is not None}


class FactRepeats:
    """Recognises lines that say nothing new about their session, as most do."""

    def __init__(self) -> None:
        self._said: dict[str, list[tuple[Any, ...]]] = {}
        """Of each session, the fields of lines since something changed."""

    def holds(self, session: str, value: dict[str, Any], past: ClaudeCodeState) -> bool:
        """Whether all that a line says of its session is known."""
        earlier = self._said.get(session)
        return earlier is not None and session in past.facts and _stated_in(value) in earlier

    def note(self, line: LogLine, *, changed: bool) -> None:
        """Remember the fields of a line; if they ``changed``, forget the earlier ones."""
        earlier = self._said.setdefault(line.session, [])
        if changed or len(earlier) >= _REPEATED_MAX:
            earlier.clear()
        earlier.append(_stated_in(line.value))


def changed_in(line: LogLine, facts: dict[str, str], past: ClaudeCodeState) -> list[LineEvent]:
    """Return what has changed with a line, or became known after its session was opened."""
    earlier = past.facts.get(line.session, {})
    marks = {name: _mark(fact) for name, fact in facts.items()}
    if not marks or marks.items() <= earlier.items():
        return []
    keep(past.facts, line.session, earlier | marks, TITLES_MAX)
    is_begun = line.session in past.begun
    changed = {
        name: facts[name]
        for name, mark in marks.items()
        if (mark != earlier[name] if name in earlier else is_begun)
    }
    if not changed or line.sort in _OWN_LINES:
        return []
    return [
        LineEvent(
            kind="ops.observation",
            summary="surroundings changed: " + ", ".join(changed),
            payload={"record": "surroundings", **changed},
            refs={"observed": "surroundings"},
            key=f"{line.key}.surroundings",
        )
    ]


@lru_cache(maxsize=64)
def _mark(fact: str) -> str:
    # Most sessions of a folder work in the same way.
    return digest(fact)[:_DIGITS]


def _stated_in(value: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(map(value.get, _FIELDS))


_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""The field of each type of line that holds a title."""


def noted(line: LogLine, past: ClaudeCodeState) -> list[LineEvent]:
    """Return the events of a line besides the conversation; none if it repeats a title."""
    if line.sort in _TITLES:
        return _named(line, past)
    if line.sort != "system":
        return [observed(line, _what(line))]
    subtype = name_in(line.value, "subtype")
    if subtype == "compact_boundary":
        return [_compacted(line, past)]
    if subtype == "api_error":
        return [_failed(line)]
    return [observed(line, f"system.{subtype}" if subtype else "system")]


def titled(
    title: str, session: str, past: ClaudeCodeState, *, chosen: bool, key: str | None = None
) -> LineEvent:
    """Return the new title of a session."""
    keep(past.titles, session, Title(digest(title), chosen), TITLES_MAX)
    return LineEvent(kind="session.titled", summary=title, payload={"title": title}, key=key)


def _named(line: LogLine, past: ClaudeCodeState) -> list[LineEvent]:
    words = line.value.get(_TITLES[line.sort])
    if not isinstance(words, str) or not words.strip():
        return [observed(line, line.sort)]
    title = shorten(words)
    if line.sort == "summary":
        leaf = name_in(line.value, "leafUuid")
        if leaf is None or past.session_of(leaf) != line.session:
            # It may be another session's, or that of this one's end, which is not read yet.
            if leaf is not None:
                keep(past.leaves, leaf, Leaf(title, past.lines), TITLES_MAX)
            return [observed(line, line.sort)]
    earlier = past.titles.get(line.session)
    chosen = line.sort == "custom-title"
    if earlier is not None and earlier.mark == digest(title):
        return []
    if earlier is not None and earlier.chosen and not chosen:
        return [observed(line, line.sort)]
    return [titled(title, line.session, past, chosen=chosen)]


def _compacted(line: LogLine, past: ClaudeCodeState) -> LineEvent:
    metadata = line.value.get("compactMetadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    before = metadata.get("preTokens")
    tokens = plausible(before) if type(before) is int else None
    first = name_in(metadata.get("preservedSegment"), "headUuid")
    keep(past.compactions, line.session, PendingCompaction(tokens, past.key_of(first)), TITLES_MAX)
    return LineEvent(
        kind="compaction.ended",
        summary="conversation compacted",
        payload={**line.value, "record": line.sort},
        refs={} if tokens is None else {"tokens_before": tokens},
    )


def _failed(line: LogLine) -> LineEvent:
    cause: Any = line.value.get("error") or line.value.get("cause") or line.value.get("content")
    status = cause.get("status") if isinstance(cause, dict) else None
    words = cause if isinstance(cause, str) else "the provider returned an error"
    return LineEvent(
        kind="ops.error",
        summary=shorten(words),
        payload={**line.value, "record": line.sort},
        refs={} if type(status) is not int else {"code": str(status)},
    )


def _what(line: LogLine) -> str:
    """Return the type of a line, and of what is attached to it."""
    inside = line.value.get(line.sort) or line.value.get("data")
    sort = name_in(inside, "type")
    return shorten(f"{line.sort}.{sort}" if sort else line.sort, ID_CHARACTERS_MAX)
