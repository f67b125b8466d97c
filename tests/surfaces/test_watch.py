"""``treering watch`` as a process: it follows logs and hooks, and ends when it is asked to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from effort import LONG, PATIENCE_S
from formats.logs.grok import FILES, UPDATES
from formats.logs.terminals import LOGS, RECORDS, content
from surfaces.processes import line_of, patient_hook, start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfaces.processes import Run

SESSION: Final = "5b0c5a53-0000-4000-8000-00000000000a"
MODES = pytest.mark.parametrize("mode", [[], ["--poll"]], ids=["notices", "looking"])
SECRET: Final = "sk-ant-api03-" + "Zq9Wx7Kp3T" * 9 + "AA"
"""Looks like a key, and is none."""


SCOPE: Final = "acme/harbour"
IN: Final = ("--scope", SCOPE)
GROWING: Final = {
    sample: (agent, log, beside, content(RECORDS[sample]))
    for sample, (agent, log, beside) in LOGS.items()
} | {"grok updates": ("grok", UPDATES, FILES, FILES[UPDATES])}
"""Of each log: its agent, where it is, what is beside it, and its content."""


class Log:
    """A transcript of Claude Code that grows."""

    def __init__(self, home: Path) -> None:
        self.path = home / ".claude" / "projects" / "-srv-app" / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)
        self._lines = 0

    def say(self, *texts: str) -> None:
        """Write a line for each text."""
        with self.path.open("a") as stream:
            for text in texts:
                self._lines += 1
                line = {
                    "type": "user",
                    "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, str(self._lines))),
                    "parentUuid": None
                    if self._lines == 1
                    else str(uuid.uuid5(uuid.NAMESPACE_URL, str(self._lines - 1))),
                    "sessionId": SESSION,
                    "timestamp": f"2026-03-05T10:00:{self._lines:02}.000Z",
                    "cwd": "/srv/app",
                    "version": "2.1.0",
                    "isSidechain": False,
                    "message": {"role": "user", "content": text},
                }
                stream.write(json.dumps(line) + "\n")


@pytest.fixture
def log(environment: dict[str, str]) -> Log:
    return Log(Path(environment["HOME"]))


@pytest.fixture
def spool(environment: dict[str, str], tmp_path: Path) -> Path:
    environment["TREERING_SPOOL"] = str(tmp_path / "spool")
    return tmp_path / "spool"


@pytest.fixture
def watching(environment: dict[str, str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Take the processes of a test, and see to it that they end."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE_S)


def told(environment: dict[str, str]) -> list[str]:
    """Return what users have said, as far as it is recorded."""
    with treering.open(environment["TREERING_DB"], mode="ro") as ledger:
        session = ledger.session(SESSION, scope="app", agent="claude-code")
        return [
            event.payload["text"] for event in session.events() if event.kind == "conversation.user"
        ]


@MODES
def test_a_log_is_taken_in_as_it_grows_and_ctrl_c_ends_it(
    environment: dict[str, str],
    log: Log,
    spool: Path,
    watching: list[subprocess.Popen[str]],
    mode: list[str],
) -> None:
    log.say("one", "two")

    process = start(environment, "watch", *mode)
    watching.append(process)
    first = line_of(process)
    log.say("three", "four")
    second = line_of(process)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0, errors
    assert first.split()[1:3] == second.split()[1:3] == ["claude-code", SESSION]
    assert told(environment)[:3] == ["one", "two", "three"]
    assert "of 1 session\n" in rest


def test_a_hook_leads_to_a_transcript_that_nobody_follows(
    environment: dict[str, str], log: Log, spool: Path, run: Run, tmp_path: Path
) -> None:
    log.say("one", "two")
    elsewhere = tmp_path / "elsewhere.jsonl"
    log.path.rename(elsewhere)
    call = {
        "session_id": SESSION,
        "transcript_path": str(elsewhere),
        "cwd": "/somewhere/else",
        "hook_event_name": "PermissionRequest",
        "tool_name": "Bash",
        "tool_input": {"command": f"export API_KEY={SECRET}"},
    }
    for _ in range(2):
        subprocess.run(
            [*patient_hook(), "claude-code"],
            env=environment,
            input=json.dumps(call).encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )

    done = run("watch", "--once", "--json")
    again = run("watch", "--once", "--json")

    summary = json.loads(done.stdout.splitlines()[-1])
    with treering.open(environment["TREERING_DB"], mode="ro") as ledger:
        events = list(ledger.session(SESSION, scope="app", agent="claude-code").events())
    decisions = [event for event in events if event.kind == "ops.decision"]
    assert (done.returncode, again.returncode) == (0, 0)
    assert summary["decisions"] == 2
    assert [event.summary for event in decisions] == ["permission asked: Bash"] * 2
    assert SECRET not in repr(events)
    assert json.loads(again.stdout.splitlines()[-1])["events"] == 0
    assert SECRET.encode() not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


def test_once_takes_in_what_there_is_and_nothing_twice(
    environment: dict[str, str], log: Log, spool: Path, run: Run
) -> None:
    log.say("one", "two", "three")

    first = run("watch", "--once", "--json")
    second = run("watch", "--once", "--json")

    lines: list[dict[str, Any]] = [json.loads(line) for line in first.stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["treering.watch.import.v1", "treering.watch.v1"]
    assert (lines[0]["agent"], lines[0]["sessions"]) == ("claude-code", [SESSION])
    assert lines[1]["events"] == lines[0]["events"] > 0
    assert json.loads(second.stdout)["events"] == 0


def test_a_second_watch_of_a_ledger_says_so(
    environment: dict[str, str],
    log: Log,
    spool: Path,
    run: Run,
    watching: list[subprocess.Popen[str]],
) -> None:
    log.say("one", "two")
    first = start(environment, "watch")
    watching.append(first)
    line_of(first)

    second = run("watch", "--json")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=PATIENCE_S)

    assert second.returncode == 1
    assert json.loads(second.stdout)["code"] == "busy"
    assert f"process {first.pid}" in json.loads(second.stdout)["error"]
    assert first.returncode == 0


def test_what_is_named_is_followed_and_nothing_else(
    environment: dict[str, str], log: Log, spool: Path, run: Run, tmp_path: Path
) -> None:
    log.say("one", "two")
    (tmp_path / "empty").mkdir()

    done = run("watch", str(tmp_path / "empty"), "--once", "--json")

    assert json.loads(done.stdout)["events"] == 0


def test_a_scope_can_be_named(environment: dict[str, str], log: Log, spool: Path, run: Run) -> None:
    log.say("one", "two")

    run("watch", str(log.path), "--scope", "mine", "--once")

    with treering.open(environment["TREERING_DB"], mode="ro") as ledger:
        assert any(ledger.session(SESSION, scope="mine", agent="claude-code").events())


def test_a_ledger_in_memory_is_refused(run: Run) -> None:
    done = run("--db", ":memory:", "watch", "--once")

    assert done.returncode == 2
    assert "name a file" in done.stderr


def test_a_path_that_is_not_there_is_refused_if_it_is_to_be_done_once(
    environment: dict[str, str], run: Run
) -> None:
    done = run("watch", "nowhere", "--once")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: nowhere does not exist\n")
    assert not Path(environment["TREERING_DB"]).exists()


# That each format reads a log by pieces as it does at once is a law: tests/formats/test_laws.py.
@pytest.mark.parametrize(
    "sample", ["copilot", "grok updates", *(["antigravity", "kimi"] if LONG else [])]
)
def test_logs_of_other_agents_are_taken_in_as_they_grow(
    environment: dict[str, str],
    spool: Path,
    watching: list[subprocess.Popen[str]],
    run: Run,
    sample: str,
) -> None:
    agent, log, beside, whole = GROWING[sample]
    home = Path(environment["HOME"])
    for name, held in beside.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(held)
    path = home / log
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))

    process = start(environment, "watch", *IN)
    watching.append(process)
    first = line_of(process)
    early = conversations(environment)
    with path.open("ab") as stream:
        stream.write(b"".join(lines[len(lines) // 2 :]))
    second = line_of(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    os.utime(path, (0, 0))  # Nothing is unfinished in it any more.
    rest = run("watch", "--once", *IN)
    taken = conversations(environment)
    environment["TREERING_DB"] += ".other"
    at_once = run("import", "--no-index", str(path), *IN)

    assert (process.returncode, rest.returncode, at_once.returncode) == (0, 0, 0), errors
    assert first.split()[1] == second.split()[1] == agent
    assert conversations(environment) == taken
    assert all(taken[session][: len(told)] == told for session, told in early.items())
    assert 0 < sum(map(len, early.values())) < sum(map(len, taken.values()))


def conversations(environment: dict[str, str]) -> dict[str, list[tuple[str, Any]]]:
    """Return what was said and done in each session so far."""
    with treering.open(environment["TREERING_DB"], mode="ro") as ledger:
        return {
            one.session_id: [
                (event.kind, event.payload)
                for event in ledger.session(one.session_id, scope=SCOPE, agent="x").events()
                if not event.kind.startswith("session.")
            ]
            for one in ledger.sessions(SCOPE, subagents=True).items
        }


def test_the_memory_is_kept_up_to_date_after_an_import(
    environment: dict[str, str], log: Log, spool: Path, run: Run
) -> None:
    log.say("We use Postgres, not MySQL.", "Thanks.")

    watched = run("watch", "--once", "--memory")

    assert watched.returncode == 0, watched.stderr
    assert "1 fact learned" in watched.stdout
    with treering.open(environment["TREERING_DB"], mode="ro") as ledger:
        facts = ledger.memory("app").facts().items
    assert [fact.text for fact in facts] == ["Uses Postgres, not MySQL"]


def test_a_model_without_the_memory_is_refused(
    environment: dict[str, str], spool: Path, run: Run
) -> None:
    refused = run("watch", "--once", "--model", "m", "--url", "http://127.0.0.1:9/v1")

    assert refused.returncode != 0
    assert "--memory" in refused.stderr
