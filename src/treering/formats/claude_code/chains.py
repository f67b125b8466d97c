"""What follows what: lines name the one before them, and a user may go back to any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.formats.claude_code.state import NODES_MAX, LineNode, NextEvent, keep
from treering.formats.parsed import ParsedEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.formats.claude_code.lines import LineEvent, LogLine
    from treering.formats.claude_code.state import ClaudeCodeState

_PROMPT: Final = "conversation.user"
_SPOKEN: Final = ("conversation.", "tool.", "boundary.")
"""Kinds that are part of the conversation."""
_TURNED: Final = ("context.", "compaction.")
"""Kinds that it starts anew from: nobody goes back over them by going on."""


def rewound(line: LogLine, pieces: Sequence[LineEvent], past: ClaudeCodeState) -> list[ParsedEvent]:
    """Return that the user went back, if a prompt follows what something followed before.

    Parallel calls branch, too; a prompt does not, unless the user goes back.
    """
    if line.parent is None or line.own_id in past.nodes:
        return []
    if not any(piece.kind == _PROMPT for piece in pieces):
        return []
    first = past.behind(line.parent, line.session)
    if first is None or first == line.key:
        return []
    to = past.key_of(line.parent)
    return [
        ParsedEvent(
            session=line.session,
            key=f"{line.key}.undo",
            kind="session.undone",
            summary="went back to an earlier message",
            ts_ms=line.ts_ms,
            payload={"to": to},
            source="user",
            after=to,
            first=first,
        )
    ]


def remember(
    line: LogLine,
    pieces: Sequence[LineEvent],
    past: ClaudeCodeState,
    repeated: str | None,
    *,
    told: bool,
) -> None:
    """Keep in mind where ``line`` stands.

    ``repeated`` is the key of what it only says again; ``told`` is whether it has an event of its
    own name.
    """
    if line.own_id is None:
        return
    session = past.number(line.session)
    kinds = [piece.kind for piece in pieces]
    spoken = any(kind.startswith(_SPOKEN) for kind in kinds)
    if line.parent is not None and spoken and told:
        past.follow(line.parent, NextEvent(line.key, session), prompt=_PROMPT in kinds)
    key, stem = line.key, ""
    if not told:
        key = repeated or past.key_of(line.parent) or line.key
        stem = "" if repeated is None else _line_of(repeated, line.session)
    turned = any(kind.startswith(_TURNED) for kind in kinds)
    if not (spoken or turned or stem) and line.parent is not None:
        stem = past.stem_of(line.parent)
    key, stem = (("" if one == line.own_id else one) for one in (key, stem))
    keep(past.nodes, line.own_id, LineNode(session, key, stem, line.mark), NODES_MAX)


def _line_of(key: str, session: str) -> str:
    """Return the id of the line that an event was told by."""
    return key.removeprefix(f"{session}/").partition(".")[0]
