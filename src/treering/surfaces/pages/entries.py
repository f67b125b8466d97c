"""A session as entries: what was said, each tool call with its outcome, and the marks between.

A few events are read ahead, so that a call is shown with its result however long the session is. A
result that comes later than that is looked up.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final, Literal

import msgspec

from treering.model.events import Event, Header
from treering.model.parts import ToolCalled, ToolReturned, safe_part
from treering.model.tools import ToolRecord
from treering.surfaces.shared.texts import Mask

AHEAD_EVENTS_MAX: Final = 400
AHEAD_BYTES_MAX: Final = 8_000_000
"""Payload bytes that are held while a result is searched."""

Sort = Literal["user", "assistant", "thinking", "tool", "rule", "note", "more"]
"""Who speaks; or a tool, a line across the page, a remark, an event that is only counted."""

_SPOKEN: Final[dict[str, Sort]] = {
    "conversation.user": "user",
    "conversation.assistant": "assistant",
    "inbox.received": "user",
}
_RULES: Final = frozenset(
    {
        "context.compacted",
        "session.forked",
        "session.closed",
        "session.undone",
        "session.redone",
        "session.hidden",
        "run.failed",
        "run.interrupted",
        "ledger.redacted",
        "ledger.expired",
        "ledger.forgotten",
    }
)
_SILENT: Final = frozenset(
    {
        "run.started",
        "run.ended",
        "usage.reported",
        "session.opened",
        "session.titled",
        "compaction.started",
        "compaction.ended",
        "inbox.taken",
    }
)
"""Kinds that the head of the page or of a turn shows."""


class PageEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing on the page."""

    sort: Sort
    event: Header
    """What it is about: of a tool the call, or the result if the call is missing."""
    result: Header | None = None
    record: ToolRecord | None = None
    """The outcome of a call whose result comes much later."""
    counts: dict[str, int] | None = None
    """Of what is only counted: how many of each."""


def entries(
    events: Iterable[Header],
    *,
    find: Callable[[Header, str], ToolRecord | None],
    fetch: Callable[[str], Header | None],
) -> Iterator[PageEntry]:
    """Return the entries of ``events``, which are in order.

    ``find`` gives the record of a call by its event and call id, ``fetch`` an event by its id.
    """
    unseen: Counter[str] = Counter()
    first: Header | None = None
    for entry in _paired(_Ahead(iter(events)), find, fetch):
        if entry.sort == "more":
            first = first or entry.event
            unseen[_name(entry.event)] += 1
            continue
        if first is not None:
            yield PageEntry(sort="more", event=first, counts=dict(unseen.most_common()))
            first = None
            unseen.clear()
        yield entry
    if first is not None:
        yield PageEntry(sort="more", event=first, counts=dict(unseen.most_common()))


def _paired(
    ahead: _Ahead,
    find: Callable[[Header, str], ToolRecord | None],
    fetch: Callable[[str], Header | None],
) -> Iterator[PageEntry]:
    shown: set[str] = set()
    """Results that were shown with their calls before they were reached."""
    while (event := ahead.take()) is not None:
        if event.event_id in shown:
            shown.discard(event.event_id)
        elif event.kind == "tool.call" and not event.redacted:
            entry = _call(event, ahead, find, fetch)
            if entry.result is not None:
                shown.add(entry.result.event_id)
            yield entry
        elif event.kind == "tool.result" and not event.redacted:
            yield PageEntry(sort="tool", event=event, result=event)
        elif (sort := _sort(event)) is not None:
            yield PageEntry(sort=sort, event=event)


def _call(
    event: Header,
    ahead: _Ahead,
    find: Callable[[Header, str], ToolRecord | None],
    fetch: Callable[[str], Header | None],
) -> PageEntry:
    part = safe_part(event.kind, event.refs)
    call_id = part.call_id if isinstance(part, ToolCalled) else None
    result = ahead.result_of(event, call_id or "")
    if result is not None or not call_id:
        return PageEntry(sort="tool", event=event, result=result)
    record = find(event, call_id)
    far = record.result_event_id if record is not None else None
    return PageEntry(
        sort="tool", event=event, record=record, result=None if far is None else fetch(far)
    )


def _sort(event: Header) -> Sort | None:
    """Return how an event, other than of a tool, is shown; None if it is not."""
    kind = event.kind
    if kind in _SILENT:
        return None
    if kind in _SPOKEN:
        return _SPOKEN[kind]
    if kind in _RULES or kind.startswith("boundary."):
        return "rule"
    refs = event.refs if isinstance(event.refs, dict) else {}
    if kind == "ops.observation" and not event.redacted:
        return "thinking" if refs.get("observed") == "thinking" else "more"
    if kind == "context.assembled":
        return "note" if refs.get("repairs") else None
    return "more" if kind == "ops.cache_hit" else "note"


def _name(event: Header) -> str:
    observed = event.refs.get("observed") if isinstance(event.refs, dict) else None
    return observed if isinstance(observed, str) and observed else event.kind


class _Ahead:
    """Events that were read and not yet shown, and the results among them."""

    def __init__(self, events: Iterator[Header]) -> None:
        self._events = events
        self._held: deque[Header] = deque()
        self._bytes = 0
        self._results: dict[str, list[Header]] = {}
        """By call id; those without one are all in one place."""

    def take(self) -> Header | None:
        """Return the next event; those after it are held while there is room."""
        while len(self._held) <= AHEAD_EVENTS_MAX and self._bytes <= AHEAD_BYTES_MAX:
            event = next(self._events, None)
            if event is None:
                break
            self._held.append(event)
            self._bytes += _weight(event)
            if event.kind == "tool.result" and not event.redacted:
                self._results.setdefault(_call_id(event), []).append(event)
        if not self._held:
            return None
        event = self._held.popleft()
        self._bytes -= _weight(event)
        if event.kind == "tool.result":
            self._forget(event)
        return event

    def result_of(self, call: Header, call_id: str) -> Header | None:
        """Return the result of a call, if it is held."""
        for result in self._results.get(call_id, ()):
            part = safe_part(result.kind, result.refs)
            if isinstance(part, ToolReturned) and (part.late or not _is_for(call, result, part)):
                continue
            self._forget(result)
            return result
        return None

    def _forget(self, result: Header) -> None:
        name = _call_id(result)
        left = [entry for entry in self._results.get(name, ()) if entry is not result]
        if left:
            self._results[name] = left
        else:
            self._results.pop(name, None)


def _is_for(call: Header, result: Header, part: ToolReturned) -> bool:
    if None not in {call.run_id, result.run_id} and call.run_id != result.run_id:
        return False
    called = safe_part(call.kind, call.refs)
    tool = called.tool if isinstance(called, ToolCalled) else None
    # Without an id, the tool's name identifies the call.
    return bool(part.call_id) or part.tool is None or part.tool == tool


def _call_id(result: Header) -> str:
    part = safe_part(result.kind, result.refs)
    return (part.call_id if isinstance(part, ToolReturned) else None) or ""


def _weight(event: Header) -> int:
    return event.payload_bytes if isinstance(event, Event) else 0


class Checked:
    """Writes a page piece by piece, and checks the final text of each."""

    def __init__(self, stream: IO[bytes], seen: Callable[[str], str] = lambda piece: piece) -> None:
        """Take the stream; ``seen`` returns what of a piece is looked at for secrets."""
        self._stream = stream
        self._seen = seen
        self._look = Mask()
        self.withheld = 0
        """Pieces that still seemed to hold a secret, and were left out."""

    def write(self, piece: str, *, instead: str = "") -> None:
        """Write ``piece``, or ``instead`` if it holds a secret."""
        seen = self._seen(piece)
        if self._look.text(seen) != seen:
            self.withheld += 1
            piece = instead
        self._stream.write(piece.encode())
