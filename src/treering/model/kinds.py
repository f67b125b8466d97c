"""The catalogue of event kinds, with their defaults and their names in other systems.

Every spelling below is accepted on input; one name is stored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from treering.errors import InvalidKind
from treering.lazy import LazyModule

if TYPE_CHECKING:
    import difflib
    from collections.abc import Iterable

    from treering.model.views import RunState
else:
    difflib = LazyModule("difflib")

Role = Literal["item", "boundary", "audit"]
Source = Literal["user", "agent", "tool", "system"]
Visibility = Literal["safe", "private"]

Boundary = Literal["checkpoint", "interrupt", "overflow", "intent", "segment"]
BOUNDARIES: Final[tuple[str, ...]] = get_args(Boundary)
"""Marks in a session; the first three are shown to a model."""

SOURCES: Final[frozenset[str]] = frozenset({"user", "agent", "tool", "system"})
VISIBILITIES: Final[frozenset[str]] = frozenset({"safe", "private"})


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of event."""

    name: str
    role: Role
    """item: may reach a model; boundary: a mark in the session; audit: neither."""
    source: Source
    """The default source."""
    visibility: Visibility
    """The default visibility of its summary to sinks."""
    durable: bool
    """False for events that are passed to sinks but never stored."""
    retention_days: int | None
    """The default retention; None is forever."""
    spellings: frozenset[str]
    """Other accepted names."""


def _kind(
    name: str,
    role: Role = "audit",
    source: Source = "system",
    *,
    visibility: Visibility = "safe",
    durable: bool = True,
    days: int | None = None,
    also: tuple[str, ...] = (),
) -> Kind:
    return Kind(
        name=name,
        role=role,
        source=source,
        visibility=visibility,
        durable=durable,
        retention_days=days,
        spellings=frozenset(also),
    )


_ALL: Final = (
    _kind("conversation.user", "item", "user", visibility="private", days=60,
          also=("user_message",)),
    _kind("conversation.assistant", "item", "agent", visibility="private", days=90,
          also=("agent_message", "assistant.final")),
    _kind("assistant.delta", source="agent", visibility="private", durable=False),
    _kind("tool.call", "item", "agent", days=30, also=("tool_call", "tool.call.started")),
    _kind("tool.result", "item", "tool", days=30,
          also=("tool_result", "tool.call.finished", "tool.call.failed")),
    _kind("ops.decision"),
    _kind("ops.alert", days=90),
    _kind("ops.observation"),
    _kind("ops.receipt", days=90),
    _kind("ops.warning", also=("warning",)),
    _kind("ops.error", also=("error",)),
    _kind("ops.blocked", also=("autonomy_blocked",)),
    _kind("ops.cache_hit", also=("cache_hit",)),
    _kind("run.started", also=("lifecycle.started",)),
    _kind("run.ended", also=("lifecycle.ended",)),
    _kind("run.failed", also=("lifecycle.failed",)),
    _kind("run.interrupted"),
    _kind("boundary.checkpoint", "boundary", also=("checkpoint",)),
    _kind("boundary.interrupt", "boundary", also=("interrupt",)),
    _kind("boundary.overflow", "boundary", also=("overflow",)),
    _kind("boundary.intent", "boundary", also=("intent",)),
    _kind("boundary.segment", "boundary", also=("segment",)),
    _kind("context.assembled"),
    _kind("context.compacted", days=90, also=("context_compacted",)),
    _kind("compaction.started", also=("compaction.phase",)),
    _kind("compaction.ended"),
    _kind("usage.reported", also=("turn.usage",)),
    _kind("goal.added", also=("goal_added",)),
    _kind("goal.updated", also=("goal_updated", "goal_edited")),
    _kind("goal.removed", also=("goal_removed",)),
    _kind("schedule.added", also=("scheduler_added",)),
    _kind("schedule.fired", also=("scheduler_fired",)),
    _kind("schedule.removed", also=("scheduler_removed",)),
    _kind("memory.stored", visibility="private", also=("memory_stored",)),
    _kind("memory.revised", visibility="private"),
    _kind("memory.superseded", visibility="private"),
    _kind("memory.archived"),
    _kind("memory.restored"),
    _kind("memory.forgotten", also=("memory_forgotten",)),
    _kind("memory.refused", visibility="private"),
    _kind("memory.recalled"),
    _kind("episode.written", visibility="private"),
    _kind("user.linked"),
    _kind("user.unlinked"),
    _kind("user.merged"),
    _kind("session.opened"),
    _kind("session.closed"),
    _kind("session.titled", visibility="private"),
    _kind("session.forked"),
    _kind("session.undone"),
    _kind("session.redone"),
    _kind("session.hidden"),
    _kind("session.imported"),
    _kind("state.saved", visibility="private"),
    _kind("state.value", visibility="private"),
    _kind("state.written", visibility="private"),
    _kind("state.removed", visibility="private"),
    _kind("inbox.received", source="user", visibility="private", days=60),
    _kind("inbox.taken"),
    _kind("ledger.redacted"),
    _kind("ledger.expired"),
    _kind("ledger.forgotten"),
)  # fmt: skip

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in _ALL}
"""Every kind by its stored name."""

EPISODE_KINDS: Final = (
    "conversation.assistant",
    "conversation.user",
    "ops.alert",
    "ops.decision",
    "ops.observation",
    "tool.call",
    "tool.result",
)
"""The seven kinds that the ``episodes`` commands record."""

RUN_ENDS: Final[dict[str, RunState]] = {
    "run.ended": "ended",
    "run.failed": "failed",
    "run.interrupted": "interrupted",
}
"""Kinds that close a run, with the resulting state."""

ERASURE_KINDS: Final = frozenset({"ledger.redacted", "ledger.expired", "ledger.forgotten"})
"""Kinds that only the ledger writes, as records of an erasure."""

MEMORY_KINDS: Final = frozenset(
    name for name in KINDS if name.startswith(("memory.", "user.", "episode."))
)
"""Kinds that the memory records: the user they name is not necessarily the speaker."""
HIDING_KINDS: Final = frozenset({"session.undone", "session.redone", "session.hidden"})
"""Kinds that hide earlier events of their session, or show them again."""
STATE_KINDS: Final = frozenset(name for name in KINDS if name.startswith("state."))
"""Kinds of a program's own state: never shown to a model, searched, or retold in an episode."""
IMPORTED: Final = "session.imported"
"""Marks a session as imported; imported sessions are kept by default."""

ENVELOPE_KINDS: Final = {
    "run.started": "lifecycle.started",
    "run.ended": "lifecycle.ended",
    "run.failed": "lifecycle.failed",
    "run.interrupted": "lifecycle.failed",
    "assistant.delta": "assistant.delta",
    "conversation.assistant": "assistant.final",
    "tool.call": "tool.call.started",
    "tool.result": "tool.call.finished",
    "compaction.started": "compaction.phase",
    "compaction.ended": "compaction.phase",
    "ops.warning": "warning",
}
"""The kinds that have an envelope, with its name. A failed tool call has ``TOOL_FAILED``."""
TOOL_FAILED: Final = "tool.call.failed"

_SPELLINGS: Final[dict[str, Kind]] = {
    spelling: kind for kind in _ALL for spelling in (kind.name, *kind.spellings)
}


def parse_kind(text: str) -> Kind:
    """Return the kind for a name. Raises InvalidKind with the nearest names."""
    if not isinstance(text, str):
        raise InvalidKind(f"a kind must be text, not a {type(text).__name__}", hint="pass its name")
    kind = _SPELLINGS.get(text) or _SPELLINGS.get(text.strip().lower())
    if kind is None:
        near = difflib.get_close_matches(text.strip().lower(), KINDS, n=3)
        raise InvalidKind(
            f"invalid kind: {text.strip() or '<empty>'}",
            hint=f"did you mean {' or '.join(near)}?"
            if near
            else "the kinds are listed in the documentation",
        )
    return kind


def envelope_kind(kind: str, status: str | None = None) -> str | None:
    """Return the name of an event's envelope, or None if its kind has none.

    ``status`` is the status of a tool's result.
    """
    return TOOL_FAILED if kind == "tool.result" and status != "ok" else ENVELOPE_KINDS.get(kind)


class KindFilter(msgspec.Struct, frozen=True):
    """Selects events by names of kinds: stored names, envelope names and other spellings."""

    chosen: frozenset[tuple[str, str | None]]
    """Pairs of a stored name and an envelope name."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the stored names of the selected kinds, in the order of the catalogue."""
        names = {kind for kind, _ in self.chosen}
        return tuple(name for name in KINDS if name in names)

    def matches(self, kind: str, envelope: str | None) -> bool:
        """Return whether an event with that kind and envelope name is selected."""
        return (kind, envelope) in self.chosen


def parse_kinds(names: str | Iterable[str]) -> KindFilter:
    """Return the filter for ``names``, in which ``*`` matches any characters.

    Raises InvalidKind if a name matches no kind, or if there are no names.
    """
    listed = [names] if isinstance(names, str) else list(names)
    chosen: set[tuple[str, str | None]] = set()
    for name in listed:
        pairs = _named(name)
        if not pairs and "*" in name:
            raise InvalidKind(f"no kind of event matches {name}", hint=_HINT)
        chosen |= pairs or _named(parse_kind(name).name)
    if not chosen:
        raise InvalidKind("no kind is named, so no event would match", hint=_HINT)
    return KindFilter(frozenset(chosen))


def stored_kinds(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the stored kinds that ``names`` select, without repeats, in that order.

    Both outcomes of a tool are stored as one kind, so either name selects both.
    """
    listed = [names] if isinstance(names, str) else names
    return tuple(dict.fromkeys(kind for name in listed for kind in parse_kinds(name).kinds))


def _named(name: str) -> set[tuple[str, str | None]]:
    """Return the pairs that one name of a filter selects."""
    if not isinstance(name, str):
        raise InvalidKind(f"a kind must be text, not {name!r}", hint=_HINT)
    text = name.strip().lower()
    # A run of stars is one: each of several would be tried at every place of a name.
    pattern = re.compile(".*".join(map(re.escape, re.split(r"\*+", text))))
    return {pair for pair, names in _NAMES.items() if any(map(pattern.fullmatch, names))}


def _names_of(kind: str, envelope: str | None) -> frozenset[str]:
    """Return every name of the events that have that kind and envelope."""
    # The name of an envelope means only that envelope, even where a kind lists it as a spelling.
    spellings = KINDS[kind].spellings - {*ENVELOPE_KINDS.values(), TOOL_FAILED}
    return spellings | {kind} | ({envelope} if envelope else frozenset())


_NAMES: Final[dict[tuple[str, str | None], frozenset[str]]] = {
    (kind, envelope): _names_of(kind, envelope)
    for kind, envelope in (
        *((name, ENVELOPE_KINDS.get(name)) for name in KINDS),
        ("tool.result", TOOL_FAILED),
    )
}
_HINT: Final = "name kinds such as tool.call.failed or conversation.user, or several as lifecycle.*"
