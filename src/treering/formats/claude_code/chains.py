"""The order of a conversation: a line names its parent, and a user may go back to any line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.formats.claude_code.state import NODES_MAX, LineNode, NextEvent
from treering.formats.loose import keep
from treering.formats.parsed import ParsedEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.formats.claude_code.lines import LineEvent, LogLine
    from treering.formats.claude_code.state import ClaudeCodeState

_PROMPT: Final = "conversation.user"
_SPOKEN: Final = ("conversation.", "tool.", "boundary.")
"""Kinds that are part of the conversation."""
_TURNED: Final = ("context.", "compaction.")
"""Kinds that it starts again from: a user does not go back past them by continuing."""


def rewound(line: LogLine, pieces: Sequence[LineEvent], past: ClaudeCodeState) -> list[ParsedEvent]:
    """Return that the user went back, if a prompt follows a line that has a follower.

    Parallel calls branch, too; a prompt does not, unless the user goes back.
    """
    if line.parent is None or line.own_id in past.nodes:
        return []
    if not any(piece.kind == _PROMPT for piece in pieces):
        return []
    first = past.first_after(line.parent, line.session)
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
    has_event: bool,
) -> None:
    """Remember the place of ``line`` in the conversation.

    ``repeated`` is the key of the event that it only repeats; ``has_event`` says whether it has an
    event of its own key.
    """
    if line.own_id is None:
        return
    session = past.number(line.session)
    kinds = [piece.kind for piece in pieces]
    spoken = any(kind.startswith(_SPOKEN) for kind in kinds)
    if line.parent is not None and spoken and has_event:
        past.follow(line.parent, NextEvent(line.key, session), prompt=_PROMPT in kinds)
    key, stem = line.key, ""
    if not has_event:
        key = repeated or past.key_of(line.parent) or line.key
        stem = "" if repeated is None else _line_of(repeated, line.session)
    turned = any(kind.startswith(_TURNED) for kind in kinds)
    if not (spoken or turned or stem) and line.parent is not None:
        stem = past.stem_of(line.parent)
    key, stem = (("" if part == line.own_id else part) for part in (key, stem))
    keep(past.nodes, line.own_id, LineNode(session, key, stem, line.mark), NODES_MAX)


def _line_of(key: str, session: str) -> str:
    """Return the id of the line of an event."""
    return key.removeprefix(f"{session}/").partition(".")[0]
