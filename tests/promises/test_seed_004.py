"""The event log system: every line that can be tested, quoted by its test."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from builders import HERE
from formats.clawser_logs import T0, event, lines, log_of, voyage
from treering.errors import Corrupt
from treering.formats.clawser import (
    Checkpoint,
    EventLog,
    Workspace,
    checkpoint_of,
    events_of,
    from_session,
    to_session,
)

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger

TYPES: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "user_message": ("user", {"content": "ahoy"}, "conversation.user"),
    "agent_message": ("agent", {"content": "aye"}, "conversation.assistant"),
    "tool_call": ("agent", {"call_id": "c", "name": "t", "arguments": {"x": 1}}, "tool.call"),
    "tool_result": (
        "system",
        {"call_id": "c", "name": "t", "result": {"success": True, "output": "o"}},
        "tool.result",
    ),
    "goal_added": ("system", {"id": "g", "description": "d"}, "goal.added"),
    "goal_updated": ("system", {"id": "g", "status": "completed"}, "goal.updated"),
    "memory_stored": ("system", {"id": "m", "key": "k", "category": "c"}, "memory.stored"),
    "memory_forgotten": ("system", {"id": "m"}, "memory.forgotten"),
    "scheduler_added": (
        "system",
        {"id": "j", "schedule_type": "cron", "prompt": "p"},
        "schedule.added",
    ),
    "scheduler_fired": ("system", {"id": "j", "prompt": "p"}, "schedule.fired"),
    "scheduler_removed": ("system", {"id": "j"}, "schedule.removed"),
    "context_compacted": (
        "system",
        {"from_tokens": 9, "to_tokens": 3, "messages_removed": 2},
        "context.compacted",
    ),
    "autonomy_blocked": ("system", {"reason": "r"}, "ops.blocked"),
    "cache_hit": ("system", {"hash": "h"}, "ops.cache_hit"),
    "error": ("system", {"message": "m", "stack": "s"}, "ops.error"),
}
"""The fifteen types: who causes each, what it carries, and its kind in a ledger."""

CHECKPOINTS: Final[dict[str, dict[str, Any]]] = {
    "agent_state": {
        "id": "ckpt_1",
        "timestamp": T0,
        "agent_state": "Idle",
        "session_history": [{"role": "user", "content": "ahoy"}],
        "active_goals": [{"id": "goal_4", "description": "d", "status": "active"}],
        "scheduler_jobs": [{"id": "j", "schedule_type": "once", "prompt": "p"}],
    },
    "history": {
        "history": [{"role": "user", "content": "ahoy"}],
        "goals": [{"id": "goal_4", "description": "d", "status": "active"}],
        "schedulerJobs": [{"id": "j", "schedule_type": "once", "prompt": "p"}],
        "goalIdCounter": 42,
    },
}
FOLDER: Final = "clawser_workspaces/ws"


def put(path: Path, body: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return path


# Overview.


def test_all_conversation_state_is_derived_from_the_log() -> None:
    """All conversation state is derived from an append-only event log."""
    log = log_of(voyage())
    again = EventLog.from_jsonl(log.to_jsonl())

    assert checkpoint_of(again) == checkpoint_of(log)


def test_events_are_immutable() -> None:
    """All recorded as immutable events."""
    log = log_of(voyage())

    log.events[1]["data"]["content"] = "changed"
    log.derive_tool_call_log()[0]["result"]["success"] = True

    assert log == log_of(voyage())


def test_the_state_is_reconstructed_by_replaying(ledger: Ledger) -> None:
    """The full conversation state can be reconstructed by replaying the event stream."""
    session = ledger.session("conv_1", scope=HERE, agent="lyria")
    to_session(log_of(voyage()), session)

    replayed = from_session(session)

    assert checkpoint_of(replayed) == checkpoint_of(log_of(voyage()))


# Event shape.


def test_an_event_has_five_fields() -> None:
    """Each event has the following structure: id, type, timestamp, data, source."""
    log = EventLog(clock=lambda: T0)

    log.append("user_message", {"content": "Hello, agent"}, "user")

    assert log.to_jsonl() == (
        f'{{"id":"evt_{T0}_0","type":"user_message","timestamp":{T0},'
        '"data":{"content":"Hello, agent"},"source":"user"}'
    )


def test_an_id_is_unique_and_made_of_time_and_sequence() -> None:
    """Unique ID: `evt_{timestamp}_{sequence}`."""
    log = EventLog(clock=lambda: T0)

    ids = [log.append("error") for _ in range(20)]

    assert len(set(ids)) == 20
    assert all(re.fullmatch(rf"evt_{T0}_\d+", one) for one in ids)


def test_a_source_is_user_agent_or_system() -> None:
    """`source`: "user", "agent", or "system"."""
    assert {source for source, _, _ in TYPES.values()} == {"user", "agent", "system"}
    log = EventLog()
    log.append("error")
    assert log.events[0]["source"] == "system"


# Event types.


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_kept_by_a_ledger_and_comes_back(ledger: Ledger, name: str) -> None:
    """The table of event types: type, source, data shape."""
    source, content, kind = TYPES[name]
    log = EventLog(clock=lambda: T0)
    log.append(name, content, source)
    session = ledger.session("conv_1", scope=HERE, agent="lyria")

    to_session(log, session)

    recorded = list(session.headers())[-1]
    assert (recorded.kind, recorded.source, recorded.ts_ms) == (kind, source, T0)
    assert from_session(session).to_jsonl() == log.to_jsonl()


def test_an_error_needs_no_stack(ledger: Ledger) -> None:
    """`error`: `{ message, stack? }`."""
    session = ledger.session("conv_1", scope=HERE, agent="lyria")
    log = log_of([event(0, "error", message="m")])

    to_session(log, session)

    assert from_session(session) == log


# JSONL.


def test_one_object_a_line_and_no_wrapper() -> None:
    """One JSON object per line, no trailing comma or array wrapper."""
    text = log_of(voyage()).to_jsonl()

    assert [json.loads(line) for line in text.split("\n")] == voyage()


def test_a_log_goes_to_lines_and_back() -> None:
    """`toJSONL()`: serialize to JSONL string; `fromJSONL(text)`: deserialize from JSONL string."""
    assert EventLog.from_jsonl(log_of(voyage()).to_jsonl()) == log_of(voyage())


# Storage layout.


def test_conversations_are_directories(tmp_path: Path) -> None:
    """Conversations are stored as directories: meta.json, events.jsonl (full event stream)."""
    Workspace(tmp_path, "ws").write(log_of(voyage()), "conv_1")

    folder = tmp_path / FOLDER / ".conversations" / "conv_1"
    assert sorted(path.name for path in folder.iterdir()) == ["events.jsonl", "meta.json"]
    assert (folder / "events.jsonl").read_text() == lines(voyage())


def test_meta_has_six_fields(tmp_path: Path) -> None:
    """meta.json: id, title, created, updated, event_count, model."""
    Workspace(tmp_path, "ws").write(
        log_of(voyage()), "conv_1", title="Tides", created=5, updated=6, model="small"
    )

    found = json.loads((tmp_path / FOLDER / ".conversations/conv_1/meta.json").read_text())
    assert found == {
        "id": "conv_1",
        "title": "Tides",
        "created": 5,
        "updated": 6,
        "event_count": 11,
        "model": "small",
    }


# Checkpoint format.


@pytest.mark.parametrize("shape", CHECKPOINTS)
def test_both_checkpoints_of_the_text_are_read(tmp_path: Path, shape: str) -> None:
    """The checkpoint is a UTF-8 encoded JSON blob."""
    put(tmp_path / FOLDER / ".checkpoints/latest.bin", json.dumps(CHECKPOINTS[shape]))

    found = Workspace(tmp_path, "ws").read_checkpoint().checkpoint

    assert [one["content"] for one in found.history] == ["ahoy"]
    assert [one["id"] for one in found.goals] == ["goal_4"]
    assert [one["id"] for one in found.scheduler_jobs] == ["j"]
    assert found.goal_id_counter == CHECKPOINTS[shape].get("goalIdCounter", 5)


def test_a_checkpoint_is_written_as_json_in_utf8(tmp_path: Path) -> None:
    """Serialized to JSON string, encoded to Uint8Array, written to OPFS file (`latest.bin`)."""
    checkpoint = Checkpoint(
        history=[{"role": "user", "content": "blåskjell"}],
        goals=[],
        scheduler_jobs=[],
        goal_id_counter=42,
    )

    path = Workspace(tmp_path, "ws").write_checkpoint(checkpoint)

    assert path == tmp_path / FOLDER / ".checkpoints/latest.bin"
    assert path.read_bytes().decode() == (
        '{"history":[{"role":"user","content":"blåskjell"}],"goals":[],"schedulerJobs":[],'
        '"goalIdCounter":42}'
    )


@pytest.mark.parametrize("broken", [None, b"", b"\x00\x01", b"{}"])
def test_the_event_log_is_the_authoritative_source(tmp_path: Path, broken: bytes | None) -> None:
    """If the checkpoint is corrupted or missing, state is rebuilt from `events.jsonl`."""
    workspace = Workspace(tmp_path, "ws")
    workspace.write(log_of(voyage()), "conv_1")
    if broken is not None:
        put(tmp_path / FOLDER / ".checkpoints/latest.bin", broken)

    found = workspace.read_checkpoint("conv_1")

    assert found.checkpoint == checkpoint_of(log_of(voyage()))


# Derivations.


def test_session_history_maps_four_types_to_messages() -> None:
    """Rebuilds the LLM-compatible message array from events.

    Maps `user_message` to `{ role: 'user' }`, `agent_message` to `{ role: 'assistant' }`,
    `tool_call` to assistant `tool_calls` array entries, and `tool_result` to `{ role: 'tool' }`
    messages.
    """
    history = log_of(voyage()[1:5]).derive_session_history()

    assert [message["role"] for message in history] == ["user", "assistant", "tool"]
    assert history[1]["tool_calls"][0]["function"]["name"] == "tide"


def test_session_history_may_begin_with_a_system_prompt() -> None:
    """deriveSessionHistory(systemPrompt?)."""
    assert log_of([]).derive_session_history("S") == [{"role": "system", "content": "S"}]


@pytest.mark.parametrize(
    "name", [name for name in TYPES if not name.endswith(("_message", "_call", "_result"))]
)
def test_other_events_are_not_in_the_context(name: str) -> None:
    """Goal, memory, scheduler, and error events are not included in LLM context."""
    log = EventLog()
    log.append(name, TYPES[name][1])

    assert log.derive_session_history() == []


def test_the_tool_call_log_pairs_calls_and_results() -> None:
    """Builds a tool audit trail by pairing `tool_call` and `tool_result` events via `call_id`.

    Returns an array of `{ name, params, result, time }` objects (most recent first).
    """
    found = log_of(voyage()).derive_tool_call_log()

    assert [list(one) for one in found] == [["name", "params", "result", "time"]] * 2
    assert [one["name"] for one in found] == ["wind", "tide"]
    assert found[1]["params"] == {"port": "Bergen"}


def test_goals_are_replayed_to_their_final_state() -> None:
    """Rebuilds the goals array by replaying `goal_added` and `goal_updated` events.

    Returns the final state of each goal.
    """
    found = log_of(voyage()).derive_goals()

    assert [(goal["id"], goal["status"], goal["updated_at"]) for goal in found] == [
        ("goal_1", "completed", T0 + 10_000)
    ]


def test_a_slice_ends_with_its_turn() -> None:
    """Returns all events up to the end of the turn containing the given event ID.

    A "turn" starts at a `user_message` and extends through all subsequent events until the next
    `user_message`.
    """
    log = log_of(voyage())

    assert log.slice_to_turn_end(voyage()[3]["id"]) == voyage()[:6]
    assert log.slice_to_turn_end(voyage()[6]["id"]) == voyage()


def test_a_slice_is_enough_to_fork() -> None:
    """Used for conversation forking and undo."""
    fork = EventLog(clock=lambda: T0)
    fork.load(log_of(voyage()).slice_to_turn_end(voyage()[1]["id"]) or [])

    fork.append("user_message", {"content": "Another way."}, "user")

    assert fork.events[:-1] == voyage()[:6]
    assert fork.events[-1]["id"] == f"evt_{T0}_6"


# Migration.


def test_v1_and_v0_are_migrated_on_restore(tmp_path: Path) -> None:
    """On restore, v1 and v0 formats are automatically migrated to v2."""
    blob = json.dumps({"name": "Tides", "checkpoint": CHECKPOINTS["agent_state"]})
    sources = [
        put(tmp_path / FOLDER / ".conversations/conv_1.json", blob),
        put(tmp_path / "clawser_conversations/conv_2.bin", json.dumps(CHECKPOINTS["history"])),
        put(tmp_path / "clawser_checkpoints/ws/conv_3.bin", json.dumps(CHECKPOINTS["agent_state"])),
    ]
    before = [path.read_bytes() for path in sources]
    workspace = Workspace(tmp_path, "ws")

    versions = [workspace.restore(f"conv_{n}").version for n in (1, 2, 3)]

    assert versions == ["v1", "v1", "v0"]
    assert [workspace.read(f"conv_{n}").version for n in (1, 2, 3)] == ["v2"] * 3
    assert [path.read_bytes() for path in sources] == before


def test_a_migrated_conversation_says_what_its_checkpoint_said() -> None:
    """v0: Binary checkpoint only."""
    checkpoint = Checkpoint.from_json(CHECKPOINTS["history"])

    log = events_of(checkpoint, at_ms=T0)

    assert checkpoint_of(log).history == checkpoint.history
    assert checkpoint_of(log).scheduler_jobs == checkpoint.scheduler_jobs
    assert [goal["id"] for goal in log.derive_goals()] == ["goal_4"]


def test_each_level_is_attempted_in_order(tmp_path: Path) -> None:
    """Each level is attempted in order.

    If a higher-priority checkpoint is found, lower-priority ones are ignored.
    """
    levels = [
        tmp_path / FOLDER / ".checkpoints/latest.bin",
        tmp_path / "clawser_conversations/conv_1.bin",
        tmp_path / "clawser_checkpoints/ws/latest.bin",
    ]
    for number, path in enumerate(levels):
        put(path, json.dumps({**CHECKPOINTS["history"], "goalIdCounter": number}))
    workspace = Workspace(tmp_path, "ws")

    for number, path in enumerate(levels):
        assert workspace.read_checkpoint("conv_1").checkpoint.goal_id_counter == number
        path.unlink() if number else path.write_bytes(b"\xff")

    with pytest.raises(Corrupt):
        workspace.read_checkpoint("conv_1")
