"""Where and how a session works: what its lines say about it, and when that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.formats.claude_code.lines import LineEvent, name_in
from treering.formats.claude_code.state import TITLES_MAX
from treering.formats.loose import digest, keep

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
    marks = {name: digest(fact)[:_DIGITS] for name, fact in facts.items()}
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


def _stated_in(value: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(map(value.get, _FIELDS))
