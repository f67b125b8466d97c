"""What the messages of other programs say, as events: each thing once.

A framework keeps its messages in its own form, in keyed records. What they say is recorded beside
them, unless a recorder has recorded it: then the message is linked to that event.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from treering.errors import InvalidInput, NotFound, RunClosed, StorageError, ToolDenied
from treering.formats.event_content import outcome
from treering.model.fields import fit_name
from treering.model.parts import ToolCalled
from treering.spine.conversion import to_json
from treering.spine.run_events import said
from treering.spine.words import new_id

if TYPE_CHECKING:
    from treering.ledger.keyed_records import KeyedRecords
    from treering.ledger.sessions import Session
    from treering.model.events import Event, Header, NewEvent
    from treering.spine.runs import Run

EVENTS_LOOKED_AT: Final = 200
"""How many of the latest events are searched for those of a recorder."""
EVENTS_PROBED: Final = 8
CLAIMED_MAX: Final = 10_000
_KINDS: Final = {
    "user": "conversation.user",
    "assistant": "conversation.assistant",
    "call": "tool.call",
    "output": "tool.result",
}
_SAID: Final = frozenset(_KINDS.values())


class MessagePart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message, in the same form for every framework."""

    sort: Literal["user", "assistant", "call", "output"]
    text: str = ""
    call_id: str | None = None
    tool: str | None = None
    value: Any = None
    """The input of a call, or the output of a tool."""
    is_error: bool = False
    extra: dict[str, Any] = {}
    """Kept beside the text."""


class Claims:
    """Which events of a session are known to belong to a message already."""

    def __init__(self, since_ms: int | None = None) -> None:
        """Treat events from ``since_ms`` on, by default from now, as possibly new messages."""
        self._since_ms = int(time.time() * 1_000) if since_ms is None else since_ms
        self._ids: dict[str, None] = {}
        self.tools: dict[str | None, str | None] = {}
        """Tools by the ids of their calls: outputs do not name them."""

    def add(self, event_id: str) -> None:
        """Note that an event belongs to a message."""
        self._ids[event_id] = None
        if len(self._ids) > CLAIMED_MAX:
            del self._ids[next(iter(self._ids))]

    def is_free(self, header: Header, run: Run | None) -> bool:
        """Whether an event may belong to a new message: it is recent, and belongs to no other."""
        is_recent = header.recorded_ms >= self._since_ms
        in_run = run is not None and header.run_id == run.run_id
        return header.event_id not in self._ids and not header.redacted and (is_recent or in_run)


class MessageRecorder:
    """Records what new messages of a session say: in the current turn, if it has one."""

    def __init__(self, session: Session, records: KeyedRecords, claims: Claims) -> None:
        self._session = session
        self._claims = claims
        self._run = session.running
        self.beside: list[NewEvent] = []
        """Events that are to be recorded together with the messages."""
        self._found: dict[tuple[str, Any], list[str]] = {}
        try:
            self._find(records)
        except StorageError:
            self._found.clear()  # Whoever records what follows hears of it, or keeps it.

    def _find(self, records: KeyedRecords) -> None:
        """Find what a recorder has recorded that belongs to no message."""
        # The events of an active recorder are among the last few.
        if self._free(EVENTS_PROBED):
            free = self._free(EVENTS_LOOKED_AT)
            wanted = set(free) - records.get_many(free).keys()
            for event in self._session.events(last=EVENTS_LOOKED_AT):
                if event.event_id in wanted:
                    self._found.setdefault(_what(event), []).append(event.event_id)

    def _free(self, last: int) -> list[str]:
        return [
            header.event_id
            for header in self._session.headers(last=last)
            if header.kind in _SAID and self._claims.is_free(header, self._run)
        ]

    def record(self, part: MessagePart) -> str | None:
        """Return the id of the event of a part, which is recorded now or with the messages."""
        if part.sort == "call":
            self._claims.tools[part.call_id] = part.tool
        elif part.sort == "output" and part.tool is None:
            part = msgspec.structs.replace(part, tool=self._claims.tools.get(part.call_id))
        is_said = part.sort in {"user", "assistant"}
        event_ids = self._found.get((_KINDS[part.sort], part.text if is_said else part.call_id))
        if event_ids:
            event_id: str | None = event_ids.pop(0)
        else:
            event_id = self._record(part)
        if event_id is not None:
            self._claims.add(event_id)
        return event_id

    def _record(self, part: MessagePart) -> str | None:
        if self._run is not None:
            with contextlib.suppress(StorageError):  # Then it is recorded, or kept, beside.
                return _record(self._run, part)
        event_id = new_id()
        self.beside.append(_event(self._session, part, event_id))
        return event_id


def _what(event: Event) -> tuple[str, Any]:
    payload = event.payload if isinstance(event.payload, dict) else {}
    is_said = event.kind.startswith("conversation.")
    return event.kind, payload.get("text" if is_said else "call_id")


def _record(run: Run, part: MessagePart) -> str | None:
    """Record a part in the current turn; return the id of the event."""
    if part.sort == "user":
        return run.user(part.text, **part.extra).event_id
    if part.sort == "assistant":
        return run.assistant(part.text, **part.extra).event_id
    try:
        if part.sort == "call":
            intent = run.tools.started(part.tool or "tool", part.value, call_id=part.call_id).intent
            return None if intent is None else intent.event_id
        call = run.tools.find(part.call_id or "")
        ended = call.fail(str(part.value)) if part.is_error else call.finish(part.value)
    except (InvalidInput, NotFound, RunClosed, ToolDenied):
        return None  # A call that the turn knows under another id, or an output without a call.
    return ended.event_id


def _event(session: Session, part: MessagePart, event_id: str) -> NewEvent:
    """Return a part as an event of a session."""
    if part.sort in {"user", "assistant"}:
        event = said(session.template, _KINDS[part.sort], part.text, dict(part.extra))
        return msgspec.structs.replace(event, event_id=event_id)
    value, _ = to_json(part.value)
    name, _ = fit_name(part.tool or "tool", "tool")
    if part.sort == "output":
        content = outcome(part.call_id, name, value, failed=part.is_error)
        kind, summary, payload, refs = content.kind, content.summary, content.payload, content.refs
    else:
        kind, summary = "tool.call", f"{name} called"
        payload = {"call_id": part.call_id, "name": name, "input": value}
        refs = ToolCalled(call_id=part.call_id, tool=name).as_refs()
    return session.new_event(kind, summary, payload=payload, refs=refs, event_id=event_id)
