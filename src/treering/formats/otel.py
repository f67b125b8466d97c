"""Spans of OpenTelemetry as agents send them: OTLP in JSON or protobuf, conventions old and new.

Read are the GenAI conventions of OpenTelemetry from 1.27 on, and the names that OpenLLMetry and
OpenInference use beside or before them.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from treering.context.texts import text_of
from treering.errors import InvalidInput, Unsupported

Operation = Literal["agent", "chat", "tool"]

_NANOS: Final = 1_000_000
_ERROR: Final = 2
_REMOTE: Final = 0x300
"""The flags of a span whose parent is in another process."""
_OPERATIONS: Final[dict[str, Operation]] = {
    "invoke_agent": "agent", "invoke_workflow": "agent", "execute_tool": "tool", "chat": "chat",
    "text_completion": "chat", "generate_content": "chat", "completion": "chat",
}  # fmt: skip
_KINDS: Final[dict[str, Operation]] = {
    "agent": "agent", "workflow": "agent", "tool": "tool", "llm": "chat",
}  # fmt: skip
"""Kinds of spans, as OpenLLMetry and OpenInference name them."""
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "conversation": ("gen_ai.conversation.id", "session.id", "gen_ai.session.id",
                     "langfuse.session.id", "traceloop.association.properties.session_id"),
    "agent": ("gen_ai.agent.name", "agent.name", "gen_ai.agent.id"),
    "user": ("user.id", "enduser.id", "traceloop.association.properties.user_id"),
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name",
              "llm.request.model"),
    "provider": ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
    "response": ("gen_ai.response.id",),
    "tool": ("gen_ai.tool.name", "tool.name", "traceloop.entity.name"),
    "call": ("gen_ai.tool.call.id", "tool_call.id", "tool.id"),
    "error": ("error.type", "exception.type"),
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens",
                     "llm.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens",
                      "llm.usage.completion_tokens", "llm.token_count.completion"),
    "cached_tokens": ("gen_ai.usage.cache_read.input_tokens",
                      "gen_ai.usage.cache_read_input_tokens",
                      "llm.token_count.prompt_details.cache_read"),
    "cache_creation_tokens": ("gen_ai.usage.cache_write.input_tokens",
                              "gen_ai.usage.cache_creation.input_tokens",
                              "gen_ai.usage.cache_creation_input_tokens"),
    "arguments": ("gen_ai.tool.call.arguments", "tool.parameters", "input.value",
                  "traceloop.entity.input"),
    "result": ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output"),
    "finish": ("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"),
}  # fmt: skip
"""Our name of each attribute, and its names in the conventions, newest first."""
_INPUT: Final = ("gen_ai.input.messages", "gen_ai.prompt", "input.value")
_OUTPUT: Final = ("gen_ai.output.messages", "gen_ai.completion", "output.value")
_SYSTEM: Final = ("gen_ai.system_instructions",)
_NUMBERED_INPUT: Final = re.compile(
    r"(?:gen_ai\.prompt\.(\d+)|llm\.input_messages\.(\d+)\.message)\.(role|content)$"
)
_NUMBERED_OUTPUT: Final = re.compile(
    r"(?:gen_ai\.completion\.(\d+)|llm\.output_messages\.(\d+)\.message)\.(role|content)$"
)
_EVENT_ROLES: Final = {
    "gen_ai.system.message": "system", "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant", "gen_ai.tool.message": "tool",
}  # fmt: skip


class OtelEvent(msgspec.Struct, frozen=True):
    """An event of a span."""

    name: str
    attributes: dict[str, Any]


class OtelSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span, however it was sent."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ms: int
    end_ms: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: tuple[OtelEvent, ...] = ()
    is_error: bool = False
    message: str = ""
    """What went wrong."""
    is_root: bool = False
    """Whether its parent, if any, is in another process."""

    @property
    def operation(self) -> Operation | None:
        """Return which part of an agent's work it is; None if it is not part of one."""
        stated = self.attributes.get("gen_ai.operation.name")
        if isinstance(stated, str):
            return _OPERATIONS.get(stated)
        for name in ("openinference.span.kind", "traceloop.span.kind"):
            kind = self.attributes.get(name)
            if isinstance(kind, str) and kind.lower() in _KINDS:
                return _KINDS[kind.lower()]
        is_call = "gen_ai.system" in self.attributes or "llm.request.type" in self.attributes
        return "chat" if is_call else None

    def text(self, name: str) -> str | None:
        """Return an attribute by our name for it."""
        for attribute in NAMES[name]:
            value = self.attributes.get(attribute)
            if isinstance(value, str | int) and not isinstance(value, bool) and str(value):
                return str(value)
        return None

    def value(self, name: str) -> Any:
        """Return an attribute by our name for it: as JSON, if it is that in text."""
        for attribute in NAMES[name]:
            if attribute in self.attributes:
                return unpacked(self.attributes[attribute])
        return None

    def count(self, name: str) -> int | None:
        """Return a number of tokens by our name for it."""
        for attribute in NAMES[name]:
            value = self.attributes.get(attribute)
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                return int(value)
        return None

    def said(self, *, asked: bool) -> list[OtelMessage]:
        """Return the messages that went to the model, if ``asked``, or came from it."""
        names = (*_SYSTEM, *_INPUT) if asked else _OUTPUT
        default = "user" if asked else "assistant"
        messages: list[OtelMessage] = []
        for name in names:
            if name in self.attributes:
                role = "system" if name in _SYSTEM else default
                messages += messages_in(unpacked(self.attributes[name]), role)
                if name not in _SYSTEM:
                    return messages
        numbered = _NUMBERED_INPUT if asked else _NUMBERED_OUTPUT
        return messages + (self._numbered(numbered, default) or self._event_messages(asked=asked))

    def _numbered(self, pattern: re.Pattern[str], default: str) -> list[OtelMessage]:
        parts: dict[int, dict[str, Any]] = {}
        for name, value in self.attributes.items():
            if match := pattern.match(name):
                parts.setdefault(int(match[1] or match[2]), {})[match[3]] = value
        return [
            message
            for _, fields in sorted(parts.items())
            for message in messages_in([{"role": default, **fields}], default)
        ]

    def _event_messages(self, *, asked: bool) -> list[OtelMessage]:
        """Return the messages in the events of the span, where older conventions have them."""
        messages: list[OtelMessage] = []
        for event in self.events:
            attributes = event.attributes
            if asked and event.name in _EVENT_ROLES:
                given = {"content": attributes.get("content"), "id": attributes.get("id")}
                role = _EVENT_ROLES[event.name]
                messages += messages_in([{"role": role, **given}], role)
            elif asked and event.name == "gen_ai.content.prompt":
                messages += messages_in(unpacked(attributes.get("gen_ai.prompt")), "user")
            elif not asked and event.name == "gen_ai.choice":
                message = unpacked(attributes.get("message", attributes.get("content")))
                messages += messages_in(message, "assistant")
            elif not asked and event.name == "gen_ai.content.completion":
                messages += messages_in(unpacked(attributes.get("gen_ai.completion")), "assistant")
        return messages


class OtelMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message: a text, a thought, a call, or a result."""

    role: str
    text: str = ""
    is_thought: bool = False
    call_id: str | None = None
    """Of a call, or of a result if the role is tool."""
    tool: str | None = None
    arguments: Any = None


def messages_in(value: Any, role: str) -> list[OtelMessage]:
    """Return the messages in a value of any of the conventions."""
    if isinstance(value, str):
        return [OtelMessage(role=role, text=value)] if value.strip() else []
    if isinstance(value, dict):
        inner = value.get("messages")
        return messages_in(inner, role) if isinstance(inner, list) else _message(value, role)
    if not isinstance(value, list):
        return []
    return [message for each in value for message in messages_in(each, role)]


def _message(fields: dict[str, Any], role: str) -> list[OtelMessage]:
    if isinstance(fields.get("message"), dict):  # A choice of OpenAI's.
        return _message(fields["message"], role)
    stated = fields.get("role")
    own = {"human": "user", "ai": "assistant", "model": "assistant"}.get(
        str(stated), stated if isinstance(stated, str) else role
    )
    messages: list[OtelMessage] = []
    parts = fields.get("parts", fields.get("content"))
    call_id = fields.get("tool_call_id") or fields.get("id")
    if own == "tool" and not isinstance(fields.get("parts"), list):
        text = text_of(unpacked(parts))
        return [OtelMessage(role="tool", text=text, call_id=_name(call_id))] if call_id else []
    for part in parts if isinstance(parts, list) else [parts]:
        messages += _part(unpacked(part), own)
    if "type" in fields and "role" not in fields:
        messages = _part(fields, own)
    for call in unpacked(fields.get("tool_calls")) or ():
        messages += _part({"type": "tool_call", **call}, own) if isinstance(call, dict) else []
    return messages


def _part(part: Any, role: str) -> list[OtelMessage]:
    if isinstance(part, str):
        return [OtelMessage(role=role, text=part)] if part.strip() else []
    if not isinstance(part, dict):
        return []
    sort = str(part.get("type", "text"))
    called = part["function"] if isinstance(part.get("function"), dict) else part
    if sort in {"tool_call", "function", "tool_use"} and called.get("name"):
        given = unpacked(called.get("arguments", called.get("input")))
        return [
            OtelMessage(
                role=role, call_id=_name(part.get("id")), tool=str(called["name"]), arguments=given
            )
        ]
    if sort in {"tool_call_response", "tool_result"}:
        answer = part.get("response", part.get("result", part.get("content")))
        call_id = _name(part.get("id") or part.get("tool_use_id"))
        return [OtelMessage(role="tool", text=text_of(answer), call_id=call_id)] if call_id else []
    text = part.get("content", part.get("text", part.get("thinking")))
    if not isinstance(text, str) or not text.strip():
        return []
    return [OtelMessage(role=role, text=text, is_thought=sort in {"reasoning", "thinking"})]


def _name(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and str(value) else None


def unpacked(value: Any) -> Any:
    """Return the value of JSON in a text; any other value unchanged."""
    if isinstance(value, str) and value[:1] in {"[", "{"}:
        try:
            return msgspec.json.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return value
    return value


def spans_in_json(body: bytes) -> list[OtelSpan]:
    """Return the spans of OTLP/JSON. Raise InvalidInput if it is something else."""
    try:
        request = msgspec.json.decode(body, type=_TracesRequest)
        return list(_read(request))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"not OTLP: {error}", hint="send an ExportTraceServiceRequest"
        ) from error


def spans_in_protobuf(body: bytes) -> list[OtelSpan]:
    """Return the spans of OTLP/protobuf. Raise InvalidInput if it is something else."""
    try:
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415  (an extra)
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
            ExportTraceServiceRequest,
        )
    except ImportError as error:
        raise Unsupported(
            "OTLP in protobuf needs opentelemetry-proto, which is not installed",
            hint="pip install 'treering[otlp]', or send JSON",
        ) from error
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise InvalidInput("not OTLP", hint="send an ExportTraceServiceRequest") from error
    fields = MessageToDict(request)
    for resource in fields.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:  # That JSON has base 64 where OTLP has hexadecimal.
                        span[name] = b64decode(span[name]).hex()
                if "status" in span:
                    span["status"]["code"] = _STATUSES.get(span["status"].get("code"), 0)
    return spans_in_json(msgspec.json.encode(fields))


_STATUSES: Final = {"STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}


class _KeyValue(msgspec.Struct, frozen=True):
    key: str
    value: dict[str, Any] = {}


class _SpanEvent(msgspec.Struct, frozen=True):
    name: str = ""
    attributes: list[_KeyValue] = []


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Span(msgspec.Struct, frozen=True, rename="camel"):
    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str = ""
    flags: int = 0
    start_time_unix_nano: str | int = 0
    end_time_unix_nano: str | int = 0
    attributes: list[_KeyValue] = []
    events: list[_SpanEvent] = []
    status: _Status = _Status()


class _ScopeSpans(msgspec.Struct, frozen=True):
    spans: list[_Span] = []


class _Resource(msgspec.Struct, frozen=True):
    attributes: list[_KeyValue] = []


class _ResourceSpans(msgspec.Struct, frozen=True, rename="camel"):
    resource: _Resource = _Resource()
    scope_spans: list[_ScopeSpans] = []


class _TracesRequest(msgspec.Struct, frozen=True, rename="camel"):
    resource_spans: list[_ResourceSpans] = []


def _read(request: _TracesRequest) -> Iterator[OtelSpan]:
    for resource in request.resource_spans:
        about = _plain(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield _span(span, about)


def _span(span: _Span, resource: dict[str, Any]) -> OtelSpan:
    trace_id, span_id = span.trace_id.lower(), span.span_id.lower()
    if not re.fullmatch("[0-9a-f]{32}", trace_id) or not re.fullmatch("[0-9a-f]{16}", span_id):
        raise ValueError(f"span {span.name!r} has an id that is not hexadecimal")
    start, end = int(span.start_time_unix_nano), int(span.end_time_unix_nano)
    attributes = _plain(span.attributes)
    errors = [event for event in span.events if event.name == "exception"]
    for error in errors:
        attributes = {**_plain(error.attributes), **attributes}
    return OtelSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=span.parent_span_id.lower() or None,
        name=span.name,
        start_ms=max(start // _NANOS, 1),
        end_ms=max(end // _NANOS, start // _NANOS, 1),
        attributes=attributes,
        resource=resource,
        events=tuple(OtelEvent(event.name, _plain(event.attributes)) for event in span.events),
        is_error=span.status.code == _ERROR,
        message=span.status.message or str(attributes.get("exception.message", "")),
        is_root=not span.parent_span_id or span.flags & _REMOTE == _REMOTE,
    )


def _plain(attributes: Sequence[_KeyValue]) -> dict[str, Any]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: dict[str, Any]) -> Any:
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        values: Iterable[Any] = (value["arrayValue"] or {}).get("values", ())
        return [_value(item) for item in values]
    if "kvlistValue" in value:
        pairs = (value["kvlistValue"] or {}).get("values", ())
        return {str(pair.get("key")): _value(pair.get("value", {})) for pair in pairs}
    for name in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if name in value:
            return value[name]
    return None
