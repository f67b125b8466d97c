"""Draining the spool: every line is processed at least once, and none is lost."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from children import run_python
from effort import PATIENCE_S
from surfaces.processes import patient_hook
from treering import hook
from treering.capture.hooks.spool import DrainReceipt, default_spool, drain, is_waiting
from treering.capture.quarantine import read_quarantine
from treering.capture.secrets import SecretGuard
from treering.errors import Busy, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from treering.capture.hooks.spool import PermissionDecision

GUARD = SecretGuard(key=b"k" * 32)
SECRET = "sk-ant-api03-" + "Zq9Wx7Kp3T" * 9 + "AA"
"""Looks like a key, and is none."""


class Taken:
    """Remembers its arguments."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.decisions: list[PermissionDecision] = []

    def take(self, paths: Sequence[Path]) -> int:
        self.paths += paths
        return len(paths)

    def note(self, decision: PermissionDecision) -> None:
        self.decisions.append(decision)

    def drain(self, folder: Path, **more: Any) -> DrainReceipt:
        given: dict[str, Any] = {"take": self.take, "note": self.note, "guard": GUARD, **more}
        return drain(folder, **given)


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "s1.jsonl"
    path.write_text("{}\n")
    return path


def write(spool: Path, *lines: dict[str, Any] | str, host: str = "here") -> None:
    """Write lines as hooks do."""
    with (spool / f"{host}.jsonl").open("a") as stream:
        for line in lines:
            stream.write("\n" + (line if isinstance(line, str) else json.dumps(line)) + "\n")


def told(transcript: Path | None = None, **more: Any) -> dict[str, Any]:
    """Return a line as hooks write it."""
    return {
        "schema": "treering.spool.v1",
        "agent": "claude-code",
        "ts_ms": 1_772_000_000_000,
        "event": "Stop",
        "session_id": "s1",
        "transcript_path": None if transcript is None else str(transcript),
        "cwd": "/srv/app",
        "content": {},
        **more,
    }


def files(spool: Path) -> list[str]:
    return sorted(path.name for path in spool.rglob("*") if path.is_file())


def test_each_transcript_that_was_named_is_taken_in_once(
    spool: Path, transcript: Path, tmp_path: Path, taken: Taken
) -> None:
    gone = tmp_path / "gone.jsonl"
    write(spool, told(transcript), told(transcript), told(gone), told())

    receipt = taken.drain(spool)

    assert taken.paths == [transcript]
    assert receipt == DrainReceipt(lines=4, transcripts=1, missing=[str(gone)], taken=[1])
    assert files(spool) == ["drain.lock"]
    assert not is_waiting(spool)


def test_a_subagents_transcript_is_taken_in_as_well(
    spool: Path, transcript: Path, tmp_path: Path, taken: Taken
) -> None:
    inner = tmp_path / "agent-1.jsonl"
    inner.write_text("{}\n")
    write(spool, told(transcript, content={"agent_transcript_path": str(inner)}))

    taken.drain(spool)

    assert taken.paths == [transcript, inner]


@pytest.mark.parametrize("named", ["", "logs/s1.jsonl", "\0", 7, ["/x"]])
def test_a_path_that_is_none_is_not_looked_for(spool: Path, taken: Taken, named: Any) -> None:
    write(spool, told(content={"agent_transcript_path": named}))

    assert taken.drain(spool) == DrainReceipt(lines=1)


def test_an_empty_spool_and_none_at_all_are_nothing_to_do(tmp_path: Path, taken: Taken) -> None:
    (tmp_path / "here.jsonl").touch()

    assert taken.drain(tmp_path) == taken.drain(tmp_path / "nowhere") == DrainReceipt()


def test_a_permission_becomes_a_decision_with_its_secrets_masked(
    spool: Path, transcript: Path, taken: Taken
) -> None:
    content = {
        "tool_name": "Bash",
        "tool_input": {"command": f"curl -H 'x-api-key: {SECRET}' example.org"},
        "tool_use_id": "toolu_1",
        "reason": f"it holds {SECRET}",
    }
    write(spool, told(transcript, event="PermissionDenied", content=content))

    receipt = taken.drain(spool)

    (decision,) = taken.decisions
    event = decision.event
    assert receipt.decisions == 1
    assert (event.kind, event.summary, event.ts_ms) == (
        "ops.decision",
        "permission denied: Bash",
        1_772_000_000_000,
    )
    assert event.refs == {"decision": "denied", "tool": "Bash", "call_id": "toolu_1"}
    assert "curl -H" in event.payload["input"]["command"]
    assert SECRET not in repr(decision)
    assert (decision.opening.session, decision.opening.cwd) == ("s1", "/srv/app")


def test_a_decision_has_the_same_key_whenever_it_is_read(
    spool: Path, transcript: Path, taken: Taken
) -> None:
    line = told(transcript, event="PermissionRequest", content={"tool_name": "Bash"})
    for one in (line, line, {**line, "ts_ms": 1_772_000_000_001}):
        write(spool, one)
        taken.drain(spool)

    keys = [decision.event.key for decision in taken.decisions]
    assert keys[0] == keys[1] != keys[2]


def test_what_was_too_long_for_a_line_is_read_and_removed(spool: Path, taken: Taken) -> None:
    (spool / "side").mkdir()
    (spool / "side" / "1.json").write_text(json.dumps({"tool_name": "Write", "tool_input": "x"}))
    asked = told(event="PermissionRequest", content=None, content_file="1.json")
    write(spool, asked, told(event="PermissionRequest", content=None, content_file="none.json"))

    taken.drain(spool)

    assert [one.event.summary for one in taken.decisions] == [
        "permission asked: Write",
        "permission asked: a tool",
    ]
    assert files(spool) == ["drain.lock"]


def test_nothing_outside_of_the_spool_is_read_or_removed(
    spool: Path, tmp_path: Path, taken: Taken
) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('{"tool_name": "Outside"}')
    named = "../../outside.json"
    write(spool, told(event="PermissionRequest", content=None, content_file=named))

    taken.drain(spool)

    assert outside.exists()
    assert taken.decisions[0].event.summary == "permission asked: a tool"


@pytest.mark.parametrize(
    "line",
    ["{torn", "[]", '{"schema":"treering.spool.v1"}', '{"schema":"v2","agent":"x","ts_ms":1}'],
)
def test_a_line_that_is_none_of_ours_is_kept_and_hides_no_other(
    spool: Path, transcript: Path, taken: Taken, line: str
) -> None:
    write(spool, line, told(transcript))

    receipt = taken.drain(spool)

    assert (receipt.lines, receipt.unread, taken.paths) == (1, 1, [transcript])
    (kept,) = read_quarantine(spool / "unread.log")
    assert (kept.lines, kept.line) == (1, line)
    assert (spool / "unread.log").stat().st_mode & 0o777 == 0o600


def test_a_ledger_that_is_busy_leaves_everything_for_the_next_time(
    spool: Path, transcript: Path, taken: Taken
) -> None:
    write(spool, told(transcript))

    def refuse(_: Sequence[Path]) -> None:
        raise Busy

    with pytest.raises(Busy):
        taken.drain(spool, take=refuse)
    write(spool, told(transcript, session_id="s2"))
    receipt = taken.drain(spool)

    assert is_waiting(spool) is False
    assert (receipt.lines, taken.paths) == (2, [transcript])


def test_a_transcript_that_is_refused_keeps_no_other_back(
    spool: Path, transcript: Path, tmp_path: Path, taken: Taken
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("?")
    write(spool, told(bad), told(transcript))

    def choose(paths: Sequence[Path]) -> int:
        if bad in paths:
            raise InvalidInput("that is no log")
        return taken.take(paths)

    receipt = taken.drain(spool, take=choose)

    assert [(one.path, one.error) for one in receipt.refused] == [(str(bad), "that is no log")]
    assert (receipt.transcripts, taken.paths) == (1, [transcript])
    assert files(spool) == ["drain.lock"]


def test_one_drains_at_a_time(spool: Path, transcript: Path, taken: Taken) -> None:
    write(spool, told(transcript))
    other: list[DrainReceipt] = []

    def take(_: Sequence[Path]) -> None:
        write(spool, told(transcript, session_id="s2"))
        other.append(taken.drain(spool))

    taken.drain(spool, take=take)

    assert other == [DrainReceipt(is_busy=True)]
    assert taken.drain(spool).lines == 1


def test_a_drain_that_was_killed_is_done_again(spool: Path, transcript: Path, taken: Taken) -> None:
    write(spool, told(transcript))
    program = (
        "import os, sys; from pathlib import Path\n"
        "from treering.capture.secrets import SecretGuard\n"
        "from treering.capture.hooks.spool import drain\n"
        "guard = SecretGuard(key=b'k')\n"
        "drain(Path(sys.argv[1]), take=lambda _: os._exit(9), note=print, guard=guard)"
    )

    run_python(program, spool, status=9)
    receipt = taken.drain(spool)

    assert (receipt.lines, taken.paths) == (1, [transcript])
    assert files(spool) == ["drain.lock"]


def test_no_line_is_lost_while_hooks_write_and_two_drain(
    spool: Path, tmp_path: Path, drainers: list[Taken]
) -> None:
    environment = {"PATH": os.environ["PATH"], "TREERING_SPOOL": str(spool)}
    logs = [tmp_path / f"s{number}.jsonl" for number in range(20)]
    running = []
    for log in logs:
        log.write_text("{}\n")
        call = tmp_path / f"{log.stem}.call"
        call.write_text(json.dumps({"session_id": log.stem, "transcript_path": str(log)}))
        with call.open("rb") as stdin:
            running.append(
                subprocess.Popen(
                    [*patient_hook(), "codex"],
                    env=environment,
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                )
            )

    statuses = [process.wait(PATIENCE_S) for process in running]
    last = Taken()
    while is_waiting(spool):
        last.drain(spool)

    assert statuses == [0] * 20
    assert {path for one in (*drainers, last) for path in one.paths} == set(logs)


@pytest.fixture
def drainers(spool: Path) -> Iterator[list[Taken]]:
    """Drain again and again, in two threads, until the test is over."""
    over = threading.Event()
    found = [Taken(), Taken()]

    def work(one: Taken) -> None:
        while not over.wait(0.001):
            one.drain(spool)

    threads = [threading.Thread(target=work, args=(one,)) for one in found]
    for thread in threads:
        thread.start()
    yield found
    over.set()
    for thread in threads:
        thread.join(PATIENCE_S)


def test_a_hook_that_is_writing_is_waited_for(spool: Path, transcript: Path, taken: Taken) -> None:
    write(spool, told())
    with (spool / "here.jsonl").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        drainer = threading.Thread(target=taken.drain, args=(spool,))
        drainer.start()
        while (spool / "here.jsonl").exists():
            os.sched_yield()
        stream.write(json.dumps(told(transcript)) + "\n")
    drainer.join(PATIENCE_S)

    assert taken.paths == [transcript]


def test_a_hook_that_comes_too_late_for_a_file_takes_the_next_one(
    spool: Path, taken: Taken
) -> None:
    write(spool, told())
    path = spool / "here.jsonl"
    with path.open("a") as stream:
        before = hook._is_ours(stream.fileno(), str(path))
        fcntl.flock(stream, fcntl.LOCK_UN)
        taken.drain(spool)
        moved = hook._is_ours(stream.fileno(), str(path))
        write(spool, told())
        replaced = hook._is_ours(stream.fileno(), str(path))

    assert (before, moved, replaced) == (True, False, False)


def test_hooks_and_drainers_mean_the_same_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREERING_SPOOL", "~/somewhere")
    monkeypatch.setenv("HOME", "/home/somebody")

    assert str(default_spool()) == "/home/somebody/somewhere"
