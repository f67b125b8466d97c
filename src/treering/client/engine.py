"""The engine of a ledger on a server: runs and sessions record through it as through any other."""

from __future__ import annotations

import contextlib
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from treering.client.connection import Resource, ServerConnection
from treering.errors import InvalidInput, SensitiveContent, Unsupported
from treering.ledger.drafts import Drafter, without_bytes
from treering.ledger.runs import RunOutline
from treering.model.events import FirstEvent, Header, NewEvent
from treering.model.queries import PAGE_ITEMS_MAX, Page, items_of
from treering.model.tools import SyntheticPolicy
from treering.spine.gates import Gates
from treering.spine.run_events import Results, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.spine.run_state import Opening, RunState

OWNER: Final = "http"
"""In place of the owner of a run: no process holds a lock for it that the server could see."""
BATCH_EVENTS_MAX: Final = 10_000


class _Appended(msgspec.Struct, frozen=True):
    headers: list[Header]
    new: list[str]


class RemoteEngine:
    """Records over HTTP; replaces ``Engine`` for runs and sessions."""

    def __init__(self, connection: ServerConnection, clock: Callable[[], int]) -> None:
        self.connection = connection
        self.now_ms = clock
        self.gates = Gates()
        self.results = Results(self.gates, SyntheticPolicy())
        self.store = _RemoteStore(connection)
        self.dispatcher = _NoSinks()
        # Checks what the server would refuse, and what JSON would change silently: NaN, a
        # tuple. Ids are given here, so that a batch can be sent again.
        self._drafter = Drafter(guard=_no_guard, mode="off", clock=clock, seals=lambda _: False)

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record ``events``, all or none, however often the connection breaks."""
        return self._append(events, expected_seq).headers

    def append_missing(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record ``events``; return only those that were not there before."""
        appended = self._append(events, None)
        new = set(appended.new)
        return [header for header in appended.headers if header.event_id in new]

    def write(
        self,
        events: Sequence[NewEvent],
        *,
        expected_seq: int | None = None,
        numbers: Sequence[int | None] | None = None,
        fits: bool = False,
    ) -> list[Header]:
        """Record the events of a run under its numbers, or those that the server gives.

        ``fits`` converts what cannot be stored.
        """
        numbered = [
            event if number is None else replace(event, run_seq=number)
            for event, number in zip(events, numbers or repeat(None, len(events)), strict=True)
        ]
        try:
            return self.append(numbered, expected_seq=expected_seq)
        except InvalidInput as error:
            if not fits or isinstance(error, SensitiveContent):
                raise
            fitting, unnumbered = list(map(fit, numbered)), list(map(fit, events))
            if fitting == numbered == unnumbered:
                raise
        if fitting != numbered:
            with contextlib.suppress(InvalidInput):
                return self.append(fitting, expected_seq=expected_seq)
        # Others may have added to the run, and taken its numbers.
        return self.append(unnumbered, expected_seq=expected_seq)

    def _append(self, events: Sequence[NewEvent], expected_seq: int | None) -> _Appended:
        if any(isinstance(event, FirstEvent) for event in events):
            raise Unsupported("a first event cannot be sent over HTTP", hint="give expected_seq=0")
        if len(events) > BATCH_EVENTS_MAX:
            raise InvalidInput(
                f"a batch has at most {BATCH_EVENTS_MAX} events over HTTP", hint="send it in parts"
            )
        events = list(map(without_bytes, events))
        drafts = self._drafter.draft(events, counted=True)
        named = [
            event if event.event_id is not None else replace(event, event_id=draft.event_id)
            for event, draft in zip(events, drafts, strict=True)
        ]
        body = {"events": named, "expected_seq": expected_seq}
        return Resource(self.connection).post(_Appended, "events", body=body, is_repeatable=True)

    # Runs.

    def begin(self, run_state: RunState, more: Opening, *, wait_s: float) -> list[Header] | None:  # noqa: ARG002
        """Record the start of a run. Runs of clients do not wait for one another."""
        added = more(run_state.template)
        if added is None:
            return None
        events = run_state.opening(added)
        return self.write(events, numbers=run_state.number(events), fits=True)

    def forget(self, run_state: RunState) -> None:
        """Note that a run has ended; the client keeps nothing about it."""


class _RemoteStore:
    """What a run asks of a store."""

    def __init__(self, connection: ServerConnection) -> None:
        self.reader = _RemoteReader(connection)
        self.leases = self

    def owner(self) -> str:
        return OWNER


class _RemoteReader:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def open_runs(self, scope: str, session_id: str) -> list[RunOutline]:
        page = Resource(self._connection, "scopes", scope).get(
            Page[RunOutline], "runs", session_id=session_id, limit=PAGE_ITEMS_MAX
        )
        return [run for run in page.items if run.state == "open"]

    def run_headers(self, scope: str, session_id: str, run_id: str) -> Iterator[Header]:
        replay = Resource(self._connection, "scopes", scope, "sessions", session_id, "replay")
        headers = items_of(
            lambda after: replay.get(Page[Header], limit=PAGE_ITEMS_MAX, after=after)
        )
        return (header for header in headers if header.run_id == run_id)


class _NoSinks:
    """Takes the events of a run; sinks are the server's."""

    def carry_transient(self, event: NewEvent) -> None:
        """Drop a piece of an answer: it is not stored anywhere."""

    def announce(self, headers: Sequence[Header]) -> None:
        """Do nothing."""


def _no_guard() -> Any:
    raise AssertionError  # The server masks secrets.
