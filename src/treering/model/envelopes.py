"""Event envelopes: the stable format in which other systems read a run's events.

Each kind of envelope has a type of its own. A safe envelope has a payload of facts and sizes; a
private one has a payload of another type, which includes the content. JSON names are in camel case;
``docs/reference/envelopes.schema.json`` is generated from these types.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, Generic, Literal, TypeVar, get_args

import msgspec

from treering.model.kinds import Visibility
from treering.model.parts import PARTS, SafePart, TimeNote, envelope_name, part_of
from treering.model.tools import Reason, Status

ENVELOPE_VERSION: Final = 1
EnvelopeSource = Literal["kernel", "runtime", "tool-ledger", "hook-adapter"]
ENVELOPE_SOURCES: Final[frozenset[str]] = frozenset(get_args(EnvelopeSource))
Phase = Literal["start", "end"]


class _CamelCased(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A struct with camel-case JSON names that omits fields which are None."""

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON object. Content that is not JSON is left unchanged."""
        fields = {}
        for name, json_name in _spellings(type(self)):
            value = getattr(self, name)
            if value is not None:
                fields[json_name] = value
        return fields


class Truncated(_CamelCased, frozen=True, kw_only=True):
    """Marks a line of a trace that was too long, so that its private content was removed."""

    bytes: int
    """The original size of the line."""


class Payload(_CamelCased, frozen=True, kw_only=True):
    """The payload of an envelope."""

    truncated: Truncated | None = None
    """Only set in traces."""

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON object. Content that is not JSON is left unchanged."""
        fields = super().to_dict()
        if self.truncated is not None:
            fields["truncated"] = self.truncated.to_dict()
        return fields


# The facts of each kind. Each has two payload types: one without content, one with it.


class _Started(Payload, frozen=True, kw_only=True):
    entry_point: str | None = None
    """What triggered the run: cli, auto-reply, cron, planner, hook, …"""
    runtime: str | None = None
    """What executes it: pi, sdk, cli, …"""
    model: str | None = None
    provider: str | None = None


class _Ended(Payload, frozen=True, kw_only=True):
    duration_ms: int | None = None
    tool_calls: int | None = None
    reason: str | None = None
    """Why it did not succeed: failed, interrupted, crashed, closed, …"""
    error_class: str | None = None


class _Answered(Payload, frozen=True, kw_only=True):
    chars: int | None = None
    model: str | None = None
    provider: str | None = None
    stop_reason: str | None = None


class _Called(Payload, frozen=True, kw_only=True):
    tool_call_id: str | None = None
    tool_name: str | None = None
    input_shape: str | None = None
    """A hash of the names and types in the input, without its values."""
    input_bytes: int | None = None


class _Returned(Payload, frozen=True, kw_only=True):
    tool_call_id: str | None = None
    tool_name: str | None = None
    status: Status | None = None
    duration_ms: int | None = None
    output_bytes: int | None = None
    error_class: str | None = None
    is_synthetic: bool | None = None
    reason: Reason | None = None
    """Why the result is synthetic."""
    late: bool | None = None
    """Whether it came after a synthetic outcome, which remains the valid one."""
    outcome: str | None = None
    """For a late result: the event id of the valid outcome."""
    run: str | None = None
    """For a late result: the run of its call, which is closed."""
    time: TimeNote | None = None
    """``approximate`` if the log it was imported from does not tell its time."""


class _Compacting(Payload, frozen=True, kw_only=True):
    phase: Phase
    will_retry: bool | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    messages: int | None = None
    """The number of messages that the summary replaces."""
    messages_before: int | None = None
    """The number of messages shown to the model before, including an earlier summary."""
    messages_after: int | None = None


class _Warned(Payload, frozen=True, kw_only=True):
    code: str | None = None
    error_class: str | None = None


class StartedFacts(_Started, frozen=True, kw_only=True):
    """The public facts of a run's start."""


class StartedContent(_Started, frozen=True, kw_only=True):
    """A run's start with all its details."""

    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class EndedFacts(_Ended, frozen=True, kw_only=True):
    """The public facts of a run's end."""


class EndedContent(_Ended, frozen=True, kw_only=True):
    """A run's end with the error message."""

    error: str | None = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class AnswerFacts(_Answered, frozen=True, kw_only=True):
    """The public facts of an answer or a delta."""


class AnswerContent(_Answered, frozen=True, kw_only=True):
    """An answer or a delta with its text."""

    text: str | None = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class CallFacts(_Called, frozen=True, kw_only=True):
    """The public facts of a tool call."""


class CallContent(_Called, frozen=True, kw_only=True):
    """A tool call with its input."""

    input: Any = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class ResultFacts(_Returned, frozen=True, kw_only=True):
    """The public facts of a tool call's outcome."""


class ResultContent(_Returned, frozen=True, kw_only=True):
    """A tool call's outcome with its output and error message."""

    output: Any = None
    error: str | None = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class CompactionFacts(_Compacting, frozen=True, kw_only=True):
    """The public facts of a compaction."""


class CompactionContent(_Compacting, frozen=True, kw_only=True):
    """A compaction with all its details."""

    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class WarningFacts(_Warned, frozen=True, kw_only=True):
    """The public facts of a warning."""


class WarningContent(_Warned, frozen=True, kw_only=True):
    """A warning with its message."""

    message: str | None = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


PayloadType = TypeVar("PayloadType", bound=Payload)
StartedPayload = TypeVar("StartedPayload", StartedFacts, StartedContent)
EndedPayload = TypeVar("EndedPayload", EndedFacts, EndedContent)
AnswerPayload = TypeVar("AnswerPayload", AnswerFacts, AnswerContent)
CallPayload = TypeVar("CallPayload", CallFacts, CallContent)
ResultPayload = TypeVar("ResultPayload", ResultFacts, ResultContent)
CompactionPayload = TypeVar("CompactionPayload", CompactionFacts, CompactionContent)
WarningPayload = TypeVar("WarningPayload", WarningFacts, WarningContent)


class Envelope(_CamelCased, frozen=True, kw_only=True, tag_field="kind"):
    """The fields of every envelope. Use one of the types below, one for each kind."""

    version: Literal[1]
    run_id: str
    seq: int
    """Order in the run."""
    at: str
    """ISO 8601, UTC."""
    agent_id: str
    session_id: str
    session_key: str | None = None
    """The session's name in another system."""
    source: EnvelopeSource
    visibility: Visibility
    """private if the event is private, or if the payload holds private content."""

    @property
    def kind(self) -> str:
        """Return the name of its kind, such as ``tool.call.failed``."""
        return _KINDS[type(self)]

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON object, with ``kind`` and ``payload`` last."""
        fields: dict[str, Any] = {
            "version": self.version,
            "runId": self.run_id,
            "seq": self.seq,
            "at": self.at,
            "agentId": self.agent_id,
            "sessionId": self.session_id,
        }
        if self.session_key is not None:
            fields["sessionKey"] = self.session_key
        fields["source"] = self.source
        fields["visibility"] = self.visibility
        fields["kind"] = self.kind
        return fields


class _Filled(Envelope, Generic[PayloadType], frozen=True, kw_only=True):
    payload: PayloadType

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "payload": self.payload.to_dict()}


class LifecycleStarted(_Filled[StartedPayload], frozen=True, kw_only=True, tag="lifecycle.started"):
    """A run began."""


class LifecycleEnded(_Filled[EndedPayload], frozen=True, kw_only=True, tag="lifecycle.ended"):
    """A run ended well."""


class LifecycleFailed(_Filled[EndedPayload], frozen=True, kw_only=True, tag="lifecycle.failed"):
    """A run failed or was interrupted."""


class AssistantDelta(_Filled[AnswerPayload], frozen=True, kw_only=True, tag="assistant.delta"):
    """A delta of an answer arrived."""


class AssistantFinal(_Filled[AnswerPayload], frozen=True, kw_only=True, tag="assistant.final"):
    """The assistant answered."""


class ToolCallStarted(_Filled[CallPayload], frozen=True, kw_only=True, tag="tool.call.started"):
    """A tool is about to run."""


class ToolCallFinished(_Filled[ResultPayload], frozen=True, kw_only=True, tag="tool.call.finished"):
    """A tool returned its output."""


class ToolCallFailed(_Filled[ResultPayload], frozen=True, kw_only=True, tag="tool.call.failed"):
    """A tool failed, or a synthetic result replaced its missing output."""


class CompactionPhase(
    _Filled[CompactionPayload], frozen=True, kw_only=True, tag="compaction.phase"
):
    """A compaction began or ended."""


class WarningGiven(_Filled[WarningPayload], frozen=True, kw_only=True, tag="warning"):
    """Something needs attention but did not stop the run."""


SafeEnvelope = (
    LifecycleStarted[StartedFacts]
    | LifecycleEnded[EndedFacts]
    | LifecycleFailed[EndedFacts]
    | AssistantDelta[AnswerFacts]
    | AssistantFinal[AnswerFacts]
    | ToolCallStarted[CallFacts]
    | ToolCallFinished[ResultFacts]
    | ToolCallFailed[ResultFacts]
    | CompactionPhase[CompactionFacts]
    | WarningGiven[WarningFacts]
)
"""An envelope without private content."""

PrivateEnvelope = (
    LifecycleStarted[StartedContent]
    | LifecycleEnded[EndedContent]
    | LifecycleFailed[EndedContent]
    | AssistantDelta[AnswerContent]
    | AssistantFinal[AnswerContent]
    | ToolCallStarted[CallContent]
    | ToolCallFinished[ResultContent]
    | ToolCallFailed[ResultContent]
    | CompactionPhase[CompactionContent]
    | WarningGiven[WarningContent]
)
"""An envelope with private content, for readers that asked for it."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of all envelopes: ``docs/reference/envelopes.schema.json``."""
    (safe, private), definitions = msgspec.json.schema_components(
        (SafeEnvelope, PrivateEnvelope), ref_template="#/$defs/{name}"
    )
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event envelope, version 1",
        "anyOf": [{"$ref": "#/$defs/SafeEnvelope"}, {"$ref": "#/$defs/PrivateEnvelope"}],
        "$defs": {"SafeEnvelope": safe, "PrivateEnvelope": private, **definitions},
    }
    text = msgspec.json.encode(schema).decode()
    # A generated name such as ToolCallStarted_CallContent_ includes the payload type.
    text = re.sub(r"\b(\w+)_\w+Facts_(?=\")", r"\1", text)
    text = re.sub(r"\b(\w+)_\w+Content_(?=\")", r"Private\1", text)
    named: dict[str, Any] = msgspec.json.decode(text)
    return named


_TYPES: Final[dict[str, tuple[Any, type[Payload], type[Payload]]]] = {
    "lifecycle.started": (LifecycleStarted, StartedFacts, StartedContent),
    "lifecycle.ended": (LifecycleEnded, EndedFacts, EndedContent),
    "lifecycle.failed": (LifecycleFailed, EndedFacts, EndedContent),
    "assistant.delta": (AssistantDelta, AnswerFacts, AnswerContent),
    "assistant.final": (AssistantFinal, AnswerFacts, AnswerContent),
    "tool.call.started": (ToolCallStarted, CallFacts, CallContent),
    "tool.call.finished": (ToolCallFinished, ResultFacts, ResultContent),
    "tool.call.failed": (ToolCallFailed, ResultFacts, ResultContent),
    "compaction.phase": (CompactionPhase, CompactionFacts, CompactionContent),
    "warning": (WarningGiven, WarningFacts, WarningContent),
}
"""The type of each kind of envelope, and its payload types without and with content."""

_KINDS: Final[dict[type, str]] = {envelope: kind for kind, (envelope, _, _) in _TYPES.items()}
_PHASES: Final[dict[str, Phase]] = {"compaction.started": "start", "compaction.ended": "end"}
_FIELDS: Final = {"tool": "tool_name", "call_id": "tool_call_id", "characters": "chars"}
"""Payload fields whose names differ from those of the event's safe part."""
_ALIASES: Final = {"tool": "name", "error_class": "class"}
"""Other names of safe facts in payloads."""


def safe_envelope(name: str, kind: str, part: SafePart, fields: dict[str, Any]) -> SafeEnvelope:
    """Return the envelope ``name`` for an event of ``kind``, with its public facts only."""
    envelope, payload, _ = _TYPES[name]
    result: SafeEnvelope = envelope(**fields, payload=payload(**_facts(kind, part)))
    return result


def private_envelope(
    name: str, kind: str, part: SafePart, content: Any, fields: dict[str, Any]
) -> PrivateEnvelope:
    """Return the envelope with ``content``, the event's payload; each fact appears once."""
    envelope, _, payload = _TYPES[name]
    named = _by_name(content)
    public = _facts(kind, part)
    names = _names(kind)
    facts = public
    if any(key in names and names[key] not in public for key in named):
        facts = {**_facts(kind, _facts_in(kind, named)), **public}
    rest = {key: value for key, value in named.items() if not _is_repeated(kind, facts, key, value)}
    words = _take_content(payload, rest)
    if rest:
        words["details"] = rest
    if words or facts != public:
        fields = {**fields, "visibility": "private"}
    result: PrivateEnvelope = envelope(**fields, payload=payload(**facts, **words))
    return result


def _facts(kind: str, part: SafePart) -> dict[str, Any]:
    """Return the facts of an event, by payload field."""
    facts: dict[str, Any] = {"phase": _PHASES[kind]} if kind in _PHASES else {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if value is not None:
            facts[_FIELDS.get(name, name)] = value
    return facts


def _by_name(content: Any) -> dict[str, Any]:
    """Return the payload of an event by name; the message and class of an error are inlined."""
    if content is None:
        return {}
    if not isinstance(content, dict):
        return {"content": content}
    error = content.get("error")
    if not isinstance(error, dict):
        return dict(content)
    fields = {name: value for name, value in content.items() if name != "error"}
    rest = dict(error)
    if isinstance(rest.get("message"), str):
        fields["error"] = rest.pop("message")
    if isinstance(rest.get("class"), str):
        fields.setdefault("class", rest.pop("class"))
    return {**fields, "error_details": rest} if rest else fields


def _facts_in(kind: str, fields: dict[str, Any]) -> SafePart:
    """Return the facts that are only in the payload, as in earlier ledgers."""
    named = dict(fields)
    for name, alias in _ALIASES.items():
        if isinstance(fields.get(alias), str):
            named.setdefault(name, fields[alias])
    return part_of(kind, named)


def _is_repeated(kind: str, facts: dict[str, Any], key: str, value: Any) -> bool:
    """Return whether the value under ``key`` repeats one of ``facts``."""
    if kind in _PHASES and key == "phase":
        return bool(facts["phase"] == value)
    name = _names(kind).get(key)
    return name in facts and bool(facts[name] == value)


def _take_content(payload: type[Payload], rest: dict[str, Any]) -> dict[str, Any]:
    """Remove from ``rest`` the values that ``payload`` has fields for, and return them."""
    fields = payload.__struct_fields__
    content: dict[str, Any] = {}
    for name in ("input", "output"):
        if name in fields and rest.get(name) is not None:
            content[name] = rest.pop(name)
    for name in ("text", "message", "error"):
        if name in fields and isinstance(rest.get(name), str):
            content[name] = rest.pop(name)
    if "error" in fields and "error" not in content:
        # A failed run has its message in the payload itself, a stopped one has a reason.
        name = "message" if isinstance(rest.get("message"), str) else "reason"
        if isinstance(rest.get(name), str) and "output" not in fields:
            content["error"] = rest.pop(name)
    return content


@cache
def _names(kind: str) -> dict[str, str]:
    """Return the payload field for each name of a fact."""
    names = PARTS.get(kind, SafePart).__struct_fields__
    fields_by_name = {_ALIASES[name]: _FIELDS.get(name, name) for name in names if name in _ALIASES}
    for name in names:
        field = _FIELDS.get(name, name)
        fields_by_name |= dict.fromkeys((name, field, envelope_name(name)), field)
    return fields_by_name


@cache
def _spellings(value: type[_CamelCased]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(value))
