"""Where and how a session works: what its lines say of that, and when it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.formats.claude_code.lines import Piece, name_in
from treering.formats.claude_code.past import TITLES_MAX, keep
from treering.formats.loose import digest

if TYPE_CHECKING:
    from treering.formats.claude_code.lines import Line
    from treering.formats.claude_code.past import Past

_FACTS: Final = {
    "version": "version",
    "gitBranch": "git_branch",
    "entrypoint": "entrypoint",
    "slug": "slug",
    "permissionMode": "permission_mode",
}
_OWN_LINES: Final = frozenset({"mode", "permission-mode"})
"""Lines that are there to tell a fact themselves."""
_PATH_CHARACTERS_MAX: Final = 4_096
_DIGITS: Final = 8


def facts_in(line: Line) -> dict[str, str]:
    """Return what a line says of where and how its session works."""
    told = {ours: name_in(line.value, theirs) for theirs, ours in _FACTS.items()}
    told["cwd"] = name_in(line.value, "cwd", most=_PATH_CHARACTERS_MAX)
    return {name: found for name, found in told.items() if found is not None}


def changed_in(line: Line, past: Past) -> list[Piece]:
    """Return what has changed with a line, or is known only since its session was told of."""
    told = facts_in(line)
    known = past.facts.get(line.session, {})
    marks = {name: digest(found)[:_DIGITS] for name, found in told.items()}
    if not marks or marks.items() <= known.items():
        return []
    keep(past.facts, line.session, known | marks, TITLES_MAX)
    is_begun = line.session in past.begun
    changed = {
        name: told[name]
        for name, mark in marks.items()
        if (mark != known[name] if name in known else is_begun)
    }
    if not changed or line.sort in _OWN_LINES:
        return []
    return [
        Piece(
            kind="ops.observation",
            summary="surroundings changed: " + ", ".join(changed),
            payload={"record": "surroundings", **changed},
            refs={"observed": "surroundings"},
            key=f"{line.key}.surroundings",
        )
    ]
