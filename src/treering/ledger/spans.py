"""Runs as OpenTelemetry spans, by the GenAI conventions, in the JSON of OTLP.

    run ─► invoke_agent ─┬─► chat           a call of a model: what it said, called and used
                         └─► execute_tool   a tool call ─► invoke_agent   a subagent's run

Outside of runs, as in imported logs, a turn counts as a run: from one message of a user to the
next. Ids are digests of what is recorded: the same run always gives the same spans.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.texts import call_arguments, call_names, message_text, tool_output
from treering.context.thoughts import is_thought
from treering.derive.reports import report_of
from treering.ledger import tool_calls
from treering.ledger.session_settings import read_settings
from treering.model.codec import encode
from treering.model.events import Event, Header
from treering.model.kinds import RUN_ENDS
from treering.model.parts import (
    RunEnded,
    RunStarted,
    Said,
    ToolCalled,
    ToolReturned,
    UsageReported,
    safe_part,
)
from treering.model.scopes import Scope
from treering.model.tools import ToolQuery
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from treering.ledger.ports import EventStore

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
"""The version of the conventions that these spans follow."""
INTERNAL: Final = 1
CLIENT: Final = 3
ERROR: Final = 2
_NANOS: Final = 1_000_000
_PAGE: Final = 500
_ANSWERING: Final = frozenset({"conversation.assistant", "tool.call", "usage.reported"})
_OPENING: Final = frozenset({"conversation.user", "tool.result", "run.started"})
"""After one of these, a model is asked."""
_PROVIDERS: Final = (
    ("claude", "anthropic"), ("gpt", "openai"), ("o1", "openai"), ("o3", "openai"),
    ("o4", "openai"), ("codex", "openai"), ("gemini", "gcp.gemini"), ("mistral", "mistral_ai"),
    ("deepseek", "deepseek"), ("grok", "x_ai"),
)  # fmt: skip
"""How the conventions name the provider of a model that begins so."""
_RENAMED: Final = {"google": "gcp.gemini", "gemini": "gcp.gemini", "mistral": "mistral_ai",
                   "xai": "x_ai", "bedrock": "aws.bedrock", "azure": "azure.ai.openai"}  # fmt: skip


class SpanRef(msgspec.Struct, frozen=True):
    """Names a span."""

    trace_id: str
    span_id: str


class Unit(msgspec.Struct, frozen=True):
    """What becomes one invoke_agent span: a run, or a turn outside of runs."""

    key: str
    """The run's id, or the id of the turn's first event."""
    events: list[Header]


def units(events: Iterable[Header]) -> Iterator[Unit]:
    """Yield the runs and turns of a session's ``events``, in the order in which they began."""
    by_key: dict[str, Unit] = {}
    turn: Unit | None = None
    for event in events:
        if event.run_id is not None:
            by_key.setdefault(event.run_id, Unit(event.run_id, [])).events.append(event)
        elif event.kind == "conversation.user" or (turn is None and event.kind in _ANSWERING):
            turn = by_key.setdefault(event.event_id, Unit(event.event_id, [event]))
        elif turn is not None:
            turn.events.append(event)
    yield from (unit for unit in by_key.values() if any(map(_tells, unit.events)))


def _tells(event: Header) -> bool:
    return event.kind in _ANSWERING or event.kind in _OPENING


class SpanBuilder:
    """Makes spans of runs; finds the calls that began subagents in the ledger."""

    def __init__(self, store: EventStore, *, with_content: bool) -> None:
        self._store = store
        self._with_content = with_content
        self._parents: dict[tuple[str, str], SpanRef | None] = {}

    def of_unit(self, unit: Unit) -> list[dict[str, Any]]:
        """Return the spans of a run or a turn, the run's own first."""
        first = unit.events[0]
        parent = self.parent(Scope(first.scope), first.session_id)
        trace_id = self._trace(first.scope, first.session_id, unit.key)
        made = _UnitSpans(unit, trace_id, parent, with_content=self._with_content)
        return made.spans()

    def parent(self, scope: Scope, session_id: str) -> SpanRef | None:
        """Return the span of the tool call by which a subagent's session was begun."""
        key = (scope, session_id)
        if key not in self._parents:
            self._parents[key] = None  # Guards against a session that names itself as its parent.
            if len(self._parents) > 10_000:
                self._parents = {key: None}
            self._parents[key] = self._find_parent(scope, session_id)
        return self._parents[key]

    def _find_parent(self, scope: Scope, session_id: str) -> SpanRef | None:
        settings = read_settings(self._store, scope, session_id)
        if settings is None or settings.spawned_by is None or settings.spawned_call is None:
            return None
        query = ToolQuery(
            scope=scope, session_id=settings.spawned_by, call_id=settings.spawned_call, limit=1
        )
        record = next(iter(tool_calls.read_page(self._store, query).items), None)
        if record is None or record.call_event_id is None:
            return None
        key = record.run_id
        if key is None:
            locations = self._store.reader.find_ids(scope, [record.call_event_id])
            seq = locations[record.call_event_id].seq if locations else 0
            first = self.turn_start(scope, record.session_id, seq + 1)
            key = record.call_event_id if first is None else first.event_id
        trace_id = self._trace(scope, record.session_id, key)
        return SpanRef(trace_id, span_id("tool", scope, record.session_id, record.call_event_id))

    def _trace(self, scope: str, session_id: str, key: str) -> str:
        """Return the trace of a run: a subagent's is that of the call which began it."""
        parent = self.parent(Scope(scope), session_id)
        return _digest("trace", scope, session_id, key)[:32] if parent is None else parent.trace_id

    def turn_start(self, scope: Scope, session_id: str, before: int) -> Header | None:
        """Return the last message of a user before a seq, outside of runs."""
        while before > 1:
            page = self._store.reader.last_by_seq(
                Header, scope, session_id, before_seq=before, limit=_PAGE
            )
            for header in reversed(page):
                if header.kind == "conversation.user" and header.run_id is None:
                    return header
            if not page:
                return None
            before = page[0].seq
        return None


class _ModelCall(msgspec.Struct):
    """A call of a model, and its events."""

    asked_ms: int
    """When its input was complete."""
    events: list[Header]
    asked: list[Event]
    """Its input, if content is wanted."""
    message_id: str | None = None
    is_reported: bool = False


class _UnitSpans:
    """The spans of one run."""

    def __init__(
        self, unit: Unit, trace_id: str, parent: SpanRef | None, *, with_content: bool
    ) -> None:
        self._unit = unit
        self._trace_id = trace_id
        self._parent = parent
        self._with_content = with_content
        first = unit.events[0]
        self._where = (first.scope, first.session_id)
        self._run_span = span_id("run", *self._where, unit.key)
        self._agent = first.agent_id
        started = safe_part(first.kind, first.refs)
        self._started = started if isinstance(started, RunStarted) else RunStarted()

    def spans(self) -> list[dict[str, Any]]:
        calls = list(self._model_calls())
        chats = [self._chat(call) for call in calls]
        return [self._run(calls), *chats, *self._tools()]

    # The run.

    def _run(self, calls: Sequence[_ModelCall]) -> dict[str, Any]:
        events = self._unit.events
        ending = next((event for event in reversed(events) if event.kind in RUN_ENDS), None)
        part = None if ending is None else safe_part(ending.kind, ending.refs)
        models = [model for call in calls if (model := _model_in(call.events)[0])]
        fields: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": _provider(self._started.provider, self._model(models)),
            "gen_ai.agent.name": self._agent,
            "gen_ai.conversation.id": self._where[1],
            "gen_ai.request.model": self._model(models),
            "treering.scope": self._where[0],
            "treering.run.id": events[0].run_id,
        }
        fields |= _sums(calls)
        error = None
        if isinstance(part, RunEnded) and ending is not None and ending.kind != "run.ended":
            error = part.error_class or part.reason or "run_failed"
        if self._with_content:
            recorded = [event for event in events if isinstance(event, Event)]
            asked = [_message(event) for event in recorded if event.kind == "conversation.user"]
            answers = [event for event in recorded if event.kind == "conversation.assistant"]
            fields["gen_ai.input.messages"] = _json(asked)
            fields["gen_ai.output.messages"] = _json([_message(answer) for answer in answers[-1:]])
        return self._span(
            self._run_span,
            f"invoke_agent {self._agent}",
            INTERNAL,
            (min(event.ts_ms for event in events), max(event.ts_ms for event in events)),
            fields,
            error=error,
            parent=None if self._parent is None else self._parent.span_id,
        )

    def _model(self, models: Sequence[str]) -> str | None:
        return self._started.model or (models[0] if models else None)

    # Calls of models.

    def _model_calls(self) -> Iterator[_ModelCall]:
        """Yield the calls of models: what comes between one question and the next."""
        by_message: dict[str, _ModelCall] = {}
        asked_ms, asked, call = self._unit.events[0].ts_ms, list[Event](), None
        made: list[_ModelCall] = []
        for event in self._unit.events:
            if event.kind in _OPENING:
                asked_ms, call = event.ts_ms, None
                asked += [event] if self._with_content and isinstance(event, Event) else []
                continue
            if not (event.kind in _ANSWERING or (isinstance(event, Event) and is_thought(event))):
                continue
            name = _ref(event, "message_id")
            is_report = event.kind == "usage.reported"
            model_call = by_message.get(name) if name else call
            if model_call is None or (is_report and model_call.is_reported and not name):
                model_call = _ModelCall(asked_ms, [], asked, name)
                asked = []
                made.append(model_call)
            call = model_call
            if name:
                by_message[name] = model_call
            model_call.events.append(event)
            model_call.is_reported = model_call.is_reported or is_report
        yield from made

    def _chat(self, call: _ModelCall) -> dict[str, Any]:
        model, provider = _model_in(call.events)
        model = model or self._started.model
        parts = [safe_part(event.kind, event.refs) for event in call.events]
        stops = [part.stop_reason for part in parts if isinstance(part, Said) and part.stop_reason]
        fields: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(provider or self._started.provider, model),
            "gen_ai.conversation.id": self._where[1],
            "gen_ai.agent.name": self._agent,
            "gen_ai.request.model": model,
            "gen_ai.response.model": model,
            "gen_ai.response.id": call.message_id,
            "gen_ai.response.finish_reasons": stops[-1:] or None,
            "treering.start.approximate": True,
        }
        fields |= _sums([call])
        if self._with_content:
            fields["gen_ai.input.messages"] = _json([_message(event) for event in call.asked])
            fields["gen_ai.output.messages"] = _json(_answer(call.events, stops))
        last_ms = max(event.ts_ms for event in call.events)
        return self._span(
            span_id("chat", *self._where, call.events[0].event_id),
            f"chat {model}" if model else "chat",
            CLIENT,
            (min(call.asked_ms, last_ms), last_ms),
            fields,
        )

    # Tool calls.

    def _tools(self) -> Iterator[dict[str, Any]]:
        results: dict[str, Header] = {}
        for event in self._unit.events:
            part = safe_part(event.kind, event.refs)
            if isinstance(part, ToolReturned) and part.call_id and not part.late:
                results.setdefault(part.call_id, event)
        seen: set[str] = set()
        for event in self._unit.events:
            part = safe_part(event.kind, event.refs)
            if isinstance(part, ToolCalled):
                seen.add(part.call_id or "")
                yield self._tool(event, results.get(part.call_id or ""))
        for call_id, result in results.items():
            if call_id not in seen:
                yield self._tool(None, result)

    def _tool(self, called: Header | None, result: Header | None) -> dict[str, Any]:
        event = called or result
        assert event is not None  # noqa: S101  (one of them is there)
        part = safe_part(event.kind, event.refs)
        name = part.tool if isinstance(part, ToolCalled | ToolReturned) else None
        ended = None if result is None else safe_part(result.kind, result.refs)
        fields: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": part.call_id
            if isinstance(part, ToolCalled | ToolReturned)
            else None,
            "gen_ai.tool.type": "function",
            "gen_ai.agent.name": self._agent,
            "gen_ai.conversation.id": self._where[1],
        }
        error = None if result is not None else "unfinished"
        start_ms = event.ts_ms
        end_ms = event.ts_ms if result is None else result.ts_ms
        if isinstance(ended, ToolReturned):
            if ended.status != "ok":
                error = ended.error_class or ended.reason or ended.status or "failed"
            if ended.duration_ms is not None:
                # A log may give both lines the same time, and still state the duration.
                end_ms = max(end_ms, start_ms) if called else end_ms
                start_ms = min(start_ms, end_ms - ended.duration_ms)
        if self._with_content:
            if isinstance(called, Event):
                fields["gen_ai.tool.call.arguments"] = _json(call_arguments(called.payload))
            if isinstance(result, Event):
                fields["gen_ai.tool.call.result"] = tool_output(result)[0]
        return self._span(
            span_id("tool", *self._where, event.event_id),
            f"execute_tool {name}" if name else "execute_tool",
            INTERNAL,
            (start_ms, max(start_ms, end_ms)),
            fields,
            error=error,
        )

    def _span(
        self,
        own_id: str,
        name: str,
        kind: int,
        times_ms: tuple[int, int],
        fields: dict[str, Any],
        *,
        error: str | None = None,
        parent: str | None = "",
    ) -> dict[str, Any]:
        above = self._run_span if parent == "" else parent
        if error is not None:
            fields["error.type"] = error
        return {
            "traceId": self._trace_id,
            "spanId": own_id,
            **({} if above is None else {"parentSpanId": above}),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(times_ms[0] * _NANOS),
            "endTimeUnixNano": str(times_ms[1] * _NANOS),
            "attributes": _attributes(fields),
            **({} if error is None else {"status": {"code": ERROR}}),
        }


def trace_request(spans: Sequence[dict[str, Any]], *, service: str) -> dict[str, Any]:
    """Return ``spans`` as the body of a request to /v1/traces, or as a file."""
    resource = {
        "service.name": service,
        "telemetry.sdk.name": "treering",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": __version__,
    }
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [
                    {
                        "scope": {"name": "treering", "version": __version__},
                        "spans": list(spans),
                        "schemaUrl": SCHEMA_URL,
                    }
                ],
            }
        ]
    }


def span_id(sort: str, scope: str, session_id: str, key: str) -> str:
    """Return the id of a span: of a run, a model's call or a tool call."""
    return _digest(sort, scope, session_id, key)[:16]


def _digest(*names: str) -> str:
    return sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()


def _sums(calls: Iterable[_ModelCall]) -> dict[str, int]:
    """Return what calls used, under the names of the conventions."""
    sums: dict[str, int] = {}
    for call in calls:
        largest: dict[str, int] = {}
        for event in call.events:
            used = _used(event)
            if sum(used.values()) > sum(largest.values()):
                largest = used
        for name, number in largest.items():
            sums[name] = sums.get(name, 0) + number
    return sums


def _used(event: Header) -> dict[str, int]:
    if event.kind != "usage.reported":
        return {}
    part = safe_part(event.kind, event.refs)
    counts: dict[str, int | None] = {}
    if isinstance(part, UsageReported):
        counts = {"input_tokens": part.input_tokens, "output_tokens": part.output_tokens,
                  "cache_read.input_tokens": part.cached_tokens}  # fmt: skip
    if isinstance(event, Event) and (report := report_of(event)) is not None:
        tokens = report.tokens
        counts = {"input_tokens": tokens.input_tokens, "output_tokens": tokens.output_tokens,
                  "cache_read.input_tokens": tokens.cached_tokens}  # fmt: skip
    written = event.refs.get("cache_creation_tokens") if isinstance(event.refs, dict) else None
    counts["cache_write.input_tokens"] = written if type(written) is int else None
    return {f"gen_ai.usage.{name}": number for name, number in counts.items() if number}


def _model_in(events: Iterable[Header]) -> tuple[str | None, str | None]:
    """Return the model and the provider that events name."""
    model = provider = None
    for event in events:
        model = _ref(event, "model") or model
        provider = _ref(event, "provider") or provider
    return model, provider


def _provider(stated: str | None, model: str | None) -> str:
    if stated:
        return _RENAMED.get(stated.lower(), stated)
    name = (model or "").rpartition("/")[2].lower()
    return next((maker for start, maker in _PROVIDERS if name.startswith(start)), "unknown")


def _ref(event: Header, name: str) -> str | None:
    value = event.refs.get(name) if isinstance(event.refs, dict) else None
    return value if isinstance(value, str) and value else None


def _message(event: Event) -> dict[str, Any]:
    """Return a message in the form of the conventions."""
    if event.kind == "tool.result":
        response = {"type": "tool_call_response", "id": call_names(event)[0],
                    "response": tool_output(event)[0]}  # fmt: skip
        return {"role": "tool", "parts": [response]}
    role = "assistant" if event.kind == "conversation.assistant" else "user"
    return {"role": role, "parts": [{"type": "text", "content": message_text(event)}]}


def _answer(events: Iterable[Header], stops: Sequence[str]) -> list[dict[str, Any]]:
    """Return what a model said and called, as one message."""
    parts: list[dict[str, Any]] = []
    for event in events:
        if not isinstance(event, Event) or event.redacted:
            continue
        if event.kind == "conversation.assistant":
            parts.append({"type": "text", "content": message_text(event)})
        elif event.kind == "tool.call":
            call_id, tool = call_names(event)
            given = call_arguments(event.payload)
            parts.append({"type": "tool_call", "id": call_id, "name": tool, "arguments": given})
        elif is_thought(event) and isinstance(event.payload, dict):
            words = event.payload.get("thinking")
            parts += [{"type": "reasoning", "content": words}] if words else []
    called = any(part["type"] == "tool_call" for part in parts)
    finish = stops[-1] if stops else "tool_call" if called else "stop"
    return [{"role": "assistant", "parts": parts, "finish_reason": finish}] if parts else []


def _json(value: Any) -> str | None:
    return encode(value).decode() if value else None


def _attributes(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": _value(value)} for name, value in fields.items() if value is not None
    ]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}
