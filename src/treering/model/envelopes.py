"""Event envelopes: the stable form in which other systems read what a run does.

There is one type for each kind of envelope. A safe one has a payload of facts and sizes; a private
one has a payload of another type, which holds the content as well. JSON spells every field once,
in camel case; ``docs/envelopes.schema.json`` is generated from these types.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, Generic, Literal, TypeVar, get_args

import msgspec

from treering.model.kinds import Visibility
from treering.model.parts import PARTS, SafePart, envelope_name, part_of
from treering.model.tools import Reason, Status

ENVELOPE_VERSION: Final = 1
EnvelopeSource = Literal["kernel", "runtime", "tool-ledger", "hook-adapter"]
ENVELOPE_SOURCES: Final[frozenset[str]] = frozenset(get_args(EnvelopeSource))
Phase = Literal["start", "end"]


class _CamelCased(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A value with one JSON spelling for each field; what is None is left out."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON spells it. Content that is not JSON is passed on as it is."""
        found = {}
        for name, spelling in _spellings(type(self)):
            value = getattr(self, name)
            if value is not None:
                found[spelling] = value
        return found


class Truncated(_CamelCased, frozen=True, kw_only=True):
    """A mark on a line of a trace that was too long, and lost its private content."""

    bytes: int
    """The size that the line had."""


class Payload(_CamelCased, frozen=True, kw_only=True):
    """What an envelope says of its event."""

    truncated: Truncated | None = None
    """Set in traces only."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON spells it. Content that is not JSON is passed on as it is."""
        found = super().to_dict()
        if self.truncated is not None:
            found["truncated"] = self.truncated.to_dict()
        return found


# Facts by kind. Each has two payloads that are different types: one without content, one with it.


class _Started(Payload, frozen=True, kw_only=True):
    entry_point: str | None = None
    """What set the run off: cli, auto-reply, cron, planner, hook, …"""
    runtime: str | None = None
    """What carries it out: pi, sdk, cli, …"""
    model: str | None = None
    provider: str | None = None


class _Ended(Payload, frozen=True, kw_only=True):
    duration_ms: int | None = None
    tool_calls: int | None = None
    reason: str | None = None
    """Why it did not end well: failed, interrupted, crashed, closed, …"""
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
    """It came after a synthetic outcome, which is the one that counts."""
    outcome: str | None = None
    """Of a late one: the event id of the outcome that counts."""
    run: str | None = None
    """Of a late one: the run of its call, which takes no more events."""


class _Compacting(Payload, frozen=True, kw_only=True):
    phase: Phase
    will_retry: bool | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    messages: int | None = None
    """How many messages the summary stands for."""
    messages_before: int | None = None
    """How many messages a model was shown before it, the summary before it counted."""
    messages_after: int | None = None


class _Warned(Payload, frozen=True, kw_only=True):
    code: str | None = None
    error_class: str | None = None


class StartedFacts(_Started, frozen=True, kw_only=True):
    """What may be told of a run's start."""


class StartedContent(_Started, frozen=True, kw_only=True):
    """A run's start, with what else was recorded of it."""

    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class EndedFacts(_Ended, frozen=True, kw_only=True):
    """What may be told of a run's end."""


class EndedContent(_Ended, frozen=True, kw_only=True):
    """A run's end, with the error in words."""

    error: str | None = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class AnswerFacts(_Answered, frozen=True, kw_only=True):
    """What may be told of an answer, or of a piece of one."""


class AnswerContent(_Answered, frozen=True, kw_only=True):
    """An answer, or a piece of one, with its text."""

    text: str | None = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class CallFacts(_Called, frozen=True, kw_only=True):
    """What may be told of a tool that is about to run."""


class CallContent(_Called, frozen=True, kw_only=True):
    """A tool that is about to run, with its input."""

    input: Any = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class ResultFacts(_Returned, frozen=True, kw_only=True):
    """What may be told of the outcome of a tool call."""


class ResultContent(_Returned, frozen=True, kw_only=True):
    """The outcome of a tool call, with its output and the error in words."""

    output: Any = None
    error: str | None = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class CompactionFacts(_Compacting, frozen=True, kw_only=True):
    """What may be told of a compaction."""


class CompactionContent(_Compacting, frozen=True, kw_only=True):
    """A compaction, with what else was recorded of it."""

    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


class WarningFacts(_Warned, frozen=True, kw_only=True):
    """What may be told of a warning."""


class WarningContent(_Warned, frozen=True, kw_only=True):
    """A warning, in words."""

    message: str | None = None
    details: dict[str, Any] | None = None
    """Everything recorded that has no field of its own."""


StartedPayload = TypeVar("StartedPayload", StartedFacts, StartedContent)
EndedPayload = TypeVar("EndedPayload", EndedFacts, EndedContent)
AnswerPayload = TypeVar("AnswerPayload", AnswerFacts, AnswerContent)
CallPayload = TypeVar("CallPayload", CallFacts, CallContent)
ResultPayload = TypeVar("ResultPayload", ResultFacts, ResultContent)
CompactionPayload = TypeVar("CompactionPayload", CompactionFacts, CompactionContent)
WarningPayload = TypeVar("WarningPayload", WarningFacts, WarningContent)


class Envelope(_CamelCased, frozen=True, kw_only=True, tag_field="kind"):
    """The fields that every envelope has. Use one of the types below, one for each kind."""

    version: Literal[1]
    run_id: str
    seq: int
    """Order in the run."""
    at: str
    """ISO 8601, UTC."""
    agent_id: str
    session_id: str
    session_key: str | None = None
    """The name that another system knows the session by."""
    source: EnvelopeSource
    visibility: Visibility
    """private if the event is private, or if the payload holds private content."""

    @property
    def kind(self) -> str:
        """Return the name of its kind, such as ``tool.call.failed``."""
        return _KINDS[type(self)]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON spells it, ``kind`` and ``payload`` last."""
        found: dict[str, Any] = {
            "version": self.version,
            "runId": self.run_id,
            "seq": self.seq,
            "at": self.at,
            "agentId": self.agent_id,
            "sessionId": self.session_id,
        }
        if self.session_key is not None:
            found["sessionKey"] = self.session_key
        found["source"] = self.source
        found["visibility"] = self.visibility
        found["kind"] = self.kind
        found["payload"] = self._payload().to_dict()
        return found

    def _payload(self) -> Payload:
        found: Payload = getattr(self, "payload")  # noqa: B009  (each kind has a type of its own)
        return found


class LifecycleStarted(
    Envelope, Generic[StartedPayload], frozen=True, kw_only=True, tag="lifecycle.started"
):
    """A run began."""

    payload: StartedPayload


class LifecycleEnded(
    Envelope, Generic[EndedPayload], frozen=True, kw_only=True, tag="lifecycle.ended"
):
    """A run ended well."""

    payload: EndedPayload


class LifecycleFailed(
    Envelope, Generic[EndedPayload], frozen=True, kw_only=True, tag="lifecycle.failed"
):
    """A run failed or was interrupted."""

    payload: EndedPayload


class AssistantDelta(
    Envelope, Generic[AnswerPayload], frozen=True, kw_only=True, tag="assistant.delta"
):
    """A piece of an answer came."""

    payload: AnswerPayload


class AssistantFinal(
    Envelope, Generic[AnswerPayload], frozen=True, kw_only=True, tag="assistant.final"
):
    """The assistant answered."""

    payload: AnswerPayload


class ToolCallStarted(
    Envelope, Generic[CallPayload], frozen=True, kw_only=True, tag="tool.call.started"
):
    """A tool is about to run."""

    payload: CallPayload


class ToolCallFinished(
    Envelope, Generic[ResultPayload], frozen=True, kw_only=True, tag="tool.call.finished"
):
    """A tool gave its output."""

    payload: ResultPayload


class ToolCallFailed(
    Envelope, Generic[ResultPayload], frozen=True, kw_only=True, tag="tool.call.failed"
):
    """A tool failed, or gave nothing and a synthetic result took the place of its output."""

    payload: ResultPayload


class CompactionPhase(
    Envelope, Generic[CompactionPayload], frozen=True, kw_only=True, tag="compaction.phase"
):
    """A compaction began or ended."""

    payload: CompactionPayload


class WarningGiven(Envelope, Generic[WarningPayload], frozen=True, kw_only=True, tag="warning"):
    """Something is worth a look, and did not stop the run."""

    payload: WarningPayload


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
"""An envelope with private content, for those who asked for it."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of all envelopes; ``docs/envelopes.schema.json`` holds it."""
    (safe, private), found = msgspec.json.schema_components(
        (SafeEnvelope, PrivateEnvelope), ref_template="#/$defs/{name}"
    )
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event envelope, version 1",
        "anyOf": [{"$ref": "#/$defs/SafeEnvelope"}, {"$ref": "#/$defs/PrivateEnvelope"}],
        "$defs": {"SafeEnvelope": safe, "PrivateEnvelope": private, **found},
    }
    text = msgspec.json.encode(schema).decode()
    # A name such as ToolCallStarted_CallContent_ says which payload a generic type has.
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
"""The type of each kind of envelope, and of its payload without and with content."""

_KINDS: Final[dict[type, str]] = {envelope: kind for kind, (envelope, _, _) in _TYPES.items()}
_PHASES: Final[dict[str, Phase]] = {"compaction.started": "start", "compaction.ended": "end"}
_FIELDS: Final = {"tool": "tool_name", "call_id": "tool_call_id", "characters": "chars"}
"""Fields of payloads that have another name than the field of the part that they come from."""
_ALIASES: Final = {"tool": "name", "error_class": "class"}
"""Other names under which payloads hold a fact that has a field of its own."""


def safe_envelope(name: str, kind: str, part: SafePart, fields: dict[str, Any]) -> SafeEnvelope:
    """Return the envelope ``name`` of an event of ``kind``, with what anybody may know of it."""
    envelope, payload, _ = _TYPES[name]
    found: SafeEnvelope = envelope(**fields, payload=payload(**_facts(kind, part)))
    return found


def private_envelope(
    name: str, kind: str, part: SafePart, content: Any, fields: dict[str, Any]
) -> PrivateEnvelope:
    """Return the same with ``content``, the payload of the event; each fact stands in it once."""
    envelope, _, payload = _TYPES[name]
    told = _told(content)
    known = _facts(kind, part)
    names = _names(kind)
    facts = known
    if any(key in names and names[key] not in known for key in told):
        facts = {**_facts(kind, _facts_in(kind, told)), **known}
    rest = {key: value for key, value in told.items() if not _repeats(kind, facts, key, value)}
    words = _words(payload, rest)
    if rest:
        words["details"] = rest
    if words or facts != known:
        fields = {**fields, "visibility": "private"}
    found: PrivateEnvelope = envelope(**fields, payload=payload(**facts, **words))
    return found


def _facts(kind: str, part: SafePart) -> dict[str, Any]:
    """Return what is known of an event, by the names of a payload's fields."""
    found: dict[str, Any] = {"phase": _PHASES[kind]} if kind in _PHASES else {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if value is not None:
            found[_FIELDS.get(name, name)] = value
    return found


def _told(content: Any) -> dict[str, Any]:
    """Return the payload of an event by name. What is in ``error`` is told as its own words."""
    if content is None:
        return {}
    if not isinstance(content, dict):
        return {"content": content}
    error = content.get("error")
    if not isinstance(error, dict):
        return dict(content)
    told = {name: value for name, value in content.items() if name != "error"}
    left = dict(error)
    if isinstance(left.get("message"), str):
        told["error"] = left.pop("message")
    if isinstance(left.get("class"), str):
        told.setdefault("class", left.pop("class"))
    return {**told, "error_details": left} if left else told


def _facts_in(kind: str, told: dict[str, Any]) -> SafePart:
    """Return the facts that only the payload tells, as those of earlier ledgers do."""
    named = dict(told)
    for name, alias in _ALIASES.items():
        if isinstance(told.get(alias), str):
            named.setdefault(name, told[alias])
    return part_of(kind, named)


def _repeats(kind: str, facts: dict[str, Any], key: str, value: Any) -> bool:
    """Whether a payload says under ``key`` what one of ``facts`` says already."""
    if kind in _PHASES and key == "phase":
        return bool(facts["phase"] == value)
    name = _names(kind).get(key)
    return name in facts and bool(facts[name] == value)


def _words(payload: type[Payload], rest: dict[str, Any]) -> dict[str, Any]:
    """Take out of ``rest`` what ``payload`` has a field for, and return it."""
    fields = payload.__struct_fields__
    found: dict[str, Any] = {}
    for name in ("input", "output"):
        if name in fields and rest.get(name) is not None:
            found[name] = rest.pop(name)
    for name in ("text", "message", "error"):
        if name in fields and isinstance(rest.get(name), str):
            found[name] = rest.pop(name)
    if "error" in fields and "error" not in found:
        # What a run failed of is told by its payload itself, or, if it was stopped, as a reason.
        name = "message" if isinstance(rest.get("message"), str) else "reason"
        if isinstance(rest.get(name), str) and "output" not in fields:
            found["error"] = rest.pop(name)
    return found


@cache
def _names(kind: str) -> dict[str, str]:
    """Return the field of a payload that each spelling of a fact belongs to."""
    names = PARTS.get(kind, SafePart).__struct_fields__
    found = {_ALIASES[name]: _FIELDS.get(name, name) for name in names if name in _ALIASES}
    for name in names:
        field = _FIELDS.get(name, name)
        found |= dict.fromkeys((name, field, envelope_name(name)), field)
    return found


@cache
def _spellings(value: type[_CamelCased]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(value))
