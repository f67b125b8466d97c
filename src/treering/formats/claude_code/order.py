"""The order of lines: a line that comes before its parent waits for it, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.formats.claude_code.lines import name_in
from treering.formats.claude_code.state import NODES_MAX, LineNode, NextEvent
from treering.formats.loose import keep
from treering.formats.parsed import ParsedEvent

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from treering.formats.claude_code.lines import LineEvent, LogLine
    from treering.formats.claude_code.state import ClaudeCodeState
    from treering.formats.parsed import LogRecord

_PROMPT: Final = "conversation.user"
_SPOKEN: Final = ("conversation.", "tool.", "boundary.")
"""Kinds that are part of the conversation."""
_TURNED: Final = ("context.", "compaction.")
"""Kinds that it starts again from: a user does not go back past them by continuing."""

WAITING_MAX: Final = 64
"""Records that wait. A parent may be in another file, or too far back to be known."""


class Order:
    """Puts each record after its parent, if that is near."""

    def __init__(self) -> None:
        self.waiting: list[LogRecord] = []
        """Records that wait."""
        self._ids: set[str] = set()
        """The lines among them."""
        self._missing: set[str] = set()
        """Parents that have not come yet."""

    def take(self, record: LogRecord, known: Container[str]) -> list[LogRecord]:
        """Return the records that are in order with ``record``; ``known`` lines came before."""
        parent = _parent(record.value)
        unknown = parent is not None and parent not in known and parent not in self._ids
        if not (unknown or self.waiting):
            return [record]
        self.waiting.append(record)
        own_id = name_in(record.value, "uuid")
        if own_id is not None:
            self._ids.add(own_id)
            self._missing.discard(own_id)
        if unknown and parent is not None and parent != own_id:
            self._missing.add(parent)
        is_over = not self._missing or len(self.waiting) >= WAITING_MAX
        return self.release() if is_over else []

    def release(self) -> list[LogRecord]:
        """Return all that waits, in order."""
        waiting, ids = self.waiting, self._ids
        self.waiting, self._ids, self._missing = [], set(), set()
        return [record for group in _sorted(_groups(waiting), ids) for record in group]


def _sorted(groups: list[list[LogRecord]], ids: set[str]) -> Iterator[list[LogRecord]]:
    """Give each group after its parent, if that is one of ``ids``."""
    followers: dict[str, list[list[LogRecord]]] = {}
    to_come = set(ids)
    for group in groups:
        parent = _parent(group[0].value)
        if parent is not None and parent in to_come and parent != name_in(group[0].value, "uuid"):
            followers.setdefault(parent, []).append(group)
            continue
        ready = [group]
        while ready:
            first = ready.pop(0)
            yield first
            own_id = name_in(first[0].value, "uuid") or ""
            to_come.discard(own_id)
            ready = [*followers.pop(own_id, []), *ready]
    # Lines that follow each other in a circle.
    for left in followers.values():
        yield from left


def _groups(records: list[LogRecord]) -> list[list[LogRecord]]:
    """Return the records, those without an id with the one before: they are named after it."""
    groups: list[list[LogRecord]] = []
    for record in records:
        if groups and name_in(record.value, "uuid") is None:
            groups[-1].append(record)
        else:
            groups.append([record])
    return groups


def _parent(value: Any) -> str | None:
    return name_in(value, "parentUuid")


def rewound(line: LogLine, pieces: Sequence[LineEvent], past: ClaudeCodeState) -> list[ParsedEvent]:
    """Return the undo event if a prompt follows a line that already has a follower.

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
