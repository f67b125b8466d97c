"""The past of a session, read: what happened, what is in force, and what a model sees of it."""

from __future__ import annotations

import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from treering.context.attachments import with_media
from treering.context.dialects import render
from treering.context.pairing import pair
from treering.errors import InvalidInput, NotFound
from treering.ledger.contexts import Contexts
from treering.ledger.lineage import NO_END, Lineage
from treering.ledger.outlines import Sketch, head_of
from treering.ledger.pages import read_pages
from treering.ledger.paging import parse_kinds
from treering.ledger.tool_calls import last_tool_calls, session_tool_calls
from treering.ledger.views import Views
from treering.ledger.windows import read_window
from treering.model.fields import check_count, check_name
from treering.model.queries import PAGE_ITEMS_MAX, Query, TimelinePoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.contexts import Shown
    from treering.ledger.engine import Engine
    from treering.ledger.lineage import Segment
    from treering.model.events import Event, Header
    from treering.model.scopes import Scope
    from treering.model.sessions import SessionOutline
    from treering.model.tool_records import ToolRecord
    from treering.model.views import Counts, Goal, MemoryRecord, Schedule, TurnView, Usage


class ReadableSession:
    """A session as far as it has come. Reading writes nothing that is not derived."""

    def __init__(self, engine: Engine, scope: Scope, session_id: str) -> None:
        self._engine = engine
        self._store = store = engine.store
        self.scope = scope
        self.session_id = session_id
        self._lineage = Lineage(store, scope, session_id)
        self._views = Views(self._lineage)
        self._contexts = Contexts(self._lineage, lambda: engine.results.policy)

    # What happened.

    def headers(
        self,
        *,
        kinds: Sequence[str] = (),
        turn_id: str | None = None,
        first: int | None = None,
        last: int | None = None,
    ) -> Iterator[Header]:
        """Return what is safe to show, in order: all of it, the first or the last so many.

        ``kinds`` and ``turn_id`` keep to events of these kinds, and of one turn.
        """
        lineage, keep = self._lineage, _filter(kinds, turn_id)
        return read_pages(lineage.headers_after, lineage.headers_before, first, last, keep)

    def events(
        self,
        *,
        kinds: Sequence[str] = (),
        turn_id: str | None = None,
        first: int | None = None,
        last: int | None = None,
    ) -> Iterator[Event]:
        """Return the same as ``headers``, with payloads."""
        lineage, keep = self._lineage, _filter(kinds, turn_id)
        return read_pages(lineage.events_after, lineage.events_before, first, last, keep)

    def history(self, *, last: int | None = None) -> list[dict[str, Any]]:
        """Return the conversation as messages that a model takes: user, assistant, tool.

        It holds what was said in turns that ended well and were not undone, however long ago, with
        calls and results paired. Goals, memories, usage and other marks are left out, and nothing
        is shortened: see ``context``. ``last`` gives the end of it: so many questions and answers,
        a call and its result counting as one.
        """
        wanted = None if last is None else max(check_count(last, "last"), 1)
        while True:
            window = read_window(self._lineage, tokens=None, events=wanted, past="whole")
            messages, _ = pair([*window.lead, *window.events], self._engine.results.policy)
            if wanted is None or len(messages) > (last or 0) or not window.cut:
                break
            wanted *= 2
        kept = messages if last is None else messages[len(messages) - min(last, len(messages)) :]
        shown, _ = with_media(kept, "openai-chat", None)
        return render(shown, dialect="openai-chat").messages if kept else []

    def turns(self, *, last: int | None = None) -> Iterator[TurnView]:
        """Return its turns in order, failed and undone ones marked: all, or the last so many."""
        return self._views.turns(last=None if last is None else check_count(last, "last"))

    def tool_calls(self, *, last: int | None = None) -> Iterator[ToolRecord]:
        """Return one record for each tool call, in order, open ones too: all, or the last few."""
        if last is None:
            return self._calls()
        return iter(self._last_calls(check_count(last, "last")))

    def summary(self) -> Counts:
        """Return how much of what it holds: events by kind, turns, calls, times."""
        return self._views.counts()

    def outline(self) -> SessionOutline:
        """Return the session at a glance: title, state, model, times. Raises NotFound."""
        head = head_of(self._store, self.scope, self.session_id)
        if head is None:
            raise NotFound(
                f"no session {self.session_id} in scope {self.scope}", hint="check both names"
            )
        return Sketch(self._store, self.scope, self._engine.now_ms()).outline(head)

    # What is in force.

    def goals(self) -> list[Goal]:
        """Return the goals that were set and not removed."""
        return self._views.goals()

    def schedules(self) -> list[Schedule]:
        """Return what is scheduled and was not removed."""
        return self._views.schedules()

    def memories(self) -> list[MemoryRecord]:
        """Return what it did to memories: kept, archived, superseded, forgotten."""
        return self._views.memories()

    def usage(self) -> Usage:
        """Return the tokens that it used, by model, and their cost; failed runs included."""
        return self._views.usage()

    # What models saw.

    def shown(
        self, *, turn: int | None = None, run_id: str | None = None, last: int = 1
    ) -> list[Shown]:
        """Return what models were shown, made again: in one turn, one run, or the last few times.

        ``turn`` counts from 1. Each says whether it is exactly what was shown. Raises NotFound.
        """
        check_count(last, "last")
        runs = [check_name(run_id, "run_id")] if run_id is not None else []
        if turn is not None:
            runs += self._runs_of(turn)
        events = self._assembled_in(runs) if runs else self._last_assembled(last)
        found: list[Shown] = []
        for event in events:
            # One that was erased, or that another system wrote, cannot be made again.
            with contextlib.suppress(NotFound):
                found.append(self._contexts.shown(event))
        return found

    def _runs_of(self, number: int) -> list[str]:
        if type(number) is not int:
            raise InvalidInput(f"{number!r} is no turn", hint="turns count from 1")
        turn = self._turn(number)
        if turn is None:
            raise NotFound(f"there is no turn {number}", hint="turns count from 1")
        if not turn.run_ids:
            raise NotFound(f"turn {number} has no run", hint="look at the events of it")
        return list(turn.run_ids)

    def _turn(self, number: int) -> TurnView | None:
        """Return one turn, found from the end of the session that is nearer."""
        count = self.summary().turns
        behind = count - number
        if behind < number:
            turn = next(self.turns(last=behind + 1), None) if behind >= 0 else None
            # Whoever asked something meanwhile has moved the end.
            if self.summary().turns == count:
                return turn
        return next(islice(self.turns(), number - 1, None), None) if number > 0 else None

    def _assembled_in(self, runs: Sequence[str]) -> Iterator[Event]:
        for segment in reversed(list(self._lineage.segments())):
            for run_id in runs:
                for event in self._store.run_events(self.scope, segment.session_id, run_id):
                    if event.kind == "context.assembled" and segment.holds(event.seq):
                        yield event

    def _last_assembled(self, count: int) -> list[Event]:
        found: list[Event] = []
        for segment in self._lineage.segments():
            if len(found) >= count:
                break
            found += islice(self._assembled_backwards(segment, count), count - len(found))
        return found[::-1]

    def _assembled_backwards(self, segment: Segment, count: int) -> Iterator[Event]:
        query = Query(
            scope=self.scope,
            session_id=segment.session_id,
            kinds=("context.assembled",),
            limit=min(count, PAGE_ITEMS_MAX),
            backwards=True,
        )
        while page := self._store.events(query):
            # A session may have gone on after it was forked.
            yield from (event for event in reversed(page) if segment.holds(event.seq))
            query = msgspec.structs.replace(
                query, after=TimelinePoint(page[0].ts_ms, page[0].position)
            )

    def _calls(self) -> Iterator[ToolRecord]:
        for segment in reversed(list(self._lineage.segments())):
            end = self._end_of(segment)
            for record in session_tool_calls(self._store, self.scope, segment.session_id):
                if record.position <= end:
                    yield record

    def _last_calls(self, count: int) -> list[ToolRecord]:
        found: list[ToolRecord] = []
        for segment in self._lineage.segments():
            if len(found) >= count:
                break
            end = self._end_of(segment)
            calls = last_tool_calls(self._store, self.scope, segment.session_id, page=count)
            own = (record for record in calls if record.position <= end)
            found += islice(own, count - len(found))
        return found[::-1]

    def _end_of(self, segment: Segment) -> int:
        """Return the position of the last event of a part of the lineage."""
        if segment.until_seq == NO_END:
            return NO_END
        last = self._store.last_headers(
            self.scope, segment.session_id, before_seq=segment.until_seq + 1, limit=1
        )
        return last[0].position if last else 0


def _filter(kinds: Sequence[str], turn_id: str | None) -> Callable[[Header], bool] | None:
    """Return what tells the events that are wanted; None if all are."""
    named = frozenset(parse_kinds(kinds))
    turn = None if turn_id is None else check_name(turn_id, "turn_id")
    if not named and turn is None:
        return None
    return lambda header: (not named or header.kind in named) and turn in {None, header.turn_id}
