"""Spans of any instrumented agent as sessions, runs and tool calls.

A trace is a run; its session is the conversation that its spans name, or else the trace itself.
Ids are digests of trace, span and call, so a span that comes twice, late or before its parent adds
what is missing and nothing else. A run begins with the first spans that come and ends with the root
of the trace; what comes later is recorded beside it, in the same turn. If no root comes, it is
closed as interrupted once nothing has come for its session for an hour: when other spans come, and
from time to time while a server lives.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import DuplicateEvent, RunClosed
from treering.formats.otel import OtelMessage, OtelSpan
from treering.model.events import NAME_CHARACTERS_MAX, NewEvent
from treering.model.kinds import RUN_ENDS
from treering.model.parts import RunEnded, RunStarted, ToolCalled, ToolReturned
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from treering.ledger.ledger import Ledger

ORIGIN: Final = "otel"
AGENT: Final = "agent"
BATCH_EVENTS: Final = 5_000
SILENT_MS: Final = 3_600_000
"""After so long without a span, the root of a trace is not waited for any more."""
_RUN: Final = "otel-"
_TRIES: Final = 3


class OtelReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of spans."""

    spans: int
    """Spans of agents, models and tools."""
    ignored: int
    """Spans of something else."""
    events: int
    """Events that were new."""
    sessions: list[str]


def take_spans(ledger: Ledger, scope: str, spans: Sequence[OtelSpan]) -> OtelReceipt:
    """Record the events of ``spans``, without those that are recorded already."""
    acting = [span for span in spans if span.operation is not None]
    ledger.importing.close_silent_runs(scope, prefix=_RUN, silent_ms=SILENT_MS)
    sessions = _sessions(ledger, scope, spans)
    events: dict[str, NewEvent] = {}
    # What an agent's span repeats was said in a model's, and at its time.
    for span in sorted(spans, key=lambda one: (one.operation == "agent", one.start_ms)):
        session = sessions[span.trace_id]
        if span.operation is None and not (span.is_root and session.has_agents):
            continue
        for event in _SpanEvents(span, scope, session).events():
            _add(events, event)
    listed = sorted(events.values(), key=_place)
    new = 0
    for start in range(0, len(listed), BATCH_EVENTS):
        new += _append(ledger, scope, listed[start : start + BATCH_EVENTS])
    touched = sorted({event.session_id for event in listed})
    return OtelReceipt(
        spans=len(acting), ignored=len(spans) - len(acting), events=new, sessions=touched
    )


def close_lost_runs(ledger: Ledger) -> None:
    """Close the runs of all scopes whose roots are not waited for any more."""
    ledger.importing.close_silent_runs(None, prefix=_RUN, silent_ms=SILENT_MS)


def _place(event: NewEvent) -> tuple[Any, ...]:
    """Return where an event comes: a run has its start first, and its end last."""
    rank = 0 if event.kind == "run.started" else 2 if event.kind in RUN_ENDS else 1
    return event.session_id, event.turn_id, rank, event.ts_ms


class _TraceSession(msgspec.Struct):
    """The session of a trace, and who acts in it."""

    session_id: str
    agent: str
    user: str | None
    is_new: bool
    has_agents: bool
    """Whether the trace has spans of agents, models or tools, as far as they have come."""


def _sessions(ledger: Ledger, scope: str, spans: Sequence[OtelSpan]) -> dict[str, _TraceSession]:
    """Return the session of each trace: as it was before, else as its spans name it."""
    by_trace: dict[str, list[OtelSpan]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    bookmarks = ledger.importing.bookmarks(scope)
    notes = bookmarks.find_all([f"{ORIGIN} {trace}" for trace in by_trace])
    fresh: dict[str, Any] = {}
    sessions: dict[str, _TraceSession] = {}
    for trace, its in by_trace.items():
        note = notes[f"{ORIGIN} {trace}"]
        acting = [span for span in its if span.operation is not None]
        if isinstance(note, list) and len(note) == 2:
            session_id, agent = str(note[0]), str(note[1])
        else:
            session_id = _first(acting, "conversation") or f"otel-{trace}"
            agent = _first(acting, "agent") or str(its[0].resource.get("service.name") or AGENT)
            session_id, agent = session_id[:NAME_CHARACTERS_MAX], agent[:NAME_CHARACTERS_MAX]
            if acting:
                fresh[f"{ORIGIN} {trace}"] = [session_id, agent]
        sessions[trace] = _TraceSession(
            session_id=session_id,
            agent=agent,
            user=_first(acting, "user"),
            is_new=ledger.importing.is_unknown(scope, session_id),
            has_agents=bool(acting) or isinstance(note, list),
        )
    for session in sessions.values():
        if session.is_new and session.has_agents:
            ledger.session(
                session.session_id, scope=scope, agent=session.agent, user=session.user
            ).open()
    if fresh:
        bookmarks.keep_all(fresh)
    return sessions


def _first(spans: Iterable[OtelSpan], name: str) -> str | None:
    return next(filter(None, (span.text(name) for span in spans)), None)


def _add(events: dict[str, NewEvent], event: NewEvent) -> None:
    """Keep an event, unless an equal one has its id."""
    earlier = events.get(event.event_id or "")
    if earlier is not None and _is_said_again(event, earlier.refs):
        event = _of_span(event)
        earlier = None
    if earlier is None or (
        event.kind == "run.started" and (event.ts_ms or 0) < (earlier.ts_ms or 0)
    ):
        events[event.event_id or ""] = event


def _is_said_again(event: NewEvent, refs: Any) -> bool:
    """Whether a model said the same words in another call: the agent's own span only repeats it."""
    before = refs if isinstance(refs, dict) else {}
    return (
        event.kind == "conversation.assistant"
        and event.refs["operation"] == before.get("operation") == "chat"
        and event.refs["span_id"] != before.get("span_id")
    )


def _of_span(event: NewEvent) -> NewEvent:
    """Return an event under an id that only its span gives it."""
    own = f"otel-{_digest(event.refs['span_id'], event.event_id or '')}"
    return msgspec.structs.replace(event, event_id=own)


def _append(ledger: Ledger, scope: str, events: Sequence[NewEvent]) -> int:
    """Record what is not there yet; return how many events were new."""
    traces = {event.refs["trace_id"] for event in events}
    marks = {f"otel-{_digest(trace, at)}" for trace in traces for at in ("started", "ended")}
    open_runs: set[str] | None = None
    for attempt in range(_TRIES):
        here = ledger.find_ids(scope, [*(event.event_id or "" for event in events), *marks])
        again = [
            _of_span(event)
            for event in events
            if event.event_id in here
            and event.kind == "conversation.assistant"
            and _is_said_again(event, ledger.event(scope, event.event_id).refs)
        ]
        here |= ledger.find_ids(scope, [event.event_id or "" for event in again])
        missing = [
            _beside_run(event) if _has_ended(event, here, open_runs) else event
            for event in sorted((*events, *again), key=_place)
            if event.event_id not in here
        ]
        try:
            return len(ledger.importing.append_missing(missing)) if missing else 0
        except (DuplicateEvent, RunClosed):
            # Another request recorded one of them, or ended the run, at the same time; or it was
            # closed because its root had not come.
            if attempt == _TRIES - 1:
                raise
            open_runs = ledger.importing.close_silent_runs(scope, prefix=_RUN, silent_ms=SILENT_MS)
    return 0


def _has_ended(event: NewEvent, here: Container[str], open_runs: set[str] | None) -> bool:
    """Whether the run of an event takes no more: ``here`` are the ids that are recorded."""
    trace = event.refs["trace_id"]
    if f"otel-{_digest(trace, 'ended')}" in here:
        return True
    has_begun = f"otel-{_digest(trace, 'started')}" in here
    return has_begun and open_runs is not None and event.run_id not in open_runs


def _beside_run(event: NewEvent) -> NewEvent:
    """Return an event of a run that has ended, and takes no more."""
    if event.kind in RUN_ENDS:
        refs = {**event.refs, "observed": event.kind}
        summary = f"{event.summary}, recorded after it was closed"
        event = msgspec.structs.replace(event, kind="ops.observation", summary=summary, refs=refs)
    return msgspec.structs.replace(event, run_id=None)


class _SpanEvents:
    """The events of one span."""

    def __init__(self, span: OtelSpan, scope: str, session: _TraceSession) -> None:
        self._span = span
        self._scope = scope
        self._session = session
        self._made: list[NewEvent] = []
        self._is_past = False
        """Whether what is added was said before this span."""

    def events(self) -> list[NewEvent]:
        span = self._span
        if span.operation == "chat":
            self._chat()
        elif span.operation == "tool":
            self._tool()
        elif span.operation == "agent":
            self._messages()
        self._start()
        if span.is_root:
            self._end()
        return self._made

    def _start(self) -> None:
        """Add the start of the run that the trace is: of several spans, the first one counts."""
        span = self._span
        started = RunStarted(
            runtime=ORIGIN, model=span.text("model"), provider=span.text("provider")
        )
        self._add(
            "run.started", "run started", at=span.start_ms, of=("started",), refs=started.as_refs()
        )

    def _end(self) -> None:
        span = self._span
        ended = RunEnded(duration_ms=span.end_ms - span.start_ms)
        if span.is_error:
            error = span.text("error") or "error"
            ended = RunEnded(duration_ms=ended.duration_ms, reason="failed", error_class=error)
        self._add(
            "run.failed" if span.is_error else "run.ended",
            f"run failed: {ended.error_class}" if span.is_error else "run ended",
            at=span.end_ms,
            of=("ended",),
            refs=ended.as_refs(),
            payload={"message": span.message} if span.message else None,
        )

    def _chat(self) -> None:
        span = self._span
        self._messages()
        counts = {
            name: span.count(name)
            for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_creation_tokens")
        }
        if counts["input_tokens"] is not None or counts["output_tokens"] is not None:
            used = {name: number for name, number in counts.items() if number is not None}
            total = (counts["input_tokens"] or 0) + (counts["output_tokens"] or 0)
            self._add(
                "usage.reported",
                f"{total} tokens used",
                at=span.end_ms,
                of=(span.span_id, "usage"),
                refs={**self._model(), **used, "total_tokens": total},
            )
        if span.is_error:
            self._add(
                "ops.error",
                f"model call failed: {span.text('error') or 'error'}",
                at=span.end_ms,
                of=(span.span_id, "error"),
                refs={"error_class": span.text("error") or "error"},
                payload={"message": span.message},
            )

    def _messages(self) -> None:
        """Add what went to the model and was not said before, and what came from it."""
        asked = self._span.said(asked=True)
        if not self._session.is_new:
            answered = [n for n, message in enumerate(asked) if message.role == "assistant"]
            asked = asked[answered[-1] + 1 :] if answered else asked
        self._is_past = True
        for message in asked:
            self._message(message, self._span.start_ms)
        self._is_past = False
        for message in self._span.said(asked=False):
            self._message(message, self._span.end_ms)

    def _message(self, message: OtelMessage, at: int) -> None:
        if message.tool is not None:
            self._called(message.call_id or _digest(self._span.span_id, message.tool), message, at)
        elif message.role == "tool":
            self._returned(message.call_id or "", None, message.text, at)
        elif message.is_thought:
            self._add(
                "ops.observation", "thinking", at=at, of=("thought", message.text),
                refs={"observed": "thinking"}, payload={"thinking": message.text},
            )  # fmt: skip
        elif message.role in {"user", "assistant"}:
            refs = self._model() if message.role == "assistant" else {}
            self._add(
                f"conversation.{message.role}",
                shorten(message.text),
                at=at,
                of=(message.role, message.text),
                refs={**refs, "characters": len(message.text)},
                payload={"text": message.text},
            )
        else:
            self._add(
                "ops.observation", f"{message.role} instructions", at=at,
                of=(message.role, message.text), refs={"observed": message.role},
                payload={"role": message.role, "content": message.text},
            )  # fmt: skip

    def _tool(self) -> None:
        span = self._span
        tool = span.text("tool") or span.name.removeprefix("execute_tool ") or "tool"
        call_id = span.text("call") or span.span_id
        given = OtelMessage(role="assistant", tool=tool, arguments=span.value("arguments"))
        self._called(call_id, given, span.start_ms)
        output = span.value("result")
        self._returned(call_id, tool, span.message if output is None else output, span.end_ms)

    def _called(self, call_id: str, message: OtelMessage, at: int) -> None:
        part = ToolCalled(call_id=call_id, tool=message.tool)
        stated = {"call_id": call_id, "name": message.tool, "input": message.arguments}
        self._add(
            "tool.call", f"{message.tool} called", at=at, of=("call", call_id),
            refs={**part.as_refs(), **self._model()}, payload=stated,
        )  # fmt: skip

    def _returned(self, call_id: str, tool: str | None, output: Any, at: int) -> None:
        span = self._span
        is_own = span.operation == "tool"
        is_failed = is_own and span.is_error
        part = ToolReturned(
            call_id=call_id,
            tool=tool,
            status="failed" if is_failed else "ok",
            duration_ms=span.end_ms - span.start_ms if is_own else None,
            error_class=(span.text("error") or "error") if is_failed else None,
        )
        self._add(
            "tool.result",
            f"{tool or 'tool'} {'failed' if is_failed else 'finished'}",
            at=at,
            of=("result", call_id),
            refs=part.as_refs(),
            payload={"call_id": call_id, "error" if is_failed else "output": output},
        )

    def _model(self) -> dict[str, Any]:
        span = self._span
        finish = span.value("finish")
        stated = {
            "model": span.text("model"),
            "provider": span.text("provider"),
            "message_id": span.text("response"),
            "stop_reason": finish[0] if isinstance(finish, list) and finish else None,
        }
        return {name: value for name, value in stated.items() if value is not None}

    def _add(
        self,
        kind: str,
        summary: str,
        *,
        at: int,
        of: tuple[str, ...],
        refs: dict[str, Any],
        payload: Any = None,
    ) -> None:
        span = self._span
        self._made.append(
            NewEvent(
                scope=self._scope,
                session_id=self._session.session_id,
                kind=kind,
                agent_id=(span.text("agent") or self._session.agent)[:NAME_CHARACTERS_MAX],
                user_id=self._session.user,
                summary=summary,
                payload=payload,
                refs={
                    **refs,
                    "operation": "past" if self._is_past else span.operation or "root",
                    "trace_id": span.trace_id,
                    "span_id": span.span_id,
                },
                event_id=f"otel-{_digest(span.trace_id, *of)}",
                ts_ms=at,
                run_id=f"otel-{span.trace_id}",
                turn_id=f"otel-{span.trace_id}",
                origin=ORIGIN,
            )
        )


def _digest(*names: str) -> str:
    return sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()[:32]
