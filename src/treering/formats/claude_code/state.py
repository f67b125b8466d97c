"""The state of a reader of Claude Code's logs, of bounded size however long the log is.

Everything here is bounded and can be stored, so that a later import continues where this one ended.
Erasures do not reach what is stored: it holds names and digests, and no text.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.formats.loose import keep
from treering.formats.parsed import SessionHeader

STATE_BYTES_MAX: Final = 64 * 1024
NODES_MAX: Final = 160
"""Lines that later ones may follow."""
FOLLOWED_MAX: Final = 120
PROMPTED_MAX: Final = 160
"""Prompts that a user may go back to: further back than to anything else."""
CALLS_MAX: Final = 100
MESSAGES_MAX: Final = 16
"""Messages whose parts may still be repeated."""
TITLES_MAX: Final = 16
MARK_DIGITS: Final = 8
"""Digits of the digest of a line's words."""
LEAF_LINES_MAX: Final = 1_000
"""Lines between a summary and the line that it names, to be the title of its session."""
_IN_ORDER: Final = (
    "sessions", "nodes", "followed", "prompted", "calls", "asked", "tasks", "usage", "blocks",
    "compactions", "titles", "facts",
)  # fmt: skip
"""Fields whose entries are in the order in which they came."""


class LineNode(msgspec.Struct, frozen=True, array_like=True):
    """A line that others may follow."""

    session: int
    key: str = ""
    """The key of its event, if that is not its own id."""
    stem: str = ""
    """The line of the conversation that it belongs to, if it is not one itself."""
    mark: str = ""
    """A digest of what it says."""


class NextEvent(msgspec.Struct, frozen=True, array_like=True):
    """The first event after a line of the conversation."""

    key: str
    session: int


class Task(msgspec.Struct, frozen=True, array_like=True):
    """A call that starts a subagent."""

    prompt: str
    """A digest of its prompt."""
    sort: str | None = None


class Title(msgspec.Struct, frozen=True, array_like=True):
    """The title of a session."""

    mark: str
    """A digest of it."""
    chosen: bool
    """Whether a person chose it."""


class Leaf(msgspec.Struct, frozen=True, array_like=True):
    """A title for the session of a line that has not been read yet."""

    title: str
    line: int
    """The number of the line that has it."""


class PendingCompaction(msgspec.Struct, frozen=True, array_like=True):
    """A compaction whose summary has not come yet."""

    tokens: int | None = None
    first: str | None = None
    """The first line that is kept."""


class ClaudeCodeState(msgspec.Struct, kw_only=True):
    """All that is remembered."""

    sessions: dict[str, SessionHeader] = {}
    session: str | None = None
    """The session of the file so far."""
    ts_ms: int = 0
    key: str = ""
    """The key of the last line: a line without an id is named after it."""
    settled: bool = False
    """Whether the session of the file is known."""
    nodes: dict[str, LineNode] = {}
    followed: dict[str, NextEvent] = {}
    prompted: dict[str, NextEvent] = {}
    calls: dict[str, str] = {}
    """The tools of calls, by id."""
    asked: dict[str, tuple[str, str]] = {}
    """Of each call, a digest of its input, and the key of its event."""
    tasks: dict[str, Task] = {}
    usage: dict[str, tuple[int, int]] = {}
    """The most tokens that were reported for a message: in total, and of its answer."""
    blocks: dict[str, dict[str, str]] = {}
    """Of each message, the keys of its parts by their digests."""
    compactions: dict[str, PendingCompaction] = {}
    titles: dict[str, Title] = {}
    facts: dict[str, dict[str, str]] = {}
    """Of each session, what is known of where and how it works, as digests."""
    leaves: dict[str, Leaf] = {}
    """Titles by the ids of lines; they are text, and never stored."""
    lines: int = 0
    """Lines read so far, to know for how long a title has waited."""

    begun: frozenset[str] = frozenset()
    """Sessions that an earlier import opened: what becomes known of them now is an event."""
    names: list[str] = []
    """The sessions by their numbers."""
    numbers: dict[str, int] = {}

    def number(self, session: str) -> int:
        """Return the number of an open session."""
        if len(self.sessions) > len(self.names):
            self._count()
        return self.numbers[session]

    def key_of(self, line_id: str | None) -> str | None:
        """Return the key of the event of a line."""
        node = self.nodes.get(line_id or "")
        return line_id if node is None else node.key or line_id

    def stem_of(self, line_id: str) -> str:
        """Return the line of the conversation that a line belongs to."""
        node = self.nodes.get(line_id)
        return line_id if node is None else node.stem or line_id

    def session_of(self, line_id: str | None) -> str | None:
        """Return the session of a line, None if it is not known any more."""
        node = self.nodes.get(line_id or "")
        self._count()
        return None if node is None else self.names[node.session]

    def _count(self) -> None:
        """Give the sessions that are new their numbers; mostly there is one, or none."""
        new = len(self.sessions) - len(self.names)
        if not new:
            return
        fresh = [next(reversed(self.sessions))] if new == 1 else list(self.sessions)[-new:]
        for name in fresh:
            self.numbers[name] = len(self.names)
            self.names.append(name)

    def first_after(self, line_id: str, session: str) -> str | None:
        """Return the key of the first event of ``session`` after a line; None if there is none."""
        stem = self.stem_of(line_id)
        follower = self.followed.get(stem) or self.prompted.get(stem)
        return (
            follower.key
            if follower is not None and follower.session == self.number(session)
            else None
        )

    def next_line(self) -> None:
        """Count a line, and drop titles that have waited too long."""
        self.lines += 1
        while self.leaves and next(iter(self.leaves.values())).line < self.lines - LEAF_LINES_MAX:
            del self.leaves[next(iter(self.leaves))]

    def follow(self, line_id: str, follower: NextEvent, *, prompt: bool) -> None:
        """Remember the first event after a line."""
        node = self.nodes.get(line_id)
        stem = line_id if node is None else node.stem or line_id
        first = self.followed.get(stem) or follower
        if stem not in self.followed:
            keep(self.followed, stem, first, FOLLOWED_MAX)
        if prompt and stem not in self.prompted:
            keep(self.prompted, stem, first, PROMPTED_MAX)


def written(past: ClaudeCodeState) -> Any:
    """Return ``past`` as JSON; None if a title waits, or if it is too large to be stored."""
    if past.leaves:
        return None
    bare = {name: opening.bare() for name, opening in past.sessions.items()}
    fields = msgspec.to_builtins(
        msgspec.structs.replace(past, sessions=bare, names=[], numbers={}, begun=frozenset())
    )
    fields |= {name: [[*pair] for pair in fields[name].items()] for name in _IN_ORDER}
    return fields if len(msgspec.json.encode(fields)) <= STATE_BYTES_MAX else None


def restored(state: Any) -> ClaudeCodeState:
    """Return the state that was stored. Raises ValueError if it is not one."""
    try:
        fields = msgspec.convert(state, dict[str, Any])
        pairs = {name: fields[name] for name in _IN_ORDER if name in fields}
        restored_pairs = msgspec.convert(pairs, dict[str, list[tuple[str, Any]]])
        past = msgspec.convert(
            fields | {name: dict(part) for name, part in restored_pairs.items()}, ClaudeCodeState
        )
        return msgspec.structs.replace(past, begun=frozenset(past.sessions))
    except msgspec.ValidationError as error:
        raise ValueError(f"this is not a state of a Claude Code log: {error}") from error
