"""Closing a run from outside: because somebody interrupts it, or its process is gone.

What the ledger holds of the run says which tool calls it left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.open_calls import open_calls
from treering.errors import Conflict, RunClosed
from treering.model.parts import RunEnded, ToolReturned
from treering.spine.ports import Occasion
from treering.spine.run_entries import Author, interrupt_mark, run_end

if TYPE_CHECKING:
    from treering.model.events import Header, NewEvent
    from treering.model.runs import OpenCall, OpenRun
    from treering.model.tools import Reason
    from treering.spine.lifecycle import Append
    from treering.spine.ports import Journal
    from treering.spine.run_entries import Results, RunEntry


ATTEMPTS_MAX: Final = 4
"""How often a run is closed in one piece; one that records all the while is ended by force."""
BEYOND_DELTAS: Final = 1_000_000
"""Numbers of the run that its process may have given to deltas, which are not kept."""


def close_run(
    journal: Journal,
    append: Append,
    results: Results,
    run: OpenRun,
    *,
    reason: Reason,
    boundary: str | None = None,
) -> list[Header]:
    """Give the open calls of a run synthetic results, and record that it was interrupted.

    ``boundary`` says why, in a mark that the next turn sees. Returns what was recorded, the mark
    last: nothing, if the run was over already.
    """
    closing = _RunClosing(journal, results, run, reason, boundary)
    for _ in range(ATTEMPTS_MAX):
        head = journal.head_seq(run.scope, run.session_id)
        headers = list(journal.run_headers(run.scope, run.session_id, run.run_id))
        if not headers:
            return []
        try:
            return append(closing.whole(headers), expected_seq=head)
        except Conflict:
            continue  # Its process goes on, or others record: look again at what is open.
        except RunClosed:
            return []
    return _close_by_force(journal, append, closing, run, headers)


def _close_by_force(
    journal: Journal, append: Append, closing: _RunClosing, run: OpenRun, headers: list[Header]
) -> list[Header]:
    """End a run that never holds still: first the end, then what it left open, apart from it."""
    try:
        recorded = append(closing.end(headers))
    except RunClosed:
        return []
    rest = list(journal.run_headers(run.scope, run.session_id, run.run_id))
    left = closing.apart(rest)
    if left:
        append(left)
    return recorded


class _RunClosing:
    """What closes one run; gates are asked once for each call."""

    def __init__(
        self,
        journal: Journal,
        results: Results,
        run: OpenRun,
        reason: Reason,
        boundary: str | None,
    ) -> None:
        self._journal = journal
        self._results = results
        self._run = run
        self._reason = reason
        self._boundary = boundary
        self._prepared: dict[str, RunEntry] = {}

    def whole(self, headers: list[Header]) -> list[NewEvent]:
        """Return results for what is open, the end, and the mark."""
        author = self._author(headers[0])
        calls, last = open_calls(headers)
        entries = [self._result(author, call) for call in calls]
        events = [
            author.event(entry, last + BEYOND_DELTAS + at) for at, entry in enumerate(entries)
        ]
        return [*events, *self._end(headers, last + BEYOND_DELTAS + len(entries))]

    def end(self, headers: list[Header]) -> list[NewEvent]:
        """Return the end and the mark alone."""
        return self._end(headers, open_calls(headers)[1] + 2 * BEYOND_DELTAS)

    def apart(self, headers: list[Header]) -> list[NewEvent]:
        """Return results for what is open in a run that takes no more events."""
        author = self._author(headers[0])
        linked = ToolReturned(run=self._run.run_id).as_refs()
        results = [self._result(author, call) for call in open_calls(headers)[0]]
        return [
            author.event(msgspec.structs.replace(entry, refs={**entry.refs, **linked}), None)
            for entry in results
        ]

    def _end(self, headers: list[Header], run_seq: int) -> list[NewEvent]:
        author = self._author(headers[0])
        part = RunEnded(
            reason=self._reason,
            # Until it was last heard of: how long nobody looked is not the run's.
            duration_ms=max(headers[-1].ts_ms - headers[0].ts_ms, 0),
            tool_calls=sum(header.kind == "tool.call" for header in headers),
        )
        told = None if self._boundary is None else {"reason": self._boundary}
        events = [author.event(run_end("interrupted", part, told), run_seq)]
        if self._boundary is not None:
            events.append(author.event(interrupt_mark(self._boundary, author.run_id), None))
        return events

    def _result(self, author: Author, call: OpenCall) -> RunEntry:
        if call.call_id not in self._prepared:
            occasion = Occasion(
                scope=author.scope,
                session_id=author.session_id,
                session_key=self._journal.session_key(author.scope, author.session_id),
                agent_id=author.agent_id,
                run_id=author.run_id,
            )
            self._prepared[call.call_id] = self._results.synthetic(
                occasion, call.tool, call.call_id, None, self._reason
            )
        return self._prepared[call.call_id]

    def _author(self, first: Header) -> Author:
        return Author(
            scope=self._run.scope,
            session_id=first.session_id,
            agent_id=first.agent_id,
            user_id=first.user_id,
            run_id=self._run.run_id,
            turn_id=first.turn_id,
        )
