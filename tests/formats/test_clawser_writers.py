"""Several writers of one Clawser conversation do not overwrite each other."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from formats.clawser_logs import log_of, voyage
from treering.errors import Corrupt, NotFound
from treering.formats.clawser import EventLog, Workspace

if TYPE_CHECKING:
    from pathlib import Path

EVENTS_EACH: Final = 20
SECONDS_MAX: Final = 60

WRITER: Final = f"""
import sys
from treering.errors import NotFound
from treering.formats.clawser import EventLog, Workspace

root, name, way = sys.argv[1:]
workspace, log = Workspace(root, "ws"), EventLog()
print("ready", flush=True)
sys.stdin.readline()
for number in range({EVENTS_EACH}):
    if way == "reads":
        try:
            log = workspace.read("conv_1").log
        except NotFound:
            log = EventLog()
    log.append("user_message", {{"content": f"{{name}} {{number}}"}}, "user")
    workspace.write(log, "conv_1")
"""


def said(log: EventLog) -> list[str]:
    return [one["data"]["content"] for one in log.query(type="user_message")]


def noted(*texts: str) -> EventLog:
    log = EventLog()
    for text in texts:
        log.append("user_message", {"content": text}, "user")
    return log


@pytest.mark.parametrize("ways", [("writes", "writes"), ("reads", "reads"), ("writes", "reads")])
def test_two_processes_on_one_conversation_keep_all_that_both_wrote(
    tmp_path: Path, ways: tuple[str, str]
) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name, way],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name, way in zip("ab", ways, strict=True)
    ]  # fmt: skip
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(SECONDS_MAX) for writer in writers] == [0, 0]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate(timeout=SECONDS_MAX)

    found = Workspace(tmp_path, "ws").read("conv_1")

    expected = {f"{name} {number}" for name in "ab" for number in range(EVENTS_EACH)}
    assert sorted(said(found.log)) == sorted(expected)
    assert found.card.event_count == 2 * EVENTS_EACH
    for name in "ab":
        own = [text for text in said(found.log) if text.startswith(name)]
        assert own == [f"{name} {number}" for number in range(EVENTS_EACH)]


def test_a_conversation_of_which_only_the_folder_was_made_is_not_there_yet(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "ws")
    workspace.write(noted("one"), "conv_0")
    folder = next(tmp_path.rglob("conv_0")).with_name("conv_1")
    folder.mkdir()

    with pytest.raises(NotFound):
        workspace.read("conv_1")
    (folder / "meta.json").write_text("{}")
    with pytest.raises(Corrupt, match=r"no events\.jsonl"):
        workspace.read("conv_1")


def test_a_writer_that_never_read_a_conversation_adds_to_it(tmp_path: Path) -> None:
    Workspace(tmp_path, "ws").write(noted("one", "two"), "conv_1", title="Tides")

    Workspace(tmp_path, "ws").write(noted("three"), "conv_1")

    found = Workspace(tmp_path, "ws").read("conv_1")
    assert said(found.log) == ["one", "two", "three"]
    assert found.card.title == "Tides"


def test_a_writer_that_read_a_conversation_may_shorten_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "ws")
    workspace.write(log_of(voyage()), "conv_1")

    fresh = Workspace(tmp_path, "ws")
    fresh.read("conv_1")
    fresh.write(log_of(voyage()[:3]), "conv_1")

    assert Workspace(tmp_path, "ws").read("conv_1").log == log_of(voyage()[:3])


@pytest.mark.parametrize(
    "path",
    ["clawser_workspaces/ws/.conversations/conv_1.json", "clawser_checkpoints/ws/conv_1.bin"],
)
def test_a_writer_that_never_read_an_older_version_keeps_what_it_holds(
    tmp_path: Path, path: str
) -> None:
    checkpoint: Any = {
        "history": [{"role": "user", "content": "one"}], "goals": [], "schedulerJobs": [],
        "goalIdCounter": 9, "timestamp": 1_790_000_000_000,
    }  # fmt: skip
    place = tmp_path / path
    place.parent.mkdir(parents=True)
    stated = {"checkpoint": checkpoint, "name": "Tides"} if path.endswith(".json") else checkpoint
    place.write_text(json.dumps(stated))

    workspace = Workspace(tmp_path, "ws")
    workspace.write(noted("two"), "conv_1")

    found = Workspace(tmp_path, "ws").read("conv_1")
    assert (found.version, said(found.log)) == ("v2", ["one", "two"])
    assert found.card.more["goalIdCounter"] == 9
    assert json.loads(place.read_text()) == stated


def test_events_that_say_the_same_are_each_kept(tmp_path: Path) -> None:
    first, second = EventLog(), EventLog()
    first.load([5, 5])
    second.load([5, 5, 7, 7])
    Workspace(tmp_path, "ws").write(first, "conv_1")
    Workspace(tmp_path, "ws").write(noted("one"), "conv_1")

    Workspace(tmp_path, "ws").write(second, "conv_1")

    events = Workspace(tmp_path, "ws").read("conv_1").log.events
    assert [one for one in events if isinstance(one, int)] == [5, 5, 7, 7]
