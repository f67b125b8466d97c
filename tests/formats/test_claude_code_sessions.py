"""Sessions of Claude Code that hang together: subagents, copies, forks, and going back."""

from __future__ import annotations

import json
from pathlib import Path, PurePath

from formats.logs.claude_code import (
    OTHER_SESSION,
    SESSION,
    Log,
    call,
    of_kind,
    outcomes_of,
    records_of,
    texts_in,
    told_by,
    used,
    uuid_of,
)
from treering.formats.claude_code import ClaudeCodeReader
from treering.formats.parsed import ParsedEvent, SessionHeader


def openings_of(log: Log, name: str = f"{SESSION}.jsonl") -> dict[str, SessionHeader]:
    reader = ClaudeCodeReader(PurePath(name))
    for record in records_of(log.content()):
        reader.read(record)
    reader.finish()
    return reader.sessions


def hidden_by(log: Log) -> list[tuple[str, str | None]]:
    return [(event.key, event.first) for event in told_by(log) if event.kind == "session.undone"]


# Pain 15, as far as one file can tell.


def test_pain_15_subagents_resumed_copies_and_streaming_duplicates_are_told_apart() -> None:
    log = Log()
    log.user("Mend the lamp.")
    log.answer("I'll ask.", usage=used(1), requestId="req_1")
    log.answer(call("toolu_1", "Task", prompt="find the fuse"), usage=used(9), requestId="req_1")
    log.user("find the fuse", isSidechain=True, parentUuid=None)
    log.answer("It is blown.", id="msg_2", isSidechain=True, usage=used(4), requestId="req_2")
    log.result("toolu_1", "It is blown.", parentUuid=uuid_of(3))
    copy = Log(OTHER_SESSION)
    copy.lines = [{**line, "sessionId": OTHER_SESSION} for line in log.lines]

    events, copied = told_by(log), told_by(copy, f"{OTHER_SESSION}.jsonl")

    child = f"{SESSION}/agent-{uuid_of(4)}"
    assert texts_in([one for one in events if one.session == SESSION]) == [
        "Mend the lamp.",
        "I'll ask.",
    ]
    assert texts_in([one for one in events if one.session == child]) == [
        "find the fuse",
        "It is blown.",
    ]
    assert [one.key for one in copied] == [one.key for one in events]
    reports = of_kind(events, "usage.reported")
    assert [one.key for one in reports] == [
        "usage:msg_1:req_1:1",
        "usage:msg_1:req_1:9",
        "usage:msg_2:req_2:4",
    ]


def test_a_message_that_is_reported_again_is_not_told_again() -> None:
    log = Log()
    log.answer("Lit.", usage=used(5), requestId="req_1")
    log.answer(call("toolu_1"), usage=used(5), requestId="req_1")
    log.answer(call("toolu_2"), usage=used(3), requestId="req_1")

    assert len(of_kind(told_by(log), "usage.reported")) == 1


def test_a_part_of_a_message_that_is_written_twice_is_told_once() -> None:
    log = Log()
    log.user("Say it.")
    first = log.answer("Said.", usage=used(5), requestId="req_1")
    log.answer("Said.", usage=used(5), parentUuid=None)
    log.user("And now?")

    outcomes = outcomes_of(log.content())
    events = [event for outcome in outcomes for event in outcome.events]

    assert texts_in(events) == ["Say it.", "Said.", "And now?"]
    assert outcomes[2].skipped == "it repeats a part of the same message"
    assert events[-1].after == first
    assert hidden_by(log) == []


def test_a_copy_in_another_session_is_told_there_too() -> None:
    log = Log()
    log.answer("Said.")
    log.answer("Said.", sessionId=OTHER_SESSION)

    assert texts_in(told_by(log)) == ["Said.", "Said."]


def test_equal_words_in_different_messages_are_both_told() -> None:
    log = Log()
    log.answer("Done.", id="msg_1")
    log.answer("Done.", id="msg_2")

    assert texts_in(told_by(log)) == ["Done.", "Done."]


# Subagents.


def test_a_subagent_in_the_file_is_a_session_of_its_own_with_the_call_that_began_it() -> None:
    log = Log()
    log.answer(
        call("toolu_1", "Task", prompt="find the fuse", subagent_type="electrician"),
        call("toolu_2", "Task", prompt="find a candle", subagent_type="chandler"),
    )
    for asked in ("find a candle", "find the fuse"):
        log.user(asked, isSidechain=True, parentUuid=None)
        log.answer("Found.", isSidechain=True, id=f"msg_{asked}")

    candle, fuse = list(openings_of(log).values())[1:]

    assert (candle.parent, candle.call_id) == (SESSION, "toolu_2")
    assert candle.agent == "claude-code:chandler"
    assert (fuse.parent, fuse.call_id, fuse.agent) == (
        SESSION,
        "toolu_1",
        "claude-code:electrician",
    )
    assert fuse.cwd == "/srv/lighthouse"


def test_the_only_task_at_work_is_the_one_that_a_subagent_is_for() -> None:
    log = Log()
    log.answer(call("toolu_1", "Task", prompt="find the fuse"))
    log.result("toolu_1")
    log.answer(call("toolu_2", "Task", prompt="find a candle"), id="msg_2")
    log.user("Please find a candle.", isSidechain=True, parentUuid=None)

    assert openings_of(log)[f"{SESSION}/agent-{uuid_of(4)}"].call_id == "toolu_2"


def test_a_subagent_in_a_file_of_its_own_is_named_with_its_parent() -> None:
    ours, theirs = (Log(one, agentId="a1", isSidechain=True) for one in (SESSION, OTHER_SESSION))
    for log in (ours, theirs):
        log.user("find the fuse")

    opened = {
        **openings_of(ours, f"{SESSION}/subagents/agent-a1.jsonl"),
        **openings_of(theirs, "agent-a1.jsonl"),
    }

    assert {one.session: one.parent for one in opened.values()} == {
        f"{SESSION}/agent-a1": SESSION,
        f"{OTHER_SESSION}/agent-a1": OTHER_SESSION,
    }
    assert {one.agent for one in opened.values()} == {"claude-code"}


def test_the_path_tells_whose_a_subagent_is_where_its_lines_do_not() -> None:
    log = Log()
    log.user("find the fuse")
    for field in ("sessionId", "agentId"):
        log.lines[0].pop(field, None)

    opened = openings_of(log, f"lamps/{SESSION}/subagents/agent-a1.jsonl")

    assert {one.session: one.parent for one in opened.values()} == {f"{SESSION}/agent-a1": SESSION}


def test_the_result_of_a_task_names_the_session_of_its_subagent() -> None:
    log = Log()
    log.answer(call("toolu_1", "Agent", prompt="find the fuse"))
    log.result("toolu_1", toolUseResult={"agentId": "a1", "totalDurationMs": 5})

    [result] = of_kind(told_by(log), "tool.result")

    assert result.refs is not None
    assert result.refs["child"] == f"{SESSION}/agent-a1"
    assert result.refs["duration_ms"] == 5


# Sessions that continue from others.


def test_each_line_is_of_the_session_that_it_names() -> None:
    log = Log()
    log.user("Light the lamp.")
    log.answer("Lit.", sessionId=OTHER_SESSION)

    events = told_by(log, f"{OTHER_SESSION}.jsonl")

    assert [event.session for event in events] == [SESSION, OTHER_SESSION]
    assert events[1].after == events[0].key


def test_a_line_that_names_no_session_is_of_the_one_that_the_file_is_named_after() -> None:
    log = Log()
    log.user("Light the lamp.")
    log.note("mode", mode="plan")

    assert told_by(log, f"{OTHER_SESSION}.jsonl")[-1].session == OTHER_SESSION
    assert told_by(log, "a copy.jsonl")[-1].session == SESSION


def test_a_fork_that_names_its_lines_anew_says_whose_copies_they_are() -> None:
    log = Log(OTHER_SESSION, first=100)
    log.user("Light it.", forkedFrom={"sessionId": SESSION, "messageUuid": uuid_of(1)})
    log.answer("Lit.", forkedFrom={"sessionId": SESSION, "messageUuid": uuid_of(2)})
    log.user("Put it out.")

    events = told_by(log, f"{OTHER_SESSION}.jsonl")

    assert [event.key for event in events] == [uuid_of(1), uuid_of(2), uuid_of(102)]
    assert events[2].after == uuid_of(2)
    assert openings_of(log)[OTHER_SESSION].forked_from == SESSION


def test_a_session_is_opened_as_its_lines_say() -> None:
    log = Log(entrypoint="cli")
    log.user("Light the lamp.")

    assert openings_of(log) == {
        SESSION: SessionHeader(
            session=SESSION,
            agent="claude-code",
            cwd="/srv/lighthouse",
            about={"version": "2.1.7", "git_branch": "main", "entrypoint": "cli"},
        )
    }


def test_a_session_keeps_the_folder_that_it_began_in() -> None:
    log = Log()
    log.user("Light the lamp.", cwd=None)
    log.answer("Lit.")
    log.user("Put it out.", cwd="/srv/elsewhere", forkedFrom={"sessionId": SESSION})

    opening = openings_of(log)[SESSION]

    assert (opening.cwd, opening.forked_from) == ("/srv/lighthouse", None)


def test_a_session_is_no_fork_of_itself() -> None:
    log = Log()
    log.user("Light the lamp.", forkedFrom={"sessionId": SESSION, "messageUuid": uuid_of(9)})

    assert openings_of(log)[SESSION].forked_from is None


# Going back.


def gone_back() -> Log:
    log = Log()
    log.user("one")
    log.answer("first", id="msg_1")
    log.line("system", subtype="turn_duration")
    log.user("two")
    log.answer("second", id="msg_2")
    return log


def test_a_prompt_behind_an_earlier_message_hides_what_followed_it() -> None:
    log = gone_back()
    log.user("two, but better", parentUuid=uuid_of(3))

    *_, undone, prompt = told_by(log)

    assert (undone.kind, undone.first, undone.key) == (
        "session.undone",
        uuid_of(4),
        f"{uuid_of(6)}.undo",
    )
    assert prompt.payload == {"text": "two, but better"}


def test_going_back_is_seen_through_lines_that_nobody_said() -> None:
    log = gone_back()
    log.user("<command-name>/model</command-name>", parentUuid=uuid_of(2))
    log.user("two, but better")

    assert hidden_by(log) == [(f"{uuid_of(7)}.undo", uuid_of(4))]


def test_one_can_go_back_twice_and_further() -> None:
    log = gone_back()
    log.user("two again", parentUuid=uuid_of(3))
    log.answer("second again", id="msg_3")
    log.user("three")
    log.user("not that", parentUuid=uuid_of(7))
    log.user("all anew", parentUuid=uuid_of(1))

    assert hidden_by(log) == [
        (f"{uuid_of(6)}.undo", uuid_of(4)),
        (f"{uuid_of(9)}.undo", uuid_of(8)),
        (f"{uuid_of(10)}.undo", uuid_of(2)),
    ]


def test_parallel_calls_branch_and_hide_nothing() -> None:
    log = Log()
    log.user("Light all lamps.")
    log.answer(call("toolu_1"))
    log.answer(call("toolu_2"))
    log.result("toolu_1", parentUuid=uuid_of(2))
    log.result("toolu_2", parentUuid=uuid_of(3))
    log.answer("Lit.", id="msg_2", parentUuid=uuid_of(4))
    log.user("Thanks.")

    assert hidden_by(log) == []


def test_a_line_that_is_written_twice_goes_back_once() -> None:
    log = gone_back()
    log.lines.append(log.lines[3])
    log.user("two, but better", parentUuid=uuid_of(3))
    log.lines.append(log.lines[-1])

    assert hidden_by(log) == [(f"{uuid_of(6)}.undo", uuid_of(4))]


def test_a_session_that_leaves_another_hides_nothing_of_it() -> None:
    log = gone_back()
    log.user("two, elsewhere", parentUuid=uuid_of(3), sessionId=OTHER_SESSION)

    assert hidden_by(log) == []


def test_going_on_behind_a_compaction_is_not_going_back() -> None:
    log = gone_back()
    log.line("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=uuid_of(5))
    log.user("They counted.", isCompactSummary=True)
    log.user("three", parentUuid=uuid_of(5))
    log.line("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=uuid_of(2))
    log.user("They counted.", isCompactSummary=True)
    log.user("four")

    assert hidden_by(log) == []


def test_a_long_way_back_is_found_by_the_prompts_alone() -> None:
    log = Log()
    log.user("one")
    log.answer("first", id="msg_0")
    log.user("two")
    for number in range(400):
        log.answer(call(f"toolu_{number}"), id=f"msg_{number + 1}")
        log.result(f"toolu_{number}")
    log.user("two, but better", parentUuid=uuid_of(2))

    [undone] = hidden_by(log)

    assert undone[1] == uuid_of(3)


def test_every_event_is_of_a_session_that_was_opened_before() -> None:
    log = gone_back()
    log.user("find the fuse", isSidechain=True, parentUuid=None)
    reader = ClaudeCodeReader(None)

    seen: set[str] = set()
    for record in records_of(log.content()):
        told: list[ParsedEvent] = [one for outcome in reader.read(record) for one in outcome.events]
        seen |= {one.session for one in told}
        assert seen <= set(reader.sessions)
    assert len(seen) > 1


def test_what_a_session_is_about_is_learnt_from_whichever_line_says_it() -> None:
    log = Log(version=None, gitBranch=None)
    log.note("file-history-snapshot", snapshot={"timestamp": "2026-10-01T08:00:00.000Z"})
    log.user("hello", version="2.1.0", permissionMode="plan")
    log.answer("Ahoy.", gitBranch="main", entrypoint="cli")
    log.user("more", slug="quiet-harbour")
    reader = ClaudeCodeReader(PurePath(f"{SESSION}.jsonl"))

    events = [
        event
        for record in records_of(log.content())
        for outcome in reader.read(record)
        for event in outcome.events
    ]

    opening = reader.sessions[SESSION]
    assert opening.about == {
        "version": "2.1.0",
        "git_branch": "main",
        "entrypoint": "cli",
        "slug": "quiet-harbour",
        "permission_mode": "plan",
    }
    assert [event for event in events if event.key.endswith(".surroundings")] == []


def test_changes_of_folder_branch_and_permissions_are_told() -> None:
    log = Log()
    log.user("hello", cwd="/srv/app", gitBranch="main", permissionMode="default")
    log.user("more", cwd="/srv/app/docs", gitBranch="main", permissionMode="default")
    log.user("still", cwd="/srv/app/docs", gitBranch="fix/tide", permissionMode="acceptEdits")
    log.user("the same", cwd="/srv/app/docs", gitBranch="fix/tide", permissionMode="acceptEdits")

    changes = [one.payload for one in told_by(log) if one.key.endswith(".surroundings")]

    assert changes == [
        {"record": "surroundings", "cwd": "/srv/app/docs"},
        {"record": "surroundings", "git_branch": "fix/tide", "permission_mode": "acceptEdits"},
    ]


def test_what_comes_to_be_known_after_a_session_was_told_of_is_told_itself() -> None:
    log = Log()
    log.user("hello")
    before, after = ClaudeCodeReader(), ClaudeCodeReader()
    (first,) = records_of(log.content())
    before.read(first)
    log.user("more", slug="quiet-harbour")
    after.resume(before.state())

    (outcome,) = after.read(records_of(log.content())[-1])

    assert outcome.events[0].payload == {"record": "surroundings", "slug": "quiet-harbour"}


def test_what_lies_beside_a_subagent_s_log_says_which_it_is(tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    meta = {"agentType": "Explore", "description": "Look for the fuse"}
    (folder / "agent-a1.meta.json").write_text(json.dumps(meta))
    log = Log(isSidechain=True, agentId="a1")
    log.user("Where is the fuse?")

    found = openings_of(log, str(folder / "agent-a1.jsonl"))[f"{SESSION}/agent-a1"]

    assert (found.agent, found.title) == ("claude-code:Explore", "Look for the fuse")
    assert found.parent == SESSION
