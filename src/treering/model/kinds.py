"""The catalogue of kinds: what each event is, how long it is kept, how each source spells it.

Every spelling below is accepted on input; one name is stored.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from treering.errors import InvalidKind

if TYPE_CHECKING:
    from treering.model.runs import RunState

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
    """Who causes it when nobody says otherwise."""
    visibility: Visibility
    """What sinks may see of its summary without asking, when nobody says otherwise."""
    durable: bool
    """False for what is carried to sinks and never kept."""
    retention_days: int | None
    """Kept this long by default; None is forever."""
    spellings: frozenset[str]
    """Other names by which it arrives."""


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
    _kind("session.imported"),
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
"""Kinds that close a run, with the state they leave it in."""

ERASURE_KINDS: Final = frozenset({"ledger.redacted", "ledger.expired", "ledger.forgotten"})
"""Kinds that only the ledger itself writes: they vouch for what was erased."""

IMPORTED: Final = "session.imported"
"""The kind that marks a session as taken from elsewhere: such a one is kept by default."""

_SPELLINGS: Final[dict[str, Kind]] = {
    spelling: kind for kind in _ALL for spelling in (kind.name, *kind.spellings)
}


def parse_kind(text: str) -> Kind:
    """Return the kind that ``text`` spells. Raises InvalidKind with the nearest names."""
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
