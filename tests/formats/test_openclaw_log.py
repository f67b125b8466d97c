"""OpenClaw's logs: owners, repeats and synthetic results."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from formats.logs.openclaw import MISSING, mirrored, opening
from formats.logs.pi import PARENT, SESSION, answered, call, returned, said, voyage
from formats.logs.tellings import kinds, outcomes, told, told_in_parts
from treering.formats import openclaw, pi
from treering.formats.openclaw import IndexedSession, OpenClawReader, sessions_index, skip_reason

FOLDER = PurePosixPath("/home/ada/.openclaw/agents/lyria/sessions")
INDEX = {
    "agent:lyria:main": {"sessionId": SESSION, "updatedAt": 1},
    "agent:lyria:telegram:direct:7": {
        "sessionId": "elsewhere",
        "sessionFile": f"agents/lyria/sessions/{PARENT}.jsonl.reset.2026-03-28T04-14-24.192Z",
    },
    "broken": "no entry",
}


def test_a_session_belongs_to_the_agent_in_whose_folder_it_lies() -> None:
    reader = OpenClawReader(FOLDER / f"{SESSION}.jsonl", sessions_index(INDEX))

    told(reader, [*opening(), said(2, "hello")])

    found = reader.sessions[SESSION]
    assert (found.agent, found.key) == ("lyria", "agent:lyria:main")
    assert found.cwd == "/home/ada/.openclaw/workspace"


def test_a_session_of_nobody_in_particular_is_openclaws() -> None:
    reader = OpenClawReader(None)

    told(reader, opening())

    assert reader.sessions[SESSION].agent == "openclaw"


def test_the_index_knows_sessions_by_their_ids_and_by_their_files() -> None:
    telegram = IndexedSession(key="agent:lyria:telegram:direct:7", channel="telegram")

    assert sessions_index(INDEX) == {
        SESSION: IndexedSession(key="agent:lyria:main"),
        "elsewhere": telegram,
        PARENT: telegram,
    }
    assert sessions_index(["no index"]) == {}


def test_the_index_beside_a_log_is_read_with_it(tmp_path: Path) -> None:
    (tmp_path / "sessions.json").write_text(json.dumps(INDEX))
    reader = openclaw.FORMAT.reader(tmp_path / f"{PARENT}.jsonl")

    told(reader, opening(id=PARENT))

    found = reader.sessions[PARENT]
    assert (found.key, found.about["channel"]) == ("agent:lyria:telegram:direct:7", "telegram")


@pytest.mark.parametrize("content", [None, "{", "[]", "\udcff"])
def test_an_index_that_is_none_is_no_matter(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "sessions.json").write_bytes(content.encode(errors="surrogateescape"))
    reader = openclaw.FORMAT.reader(tmp_path / f"{SESSION}.jsonl")

    told(reader, opening())

    assert reader.sessions[SESSION].key is None


def test_a_topic_is_a_session_of_its_own() -> None:
    reader = OpenClawReader(FOLDER / f"{SESSION}-topic-42.jsonl")

    (event,) = told(reader, [*opening(), said(2, "hello")])[1:]

    assert event.session == f"{SESSION}-topic-42"
    assert list(reader.sessions) == [event.session]


@pytest.mark.parametrize(
    "name",
    ["a.jsonl", "a-topic-7.jsonl", "a.jsonl.reset.2026-03-28T04-14-24.192Z", "a.jsonl.deleted.1"],
)
def test_logs_are_taken_even_if_they_were_reset_or_deleted(name: str) -> None:
    assert skip_reason(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.jsonl.bak", "a backup copy"),
        ("a.jsonl.bak-17-1790000000000", "a backup copy"),
        ("a.jsonl.full.bak", "a backup copy"),
        ("a.trajectory.jsonl", "a trace of a session"),
        (f"a.checkpoint.{PARENT}.jsonl", "a checkpoint that repeats a session"),
        ("sessions.json", "an index of sessions"),
    ],
)
def test_what_repeats_a_log_is_not_taken_for_one(name: str, reason: str) -> None:
    assert skip_reason(name) == reason


def test_a_mirror_of_what_was_said_or_sent_is_skipped() -> None:
    log = [
        *opening(),
        answered(2, "High tide is at 14:10."),
        mirrored(3, "High tide  is at 14:10."),
        answered(4, call("c1", "message", action="send", message="Mind the wind."), parent=2),
        mirrored(5, "Mind the wind."),
    ]

    result = outcomes(OpenClawReader(), log)

    assert [one.skipped for one in result] == [
        "opens the session", None, None, "mirrors the delivered text", None,
        "mirrors the delivered text",
    ]  # fmt: skip
    assert "session.undone" not in kinds(event for one in result for event in one.events)


def test_a_mirror_of_what_nobody_here_said_is_kept() -> None:
    (event,) = told(OpenClawReader(), [*opening(), mirrored(2, "From a timer.")])[1:]

    assert (event.kind, event.payload["text"]) == ("conversation.assistant", "From a timer.")


@pytest.mark.parametrize("text", ["HEARTBEAT_OK", "NO_REPLY"])
def test_answers_that_go_nowhere_are_kept(text: str) -> None:
    (event,) = told(OpenClawReader(), [*opening(), answered(2, text)])[1:]

    assert event.payload["text"] == text


def test_a_stamp_is_no_part_of_the_summary() -> None:
    stamped = "[Tue 2026-02-24 23:50 EST] Good night"

    (event,) = told(OpenClawReader(), [*opening(), said(2, stamped)])[1:]

    assert (event.summary, event.payload["text"]) == ("Good night", stamped)


def test_a_result_that_was_made_up_is_synthetic() -> None:
    log = [*opening(), answered(2, call("c1")), returned(3, "c1", MISSING, isError=True)]

    result = told(OpenClawReader(), log)[-1]

    assert result.refs == {
        "call_id": "c1",
        "tool": "read",
        "status": "synthetic",
        "is_synthetic": True,
        "reason": "missing_result",
    }
    assert result.payload["output"] == MISSING
    assert "error" not in result.payload


@pytest.mark.parametrize(
    ("details", "status"),
    [
        ({"status": "error", "error": "no such file"}, "failed"),
        ({"status": "failed", "exitCode": 1}, "failed"),
        ({"status": "completed", "exitCode": 127}, "failed"),
        ({"error": "missing_api_key"}, "failed"),
        ({"status": "timeout"}, "failed"),
        ({"status": "completed", "exitCode": 0}, "ok"),
        ({"status": "running", "exitCode": None}, "ok"),
        ({"status": "ok", "error": None}, "ok"),
        ({}, "ok"),
    ],
)
def test_a_result_failed_if_its_tool_says_so(details: dict[str, Any], status: str) -> None:
    log = [*opening(), answered(2, call("c1")), returned(3, "c1", "no tide", details=details)]

    result = told(OpenClawReader(), log)[-1]

    assert result.refs is not None
    assert (result.refs["status"], result.payload["status"]) == (status, status)
    assert ("error" in result.payload) is (status == "failed")


@pytest.mark.parametrize("cut", range(7))
def test_a_reader_goes_on_where_another_stopped(cut: int) -> None:
    log = [*opening(), answered(2, "a"), mirrored(3, "a"), said(4, "b", parent=2), mirrored(5, "a")]

    assert told_in_parts(OpenClawReader, log, cut) == told(OpenClawReader(), log)


def test_it_is_told_from_pi_by_its_marks() -> None:
    for log in (opening(), [*opening()[1:], said(2, "x")], [*voyage(), mirrored(11, "x")]):
        assert openclaw.score(log)
        assert not pi.score(log)
    assert not openclaw.score(voyage())
