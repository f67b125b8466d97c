"""The history that sinks may ask for: facts and counts, and messages for private sinks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from treering.lazy import LazyModule
from treering.ledger.lineage import Lineage
from treering.ledger.session_settings import read_settings
from treering.model.events import Event, Header
from treering.model.parts import RunStarted, safe_part
from treering.model.scopes import Scope
from treering.model.tools import SyntheticPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.context import pairing
    from treering.ledger import spans, views, windows
    from treering.ledger.ports import EventStore
    from treering.ledger.spans import SpanBuilder
    from treering.model.messages import ModelMessage
else:
    pairing = LazyModule("treering.context.pairing")
    spans = LazyModule("treering.ledger.spans")
    views = LazyModule("treering.ledger.views")
    windows = LazyModule("treering.ledger.windows")

MESSAGES_MAX: Final = 1_000
"""How many of a session's messages a sink is given: the last ones."""
PAGE: Final = 500
_MESSAGE_KINDS: Final = ("conversation.user", "conversation.assistant", "tool.result")


class SinkHistory:
    """The history of a session, without texts."""

    part: ClassVar[type[Header]] = Header
    """What is read of its events."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def run_started(self, scope: str, session_id: str, run_id: str) -> RunStarted:
        """Return the settings a run was started with; empty if unknown."""
        headers = self._store.reader.by_run(Header, Scope(scope), session_id, run_id)
        first = next(iter(headers), None)
        part = None if first is None else safe_part(first.kind, first.refs)
        return part if isinstance(part, RunStarted) else RunStarted()

    def channel(self, scope: str, session_id: str) -> str | None:
        """Return the channel that a session was opened on."""
        settings = read_settings(self._store, Scope(scope), session_id)
        return None if settings is None else settings.channel

    def opened_ms(self, scope: str, session_id: str) -> int | None:
        """Return when a session was opened."""
        first = self._store.reader.by_seq(Header, Scope(scope), session_id, after_seq=0, limit=1)
        return first[0].ts_ms if first else None

    def message_count(self, scope: str, session_id: str, until_seq: int) -> int:
        """Return the number of messages and tool results up to a seq."""
        lineage = Lineage(self._store, Scope(scope), session_id)
        counts = views.Views(lineage).counts().by_kind
        count = sum(counts.get(kind, 0) for kind in _MESSAGE_KINDS)
        after = until_seq
        while page := lineage.after(Header, after, PAGE):
            count -= sum(header.kind in _MESSAGE_KINDS for header in page)
            after = page[-1].seq
        return max(count, 0)

    def run_spans(self, scope: str, session_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return a run as OpenTelemetry spans; with texts, if the sink is private."""
        events = list(self._store.reader.by_run(self.part, Scope(scope), session_id, run_id))
        return self._spans.of_unit(spans.Unit(run_id, events)) if events else []

    def turn_spans(self, scope: str, session_id: str, before_seq: int) -> list[dict[str, Any]]:
        """Return the turn outside of runs that ended before a seq, as OpenTelemetry spans."""
        first = self._spans.turn_start(Scope(scope), session_id, before_seq)
        if first is None:
            return []
        events = self._between(Scope(scope), session_id, first.seq, before_seq)
        matching = [unit for unit in spans.units(events) if unit.key == first.event_id]
        return self._spans.of_unit(matching[0]) if matching else []

    def _between(self, scope: Scope, session_id: str, first: int, end: int) -> Iterator[Header]:
        reader, after = self._store.reader, first - 1
        while page := reader.by_seq(self.part, scope, session_id, after_seq=after, limit=PAGE):
            for event in page:
                if event.seq >= end:
                    return
                yield event
            after = page[-1].seq

    @cached_property
    def _spans(self) -> SpanBuilder:
        return spans.SpanBuilder(self._store, with_content=self.part is Event)


class PrivateSinkHistory(SinkHistory):
    """The history of a session, with its texts."""

    part = Event

    def messages(
        self, scope: str, session_id: str, run_id: str | None, until_seq: int | None
    ) -> list[ModelMessage]:
        """Return the last messages of a session up to a seq, including those of ``run_id``."""
        window = windows.read_window(
            Lineage(self._store, Scope(scope), session_id),
            tokens=None,
            events=MESSAGES_MAX,
            run_id=run_id,
            before_seq=None if until_seq is None else until_seq + 1,
            past="whole",
        )
        messages, _ = pairing.pair([*window.lead, *window.events], SyntheticPolicy())
        return messages[-MESSAGES_MAX:]
