"""Runs as the ledger holds them: listed, found by the start of an id, and made into traces."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import InvalidInput, KeyMissing, NotFound
from treering.model.kinds import RUN_ENDS
from treering.model.parts import RunEnded, RunStarted, safe_part
from treering.model.sessions import charter_of
from treering.sinks.bundle import About, PrivateBundle, SafeBundle
from treering.sinks.capped import Caps
from treering.spine.carrying import private_event, safe_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.ledger.ports import Guard
    from treering.model.carried import SafeEvent
    from treering.model.events import Header
    from treering.model.scopes import Scope
    from treering.sinks.bundle import Bundle, Erasure
    from treering.sinks.bundle_files import BundleFiles

PAGES_MAX: Final = 200
"""How far back runs are looked for: some 100,000 of them."""
PREFIX_CHARACTERS_MIN: Final = 4
FAILING: Final = frozenset({"failed", "interrupted"})

_PAGE: Final = 1_000
_CAPS: Final = Caps()
_ABOUT: Final = About()


class RunOutline(msgspec.Struct, frozen=True, kw_only=True):
    """One run at a glance."""

    run_id: str
    session_id: str
    agent_id: str
    state: str
    """open, ended, failed or interrupted."""
    started_ms: int
    duration_ms: int | None
    """None while it is open."""
    events: int
    """How many it has had, deltas counted."""
    tool_calls: int
    entry_point: str | None
    runtime: str | None
    model: str | None
    provider: str | None
    reason: str | None
    """Why it did not end well."""
    error_class: str | None


class RunList(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs of a scope, the newest first."""

    runs: list[RunOutline]
    has_more: bool


def recent_runs(
    ledger: Ledger,
    scope: Scope,
    *,
    session_id: str | None = None,
    since: int | None = None,
    only_failing: bool = False,
    limit: int,
) -> RunList:
    """Return the runs of a scope that started last."""
    found: list[RunOutline] = []
    for started, ended in _starts(ledger, scope, session_id, since):
        state = "open" if ended is None else RUN_ENDS[ended.kind]
        if only_failing and ended is not None and state not in FAILING:
            continue
        run = outline(ledger, started, ended)
        if only_failing and run.state not in FAILING:
            continue
        if len(found) == limit:
            return RunList(runs=found, has_more=True)
        found.append(run)
    return RunList(runs=found, has_more=False)


def find_run(ledger: Ledger, scope: Scope, text: str, *, session_id: str | None = None) -> Header:
    """Return the start of the run with this id, or of the only one whose id begins like this.

    Raises NotFound if there is none, and InvalidInput if there are several.
    """
    found: dict[str, Header] = {}
    for started, _ in _starts(ledger, scope, session_id, None):
        run_id = started.run_id or ""
        if run_id == text:
            return started
        if len(text) >= PREFIX_CHARACTERS_MIN and run_id.startswith(text):
            found[run_id] = started
    if not found:
        raise NotFound(
            f"no run {text} in scope {scope}",
            hint="treering trace list shows the runs of a scope;"
            f" an id may be cut to its first {PREFIX_CHARACTERS_MIN} characters or more",
        )
    if len(found) > 1:
        some = ", ".join(list(found)[:3])
        raise InvalidInput(
            f"{len(found)} runs begin with {text}", hint=f"write more of the id: {some}, …"
        )
    return next(iter(found.values()))


def outline(ledger: Ledger, started: Header, ended: Header | None = None) -> RunOutline:
    """Return a run at a glance; it is read through if its end does not tell all."""
    begun, over = _begun(started), _over(ended)
    events, tool_calls = ended.run_seq if ended else None, over.tool_calls
    if events is None or tool_calls is None:
        events = tool_calls = 0
        for header in headers_of(ledger, started):
            events = max(events + 1, header.run_seq or 0)
            tool_calls += header.kind == "tool.call"
            ended = header if header.kind in RUN_ENDS else ended
        over = _over(ended)
    duration_ms = over.duration_ms
    if duration_ms is None and ended is not None:
        duration_ms = max(0, ended.ts_ms - started.ts_ms)
    return RunOutline(
        run_id=started.run_id or "",
        session_id=started.session_id,
        agent_id=started.agent_id,
        state="open" if ended is None else RUN_ENDS[ended.kind],
        started_ms=started.ts_ms,
        duration_ms=duration_ms,
        events=events,
        tool_calls=tool_calls,
        entry_point=begun.entry_point,
        runtime=begun.runtime,
        model=begun.model,
        provider=begun.provider,
        reason=over.reason,
        error_class=over.error_class,
    )


def headers_of(ledger: Ledger, started: Header) -> Iterator[Header]:
    """Give the headers of a run, in order."""
    return ledger.run_headers(*_place(started))


def safe_events_of(ledger: Ledger, started: Header) -> Iterator[tuple[SafeEvent, Header]]:
    """Give the events of a run as anybody may see them, numbered if they are not."""
    key = _session_key(ledger, started)
    last = 0
    for header in headers_of(ledger, started):
        last = header.run_seq or last + 1
        yield msgspec.structs.replace(safe_event(header, key), run_seq=last), header


def write_safe_trace(ledger: Ledger, started: Header, files: BundleFiles) -> Bundle:
    """Make the trace of a run, without private content."""
    bundle = SafeBundle(files, caps=_CAPS, about=_ABOUT)
    for event, header in safe_events_of(ledger, started):
        bundle.take(event, _erasure(header))
    bundle.finish()
    return bundle


def write_private_trace(
    ledger: Ledger, started: Header, files: BundleFiles, guard: Guard
) -> Bundle:
    """Make the trace of a run with private content, its secrets masked."""
    bundle = PrivateBundle(files, caps=_CAPS, about=_ABOUT, guard=guard)
    key = _session_key(ledger, started)
    last = 0
    for event in ledger.run_events(*_place(started)):
        last = event.run_seq or last + 1
        numbered = msgspec.structs.replace(private_event(event, key), run_seq=last)
        bundle.take(numbered, _erasure(event))
    bundle.finish()
    return bundle


def _starts(
    ledger: Ledger, scope: Scope, session_id: str | None, since: int | None
) -> Iterator[tuple[Header, Header | None]]:
    """Give the starts of runs, the newest first, each with its end if that came later."""
    kinds = ("run.started", *RUN_ENDS)
    ends: dict[tuple[str, str | None], Header] = {}
    cursor = None
    for _ in range(PAGES_MAX):
        page = ledger.query(
            scope, session_id=session_id, kinds=kinds, since=since, last=_PAGE, after=cursor
        )
        for header in reversed(page.items):
            key = (header.session_id, header.run_id)
            if header.kind in RUN_ENDS:
                ends[key] = header
            elif header.run_id is not None:
                yield header, ends.pop(key, None)
        if not page.has_more:
            return
        cursor = page.next_cursor


def _begun(started: Header) -> RunStarted:
    part = safe_part(started.kind, started.refs)
    return part if isinstance(part, RunStarted) else RunStarted()


def _over(ended: Header | None) -> RunEnded:
    part = None if ended is None else safe_part(ended.kind, ended.refs)
    return part if isinstance(part, RunEnded) else RunEnded()


def _session_key(ledger: Ledger, started: Header) -> str | None:
    """Return the name that another system knows the session by, if it can be read."""
    scope, session_id, _ = _place(started)
    with contextlib.suppress(KeyMissing):
        opened = ledger.events(scope, session_id=session_id, kinds=["session.opened"], first=1)
        return charter_of(opened.items[0].payload).key if opened.items else None
    return None


def _erasure(header: Header) -> Erasure | None:
    if header.expired:
        return "expired"
    return "redacted" if header.redacted else None


def _place(started: Header) -> tuple[Any, str, str]:
    return started.scope, started.session_id, started.run_id or ""
