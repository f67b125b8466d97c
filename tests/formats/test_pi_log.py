"""pi's logs: every version is read, branches are followed, nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from builders import HERE
from formats.logs.pi import (
    PARENT,
    SESSION,
    T0,
    answered,
    call,
    entry,
    header,
    ident,
    oldest,
    returned,
    said,
    voyage,
)
from formats.logs.tellings import kinds, outcomes, told, told_in_parts
from treering.formats import openclaw, openclaw_mem, pi, tape
from treering.formats.clawser import lines as clawser_lines
from treering.formats.pi import PiReader

if TYPE_CHECKING:
    from treering.formats.parsed import ParsedEvent


def shown(events: list[ParsedEvent]) -> list[str]:
    """Return the visible texts at the end, after all undos."""
    kept: list[ParsedEvent] = []
    everything: list[tuple[ParsedEvent, list[ParsedEvent]]] = []
    for event in events:
        everything.append((event, list(kept)))
        if event.kind == "session.undone":
            kept = next(before for one, before in everything if one.key == event.first)
        if event.kind.startswith("conversation."):
            kept = [*kept, event]
    return [event.payload["text"] for event in kept]


def test_a_session_is_told_in_the_order_in_which_it_went() -> None:
    events = told(PiReader(), voyage())

    assert kinds(events) == [
        "ops.observation",
        "conversation.user",
        "ops.observation",
        "conversation.assistant",
        "tool.call",
        "usage.reported",
        "tool.result",
        "conversation.assistant",
        "context.compacted",
        "conversation.user",
        "tool.call",
        "tool.result",
        "conversation.assistant",
    ]
    assert [event.ts_ms for event in events[:3]] == [T0 + 1_000, T0 + 2_000, T0 + 3_000]
    assert len({event.key for event in events}) == len(events)


def test_the_header_says_what_the_session_is() -> None:
    reader = PiReader()
    came_from = f"/home/ada/.pi/agent/sessions/--home--/2026-03-01T09-00-00-000Z_{PARENT}.jsonl"

    result = outcomes(reader, [header(parentSession=came_from)])

    opening = reader.sessions[SESSION]
    assert (opening.agent, opening.cwd, opening.forked_from) == ("pi", "/home/ada/harbour", PARENT)
    assert opening.about == {"version": 3}
    assert [one.skipped for one in result] == ["opens the session"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"2026-03-01T09-00-00-000Z_{PARENT}.jsonl", PARENT),
        (f"C:\\sessions\\{PARENT}.jsonl.reset.2026-03-28T04-14-24.192Z", PARENT),
        ("two_words.jsonl", "two_words"),
    ],
)
def test_a_session_is_named_in_its_file(path: str, expected: str) -> None:
    assert pi.id_in_name(path) == expected


def test_a_log_without_a_header_is_of_the_session_in_its_name() -> None:
    reader = PiReader(PurePosixPath(f"/x/2026-03-01T09-00-00-000Z_{PARENT}.jsonl"))

    (event,) = told(reader, [said(1, "hello")])

    assert event.session == PARENT
    assert PARENT in reader.sessions


def test_calls_and_results_say_what_a_report_needs() -> None:
    events = told(PiReader(), voyage())
    calls = [event for event in events if event.kind == "tool.call"]
    good, bad = (event for event in events if event.kind == "tool.result")

    assert calls[0].summary == "read: tides.txt"
    assert calls[0].payload == {"call_id": "c1", "name": "read", "input": {"path": "tides.txt"}}
    assert good.refs == {"call_id": "c1", "tool": "read", "status": "ok", "duration_ms": 40}
    assert good.payload["output"] == "14:10"
    assert bad.payload["status"] == "failed"
    assert bad.payload["error"] == {"class": "Error", "message": "no such command"}


def test_what_a_call_used_counts_the_cache_as_input() -> None:
    (usage,) = (event for event in told(PiReader(), voyage()) if event.kind == "usage.reported")

    assert usage.refs == {
        "model": "claude-test-1",
        "provider": "anthropic",
        "input_tokens": 130,
        "output_tokens": 5,
        "cached_tokens": 100,
        "cache_creation_tokens": 20,
        "total_tokens": 135,
        "message_id": ident(3),
    }
    assert usage.payload["cost"] == {"total": 0.25}


def test_a_compaction_names_the_first_entry_that_is_kept() -> None:
    (compacted,) = (one for one in told(PiReader(), voyage()) if one.kind == "context.compacted")

    assert compacted.first == ident(5)
    assert compacted.payload == {
        "summary": "They asked for the tide.",
        "from_tokens": 900,
        "by": "pi",
    }


def test_the_first_version_names_it_by_its_place() -> None:
    newest = voyage()
    newest[6] = entry(6, "compaction", summary="short", firstKeptEntryIndex=5, tokensBefore=900)

    events = told(PiReader(), oldest(newest[1:]))

    kept = next(event for event in events if event.payload.get("text") == "At 14:10.")
    (compacted,) = (event for event in events if event.kind == "context.compacted")
    assert compacted.first == kept.key


def test_a_copy_of_the_first_version_has_the_keys_of_its_original() -> None:
    log = oldest([said(1, "again"), said(1, "again"), answered(2, "twice?")])
    copied = [{**log[0], "id": PARENT, "branchedFrom": f"/s/x_{SESSION}.jsonl"}, *log[1:]]

    original, copy = told(PiReader(), log), told(PiReader(), copied)

    assert [event.key for event in original] == [event.key for event in copy]
    assert len({event.key for event in original}) == 3


def test_a_branch_hides_what_it_leaves_behind() -> None:
    log = [header(), said(1, "a"), answered(2, "b"), said(3, "c"), said(4, "d", parent=2)]

    events = told(PiReader(), log)

    undo = events[3]
    assert (undo.kind, undo.first, undo.key) == ("session.undone", ident(3), f"{ident(4)}.undo")
    assert shown(events) == ["a", "b", "d"]


def test_a_branch_that_was_left_can_be_taken_up_again() -> None:
    log = [
        header(),
        said(1, "a"),
        said(2, "b"),
        said(3, "c"),
        said(4, "d", parent=1),
        said(5, "e", parent=3),
        said(6, "f", parent=2),
        said(7, "g", parent=4),
    ]

    assert shown(told(PiReader(), log[:6])) == ["a", "b", "c", "e"]
    assert shown(told(PiReader(), log[:7])) == ["a", "b", "f"]
    assert shown(told(PiReader(), log)) == ["a", "d", "g"]


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=20))
def test_whatever_branches_there_are_the_path_of_the_last_entry_is_shown(picks: list[int]) -> None:
    parents: list[int | None] = [None]
    parents += [pick % n + 1 for n, pick in enumerate(picks, start=1)]
    log = [said(n, str(n), parent=above) for n, above in enumerate(parents, start=1)]
    path, at = [], len(parents)
    while at:
        path.append(str(at))
        at = parents[at - 1] or 0

    events = told(PiReader(), [header(), entry(99, "model_change", None), *log])

    assert shown(events) == path[::-1]


def test_a_first_message_said_anew_hides_everything() -> None:
    log = [header(), said(1, "a"), answered(2, "b"), said(3, "z", parent=None)]

    assert shown(told(PiReader(), log)) == ["z"]


def test_writers_that_name_no_parents_hide_nothing() -> None:
    log = [header(), *(said(n, str(n), parent=None) for n in range(1, 4))]

    assert shown(told(PiReader(), log)) == ["1", "2", "3"]


def test_a_tip_that_is_moved_decides_where_the_next_entry_goes_on() -> None:
    moved = entry(4, "leaf", targetId=ident(2))
    log = [header(), said(1, "a"), answered(2, "b"), said(3, "c"), moved, said(5, "d", parent=4)]

    assert shown(told(PiReader(), log)) == ["a", "b", "d"]


def test_what_stands_beside_the_talk_is_no_branch() -> None:
    aside = entry(2, "custom", customType="note", data={"x": 1})

    events = told(PiReader(), [header(), said(1, "a"), aside, said(3, "b", parent=1)])

    assert kinds(events) == ["conversation.user", "ops.observation", "conversation.user"]


def test_what_another_branch_came_to_is_shown_to_a_model() -> None:
    log = [header(), said(1, "a"), said(2, "b"),
           entry(3, "branch_summary", 1, fromId=ident(2), summary="b led nowhere")]  # fmt: skip

    undo, summary = told(PiReader(), log)[2:]

    assert undo.kind == "session.undone"
    assert (summary.kind, summary.payload["content"]) == ("boundary.checkpoint", "b led nowhere")


def test_an_answer_that_broke_off_says_so() -> None:
    log = [
        header(),
        answered(1, "Let me", stopReason="aborted", errorMessage="Request was aborted."),
        answered(2, stopReason="error", errorMessage="529 overloaded"),
    ]

    text, stopped, error = told(PiReader(), log)

    assert text.payload["stop_reason"] == "aborted"
    assert (stopped.kind, stopped.payload["content"]) == (
        "boundary.interrupt",
        "Request was aborted.",
    )
    assert (error.kind, error.payload["message"]) == ("ops.error", "529 overloaded")


def test_a_command_of_the_user_is_a_call_and_its_result() -> None:
    ran = {"role": "bashExecution", "command": "ls", "output": "tides.txt", "exitCode": 1,
           "cancelled": False, "truncated": False}  # fmt: skip

    called, result = told(PiReader(), [header(), entry(1, "message", message=ran)])

    assert (called.kind, called.source) == ("tool.call", "user")
    assert called.payload["input"] == {"command": "ls"}
    assert called.payload["call_id"] == result.payload["call_id"]
    assert (result.payload["status"], result.payload["output"]) == ("failed", "tides.txt")


@pytest.mark.parametrize(
    "strange",
    [
        entry(1, "thinking_level_change", thinkingLevel="low"),
        entry(1, "label", targetId=ident(9), label="here"),
        entry(1, "custom_message", customType="hook", content="psst", display=False),
        entry(1, "never_heard_of", anything=[1, {"x": None}]),
        entry(1, "message", message={"role": "hookMessage", "content": "psst"}),
        entry(1, "message", message={"role": "custom", "content": [{"type": "text", "text": "p"}]}),
        entry(1, "message", message="no object"),
        entry(1, "compaction", summary=None),
        {"type": 7},
    ],
)
def test_what_is_no_part_of_the_talk_is_kept_whole(strange: dict[str, Any]) -> None:
    (event,) = told(PiReader(), [header(), strange])

    assert event.kind == "ops.observation"
    kept = strange["message"] if isinstance(strange.get("message"), dict) else strange
    assert all(event.payload[at] == value for at, value in kept.items() if at != "type")


def test_a_name_is_a_title_and_a_reset_a_mark() -> None:
    log = [header(), entry(1, "session_info", name=" Tides "), entry(2, "reset")]

    titled, reset = told(PiReader(), log)

    assert (titled.kind, titled.payload) == ("session.titled", {"title": "Tides"})
    assert reset.kind == "boundary.segment"


def test_doubled_lines_are_told_once_and_a_taken_id_gets_another_key() -> None:
    first = said(1, "a")

    result = outcomes(PiReader(), [header(), first, first, {**said(1, "b"), "parentId": None}])

    assert [one.skipped for one in result] == ["opens the session", None, "repeats an entry", None]
    assert [event.key for one in result for event in one.events] == [ident(1), f"{ident(1)}~2"]


def test_messages_that_say_nothing_are_skipped_with_a_reason() -> None:
    blank = said(1, "  "), answered(2), [1, 2]

    assert [one.skipped for one in outcomes(PiReader(), blank)] == ["empty", "empty", "no entry"]


def test_pictures_stay_with_the_text() -> None:
    picture = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}

    (event,) = told(PiReader(), [said(1, [{"type": "text", "text": "see"}, picture])])

    assert event.payload == {"text": "see", "attached": [picture]}


@pytest.mark.parametrize("cut", range(12))
def test_a_reader_goes_on_where_another_stopped(cut: int) -> None:
    log = [*voyage(), said(11, "never mind", parent=5)]

    for one in (log, oldest(log[1:])):
        assert told_in_parts(PiReader, one, cut) == told(PiReader(), one)


def test_a_state_that_is_none_is_refused() -> None:
    for state in (None, {}, {"now_ms": 1}, {"now_ms": 1, "entries": "x"}):
        with pytest.raises(ValueError, match="not "):
            PiReader().resume(state)


def test_a_state_that_would_grow_too_large_is_none() -> None:
    reader = PiReader()
    told(reader, [header(), *(said(n, str(n)) for n in range(1, 6_000))])

    assert reader.state() is None


def test_only_its_own_logs_are_recognised() -> None:
    first = oldest(voyage()[1:])

    for log in (voyage(), first, voyage()[1:]):
        assert pi.score(log)
        others = (openclaw, openclaw_mem, tape, clawser_lines)
        assert not any(other.score(log) for other in others)
    assert not pi.score([{"type": "user", "message": {"role": "user"}, "uuid": "x"}])
    assert not pi.score([])


def test_branches_count_in_a_ledger_as_they_do_in_pi(tmp_path: Path) -> None:
    ledger = treering.open(tmp_path / "ledger.db")
    session = ledger.session("s1", scope=HERE, agent="pi")
    seqs: dict[str, int] = {}
    log = [header(), said(1, "a"), said(2, "b"), said(3, "c", parent=1), said(4, "d", parent=2)]

    for event in told(PiReader(), log):
        aimed = {"from_seq": seqs[event.first], "turns": 1} if event.first else event.refs
        made = session.record(event.kind, event.summary, payload=event.payload, refs=aimed)
        seqs[event.key] = made.seq

    messages = session.context().request["messages"]
    assert [message["content"] for message in messages] == ["a", "b", "d"]
    ledger.close()


def test_a_call_is_answered_by_the_id_of_either_spelling() -> None:
    log = [answered(1, call("c1")), returned(2, "", "ok", toolUseId="c1")]

    assert told(PiReader(), log)[-1].payload["call_id"] == "c1"


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_message_of_an_unknown_shape_is_kept_whole(role: str) -> None:
    message = {"role": role, "parts": [{"text": "hello"}]}

    (event,) = told(PiReader(), [header(), entry(1, "message", message=message)])

    assert (event.kind, event.payload["parts"]) == ("ops.observation", message["parts"])


@pytest.mark.parametrize("at", range(1, 5))
def test_neighbours_that_were_swapped_are_told_in_their_order(at: int) -> None:
    log = [header(), *(said(n, f"word {n}") for n in range(1, 6))]
    swapped = [*log[:at], log[at + 1], log[at], *log[at + 2 :]]

    assert told(PiReader(), swapped) == told(PiReader(), log)


def test_an_entry_whose_parent_never_comes_is_told_where_it_stands() -> None:
    log = [header(), said(1, "a"), said(3, "c"), said(4, "d")]

    assert [one.payload["text"] for one in told(PiReader(), log)] == ["a", "c", "d"]
    assert len(outcomes(PiReader(), log[:3])) == 3
