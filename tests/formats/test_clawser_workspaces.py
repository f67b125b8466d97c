"""Clawser's workspaces on disk: every version is read, one is written, nothing is damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given

from formats.clawser_logs import T0, event, lines, log_of, logs, voyage
from treering import InvalidInput, NotFound
from treering.errors import Corrupt
from treering.formats.clawser import Checkpoint, EventLog, Workspace, checkpoint_of, events_of

V2: Final = "clawser_workspaces/ws/.conversations/conv_1"
NEWER_V2: Final = "clawser/workspaces/ws/.conversations/conv_1"
V1_BLOB: Final = "clawser_workspaces/ws/.conversations/conv_1.json"
V1_FILE: Final = "clawser_conversations/conv_1.bin"
V0: Final = "clawser_checkpoints/ws/conv_1.bin"
GARBAGE: Final = b"\x93\x00\xffnot json"


def put(root: Path, path: str, body: bytes | str | Any) -> Path:
    """Write a file of another program."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(body, bytes):
        body = (body if isinstance(body, str) else json.dumps(body)).encode()
    place.write_bytes(body)
    return place


def contents(root: Path) -> dict[str, bytes]:
    """Return every file under ``root`` with its content."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def history(*said: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in said]


def spoken(log: EventLog) -> list[str]:
    return [one["data"]["content"] for one in log.query(type="user_message")]


# v2.


def test_a_conversation_is_a_folder_with_two_files(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "ws")

    workspace.write(log_of(voyage()), "conv_1", title="Tides", model="small")

    assert set(contents(tmp_path)) == {f"{V2}/meta.json", f"{V2}/events.jsonl"}
    assert (tmp_path / V2 / "events.jsonl").read_text() == lines(voyage())
    assert json.loads((tmp_path / V2 / "meta.json").read_text()) == {
        "id": "conv_1", "title": "Tides", "created": T0, "updated": T0 + 10_000,
        "event_count": 11, "model": "small",
    }  # fmt: skip


@given(log=logs)
def test_a_conversation_is_read_as_it_was_written(
    log: EventLog, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workspace = Workspace(tmp_path_factory.mktemp("root"), "ws")

    workspace.write(log, "conv_1")
    found = workspace.read("conv_1")

    assert found.log == log
    assert (found.version, found.bad, found.card.event_count) == ("v2", 0, log.size)


def test_writing_again_keeps_what_is_not_given(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "ws")
    put(tmp_path, f"{V2}/meta.json", {"id": "conv_1", "name": "Tides", "created": 5,
                                      "lastUsed": 6, "version": 2, "pinned": True})  # fmt: skip
    put(tmp_path, f"{V2}/events.jsonl", lines(voyage()))
    workspace.read("conv_1")

    workspace.write(log_of(voyage()[:3]), "conv_1", model="large")

    assert json.loads((tmp_path / V2 / "meta.json").read_text()) == {
        "id": "conv_1", "title": "Tides", "created": 5, "updated": T0 + 2_000, "event_count": 3,
        "model": "large", "version": 2, "pinned": True,
    }  # fmt: skip


def test_the_newer_projects_folder_and_card_are_read(tmp_path: Path) -> None:
    put(tmp_path, f"{NEWER_V2}/meta.json", {"id": "conv_1", "name": "Tides", "created": 5,
                                            "lastUsed": 6, "version": 2})  # fmt: skip
    put(tmp_path, f"{NEWER_V2}/events.jsonl", lines(voyage()))

    found = Workspace(tmp_path, "ws").read("conv_1")

    assert found.log == log_of(voyage())
    assert (found.card.title, found.card.created, found.card.updated) == ("Tides", 5, 6)
    assert found.card.more == {"version": 2}


def test_bad_lines_are_told_beside_the_rest(tmp_path: Path) -> None:
    body = [lines(voyage()[:1]), "{torn", lines(voyage()[1:])]
    put(tmp_path, f"{V2}/events.jsonl", "\n".join(body))

    found = Workspace(tmp_path, "ws").read("conv_1")

    assert found.log == log_of(voyage())
    assert (found.bad, [one.line for one in found.bad_lines]) == (1, [2])


@pytest.mark.parametrize("card", [GARBAGE, b"[]", b"", b'{"title": 7, "created": "x"}'])
def test_a_broken_card_is_made_anew_from_the_events(tmp_path: Path, card: bytes) -> None:
    put(tmp_path, f"{V2}/meta.json", card)
    put(tmp_path, f"{V2}/events.jsonl", lines(voyage()))

    found = Workspace(tmp_path, "ws").read("conv_1")

    assert found.log == log_of(voyage())
    assert (found.card.title, found.card.created) == ("conv_1", T0)
    assert len(found.passed_over) == (0 if card.startswith(b"{") else 1)


def test_an_empty_conversation_is_one(tmp_path: Path) -> None:
    Workspace(tmp_path, "ws").write(EventLog(), "conv_1")

    assert Workspace(tmp_path, "ws").read("conv_1").log.size == 0


# Older versions.


OLDER: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    V1_BLOB: ("v1", {"id": "conv_1", "name": "Tides", "pinned": True, "created": 5, "lastUsed": 6,
                     "checkpoint": {"session_history": history("in a blob")}}),
    V1_FILE: ("v1", {"history": history("in a file")}),
    V0: ("v0", {"session_history": history("in a checkpoint"), "timestamp": T0}),
}  # fmt: skip


@pytest.mark.parametrize("path", OLDER)
def test_an_older_version_is_read_and_not_touched(tmp_path: Path, path: str) -> None:
    version, body = OLDER[path]
    put(tmp_path, path, body)
    before = contents(tmp_path)

    found = Workspace(tmp_path, "ws").read("conv_1")

    assert found.version == version
    assert spoken(found.log) == [body.get("checkpoint", body)[
        "history" if path == V1_FILE else "session_history"][0]["content"]]  # fmt: skip
    assert contents(tmp_path) == before


@pytest.mark.parametrize("path", OLDER)
def test_restoring_an_older_version_writes_it_as_v2_and_leaves_it_there(
    tmp_path: Path, path: str
) -> None:
    put(tmp_path, path, OLDER[path][1])
    before = contents(tmp_path)
    workspace = Workspace(tmp_path, "ws")

    older = workspace.restore("conv_1")
    newer = workspace.restore("conv_1")

    assert newer.version == "v2"
    assert newer.log == older.log
    assert newer.card == older.card
    assert {name: contents(tmp_path)[name] for name in before} == before


def test_what_could_not_be_read_is_set_aside_and_not_lost(tmp_path: Path) -> None:
    put(tmp_path, f"{V2}/events.jsonl", GARBAGE)
    put(tmp_path, f"{V2}/events.jsonl.broken-1", "of the last time")
    put(tmp_path, V0, OLDER[V0][1])

    Workspace(tmp_path, "ws").restore("conv_1")

    assert Workspace(tmp_path, "ws").read("conv_1").version == "v2"
    assert (tmp_path / V2 / "events.jsonl.broken-1").read_text() == "of the last time"
    assert (tmp_path / V2 / "events.jsonl.broken-2").read_bytes() == GARBAGE


def test_versions_are_tried_from_the_newest_to_the_oldest(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "ws")
    for path in reversed(OLDER):
        put(tmp_path, path, OLDER[path][1])
    for folder in (NEWER_V2, V2):
        put(tmp_path, f"{folder}/events.jsonl", lines(voyage()))
    order = [f"{V2}/events.jsonl", f"{NEWER_V2}/events.jsonl", V1_BLOB, V1_FILE, V0]

    for spoilt, path in enumerate(order):
        found = workspace.read("conv_1")
        assert found.path == tmp_path / path
        assert len(found.passed_over) == spoilt
        put(tmp_path, path, GARBAGE)

    with pytest.raises(Corrupt, match="no file of conversation conv_1 can be read") as error:
        workspace.read("conv_1")
    assert all(str(Path(path).name) in str(error.value) for path in order[2:])


@pytest.mark.parametrize("body", [GARBAGE, b"", b"5", b"{}", b'{"history": 3}', b"[1,2", b"[999]"])
@pytest.mark.parametrize("path", OLDER)
def test_garbage_gives_a_clear_error(tmp_path: Path, path: str, body: bytes) -> None:
    put(tmp_path, path, body)

    with pytest.raises(Corrupt, match="can be read"):
        Workspace(tmp_path, "ws").restore("conv_1")

    assert contents(tmp_path) == {path: body}


def test_a_conversation_that_there_is_not_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no conversation nowhere"):
        Workspace(tmp_path, "ws").read("nowhere")


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\b", "", "a\0b", "x" * 300])
def test_no_name_leads_out_of_the_workspace(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        Workspace(tmp_path, name)
    with pytest.raises(InvalidInput):
        Workspace(tmp_path, "ws").write(EventLog(), name)


def test_reading_an_older_version_twice_gives_the_same_events(tmp_path: Path) -> None:
    place = put(tmp_path, V1_FILE, {"history": history("ahoy")})
    os.utime(place, ns=(T0 * 1_000_000, T0 * 1_000_000))

    found = Workspace(tmp_path, "ws").read("conv_1")

    assert found.log.events == [
        {"id": f"evt_{T0}_0", "type": "user_message", "timestamp": T0,
         "data": {"content": "ahoy"}, "source": "user"}
    ]  # fmt: skip


def test_what_is_added_to_an_older_version_has_its_own_time(tmp_path: Path) -> None:
    put(tmp_path, V0, OLDER[V0][1])
    log = Workspace(tmp_path, "ws").restore("conv_1").log

    log.append("user_message", {"content": "Thanks."}, "user")

    first, last = (event["timestamp"] for event in log.events)
    assert first == T0
    assert last != T0


def test_all_conversations_of_a_workspace_are_listed(tmp_path: Path) -> None:
    put(tmp_path, f"{V2}/events.jsonl", "")
    put(tmp_path, "clawser/workspaces/ws/.conversations/conv_2/events.jsonl", "")
    put(tmp_path, "clawser_workspaces/ws/.conversations/conv_3.json", {})
    put(tmp_path, "clawser_checkpoints/ws/conv_4.bin", {})
    put(tmp_path, "clawser_checkpoints/ws/latest.bin", {})
    put(tmp_path, "clawser_conversations/conv_5.bin", {})

    assert Workspace(tmp_path, "ws").conversations() == ["conv_1", "conv_2", "conv_3", "conv_4"]
    assert Workspace(tmp_path).conversations() == ["conv_5"]
    assert Workspace(tmp_path / "nowhere").conversations() == []


# From a checkpoint to events.


def test_what_a_checkpoint_holds_becomes_events() -> None:
    checkpoint = Checkpoint.from_json({
        "session_history": [
            {"role": "system", "content": "You are a pilot."},
            {"role": "user", "content": "tide?"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "function": {"name": "tide", "arguments": "{}"}},
                {"id": "c2", "name": "wind", "arguments": {"x": 1}}, {}]},
            {"role": "tool", "tool_call_id": "c1", "name": "tide",
             "content": '{"success":false,"error":"dry"}'},
            {"role": "tool", "tool_call_id": "c2", "content": "strong"},
            "noise",
        ],
        "active_goals": [{"id": "goal_1", "description": "a", "status": "active"},
                         {"id": "goal_2", "description": "b", "status": "paused"}],
        "scheduler_snapshot": [{"id": "j", "schedule_type": "once", "prompt": "p"}],
    })  # fmt: skip

    found = events_of(checkpoint, at_ms=T0).events

    assert [(one["type"], one["source"], one["data"]) for one in found] == [
        ("user_message", "user", {"content": "tide?"}),
        ("agent_message", "agent", {"content": ""}),
        ("tool_call", "agent", {"call_id": "c1", "name": "tide", "arguments": "{}"}),
        ("tool_call", "agent", {"call_id": "c2", "name": "wind", "arguments": {"x": 1}}),
        ("tool_call", "agent", {"name": "unknown", "arguments": "{}"}),
        ("tool_result", "system",
         {"call_id": "c1", "name": "tide", "result": {"success": False, "error": "dry"}}),
        ("tool_result", "system",
         {"call_id": "c2", "name": "tool", "result": {"success": True, "output": "strong"}}),
        ("goal_added", "system", {"id": "goal_1", "description": "a"}),
        ("goal_added", "system", {"id": "goal_2", "description": "b"}),
        ("goal_updated", "system", {"id": "goal_2", "status": "paused"}),
        ("scheduler_added", "system", {"id": "j", "schedule_type": "once", "prompt": "p"}),
    ]  # fmt: skip


def test_json_that_a_tool_said_is_taken_for_its_result_whatever_it_is() -> None:
    checkpoint = Checkpoint.from_json({"history": [{"role": "tool", "content": "42"}]})

    assert events_of(checkpoint, at_ms=T0).events[0]["data"]["result"] == 42


# Checkpoints.


BODY: Final = {"history": history("ahoy"), "goals": [], "schedulerJobs": [], "goalIdCounter": 42}


@pytest.mark.parametrize(
    ("body", "counter"),
    [
        (BODY, 42),
        ({"id": "ckpt_1", "timestamp": T0, "agent_state": "Idle",
          "session_history": history("ahoy"), "active_goals": [{"id": "goal_7"}],
          "scheduler_jobs": []}, 8),
        ({"id": "ckpt_1", "timestamp": T0, "agent_state": "Idle",
          "session_history": history("ahoy"), "active_goals": [],
          "scheduler_snapshot": {"jobs": []}, "version": "1.0.0"}, 1),
        (list(json.dumps(BODY).encode()), 42),
        ({str(at): byte for at, byte in enumerate(json.dumps(BODY).encode())}, 42),
    ],
)  # fmt: skip
def test_every_shape_of_a_checkpoint_is_read_and_one_is_written(body: Any, counter: int) -> None:
    checkpoint = Checkpoint.from_bytes(json.dumps(body).encode())

    written = json.loads(checkpoint.to_bytes())

    assert list(written) == ["history", "goals", "schedulerJobs", "goalIdCounter"]
    assert written["history"] == history("ahoy")
    assert written["goalIdCounter"] == counter


def test_checkpoints_are_tried_from_the_newest_to_the_oldest(tmp_path: Path) -> None:
    order = [
        "clawser_workspaces/default/.checkpoints/latest.bin",
        "clawser/workspaces/default/.checkpoints/latest.bin",
        "clawser_workspaces/default/.conversations/conv_1/events.jsonl",
        "clawser_conversations/conv_1.bin",
        "clawser_checkpoints/default/latest.bin",
        "clawser_checkpoints/latest.bin",
        "clawser_checkpoints/default/conv_1.bin",
    ]
    workspace = Workspace(tmp_path)
    for path in order:
        put(tmp_path, path, lines(voyage()) if path.endswith("jsonl") else BODY)

    for path in order:
        assert workspace.read_checkpoint("conv_1").path == tmp_path / path
        put(tmp_path, path, GARBAGE)

    with pytest.raises(Corrupt):
        workspace.read_checkpoint("conv_1")


def test_the_checkpoint_without_a_workspace_is_the_default_ones_alone(tmp_path: Path) -> None:
    put(tmp_path, "clawser_checkpoints/latest.bin", BODY)

    assert Workspace(tmp_path).read_checkpoint().version == "v0"
    with pytest.raises(NotFound):
        Workspace(tmp_path, "ws").read_checkpoint()


def test_an_older_checkpoint_is_restored_as_v2_and_left_there(tmp_path: Path) -> None:
    put(tmp_path, "clawser_checkpoints/ws/latest.bin", BODY)
    before = contents(tmp_path)
    workspace = Workspace(tmp_path, "ws")

    older = workspace.restore_checkpoint()

    assert workspace.read_checkpoint().version == "v2"
    assert workspace.read_checkpoint().checkpoint == older.checkpoint
    assert contents(tmp_path).items() >= before.items()


def test_a_checkpoint_holds_what_the_events_lead_to() -> None:
    log = log_of([
        *voyage(),
        event(11, "scheduler_added", id="j1", schedule_type="once", prompt="p"),
        event(12, "scheduler_added", id="j2", schedule_type="cron", prompt="q"),
        event(13, "scheduler_removed", id="j1"),
    ])  # fmt: skip

    checkpoint = checkpoint_of(log)

    assert checkpoint.history == log.derive_session_history()
    assert checkpoint.goals == log.derive_goals()
    assert [job["id"] for job in checkpoint.scheduler_jobs] == ["j2"]
    assert checkpoint.goal_id_counter == 2


# Files.


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path, "ws")
    workspace.write(log_of(voyage()[:2]), "conv_1")
    before = contents(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        workspace.write(log_of(voyage()), "conv_1")

    assert contents(tmp_path) == before


# Others who write, and what is easily lost.


def test_two_who_write_at_once_keep_the_events_of_both(tmp_path: Path) -> None:
    first, second = Workspace(tmp_path, "ws"), Workspace(tmp_path, "ws")
    first.write(log_of(voyage()), "conv_1")
    one, other = first.read("conv_1").log, second.read("conv_1").log
    for number in range(3):
        one.append("user_message", {"content": f"one {number}"}, "user")
        first.write(one, "conv_1")
        other.append("user_message", {"content": f"other {number}"}, "user")
        second.write(other, "conv_1")

    said = [e["data"].get("content") for e in Workspace(tmp_path, "ws").read("conv_1").log.events]

    assert {f"{who} {n}" for who in ("one", "other") for n in range(3)} <= set(said)
    assert len(said) == len(voyage()) + 6


def test_what_was_read_and_left_out_is_not_put_back(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "ws")
    workspace.write(log_of(voyage()), "conv_1")
    shorter = EventLog()
    shorter.load(workspace.read("conv_1").log.events[:2])

    workspace.write(shorter, "conv_1")

    assert workspace.read("conv_1").log.size == 2


def test_a_torn_last_line_is_kept_aside_when_the_conversation_is_written(tmp_path: Path) -> None:
    torn = b'{"id":"evt_9_9","type":"user_mess'
    put(tmp_path, f"{V2}/events.jsonl", lines(voyage()).encode() + b"\n" + torn)
    workspace = Workspace(tmp_path, "ws")

    workspace.write(workspace.restore("conv_1").log, "conv_1")

    assert contents(tmp_path)[f"{V2}/events.jsonl.broken-1"].endswith(torn)
    assert workspace.read("conv_1").bad == 0


def test_goals_keep_their_progress_and_their_numbers_in_a_migration(tmp_path: Path) -> None:
    goal = {"id": "goal_1", "description": "sail", "status": "active", "progress": 40,
            "artifacts": ["chart.png"], "sub_goals": [{"id": "goal_1a"}]}  # fmt: skip
    blob = {"checkpoint": {"history": [], "goals": [goal], "schedulerJobs": [], "goalIdCounter": 9}}
    put(tmp_path, V1_BLOB, blob)
    workspace = Workspace(tmp_path, "ws")

    restored = workspace.restore("conv_1")

    (kept,) = restored.log.derive_goals()
    assert {name: kept[name] for name in ("progress", "artifacts", "sub_goals")} == {
        name: goal[name] for name in ("progress", "artifacts", "sub_goals")
    }
    assert workspace.read_checkpoint("conv_1").checkpoint.goal_id_counter == 9
