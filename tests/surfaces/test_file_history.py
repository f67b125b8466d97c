"""``treering file-history``: who touched a file, when, with which tool, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import ELSEWHERE, HERE, NOON
from surfaces.talks import IN, TOKEN

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine


def touch(session: treering.Session, tool: str, at: int, status: str = "ok", **given: Any) -> None:
    """Record a call of a tool, and how it ended."""
    name = f"{session.session_id}-{at}"
    told = {"call_id": name, "tool": tool}
    session.record(
        "tool.call", f"{tool}: {next(iter(given.values()))}", payload={**told, "input": given},
        refs=told, ts_ms=NOON + at, event_id=name,
    )  # fmt: skip
    refs = {**told, "status": status}
    session.record("tool.result", f"{tool} {status}", refs=refs, ts_ms=NOON + at)


def ask(session: treering.Session, text: str, at: int) -> None:
    """Record what a user said."""
    session.record("conversation.user", text, payload={"text": text}, ts_ms=NOON + at)


@pytest.fixture
def touched(cli: CommandLine) -> CommandLine:
    """Two sessions that touch the same file under several names."""
    with treering.open(cli.database, guard="off") as ledger:
        first = ledger.session("first", scope=HERE, agent="lyria")
        ask(first, "read the lamp", 10)
        touch(first, "read", 20, file_path="/srv/app/src/lamp.py")
        touch(first, "read", 30, file_path="/srv/app/src/lamp.pyi")
        ask(first, f"mend the lamp with {TOKEN}", 40)
        first.record("ops.decision", "permission asked: edit", ts_ms=NOON + 50)
        touch(first, "edit", 60, "failed", path="src/lamp.py", text="x")
        second = ledger.session("second one", scope=HERE, agent="scout")
        ask(second, "look around", 70)
        touch(second, "bash", 80, command="cat src/lamp.py | head && ls docs/Lamp.md")
        touch(second, "read", 90, file_path="old/src/lamp.py")
        other = ledger.session("other", scope=ELSEWHERE, agent="NEIGHBOUR")
        touch(other, "read", 99, file_path="/srv/app/src/lamp.py")
    return cli


def ids(outcome: Any) -> list[str]:
    """Return the events that were found, in order."""
    return [one["event_id"] for one in outcome.receipt["items"]]


def test_touches_come_the_newest_first_with_what_was_asked_and_decided(
    touched: CommandLine,
) -> None:
    outcome = touched("file-history", "src/lamp.py", *IN, "--json")

    assert ids(outcome) == ["second one-90", "second one-80", "first-60", "first-20"]
    edit = outcome.body["items"][2]
    assert (edit["tool"], edit["status"], edit["paths"]) == ("edit", "failed", ["src/lamp.py"])
    assert edit["prompt"].startswith("mend the lamp with [redacted:github:")
    assert edit["decision"] == "permission asked: edit"
    assert outcome.body["items"][3]["decision"] is None
    assert outcome.body["items"][0]["show"] == "treering show 'second one' --scope acme/app"
    assert (outcome.body["count"], outcome.body["sessions"]) == (4, 2)


def test_people_read_it_session_by_session(touched: CommandLine) -> None:
    outcome = touched("file-history", "src/lamp.py", *IN)

    lines = outcome.out.splitlines()
    assert lines[:5] == [
        "second one · scout",
        "  user: look around",
        "  2026-09-21 14:13:20  read  ok  read: old/src/lamp.py",
        "  2026-09-21 14:13:20  bash  ok  bash: cat src/lamp.py | head && ls docs/Lamp.md",
        "  → treering show 'second one' --scope acme/app",
    ]
    assert "    decided: permission asked: edit" in lines
    assert lines[-1] == "src/lamp.py: touched 4 times in 2 sessions of scope acme/app"
    assert TOKEN not in outcome.out
    assert "NEIGHBOUR" not in outcome.out


def test_a_path_is_as_given_from_here_or_its_end(
    touched: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")

    def found(path: str) -> list[str]:
        return ids(touched("file-history", path, *IN, "--json"))

    every = ["second one-90", "second one-80", "first-60", "first-20"]
    assert found("lamp.py") == found("./lamp.py") == every
    # From the top of the project it is src/lamp.py, which is how two of them name it.
    assert found(str(project / "src" / "lamp.py")) == every
    assert found("../src/lamp.py") == every
    assert found("/srv/app/src/lamp.py") == ["first-20"]
    assert found("/srv/app") == ["first-30", "first-20"]
    assert found("docs/lamp.md") == ["second one-80"]
    assert found("lamp.pyi") == ["first-30"]
    assert found("amp.py") == []


def test_the_limit_takes_the_newest_and_says_that_there_are_more(touched: CommandLine) -> None:
    outcome = touched("file-history", "lamp.py", "--limit", "1", *IN, "--json")

    assert ids(outcome) == ["second one-90"]
    assert outcome.body["has_more"] is True
    assert "--limit shows more" in touched("file-history", "lamp.py", "--limit", "1", *IN).out


def test_nothing_known_of_a_file_is_no_error(touched: CommandLine, cli: CommandLine) -> None:
    outcome = touched("file-history", "whale.py", *IN)

    assert outcome.status == 0
    assert outcome.out.startswith("no tool call in scope acme/app names whale.py\n")
    assert touched("file-history", 'a "b", c', *IN).status == 0
    cli.database.unlink()
    assert cli("file-history", "lamp.py", *IN, "--json").body["items"] == []


@pytest.mark.parametrize("path", [" ", "/", "x" * 301])
def test_what_is_no_path_is_refused(touched: CommandLine, path: str) -> None:
    outcome = touched("file-history", path, *IN, "--json")

    assert outcome.status == 2
    assert outcome.receipt["hint"]
