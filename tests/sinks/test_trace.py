"""The trace sinks: a folder of five files for every run."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE
from children import run_python
from sinks.carried_events import called, lines, private, returned, safe
from treering import InvalidInput
from treering.capture.secrets import SecretGuard
from treering.sinks import trace
from treering.sinks.bundle import About
from treering.sinks.bundle_files import FILES, TraceLimits
from treering.sinks.trace import ABANDONED_DAYS, PrivateTraceSink, TraceSink

if TYPE_CHECKING:
    from pathlib import Path

    from treering.spine.ports import PrivateSink, SafeSink

TOKEN: Final = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
DAY_S: Final = 86_400
SMALL: Final = TraceLimits(line_bytes_max=8 * 1024, file_bytes_max=64 * 1024)


def guard() -> SecretGuard:
    return SecretGuard(key=b"k" * 32)


def about(folder: Path) -> dict[str, Any]:
    """Return the metadata of a trace."""
    found: dict[str, Any] = json.loads((folder / "meta.json").read_text())
    return found


def missing(folder: Path) -> dict[str, Any]:
    """Return the omissions of a trace."""
    found: dict[str, Any] = json.loads((folder / "redactions.json").read_text())
    return found


def run_whole(sink: TraceSink, run_id: str, **fields: Any) -> None:
    """Pass a whole run to ``sink``."""
    sink.handle(safe("run.started", 1, run_id=run_id, **fields))
    sink.handle(safe("run.ended", 2, run_id=run_id, **fields))


def age(folder: Path, days: float) -> None:
    """Make the files of a trace look ``days`` old."""
    for path in folder.iterdir():
        then = path.stat().st_mtime - days * DAY_S
        os.utime(path, (then, then))


def test_the_types_tell_a_safe_sink_from_a_private_one(tmp_path: Path) -> None:
    """001: "Separate safe vs private at the type level so leaks are hard"."""
    one: SafeSink = TraceSink(tmp_path)
    other: PrivateSink = PrivateTraceSink(tmp_path, guard=guard())

    assert not hasattr(one, "visibility")
    assert other.visibility == "private"


def test_a_finished_trace_has_five_files_for_its_owner_alone(tmp_path: Path) -> None:
    """4.1: "traces/<runId>/{meta.json,events.jsonl,tools.jsonl,payloads.jsonl,redactions.json}"."""
    run_whole(TraceSink(tmp_path / "traces"), "r1")

    folder = tmp_path / "traces" / "r1"
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_a_run_is_about_is_written_at_its_start_and_completed_at_its_end(
    tmp_path: Path,
) -> None:
    sink = TraceSink(tmp_path, about=About(workspace="/srv/app", config_hash="abc"))
    refs = {"entry_point": "cron", "runtime": "sdk", "model": "m1", "provider": "p1"}

    sink.handle(safe("run.started", 1, refs=refs))
    first = about(tmp_path / "r1")
    ended = {"duration_ms": 90, "reason": "failed", "error_class": "ValueError"}
    sink.handle(safe("run.failed", 2, refs=ended))
    last = about(tmp_path / "r1")

    assert first["complete"] is False
    assert first["outcome"] is None
    assert last == {
        "version": 1,
        "treering": treering.__version__,
        "visibility": "safe",
        "complete": True,
        "resumed": False,
        "runId": "r1",
        "turnId": "t1",
        "scope": HERE,
        "sessionId": "s1",
        "sessionKey": "agent:main:main",
        "agentId": "lyria",
        "entryPoint": "cron",
        "runtime": "sdk",
        "model": "m1",
        "provider": "p1",
        "workspace": "/srv/app",
        "configHash": "abc",
        "startedAt": "2026-09-21T14:13:20.010Z",
        "endedAt": "2026-09-21T14:13:20.020Z",
        "durationMs": 90,
        "outcome": "failed",
        "reason": "failed",
        "errorClass": "ValueError",
        "counts": {
            "events": 2,
            "deltas": 0,
            "toolCalls": 0,
            "toolsFailed": 0,
            "toolsOpen": 0,
            "deliveries": 0,
        },
        "truncated": False,
    }


def test_the_events_of_a_trace_are_the_envelopes_of_the_run(tmp_path: Path) -> None:
    """001: "Exactly one lifecycle.started and one terminal per run", "monotonic seq"."""
    heard = [
        safe("run.started", 1),
        safe("conversation.user", 2),
        safe("assistant.delta", 3, refs={"characters": 4}),
        safe("conversation.assistant", 4, refs={"characters": 4}),
        safe("run.ended", 5),
    ]
    sink = TraceSink(tmp_path)

    for event in heard:
        sink.handle(event)

    found = lines(tmp_path / "r1" / "events.jsonl")
    assert found == [
        envelope.to_dict() for event in heard if (envelope := event.envelope()) is not None
    ]
    assert [line["kind"] for line in found] == [
        "lifecycle.started",
        "assistant.delta",
        "assistant.final",
        "lifecycle.ended",
    ]


def test_a_tool_has_its_line_when_its_outcome_is_known(tmp_path: Path) -> None:
    """4.1: "name, call id, durations, sizes, error class, isSynthetic + reason"."""
    sink = TraceSink(tmp_path)
    sink.handle(safe("run.started", 1))

    sink.handle(safe(**called(2)))
    before = (tmp_path / "r1" / "tools.jsonl").exists()
    sink.handle(safe(**returned(3, output_bytes=11)))

    assert not before
    assert lines(tmp_path / "r1" / "tools.jsonl") == [
        {
            "toolCallId": "c1",
            "name": "git_log",
            "status": "ok",
            "startedAt": "2026-09-21T14:13:20.020Z",
            "endedAt": "2026-09-21T14:13:20.030Z",
            "durationMs": 7,
            "inputShape": "ab",
            "inputBytes": 12,
            "outputBytes": 11,
            "errorClass": None,
            "isSynthetic": False,
            "reason": None,
        }
    ]


def test_synthetic_and_open_calls_are_told_apart(tmp_path: Path) -> None:
    sink = TraceSink(tmp_path)
    synthetic = {"status": "synthetic", "is_synthetic": True, "reason": "timeout"}

    sink.handle(safe("run.started", 1))
    for seq, call_id in enumerate(("a", "b", "c"), start=2):
        sink.handle(safe(**called(seq, call_id)))
    sink.handle(safe(**returned(5, "b", **synthetic)))
    sink.handle(safe(**returned(6, "a", status="failed", error_class="KeyError")))
    sink.handle(safe("run.ended", 7))

    found = lines(tmp_path / "r1" / "tools.jsonl")
    told = [(one["toolCallId"], one["status"], one["isSynthetic"], one["reason"]) for one in found]
    assert told == [
        ("b", "synthetic", True, "timeout"),
        ("a", "failed", False, None),
        ("c", "open", False, None),
    ]
    assert found[1]["errorClass"] == "KeyError"
    assert about(tmp_path / "r1")["counts"]["toolsOpen"] == 1


def test_a_result_of_an_earlier_version_needs_no_more_than_its_status(tmp_path: Path) -> None:
    sink = TraceSink(tmp_path)
    sink.handle(safe("run.started", 1))

    sink.handle(safe("tool.result", 2, refs={"call_id": "c9", "status": "synthetic"}))
    sink.handle(safe("tool.result", 3, refs=None))

    first, second = lines(tmp_path / "r1" / "tools.jsonl")
    assert (first["toolCallId"], first["isSynthetic"], first["startedAt"]) == ("c9", True, None)
    assert (second["toolCallId"], second["status"]) == (None, None)


def test_the_same_call_id_again_is_the_latest_open_call(tmp_path: Path) -> None:
    sink = TraceSink(tmp_path)
    sink.handle(safe("run.started", 1))

    for seq in (2, 4):
        sink.handle(safe(**called(seq)))
        sink.handle(safe(**returned(seq + 1)))

    found = lines(tmp_path / "r1" / "tools.jsonl")
    assert [one["startedAt"][-5:] for one in found] == [".020Z", ".040Z"]


def test_what_people_got_is_told_by_its_sizes_and_the_bounds_of_its_pieces(tmp_path: Path) -> None:
    """4.1: "payloads.jsonl: delivered text/media refs, chunk boundaries, deliverer"."""
    sink = TraceSink(tmp_path)
    sink.handle(safe("run.started", 1))

    for seq, (chunk, size) in enumerate([(1, 10), (2, 5), (None, 7)], start=2):
        refs = {"deliverer": "telegram", "characters": size, "chunk": chunk}
        sink.handle(safe("ops.receipt", seq, refs=refs, payload={"text": "x" * size}))

    found = lines(tmp_path / "r1" / "payloads.jsonl")
    assert [(one["chunk"], one["start"], one["end"]) for one in found] == [
        (1, 0, 10),
        (2, 10, 15),
        (None, 0, 7),
    ]
    assert found[0]["deliverer"] == "telegram"
    assert "content" not in found[0]


def test_a_safe_trace_says_how_much_it_withholds(tmp_path: Path) -> None:
    sink = TraceSink(tmp_path)

    sink.handle(safe("run.started", 1))
    sink.handle(safe("conversation.user", 2, payload={"text": "pssst"}))
    sink.handle(safe("run.ended", 3))

    assert missing(tmp_path / "r1")["withheld"] == {"payloads": 1, "summaries": 1}


def test_a_private_trace_holds_the_texts_with_their_secrets_masked(tmp_path: Path) -> None:
    """4.1: "private mode opt-in (with redaction hooks)"."""
    sink = PrivateTraceSink(tmp_path, guard=guard())

    sink.handle(private("run.started", 1))
    sink.handle(private(**called(2, payload={"name": "git_log", "input": {"token": TOKEN}})))
    sink.handle(private("conversation.assistant", 3, payload={"text": f"use {TOKEN}"}))
    sink.handle(private("ops.receipt", 4, payload={"text": f"use {TOKEN}", "to": "@jo"}))
    sink.handle(private("run.ended", 5))

    folder = tmp_path / "r1"
    assert TOKEN not in "".join(path.read_text() for path in folder.iterdir())
    said = lines(folder / "events.jsonl")[2]["payload"]["text"]
    assert said.startswith("use [redacted:github:")
    delivered = lines(folder / "payloads.jsonl")[0]["content"]
    assert delivered == {"text": said, "to": "@jo"}
    assert missing(folder)["masked"] == {"github": 3}
    assert about(folder)["visibility"] == "private"


def test_a_line_that_is_too_long_loses_its_private_content_and_says_so(tmp_path: Path) -> None:
    sink = PrivateTraceSink(tmp_path, guard=guard(), caps=SMALL)
    text = "long " * 4_000

    sink.handle(private("run.started", 1))
    refs = {"characters": len(text)}
    sink.handle(private("conversation.assistant", 2, refs=refs, payload={"text": text}))
    sink.handle(private("ops.receipt", 3, refs=refs, payload={"text": text}))
    sink.handle(private("run.ended", 4))

    cut = lines(tmp_path / "r1" / "events.jsonl")[1]["payload"]
    assert cut["chars"] == len(text)
    assert cut["truncated"]["bytes"] > len(text)
    assert "text" not in cut
    assert lines(tmp_path / "r1" / "payloads.jsonl")[0]["truncated"]["bytes"] > len(text)
    assert missing(tmp_path / "r1")["truncated"]["lines"] == 2
    assert about(tmp_path / "r1")["truncated"] is True


def test_a_file_that_is_full_says_where_it_was_cut_and_still_how_the_run_ended(
    tmp_path: Path,
) -> None:
    """4.1: "hard caps, tails with truncation markers"."""
    sink = TraceSink(tmp_path, caps=SMALL)
    last = 1_000

    sink.handle(safe("run.started", 1))
    for seq in range(2, last, 2):
        sink.handle(safe(**called(seq)))
        sink.handle(safe(**returned(seq + 1)))
    sink.handle(safe("run.ended", last + 1))

    folder = tmp_path / "r1"
    found = lines(folder / "events.jsonl")
    assert (folder / "events.jsonl").stat().st_size <= SMALL.file_bytes_max
    assert (folder / "tools.jsonl").stat().st_size <= SMALL.file_bytes_max
    assert found[-2]["kind"] == "warning"
    assert found[-2]["payload"] == {"code": "trace_truncated"}
    assert found[-1]["kind"] == "lifecycle.ended"
    assert [one["seq"] for one in found[:-1]] == list(range(1, len(found)))
    left_out = missing(folder)["truncated"]["leftOut"]
    heard, written = last, len(found) - 1  # The mark itself was not heard.
    assert left_out["events.jsonl"] == heard - written
    assert lines(folder / "tools.jsonl")[-1] == {"truncated": True}
    assert about(folder)["counts"]["toolCalls"] == (last - 2) // 2


def test_caps_that_leave_no_room_are_refused() -> None:
    with pytest.raises(InvalidInput, match="too small"):
        TraceLimits(line_bytes_max=100)


def test_a_trace_that_a_process_left_behind_is_finished_by_the_next(tmp_path: Path) -> None:
    before = TraceSink(tmp_path)
    for event in (safe("run.started", 1), safe(**called(2, "a")), safe(**called(3, "b"))):
        before.handle(event)
    before.handle(safe(**returned(4, "a")))
    with (tmp_path / "r1" / "events.jsonl").open("ab") as stream:
        stream.write(b'{"version":1,"ru')

    after = TraceSink(tmp_path)
    after.handle(safe(**returned(4, "a")))
    gone = {"status": "synthetic", "is_synthetic": True, "reason": "crashed"}
    after.handle(safe(**returned(5, "b", **gone)))
    after.handle(safe("run.failed", 6, refs={"reason": "crashed"}))

    folder = tmp_path / "r1"
    tools = lines(folder / "tools.jsonl")
    assert [(one["toolCallId"], one["reason"]) for one in tools] == [("a", None), ("b", "crashed")]
    assert tools[1]["startedAt"] is not None
    finished = about(folder)
    assert (finished["complete"], finished["resumed"]) == (True, True)
    assert finished["counts"]["toolCalls"] == 2
    assert finished["durationMs"] == 50


def test_deliveries_go_on_where_another_process_left_them(tmp_path: Path) -> None:
    first = safe("ops.receipt", 2, refs={"characters": 10, "chunk": 1})
    before = TraceSink(tmp_path)
    before.handle(safe("run.started", 1))
    before.handle(first)

    after = TraceSink(tmp_path)
    after.handle(first)
    after.handle(safe("ops.receipt", 3, refs={"characters": 5, "chunk": 2}))
    after.handle(safe("run.ended", 4))

    found = lines(tmp_path / "r1" / "payloads.jsonl")
    assert [(one["seq"], one["start"], one["end"]) for one in found] == [(2, 0, 10), (3, 10, 15)]
    assert about(tmp_path / "r1")["counts"]["deliveries"] == 2


CRASHING: Final = """
import os, sys, treering
from treering.sinks.trace import TraceSink
ledger = treering.open(sys.argv[1] + "/agents.db")
spine = ledger.spine(sinks=[TraceSink(sys.argv[1] + "/traces", durable=True)])
run = ledger.session("s1", scope="acme/app", agent="lyria").turn()
run.start()
run.user("hello")
run.tools.started("git_log", {}, call_id="c1")
assert spine.flush(30.0)
print(run.run_id, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_durable_trace_of_a_run_that_was_killed_says_how_it_was_closed(tmp_path: Path) -> None:
    """Promise 8: "what a crash leaves open is found at the next start and closed"."""
    done = run_python(CRASHING, tmp_path, status=None)
    folder = tmp_path / "traces" / done.stdout.strip()
    left = about(folder)["complete"]

    with treering.open(tmp_path / "agents.db") as ledger:
        spine = ledger.spine(sinks=[TraceSink(tmp_path / "traces", durable=True)])
        spine.follow(HERE)
        assert spine.flush(30.0)

    assert left is False
    assert about(folder)["complete"] is True
    assert [(one["status"], one["reason"]) for one in lines(folder / "tools.jsonl")] == [
        ("synthetic", "crashed")
    ]
    seqs = [one["seq"] for one in lines(folder / "events.jsonl")]
    assert seqs == sorted(set(seqs))


def test_what_comes_after_the_end_of_a_run_changes_nothing(tmp_path: Path) -> None:
    sink = TraceSink(tmp_path)
    run_whole(sink, "r1")
    before = {path.name: path.read_bytes() for path in (tmp_path / "r1").iterdir()}

    sink.handle(safe("run.ended", 2))
    TraceSink(tmp_path).handle(safe("ops.warning", 3))

    assert {path.name: path.read_bytes() for path in (tmp_path / "r1").iterdir()} == before


def test_runs_of_one_id_in_two_places_do_not_share_a_trace(tmp_path: Path) -> None:
    """Promise 3: no sink in scope A returns a byte of scope B."""
    sink, secret = TraceSink(tmp_path), PrivateTraceSink(tmp_path, guard=guard())

    run_whole(sink, "r1", scope="a")
    run_whole(sink, "r1", scope="b")
    run_whole(sink, "r1", scope="b", session_id="s2")
    secret.handle(private("run.started", 1, scope="a"))

    owners = {
        (told["scope"], told["sessionId"], told["visibility"])
        for told in (about(folder) for folder in tmp_path.iterdir())
    }
    assert owners == {
        ("a", "s1", "safe"),
        ("b", "s1", "safe"),
        ("b", "s2", "safe"),
        ("a", "s1", "private"),
    }
    assert all(len(lines(folder / "events.jsonl")) <= 2 for folder in tmp_path.iterdir())


def test_more_runs_at_once_than_are_held_in_memory_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "RUNS_OPEN_MAX", 20)
    sink = TraceSink(tmp_path)
    runs = [f"r{number}" for number in range(40)]

    for run_id in runs:
        sink.handle(safe("run.started", 1, run_id=run_id))
    for run_id in runs:
        sink.handle(safe("run.ended", 2, run_id=run_id))

    assert all(about(tmp_path / run_id)["complete"] for run_id in runs)


def test_traces_that_are_too_old_go_when_a_run_ends(tmp_path: Path) -> None:
    """4.1: "Retention N days or MB"."""
    sink = TraceSink(tmp_path, keep_days=3, keep_bytes=None)
    for run_id in ("old", "young"):
        run_whole(sink, run_id)
    age(tmp_path / "old", 4)
    age(tmp_path / "young", 2)

    run_whole(TraceSink(tmp_path, keep_days=3), "now")

    assert {path.name for path in tmp_path.iterdir()} == {"young", "now"}


def test_traces_that_are_too_much_go_the_oldest_first(tmp_path: Path) -> None:
    run_whole(TraceSink(tmp_path), "r0")
    size = sum(path.stat().st_size for path in (tmp_path / "r0").iterdir())
    age(tmp_path / "r0", 1)
    sink = TraceSink(tmp_path, keep_days=None, keep_bytes=size * 5 // 2)

    for run_id in ("r1", "r2", "r3"):
        run_whole(sink, run_id)

    assert {path.name for path in tmp_path.iterdir()} == {"r2", "r3"}


def test_the_newest_trace_stays_however_large(tmp_path: Path) -> None:
    run_whole(TraceSink(tmp_path, keep_bytes=1), "r1")

    assert about(tmp_path / "r1")["complete"]


def test_retention_leaves_running_traces_and_what_is_not_ours(tmp_path: Path) -> None:
    TraceSink(tmp_path).handle(safe("run.started", 1, run_id="running"))
    age(tmp_path / "running", ABANDONED_DAYS - 1)
    for name, body in (("other", '{"runId":"x"}'), ("notes", "[]"), ("empty", None)):
        (tmp_path / name).mkdir()
        if body is not None:
            (tmp_path / name / "meta.json").write_text(body)
            age(tmp_path / name, 400)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "other")
    (tmp_path / "file").write_text("mine")

    run_whole(TraceSink(tmp_path, keep_days=0.001, keep_bytes=1), "now")

    assert {path.name for path in tmp_path.iterdir()} == {
        *("running", "now", "other", "notes", "empty", "elsewhere", "file")
    }


def test_a_trace_that_was_abandoned_goes_in_the_end(tmp_path: Path) -> None:
    TraceSink(tmp_path).handle(safe("run.started", 1, run_id="gone"))
    age(tmp_path / "gone", ABANDONED_DAYS + 1)

    run_whole(TraceSink(tmp_path, keep_days=3), "now")

    assert not (tmp_path / "gone").exists()


def test_a_strange_file_in_an_old_trace_is_left_alone(tmp_path: Path) -> None:
    run_whole(TraceSink(tmp_path), "old")
    (tmp_path / "old" / "notes.txt").write_text("mine")
    age(tmp_path / "old", 9)

    run_whole(TraceSink(tmp_path, keep_days=3), "now")

    assert [path.name for path in (tmp_path / "old").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("kept", [{"keep_days": 0}, {"keep_bytes": -1}])
def test_a_retention_of_nothing_is_refused(tmp_path: Path, kept: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="must be more than 0"):
        TraceSink(tmp_path, keep_days=kept.get("keep_days"), keep_bytes=kept.get("keep_bytes"))


def test_a_run_on_a_spine_leaves_its_trace(tmp_path: Path) -> None:
    """001: "Turn on trace recording for targeted debugging"."""
    with treering.open(":memory:") as ledger:
        spine = ledger.spine(sinks=[TraceSink(tmp_path)])
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with spine.run(session, entry_point="cli") as run:
            run.user("hello")
            run.delta("he")
            with run.tool("git_log", {"since": "friday"}) as call:
                call.finish("3 commits")
            run.deliver("three", by="cli")
        assert spine.flush(30.0)

    told = about(tmp_path / run.run_id)
    assert (told["outcome"], told["entryPoint"]) == ("ended", "cli")
    assert told["counts"] == {
        "events": 5,
        "deltas": 1,
        "toolCalls": 1,
        "toolsFailed": 0,
        "toolsOpen": 0,
        "deliveries": 1,
    }
    assert [one["name"] for one in lines(tmp_path / run.run_id / "tools.jsonl")] == ["git_log"]
