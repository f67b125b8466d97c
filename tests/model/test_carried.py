"""Events on their way to sinks: what each type can hold, and the envelope that others read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sinks.carried_events import recorded
from treering.model.carried import (
    ENVELOPE_KINDS,
    ENVELOPE_SOURCES,
    Carried,
    PrivateEvent,
    SafeEvent,
)
from treering.model.kinds import KINDS
from treering.spine.carrying import private_event, safe_event

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
    return found


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
    assert SECRET not in repr(safe) + json.dumps(safe.envelope())


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
    assert list(found) == [*KEYS[:6], "sessionKey", *KEYS[6:]]
    assert found["sessionKey"] == "agent:main"


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

    assert safe_event(event).envelope() is private_event(event).envelope() is None


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

    assert found is not None
    assert found["payload"]["input"] == {"q": SECRET}
    assert found["payload"]["toolCallId"] == "c1"
    assert SECRET not in json.dumps(safe_event(event).envelope())


@pytest.mark.parametrize("payload", [None, "text", 7, ["a"]])
def test_a_payload_that_is_no_object_becomes_one(payload: Any) -> None:
    found = private_event(recorded("ops.warning", payload=payload)).envelope()

    assert found is not None
    assert found["payload"] == ({} if payload is None else {"content": payload})
