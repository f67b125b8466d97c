"""Closing a run from outside: because somebody interrupts it, or its process is gone.

What the ledger holds of the run says which tool calls it left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.derive.open_calls import open_calls
from treering.errors import Conflict, RunClosed
from treering.model.parts import RunEnded
from treering.model.scopes import Scope
from treering.spine.entries import KERNEL, Author, Entry, interrupt_mark
from treering.spine.lifecycle import ATTEMPTS_MAX, restless
from treering.spine.ports import Occasion

if TYPE_CHECKING:
    from treering.model.events import Header, NewEvent
    from treering.model.runs import OpenRun
    from treering.model.tools import Reason
    from treering.spine.entries import Results
    from treering.spine.lifecycle import Append
    from treering.spine.ports import Journal


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

    ``boundary`` says why, in a mark that the next turn sees. Returns what was recorded: nothing,
    if the run was over already.
    """
    scope = Scope(run.scope)
    for _ in range(ATTEMPTS_MAX):
        head = journal.head_seq(scope, run.session_id)
        headers = list(journal.run_headers(scope, run.session_id, run.run_id))
        if not headers:
            return []
        try:
            return append(
                _ending(journal, results, scope, headers, reason, boundary), expected_seq=head
            )
        except Conflict:
            continue  # Its process goes on, or others record: look again at what is open.
        except RunClosed:
            return []
    raise restless(run.session_id)


def _ending(
    journal: Journal,
    results: Results,
    scope: Scope,
    headers: list[Header],
    reason: Reason,
    boundary: str | None,
) -> list[NewEvent]:
    first = headers[0]
    author = Author(
        scope=scope,
        session_id=first.session_id,
        agent_id=first.agent_id,
        user_id=first.user_id,
        run_id=first.run_id or "",
        turn_id=first.turn_id,
    )
    occasion = Occasion(
        scope=scope,
        session_id=author.session_id,
        session_key=journal.session_key(scope, author.session_id),
        agent_id=author.agent_id,
        run_id=author.run_id,
    )
    calls, last = open_calls(headers)
    entries = [results.synthetic(occasion, call.tool, call.call_id, None, reason) for call in calls]
    part = RunEnded(
        reason=reason,
        duration_ms=max(journal.now_ms() - first.ts_ms, 0),
        tool_calls=sum(header.kind == "tool.call" for header in headers),
    )
    told = None if boundary is None else {"reason": boundary}
    entries.append(
        Entry(
            kind="run.interrupted",
            summary=f"run interrupted: {reason}" if reason != "interrupted" else "run interrupted",
            payload=told,
            refs=part.as_refs(),
            origin=KERNEL,
        )
    )
    events = [author.event(entry, last + number) for number, entry in enumerate(entries, start=1)]
    if boundary is not None:
        events.append(author.event(interrupt_mark(boundary, author.run_id), None))
    return events
