"""Events on their way to sinks: the content of each type, and its envelope."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sinks.carried_events import recorded
from treering.model.carried import Carried, PrivateEvent, SafeEvent
from treering.model.envelopes import (
    ENVELOPE_SOURCES,
    CallContent,
    PrivateEnvelope,
    SafeEnvelope,
    ToolCallStarted,
)
from treering.model.kinds import ENVELOPE_KINDS, KINDS
from treering.model.parts import PARTS, envelope_name
from treering.spine.sink_queue import private_event, safe_event

SECRET = "PRIVATE-WORDS"
KEYS = [
    "version", "runId", "seq", "at", "agentId", "sessionId", "source", "visibility", "kind",
    "payload",
]  # fmt: skip


def fields(event: type[Carried]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(event)}


def envelope(kind: str, **stated: Any) -> dict[str, Any]:
    found = safe_event(recorded(kind, **stated)).envelope()
    assert found is not None
    return found.to_dict()


def test_a_safe_event_has_no_place_for_a_payload() -> None:
    assert "payload" not in fields(SafeEvent)
    assert fields(PrivateEvent) - fields(SafeEvent) == {"payload"}
    assert not issubclass(PrivateEvent, SafeEvent)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_private_event_tells_no_word_of_itself_to_a_safe_sink(kind: str) -> None:
    event = recorded(
        kind,
        visibility="private",
        summary=SECRET,
        refs={"note": SECRET, "text": SECRET},
        payload={"text": SECRET},
    )

    safe = safe_event(event)

    assert (safe.summary, safe.refs) == (None, None)
    assert SECRET not in repr(safe) + repr(safe.envelope())


def test_who_asks_for_private_content_gets_it() -> None:
    event = recorded("conversation.user", summary=SECRET, payload={"text": SECRET, "n": 1})

    private = private_event(event, "agent:main")

    assert (private.summary, private.payload) == (SECRET, {"text": SECRET, "n": 1})
    assert private.session_key == "agent:main"


# The envelope.


@pytest.mark.parametrize("kind", sorted(ENVELOPE_KINDS))
def test_an_envelope_has_its_keys_in_their_order(kind: str) -> None:
    assert list(envelope(kind)) == KEYS


def test_an_envelope_names_the_session_as_another_system_knows_it() -> None:
    found = safe_event(recorded("run.started"), "agent:main").envelope()

    assert found is not None
    assert list(found.to_dict()) == [*KEYS[:6], "sessionKey", *KEYS[6:]]
    assert found.session_key == "agent:main"


def test_an_envelope_is_what_was_recorded() -> None:
    found = envelope("run.started", seq=7, ts_ms=1_790_000_000_123, refs={"runtime": "pi"})

    assert found == {
        "version": 1,
        "runId": "r1",
        "seq": 7,
        "at": "2026-09-21T14:13:20.123Z",
        "agentId": "lyria",
        "sessionId": "s1",
        "source": "kernel",
        "visibility": "safe",
        "kind": "lifecycle.started",
        "payload": {"runtime": "pi"},
    }


@pytest.mark.parametrize(
    ("kind", "spelling"), sorted((k, v) for k, v in ENVELOPE_KINDS.items() if k != "tool.result")
)
def test_a_kind_has_its_name_in_the_envelope(kind: str, spelling: str) -> None:
    assert envelope(kind)["kind"] == spelling


@pytest.mark.parametrize(
    ("status", "spelling"),
    [
        ("ok", "tool.call.finished"),
        ("failed", "tool.call.failed"),
        ("synthetic", "tool.call.failed"),
    ],
)
def test_a_tool_s_result_is_named_by_how_it_ended(status: str, spelling: str) -> None:
    assert envelope("tool.result", refs={"status": status})["kind"] == spelling


@pytest.mark.parametrize(
    ("kind", "phase"), [("compaction.started", "start"), ("compaction.ended", "end")]
)
def test_a_compaction_tells_its_phase(kind: str, phase: str) -> None:
    assert envelope(kind, refs={"messages": 3})["payload"] == {"phase": phase, "messages": 3}


def test_a_run_that_was_interrupted_is_a_failure_with_that_reason() -> None:
    found = envelope("run.interrupted", refs={"reason": "interrupted"})

    assert (found["kind"], found["payload"]["reason"]) == ("lifecycle.failed", "interrupted")


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(ENVELOPE_KINDS)))
def test_kinds_outside_the_envelope_s_list_have_none(kind: str) -> None:
    event = recorded(kind)

    assert safe_event(event).envelope() is None
    assert private_event(event).envelope() is None


@pytest.mark.parametrize("missing", [{"run_id": None}, {"run_seq": None}])
def test_what_is_of_no_run_has_no_envelope(missing: dict[str, Any]) -> None:
    assert safe_event(recorded("tool.result", **missing)).envelope() is None


@pytest.mark.parametrize("origin", [*sorted(ENVELOPE_SOURCES), None, "my-adapter"])
def test_a_source_is_one_of_four(origin: str | None) -> None:
    found = envelope("ops.warning", origin=origin)["source"]

    assert found == (origin if origin in ENVELOPE_SOURCES else "runtime")


def test_private_content_is_in_the_envelope_of_those_who_asked_for_it() -> None:
    event = recorded(
        "tool.call",
        refs={"call_id": "c1", "tool": "look"},
        payload={"call_id": "c1", "name": "look", "input": {"q": SECRET}},
    )

    found = private_event(event).envelope()

    assert isinstance(found, ToolCallStarted)
    assert found.payload == CallContent(tool_call_id="c1", tool_name="look", input={"q": SECRET})
    assert SECRET not in repr(safe_event(event).envelope())


@pytest.mark.parametrize("payload", [None, "text", 7, ["a"]])
def test_a_payload_that_is_no_object_becomes_one(payload: Any) -> None:
    found = private_event(recorded("ops.warning", payload=payload)).envelope()

    assert found is not None
    told = {} if payload is None else {"details": {"content": payload}}
    assert found.to_dict()["payload"] == told


PAYLOADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "run.failed": (
        {"reason": "failed", "error_class": "OSError"},
        {"class": "OSError", "message": SECRET},
    ),
    "run.interrupted": ({"reason": "interrupted"}, {"reason": SECRET}),
    "assistant.delta": ({"characters": 13}, {"text": SECRET, "chars": 13}),
    "conversation.assistant": (
        {"characters": 13, "model": "m", "provider": "p"},
        {"text": SECRET, "model": "m", "provider": "p", "thinking": SECRET},
    ),
    "tool.call": (
        {"call_id": "c1", "tool": "look", "input_bytes": 3},
        {"call_id": "c1", "name": "look", "toolCallId": "c1", "input": SECRET},
    ),
    "tool.result": (
        {"call_id": "c1", "tool": "look", "status": "failed", "error_class": "OSError"},
        {
            "call_id": "c1",
            "name": "look",
            "status": "failed",
            "error": {"class": "OSError", "message": SECRET},
        },
    ),
    "compaction.started": ({"messages": 3}, {"phase": "start", "messages": 3, "note": SECRET}),
    "ops.warning": ({"code": "slow"}, {"code": "slow", "message": SECRET}),
}
"""Refs and payloads as the spine records them, by kind."""


@pytest.mark.parametrize("kind", sorted(PAYLOADS))
def test_an_envelope_with_private_content_says_that_it_is_private(kind: str) -> None:
    refs, payload = PAYLOADS[kind]
    event = recorded(kind, refs=refs, payload=payload, visibility="safe")

    private, safe = private_event(event).envelope(), safe_event(event).envelope()

    assert private is not None
    assert safe is not None
    assert SECRET in repr(private.payload)
    assert (private.visibility, safe.visibility) == ("private", "safe")


@pytest.mark.parametrize("kind", sorted(PAYLOADS))
def test_an_envelope_tells_every_fact_once(kind: str) -> None:
    refs, payload = PAYLOADS[kind]

    found = private_event(recorded(kind, refs=refs, payload=payload)).envelope()

    assert found is not None
    told = found.to_dict()["payload"]
    for fact, value in refs.items():
        assert [name for name, one in _leaves(told) if one == value] == [envelope_name(fact)]


def _leaves(value: dict[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, one in value.items():
        found += _leaves(one) if isinstance(one, dict) else [(name, one)]
    return found


def test_a_safe_event_without_private_content_stays_safe_for_those_who_asked() -> None:
    found = private_event(recorded("run.started", refs={"runtime": "pi"})).envelope()

    assert found is not None
    assert found.visibility == "safe"


def test_a_private_event_stays_private_also_where_its_content_is_withheld() -> None:
    event = recorded("conversation.assistant", refs={"characters": 3}, payload={"text": "yes"})

    found = safe_event(event).envelope()

    assert found is not None
    assert (found.visibility, found.to_dict()["payload"]) == ("private", {"chars": 3})


def test_a_fact_that_only_the_payload_tells_has_its_field_and_is_private() -> None:
    event = recorded("tool.call", payload={"call_id": "c1", "name": "look"})

    found = private_event(event).envelope()

    assert isinstance(found, ToolCallStarted)
    assert found.payload == CallContent(tool_call_id="c1", tool_name="look")
    assert found.visibility == "private"


def test_what_contradicts_a_fact_is_kept_among_the_details() -> None:
    event = recorded("tool.call", refs={"call_id": "c1"}, payload={"call_id": "c2"})

    found = private_event(event).envelope()

    assert isinstance(found, ToolCallStarted)
    assert found.payload == CallContent(tool_call_id="c1", details={"call_id": "c2"})


@pytest.mark.parametrize("kind", sorted(ENVELOPE_KINDS))
def test_an_envelope_is_read_back_as_it_was_written(kind: str) -> None:
    refs, payload = PAYLOADS.get(kind, ({}, None))
    event = recorded(kind, refs=refs, payload=payload)
    private, safe = private_event(event).envelope(), safe_event(event).envelope()
    assert private is not None
    assert safe is not None

    written = json.dumps(private.to_dict()), json.dumps(safe.to_dict())

    assert msgspec.json.decode(written[0], type=PrivateEnvelope) == private
    assert msgspec.json.decode(written[1], type=SafeEnvelope) == safe
    assert msgspec.to_builtins(private) == private.to_dict()


@pytest.mark.parametrize("kind", sorted(ENVELOPE_KINDS))
def test_an_envelope_has_a_field_for_every_fact_of_its_kind(kind: str) -> None:
    found = safe_event(recorded(kind)).envelope()

    assert found is not None
    spelt = {field.encode_name for field in msgspec.structs.fields(found.payload)}
    facts = {envelope_name(name) for name in PARTS[kind].__struct_fields__}
    assert spelt - {"truncated", "phase"} == facts
