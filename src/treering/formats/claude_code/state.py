"""What a reader of Claude Code's logs remembers of the lines before: a little, however many.

Everything here is bounded and can be written down, so that a log is read on where it was left. What
is written down lies beyond the reach of erasures: it holds names and digests, and no text.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from treering.formats.parsed import SessionHeader

STATE_BYTES_MAX: Final = 64 * 1024
NODES_MAX: Final = 160
"""Lines that later ones may follow."""
FOLLOWED_MAX: Final = 120
PROMPTED_MAX: Final = 160
"""Prompts that may be returned to: further back than anything else."""
CALLS_MAX: Final = 100
MESSAGES_MAX: Final = 16
"""Messages whose parts may still come again."""
TITLES_MAX: Final = 16
MARK_DIGITS: Final = 8
"""What is kept of the digest of what a line says."""
LEAF_LINES_MAX: Final = 1_000
"""How far a summary may stand before the line that it names, to be the title of its session."""
_IN_ORDER: Final = (
    "sessions", "nodes", "followed", "prompted", "calls", "asked", "tasks", "usage", "blocks",
    "compactions", "titles", "facts",
)  # fmt: skip
"""What is kept by names of which the first came first."""

Value = TypeVar("Value")


class LineNode(msgspec.Struct, frozen=True, array_like=True):
    """A line that others may follow."""

    session: int
    key: str = ""
    """What stands for it, if it is not named by its own id."""
    stem: str = ""
    """The line of the conversation that it belongs to, if it is none itself."""
    mark: str = ""
    """A digest of what it says."""


class NextEvent(msgspec.Struct, frozen=True, array_like=True):
    """The first event behind a line of the conversation."""

    key: str
    session: int


class Task(msgspec.Struct, frozen=True, array_like=True):
    """A call that sets a subagent to work."""

    prompt: str
    """A digest of what it is told to do."""
    sort: str | None = None


class Title(msgspec.Struct, frozen=True, array_like=True):
    """What a session is called."""

    mark: str
    """A digest of it."""
    chosen: bool
    """Whether a person chose it."""


class Leaf(msgspec.Struct, frozen=True, array_like=True):
    """A title for the session of a line that has not been read yet."""

    title: str
    line: int
    """Where it was told, by the count of lines."""


class PendingCompaction(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a compaction before its summary comes."""

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
    """The name of the last line: what has no id is named after it."""
    settled: bool = False
    """Whether the session of the file is known."""
    nodes: dict[str, LineNode] = {}
    followed: dict[str, NextEvent] = {}
    prompted: dict[str, NextEvent] = {}
    calls: dict[str, str] = {}
    """The tools of calls, by id."""
    asked: dict[str, tuple[str, str]] = {}
    """Of each call, a digest of what is asked, and the key under which that was told."""
    tasks: dict[str, Task] = {}
    usage: dict[str, tuple[int, int]] = {}
    """The most tokens that were reported of a message: in all, and of its answer."""
    blocks: dict[str, dict[str, str]] = {}
    """Of each message, the keys of its parts by their digests."""
    compactions: dict[str, PendingCompaction] = {}
    titles: dict[str, Title] = {}
    facts: dict[str, dict[str, str]] = {}
    """Of each session, what is known of where and how it works, as digests."""
    leaves: dict[str, Leaf] = {}
    """Titles by the ids of lines; they cannot be written down."""
    lines: int = 0
    """Lines that were told of, to know for how long a title has waited."""

    begun: frozenset[str] = frozenset()
    """Sessions that were told of before this reading: what comes to be known of them is news."""
    names: list[str] = []
    """The sessions by their numbers: what both say, sessions say too."""
    numbers: dict[str, int] = {}

    def number(self, session: str) -> int:
        """Return the number of a session that is open."""
        self._count()
        return self.numbers[session]

    def key_of(self, line_id: str | None) -> str | None:
        """Return the key of the event that a line is known by."""
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

    def behind(self, line_id: str, session: str) -> str | None:
        """Return the key of the first event of ``session`` that follows a line, if any does."""
        stem = self.stem_of(line_id)
        found = self.followed.get(stem) or self.prompted.get(stem)
        return found.key if found is not None and found.session == self.number(session) else None

    def next_line(self) -> None:
        """Count a line, and let go of titles that have waited for too long."""
        self.lines += 1
        while self.leaves and next(iter(self.leaves.values())).line < self.lines - LEAF_LINES_MAX:
            del self.leaves[next(iter(self.leaves))]

    def follow(self, line_id: str, follower: NextEvent, *, prompt: bool) -> None:
        """Remember what came behind a line, if nothing did before."""
        stem = self.stem_of(line_id)
        first = self.followed.get(stem) or follower
        if stem not in self.followed:
            keep(self.followed, stem, first, FOLLOWED_MAX)
        if prompt and stem not in self.prompted:
            keep(self.prompted, stem, first, PROMPTED_MAX)


def keep(kept: dict[str, Value], name: str, value: Value, most: int) -> None:
    """Put ``value`` last, and let go of the first ones beyond ``most``."""
    kept.pop(name, None)
    kept[name] = value
    while len(kept) > most:
        del kept[next(iter(kept))]


def written(past: ClaudeCodeState) -> Any:
    """Return ``past`` as JSON; None if a title waits, or if it is too large to be written down."""
    if past.leaves:
        return None
    bare = {name: opening.bare() for name, opening in past.sessions.items()}
    told = msgspec.to_builtins(
        msgspec.structs.replace(past, sessions=bare, names=[], numbers={}, begun=frozenset())
    )
    told |= {name: [[*pair] for pair in told[name].items()] for name in _IN_ORDER}
    return told if len(msgspec.json.encode(told)) <= STATE_BYTES_MAX else None


def restored(told: Any) -> ClaudeCodeState:
    """Return the past that was written down. Raises ValueError if it is none."""
    try:
        found = msgspec.convert(told, dict[str, Any])
        pairs = {name: found[name] for name in _IN_ORDER if name in found}
        kept = msgspec.convert(pairs, dict[str, list[tuple[str, Any]]])
        past = msgspec.convert(
            found | {name: dict(part) for name, part in kept.items()}, ClaudeCodeState
        )
        return msgspec.structs.replace(past, begun=frozenset(past.sessions))
    except msgspec.ValidationError as error:
        raise ValueError(f"this is no state of a Claude Code log: {error}") from error
