"""Conversations that lie in one JSON value: states of Apeira's, and Clawser's older versions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import exchange
from capture.intake_logs import EVERYWHERE, VOYAGES, check_sums, every_event, session_in, write
from formats.clawser_logs import T0
from treering.app import import_logs
from treering.formats.apeira import (
    Episodic,
    SessionState,
    from_session,
    load_state,
    save_state,
    state_from_session,
)
from treering.formats.clawser import Workspace, to_session
from treering.formats.clawser import from_session as clawser_log

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger
    from treering.model.intakes import ImportReceipt

CONVERSATIONS = "clawser_workspaces/ws/.conversations"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder that the ledger itself does not lie in."""
    return tmp_path / "root"


def take(ledger: Ledger, *paths: Path, **options: Any) -> ImportReceipt:
    receipt = import_logs(ledger, paths, scope=EVERYWHERE, **options)
    check_sums(receipt)
    return receipt


def episodes() -> Episodic:
    return Episodic("\n".join(json.dumps(one) for one in VOYAGES["apeira"][1]))


def put(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def stored(log: Episodic, **context: Any) -> str:
    return save_state(SessionState(context=context, episodic=log))


# Apeira.


@pytest.mark.parametrize("indent", [None, 2])
def test_a_state_of_apeiras_is_taken_in_once(
    ledger: Ledger, tmp_path: Path, indent: int | None
) -> None:
    state = json.dumps(json.loads(stored(episodes(), user="u1")), indent=indent)
    path = put(tmp_path / "tides.json", state)

    first = take(ledger, path)
    again = take(ledger, path, again=True)

    assert (first.lines, first.imported, first.by_format) == (1, 1, {"apeira": 1})
    assert (again.lines, again.duplicates, again.events) == (1, 1, 0)
    found = state_from_session(session_in(ledger, "tides"))
    assert found.episodic == episodes()
    assert found.context == {"user": "u1"}


def test_a_log_and_the_state_that_holds_it_are_the_same_events(
    ledger: Ledger, tmp_path: Path
) -> None:
    write(tmp_path / "tides.jsonl", VOYAGES["apeira"][1])
    take(ledger, tmp_path / "tides.jsonl")
    before = len(every_event(ledger))

    receipt = take(ledger, put(tmp_path / "tides.json", stored(episodes())))

    assert (receipt.duplicates, receipt.events) == (1, 0)
    assert len(every_event(ledger)) == before


def test_a_state_that_was_written_again_adds_what_is_new(ledger: Ledger, tmp_path: Path) -> None:
    path, log = tmp_path / "tides.json", episodes()
    put(path, stored(log, user="u1"))
    take(ledger, path)

    log.append_items([{"content": "Thanks.", "role": "user", "type": "message"}], source="user")
    put(path, stored(log, user="u1"))
    receipt = take(ledger, path)

    assert receipt.events == 1
    assert from_session(session_in(ledger, "tides")) == log


def test_a_line_of_a_state_that_is_no_episode_is_kept_as_an_observation(
    ledger: Ledger, tmp_path: Path
) -> None:
    log = f"{episodes().to_jsonl()}\n{{torn\n5"
    path = put(tmp_path / "tides.json", {"context": {}, "episodic": log})

    take(ledger, path)
    again = take(ledger, path, again=True)

    kept = [one.payload["text"] for one in every_event(ledger) if "fault" in (one.payload or {})]
    assert kept == ["{torn", "5"]
    assert again.events == 0


def test_an_empty_state_is_skipped_and_says_so(ledger: Ledger, tmp_path: Path) -> None:
    receipt = take(ledger, put(tmp_path / "tides.json", stored(Episodic())))

    assert receipt.skipped == {"a state without episodes": 1}


def test_several_states_in_one_file_are_sessions_of_their_own(
    ledger: Ledger, tmp_path: Path
) -> None:
    other = Episodic()
    other.append_items([{"content": "Hello.", "role": "user", "type": "message"}], source="user")
    path = put(tmp_path / "tides.json", f"{stored(episodes())}\n{stored(other)}\n")

    take(ledger, path)

    assert from_session(session_in(ledger, "tides")) == episodes()
    assert from_session(session_in(ledger, "tides-2")) == other


@pytest.mark.parametrize(
    "value",
    [
        {"context": {}, "episodic": 5},
        {"context": [], "episodic": ""},
        {"context": {}, "episodic": "words"},
        {"context": {}, "items": []},
        {"checkpoint": {"history": []}},
        {"checkpoint": "x"},
        {"history": [{"role": "user", "content": "x"}]},
    ],
)
def test_what_only_looks_like_a_state_is_refused_by_name(
    ledger: Ledger, tmp_path: Path, value: Any
) -> None:
    path = put(tmp_path / "notes.json", value)

    receipt = take(ledger, path)

    assert receipt.files_refused == 1
    assert [(one.file, one.state) for one in receipt.sources] == [(str(path), "refused")]


# Clawser.


def checkpoint(**more: Any) -> dict[str, Any]:
    call = {"id": "c1", "name": "tide", "function": {"name": "tide", "arguments": '{"at": "Oslo"}'}}
    return {
        "history": [
            {"role": "system", "content": "You are a pilot."},
            {"role": "user", "content": "When is high tide?"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": "tide", "content": "14:10"},
        ],
        "goals": [{"id": "goal_1", "description": "reach Bergen", "status": "done"}],
        "schedulerJobs": [], "goalIdCounter": 9, "timestamp": T0, **more,
    }  # fmt: skip


def blob(**more: Any) -> dict[str, Any]:
    return {"id": "conv_1", "name": "Tides", "created": T0 - 5, "checkpoint": checkpoint(), **more}


@pytest.mark.parametrize("shape", ["object", "bytes"])
def test_a_conversation_of_clawsers_first_version_is_taken_in_once(
    ledger: Ledger, root: Path, shape: str
) -> None:
    held: Any = checkpoint()
    if shape == "bytes":
        held = {str(at): one for at, one in enumerate(json.dumps(held).encode())}
    path = put(root / CONVERSATIONS / "conv_1.json", blob(checkpoint=held))

    first = take(ledger, root)
    again = take(ledger, root, again=True)

    assert (first.lines, first.imported, first.by_format) == (1, 1, {"clawser": 1})
    assert (again.duplicates, again.events) == (1, 0)
    session = session_in(ledger, "conv_1")
    assert session.outline().title == "Tides"
    assert clawser_log(session) == Workspace(root, "ws").read("conv_1").log
    assert path.exists()


def test_what_an_older_version_says_of_the_system_is_kept(ledger: Ledger, root: Path) -> None:
    take(ledger, put(root / CONVERSATIONS / "conv_1.json", blob()))

    said = [one.payload for one in every_event(ledger) if (one.payload or {}).get("role")]
    assert [one["content"] for one in said] == ["You are a pilot."]


@pytest.mark.parametrize(
    "path", ["clawser_conversations/conv_1.bin", "clawser_checkpoints/ws/conv_1.bin"]
)
def test_conversations_that_are_checkpoints_are_found_in_their_folders(
    ledger: Ledger, root: Path, path: str
) -> None:
    put(root / path, checkpoint())
    put(root / "clawser_checkpoints/ws/latest.bin", checkpoint())
    put(root / "clawser_checkpoints/ws/broken.bin", "\x00\x01 no JSON")

    receipt = take(ledger, root)

    assert receipt.by_format == {"clawser": 1}
    told = session_in(ledger, "conv_1").history()
    assert [one["role"] for one in told] == ["user", "assistant", "tool"]
    refused = {one.file: one.reason for one in receipt.sources if one.state == "refused"}
    latest, broken = (f"{root}/clawser_checkpoints/ws/{name}.bin" for name in ("latest", "broken"))
    assert set(refused) == {latest, broken}
    assert refused[latest] == "a checkpoint, which repeats a conversation"


def test_an_older_version_of_a_conversation_is_left_out_beside_the_newer_one(
    ledger: Ledger, root: Path
) -> None:
    put(root / CONVERSATIONS / "conv_1.json", blob())
    put(root / "clawser_checkpoints/ws/conv_1.bin", checkpoint())
    Workspace(root, "ws").restore("conv_1")

    receipt = take(ledger, root)

    assert receipt.by_format == {"clawser": 1}
    assert len(session_in(ledger, "conv_1").history()) == 3
    reasons = sorted(one.reason for one in receipt.sources if one.reason)
    assert reasons == [
        "a card, which is read with its conversation",
        "an older version of a conversation",
        "an older version of a conversation",
    ]


def test_an_older_version_is_taken_in_where_the_newer_one_is_broken(
    ledger: Ledger, root: Path
) -> None:
    put(root / CONVERSATIONS / "conv_1.json", blob())
    put(root / CONVERSATIONS / "conv_1" / "events.jsonl", "{torn\n{torn\n")

    take(ledger, root)

    assert len(session_in(ledger, "conv_1").history()) == 3


OLDER = {
    "v1": f"{CONVERSATIONS}/conv_1.json",
    "v1 in a file": "clawser_conversations/conv_1.bin",
    "v0": "clawser_checkpoints/ws/conv_1.bin",
}
each_older = pytest.mark.parametrize("path", OLDER.values(), ids=OLDER)
UNTIMED: dict[str, Any] = {"timestamp": None}


def save(root: Path, path: str, state: dict[str, Any]) -> Path:
    """Write a conversation as Clawser saves it in the version of its path."""
    return put(root / path, blob(checkpoint=state) if path.endswith(".json") else state)


def workspace_of(root: Path, path: str) -> Workspace:
    """Return the workspace that a conversation of an older version is restored to."""
    return Workspace(root, "ws" if "/ws/" in path else "default")


def continued(**more: Any) -> dict[str, Any]:
    """Return the checkpoint some time later: one more message and one more goal."""
    state = checkpoint(**{"timestamp": T0 + 60_000, **more})
    state["history"].append({"role": "user", "content": "Thanks."})
    state["goals"].append({"id": "goal_2", "description": "moor"})
    return state


def recorded(ledger: Ledger) -> list[tuple[str, str]]:
    """Return the kinds and the summaries of what the log tells."""
    events = (one for one in every_event(ledger) if not one.kind.startswith("session."))
    return [(one.kind, one.summary) for one in events]


@each_older
@pytest.mark.parametrize("times", [{}, UNTIMED], ids=["timed", "untimed"])
def test_an_older_version_that_is_saved_again_adds_what_is_new(
    ledger: Ledger, root: Path, path: str, times: dict[str, Any]
) -> None:
    take(ledger, save(root, path, checkpoint(**times)))
    before = recorded(ledger)

    receipt = take(ledger, save(root, path, continued(**times)))

    assert receipt.events == 2
    added = [("conversation.user", "Thanks."), ("goal.added", "goal added goal_2")]
    assert recorded(ledger) == [*before, *added]


@each_older
def test_an_older_version_that_is_saved_again_unchanged_adds_nothing(
    ledger: Ledger, root: Path, path: str
) -> None:
    take(ledger, save(root, path, checkpoint()))
    before = recorded(ledger)

    receipt = take(ledger, save(root, path, checkpoint(timestamp=T0 + 60_000)))

    assert (receipt.duplicates, receipt.events) == (1, 0)
    assert recorded(ledger) == before


@each_older
def test_equal_messages_of_an_older_version_are_all_kept(
    ledger: Ledger, root: Path, path: str
) -> None:
    state = checkpoint()
    state["history"] += [{"role": "user", "content": "Go on."}] * 2
    take(ledger, save(root, path, state))

    state["history"] += [{"role": "user", "content": "Go on."}]
    receipt = take(ledger, save(root, path, {**state, "timestamp": T0 + 60_000}))

    assert receipt.events == 1
    assert recorded(ledger).count(("conversation.user", "Go on.")) == 3


@each_older
def test_what_was_erased_of_an_older_version_stays_erased_when_it_is_saved_again(
    ledger: Ledger, root: Path, path: str
) -> None:
    take(ledger, save(root, path, checkpoint()))
    (asked,) = (one for one in every_event(ledger) if one.kind == "conversation.user")
    ledger.redact(EVERYWHERE, event_id=asked.event_id)

    take(ledger, save(root, path, continued()))

    said = [one for one in every_event(ledger) if one.kind == "conversation.user"]
    assert [one.redacted for one in said] == [True, False]


@each_older
@pytest.mark.parametrize("times", [{}, UNTIMED], ids=["timed", "untimed"])
def test_a_conversation_that_is_restored_after_its_import_is_not_taken_in_twice(
    ledger: Ledger, root: Path, path: str, times: dict[str, Any]
) -> None:
    take(ledger, save(root, path, checkpoint(**times)))
    before = recorded(ledger)
    save(root, path, continued(**times))
    workspace = workspace_of(root, path)
    log = workspace.restore("conv_1").log
    restored = take(ledger, root)
    log.append("user_message", {"content": "Thanks."}, "user")
    workspace.write(log, "conv_1")
    grown = take(ledger, root)

    again = take(ledger, root, again=True)

    assert (restored.events, grown.events, again.events) == (2, 1, 0)
    thanks = ("conversation.user", "Thanks.")
    assert recorded(ledger) == [*before, thanks, ("goal.added", "goal added goal_2"), thanks]


@each_older
def test_a_conversation_that_is_restored_unchanged_is_not_taken_in_twice(
    ledger: Ledger, root: Path, path: str
) -> None:
    take(ledger, save(root, path, continued()))
    before = recorded(ledger)
    workspace_of(root, path).restore("conv_1")

    receipt = take(ledger, root)

    assert receipt.events == 0
    assert recorded(ledger) == before


def test_a_conversation_that_clawser_migrated_after_its_import_is_not_taken_in_twice(
    ledger: Ledger, root: Path
) -> None:
    path = OLDER["v1"]
    take(ledger, save(root, path, checkpoint()))
    before = recorded(ledger)
    log = Workspace(root, "ws").read("conv_1").log.events
    for number, event in enumerate(log):
        event["timestamp"] = T0 + 90_000 + number // 3
        event["id"] = f"evt_{event['timestamp']}_{number}"
    write(root / CONVERSATIONS / "conv_1" / "events.jsonl", log)

    receipt = take(ledger, root)

    assert receipt.events == 0
    assert recorded(ledger) == before


def test_what_is_said_after_a_migration_is_new_though_it_was_said_before(
    ledger: Ledger, root: Path
) -> None:
    path, state = OLDER["v1"], continued()
    take(ledger, save(root, path, state))
    del state["history"][1:]  # As after a compaction.
    save(root, path, {**state, "timestamp": T0 + 90_000})
    workspace = Workspace(root, "ws")
    log = workspace.restore("conv_1").log
    log.append("user_message", {"content": "Thanks."}, "user")
    workspace.write(log, "conv_1")

    receipt = take(ledger, root)

    assert receipt.events == 1
    assert recorded(ledger)[-1] == ("conversation.user", "Thanks.")


@each_older
def test_an_older_version_whose_events_have_the_ids_of_a_log_is_not_taken_in_twice(
    ledger: Ledger, root: Path, path: str
) -> None:
    save(root, path, checkpoint())
    found = workspace_of(root, path).read("conv_1")
    to_session(found.log, ledger.session("conv_1", scope=EVERYWHERE, agent="clawser"))

    receipt = take(ledger, root)

    assert receipt.events == 1, "only the system message is new"


def test_an_imported_conversation_is_not_taken_into_its_own_session(
    ledger: Ledger, root: Path
) -> None:
    take(ledger, save(root, OLDER["v1"], checkpoint()))
    take(ledger, save(root, OLDER["v1"], continued()))
    session = session_in(ledger, "conv_1")

    assert to_session(clawser_log(session), session).added == 0


# Files that are not looked into.


def test_files_that_are_no_logs_by_their_names_are_counted_and_named(
    ledger: Ledger, root: Path
) -> None:
    write(root / "tides.jsonl", VOYAGES["apeira"][1])
    for name in ("model.bin", "a/other.bin", "README", "notes.md"):
        put(root / name, "x")

    receipt = take(ledger, root)

    assert receipt.others == {".bin": 2, "README": 1, ".md": 1}
    assert sorted(receipt.others_named) == sorted(
        str(root / name) for name in ("model.bin", "a/other.bin", "README", "notes.md")
    )


def test_a_named_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "latest.bin"
    path.write_bytes(bytes(range(256)))
    with treering.open(":memory:") as ledger:
        receipt = take(ledger, path)

    assert [(one.file, one.state) for one in receipt.sources] == [(str(path), "refused")]


def test_the_state_of_a_session_of_the_ledgers_own_is_one_that_apeira_reads(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=EVERYWHERE, agent="lyria")
    exchange(session, "Tide?", "At 14:10.")

    found = load_state(save_state(state_from_session(session)))

    assert found.context == {}
    assert [one["payload"]["item"]["content"] for one in found.episodic.read(type="item")] == [
        "Tide?", "At 14:10.",
    ]  # fmt: skip
